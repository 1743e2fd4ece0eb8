"""Stores of reports: SQLite in one file, PostgreSQL for several workers."""

from sfumato.collect.store.postgres_store import PostgresStore
from sfumato.collect.store.sqlite_store import SqliteStore
from sfumato.collect.store.store import (
    Added,
    Batch,
    Done,
    Enrolled,
    Receipt,
    Role,
    Store,
    Token,
    Work,
    allowed,
    new_token,
    token_digest,
    utc_today,
)
from sfumato.errors import ParameterError

__all__ = [
    "Added",
    "Batch",
    "Done",
    "Enrolled",
    "Receipt",
    "Role",
    "Store",
    "Token",
    "Work",
    "allowed",
    "new_token",
    "open_store",
    "token_digest",
    "utc_today",
]


def open_store(place: str, *, create: bool = False, serve: bool = False) -> Store:
    """The store at an address; `create` makes what is missing, `serve` says that reports will be
    taken.
    """
    if place.startswith(("postgresql://", "postgres://")):
        return PostgresStore.open(place, create=create)
    path = place.removeprefix("sqlite://")
    if "://" in path:
        raise ParameterError(
            f"'{path.partition('://')[0]}://' is no store",
            hint="use the name of a file, or postgresql://user:password@host:port/database",
        )
    return SqliteStore.open(path, create=create, serve=serve)
