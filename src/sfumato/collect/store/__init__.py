"""Stores of reports: SQLite in one file, PostgreSQL for several workers."""

from sfumato.collect.store.open_store import open_store
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
