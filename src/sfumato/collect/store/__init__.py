"""Stores of reports: SQLite in one file, PostgreSQL for several workers."""

from sfumato.collect.store.base import (
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
from sfumato.collect.store.opening import open_store

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
