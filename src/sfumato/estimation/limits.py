"""Limits of what estimates hold in memory and work out, with what each protects."""

REMEMBERED_WEIGHTS = 64  # questions whose covariances evidence keeps
REMEMBERED_BYTES = 1 << 14  # of the weights of each
DRAWN_CELLS = 60  # of an estimate, in one picture
MOST_STEPS = 20_000  # of iterative Bayes
MULTIPLIED = 64  # cells of the largest block of factors that is multiplied out
