"""Model: one joint law fitted to everything that a release observed, for questions that no report
answers alone.
"""
