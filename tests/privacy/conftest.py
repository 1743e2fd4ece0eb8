"""Hypothesis runs the same examples each time, without a deadline: the machine may be busy and scipy loads lazily."""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
