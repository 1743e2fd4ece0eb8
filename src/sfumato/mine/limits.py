"""How much mining may hold or do at once: what is larger is refused, or done in parts."""

# Itemsets and rules.
CANDIDATES = 1 << 18  # itemsets measured, or subsets of itemsets looked at, together: memory
WEIGHED = 8192  # itemsets whose probabilities are computed at once: memory
PROBED = 256  # of a length's candidates, which tell whether the others are worth the time
FITTED = 4096  # candidates that a prior is fitted to: time
KEPT, KEPT_PER_TOP = 20_000, 20  # itemsets of a length joined further where the top are wanted

# Classifiers.
REPORTS = 1 << 14  # classified at once: a posterior has one number for each report and group
FINE_CELLS = 1 << 10  # of a number, from which the bins of a feature are chosen
WHOLE_CELLS = 1 << 20  # of all features and the target, where a tree counts them once
SHARED_CELLS = 1 << 17  # of a table that several nodes of a tree share
TABLES_AHEAD = 256  # counted to know the next level of a tree too

# SQL.
LETTERS = 1_000_000  # of a question
REMEMBERED, REMEMBERED_LETTERS = 64, 5_000  # questions that were read, and how long at most
DEPTH = 2000  # expressions inside each other, or one after the other with OR between
CUBED = 12  # columns of a CUBE: 4,096 groupings
CELLS = 1 << 22  # of a question, or of all features and the target where all are reconstructed
SUMMED_CELLS = 1 << 20  # in which a number is summed; its errors need some twenty times it
COMPARED_CELLS, COMPARED_STEPS = 256, 600  # also solved by maximum likelihood, to compare
KEYED_VALUES = 4096  # of a number that may each be a group of their own
SUMMED_VALUES = 512  # a number with more is summed by its powers, not counted by value
COUNTED_VALUES = 1 << 18  # of a number that is counted by value beside one that is summed
EVALUATED = 1 << 20  # values of a column that are computed with one by one

# Comparisons.
CROSSED = 1 << 10  # cells of two columns, whose covariances with each other are all computed
