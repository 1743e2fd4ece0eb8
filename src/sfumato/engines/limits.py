"""Limits of the engines: how long they are waited for, and how much they hold."""

STATEMENT_SECONDS = 300.0  # that one statement of DuckDB's may take
CONNECT_SECONDS = 10  # to wait for a server that does not answer
PROGRESS_SECONDS = 0.2  # between two looks at how far a statement is
# Of a block of baskets: 4 MB, which is what a row of a frame that Spark keeps should weigh at most.
PACKED_BITS = 1 << 25
