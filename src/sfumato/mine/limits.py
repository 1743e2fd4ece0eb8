"""How much mining may hold or do at once: what is larger is refused, or done in parts."""

CANDIDATES = 1 << 18  # itemsets measured, or subsets of itemsets looked at, together: memory
WEIGHED = 8192  # itemsets whose probabilities are computed at once: memory
PROBED = 256  # of a length's candidates, which tell whether the others are worth the time
FITTED = 4096  # candidates that a prior is fitted to: time
KEPT, KEPT_PER_TOP = 20_000, 20  # itemsets of a length joined further where the top are wanted
REPORTS = 1 << 14  # classified at once: a posterior has one number for each report and group
FINE_CELLS = 1 << 10  # of a number, from which the bins of a feature are chosen
JOINT_CELLS = 1 << 22  # of all features and the target, where all are reconstructed: memory
COUNTED_CELLS = 1 << 20  # of all features and the target, where a tree counts them once
SHARED_CELLS = 1 << 17  # of a table that several nodes of a tree share
TABLES_AHEAD = 256  # counted to know the next level of a tree too
