"""Limits of an audit: how much of a large release is looked at, and how few rows say nothing."""

from __future__ import annotations

# How much is looked at: memory and time.
MOST_COLUMNS = 24  # columns, or items, whose agreement is followed through the file
MOST_NUMBERS = 1 << 22  # of all scores together: for many rows there are fewer of them
MOST_TRIPLES = 220  # of columns: those of the first twelve, of fewer for many rows
FEW_CELLS = 64  # judged apart; a column of more values is judged by half as many groups of them
JOINT_CELLS = 1 << 16  # whole records are scored where there are at most so many different ones
SCORES = 16  # random ones of whole records
PAIR_CELLS = 512  # of two columns, up to which their reports are counted together
ROWS_AT_ONCE = 1 << 15  # of baskets that are unpacked together
MOST_UNPACKED = 1 << 25  # rows times items
PAIRED_ITEMS = 128  # items whose flips are taken two by two
NEIGHBOUR_ROWS = 1 << 18  # a dependence on neighbours that matters shows in so many
MOST_MODULUS = 4096
MODULO_ROWS = 1 << 19  # a leak at every 4096th row or oftener is seen in so many, of two scores
DRAWS = 100_000  # of each chosen record, for the empirical gamma
CHOSEN = 4  # records far from each other that are perturbed again and again
NEIGHBOURS = 16  # records beside them that differ from the first in one column
MOST_BITS = 1 << 26  # of reports drawn for one record
FEW_RECORDS = 2048  # possible records, or reports, up to which whole ones are weighed
ATTACKED = 20_000  # people, where every possible record has to be weighed for each
REPEATS = 8  # times that all records are perturbed again
MOST_SETS = 32  # of columns that single reports speak of

# What says nothing: too few rows for their distribution to be known.
FEWEST = 64  # rows, or pairs of rows at one distance
SHORTEST = 16  # rows of the smallest stretch that is judged on its own
LEAST_ROWS = 50  # of a true cell that is judged on its own
FEWEST_DRAWS = 1000  # of a group, for its share to say anything
