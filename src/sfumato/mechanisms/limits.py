"""Limits of mechanisms and of the programs that devices run, with what each protects."""

# Exact integers.
LARGEST = 1 << 53  # whole numbers below this are exact in JavaScript, and so are their sums
MOST_TOTAL = 1 << 24  # the largest bound that one 32-bit draw is taken below without bias
FINENESS = 4096  # the denominator of a gamma that is no simple fraction
SHARE_STEP = 1 << 20  # the gamma of a group of columns is a multiple of 1 / this

# Sizes, of files and of what a device or a server works out.
MOST_CELLS = 1024  # each a value of its own: a matrix over them takes 12 MB in a file
MOST_QUESTIONS = 1 << 14
MOST_MAPPED = 1 << 19  # entries of all public maps together
MOST_WORK = 1 << 22  # turns of loops that a program may ask of a device before it has answered
QUESTION_WORK = 1 << 7  # to read and check one more question
FLIP_WORK = 1 << 7  # an item's factor of gamma makes the whole fraction longer by two words
EXACT_BITS = 1 << 19  # of a gamma that is the product of different ones: 32,000 of them
LONGEST_POOL = 128  # letters that are hashed for every item
DENSE = 1 << 16  # records up to which the channel over whole records is written down
PREDICTED = 1000  # features up to which the least squares of folded questions are predicted
MOST_PREDICTED = 4096  # cells of the columns asked about, likewise

# Memory, so that many records at once stay in the cache.
CHUNK = 1 << 15  # rows at a time
WIDE_CHUNK = 1 << 12  # rows, or words of bits, at a time where each has many parts
LOOKUP = 1 << 16  # cells that are decoded by table
TOGETHER = 1 << 8  # cells of columns that are looked up at once
