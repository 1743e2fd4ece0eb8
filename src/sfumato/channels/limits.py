"""Limits of what channels hold in memory and work out, with what each protects."""

ENTRIES = 1 << 22  # of a table that is written down at once: 32 MB
TERMS = 1 << 27  # of the second moments of channels that count a report several times: 1 GB
SMALL = 64  # cells of a table whose features are remembered; bits whose products are written down
STACKED = 1 << 16  # entries of a design up to which one block holds it
FEW_UNKNOWNS = 300  # whose information NumPy alone inverts: SciPy takes longer to be loaded
FULL = 2000  # features up to which all questions are solved together; beyond, the asked axes' own
MOST_WORK = 20_000_000_000  # features³ × groups, beyond which every answer would take seconds
KEPT = 8  # settled tallies that are remembered: a release is asked many things
