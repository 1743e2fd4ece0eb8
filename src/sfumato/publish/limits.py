"""Limits of an owner's methods, each with what it protects: memory, seconds, or sense."""

from __future__ import annotations

ROWS_AT_ONCE = 1 << 15  # whose posteriors are held in memory together
MOST_BINS = 10_000  # of a column: more are a mistake in typing
MOST_PEOPLE = 1e12  # of a population, or of summed weights
MAX_GAIN = 10.0  # percentage points: the owner's aim unless stated; it protects people in the file

# The exchange of a swap. What ends early says that it is not proved.
SMALLEST_BAND, LARGEST_BAND = 1_000, 20_000  # kinds in the linear programme of one step
FIRST_CHOICES = 64  # kinds in the first integer programme
SAMPLING = 16  # each coarser problem has a sixteenth of the units
EXCHANGE_SECONDS = 60.0  # for one integer programme
MOST_FLOW_VALUES = 200  # beyond, the programme of all flows is too large to be worth its answer
FLOW_SECONDS = 30.0  # for whether totals can stay
REFUSAL_SECONDS = 5.0  # for looking what would do

# Local suppression.
WHOLE_CHOICES = 4_000  # of all records together up to which a table is solved as one
SOME_CHOICES = 2_500  # of the records that are solved at a time
SOME_SECONDS = 2.0  # for these
MOST_STALE = 60  # neighbourhoods without a gain after which the search ends

# Random replacement.
MOST_BEST_VALUES = 60  # up to which the best matrix is looked for; beyond, the own distribution
MOST_STRATA = 2_000
MOST_VALUES = 2_000  # of a column: its matrix takes a second and half a gigabyte
MOST_ENTRIES = 4 * MOST_VALUES**2  # of the matrices of all strata
LARGEST_GAMMA = 1e8  # beyond, entries of 2^-32 do not tell a value from one that is never shown

# Hiding.
MOST_CHOICES = 4_096  # of items to take, looked through for the smallest
MOST_TRIED = 32  # of them
MOST_REPAIRS = 5  # times that hiding one rule raised the confidence of another
