"""The ledger of version 0.1.0: one JSON file, read to be carried over into a database."""

from __future__ import annotations

import math
from typing import Any

from sfumato.errors import FileError
from sfumato.privacy.account import Account, Entry
from sfumato.untrusted import MOST_LEDGER_BYTES, parsed_json

VERSION = 1
FIELDS = {"key", "release", "epsilon", "attributes", "at", "report"}


def read_json_ledger(text: str) -> Account:
    """What a ledger of version 0.1.0 holds; ValueError, with the reason, where it is none."""
    try:
        stored = parsed_json(text, "it", MOST_LEDGER_BYTES)
    except FileError as error:
        raise ValueError(error.message) from None
    if stored.get("version") != VERSION:
        raise ValueError(f"it is not of version {VERSION}")
    if "budget" not in stored or not isinstance(stored.get("entries"), list):
        raise ValueError("it lacks a budget or entries")
    return Account(tuple(_entry_of(row) for row in stored["entries"]), _epsilon(stored["budget"]))


def _entry_of(row: Any) -> Entry:
    if not isinstance(row, dict) or set(row) != FIELDS:
        raise ValueError(f"an entry must have the fields {', '.join(sorted(FIELDS))}")
    attributes = row["attributes"]
    if not isinstance(attributes, list):
        raise ValueError("the attributes of an entry must be a list")
    for word in (row["key"], row["release"], row["at"], *attributes):
        if not isinstance(word, str):
            raise ValueError("key, release, time and attributes must be words")
    return Entry(
        row["key"],
        row["release"],
        _epsilon(row["epsilon"]),
        tuple(attributes),
        row["at"],
        row["report"],
        "charged" if row["report"] is None else "sent",
    )


def _epsilon(value: Any) -> float:
    """JSON has no infinity: null alone stands for it, and a number too large to be read does
    not.
    """
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("an epsilon must be a number or null")
    try:
        epsilon = float(value)
    except OverflowError:
        epsilon = math.inf
    if not math.isfinite(epsilon) or epsilon < 0:
        raise ValueError("an epsilon must be finite and not negative; null stands for no bound")
    return epsilon
