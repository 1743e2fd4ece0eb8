"""Opening a store by its address: a file, or a PostgreSQL database."""

from __future__ import annotations

from sfumato.collect.store.postgres_store import PostgresStore
from sfumato.collect.store.sqlite_store import SqliteStore
from sfumato.collect.store.store import Store
from sfumato.errors import ParameterError


def is_postgres(place: str) -> bool:
    """Whether an address names a PostgreSQL database."""
    return place.startswith(("postgresql://", "postgres://"))


def open_store(place: str, *, create: bool = False, serve: bool = False) -> Store:
    """The store at an address; `create` makes what is missing, `serve` says that reports will be
    taken.
    """
    if is_postgres(place):
        return PostgresStore.open(place, create=create)
    path = place.removeprefix("sqlite://")
    if "://" in path:
        raise ParameterError(
            f"'{path.partition('://')[0]}://' is no store",
            hint="use the name of a file, or postgresql://user:password@host:port/database",
        )
    return SqliteStore.open(path, create=create, serve=serve)
