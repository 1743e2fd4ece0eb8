"""Limits of an owner's methods: sizes beyond which work is refused or shortened, and seconds."""

from __future__ import annotations

MOST_BINS = 10_000  # of a column: more are a mistake in typing
MOST_PEOPLE = 1e12  # of a population, or of summed weights
MOST_FLOW_VALUES = 200  # beyond, the programme of all flows is too large to be worth its answer
FLOW_SECONDS = 30.0  # for whether totals can stay
REFUSAL_SECONDS = 5.0  # for looking what would do
