"""Releases whose rows stay where they are: in files read by DuckDB, in databases, in several places
at once.
"""

from sfumato.engine.combining import combine
from sfumato.engine.joining import join
from sfumato.engine.opening import open_source, perturb_into, release_in, save_release
from sfumato.engine.release import EngineRelease

__all__ = [
    "EngineRelease",
    "combine",
    "join",
    "open_source",
    "perturb_into",
    "release_in",
    "save_release",
]
