"""Releases whose rows stay where they are: in files read by DuckDB, in databases, in several places
at once.
"""

from sfumato.engines.joining import join
from sfumato.engines.opening import open_source, perturb_into, release_in, save_release
from sfumato.engines.several import combine

__all__ = [
    "combine",
    "join",
    "open_source",
    "perturb_into",
    "release_in",
    "save_release",
]
