"""Limits of counting: what is held in memory, and what is kept on disk."""

# Memory: the largest table that is built (512 MB of counts), the largest full table that is counted
# at once for all later questions, and the largest fine table that is kept for coarser ones.
DENSE_CELLS = 1 << 26
KEPT_CELLS = 1 << 20
REMEMBERED_CELLS = 1 << 16
# One statement: questions whose columns together have at most so many cells are summed from one
# table; a statement lists so many labels of a column, numbers so many columns in GROUPING SETS
# (PostgreSQL: at most 31) and counts so many itemsets.
JOINED_CELLS = 1 << 12
LISTED_LABELS = 1000
GROUPED_AXES = 30
ITEMSETS = 256
# From this range of whole numbers on, their squares are summed about the mean of their group.
WIDE_RANGE = 1 << 26
# Disk, in the user's cache: all that is kept, one table, and the tables of a release that a coarser
# question is tried on, the latest first.
MOST_BYTES = 1 << 26
MOST_ENTRY = 1 << 20
MOST_LOOKED_AT = 64
