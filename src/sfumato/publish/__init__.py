"""A data owner's side: who can be told apart, and copies to hand out with values exchanged or
patterns hidden.
"""
