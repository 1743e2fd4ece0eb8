"""Names of items: a file that says what the ids of baskets are called."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError, listing
from sfumato.received import MOST_NAMES_BYTES, read_text

HEADERS = ("id", "item", "itemid", "item_id", "item id", "code", "sku", "product_id")


def read_names(path: str | Path) -> dict[str, str]:
    """What each item is called, by its id: a line each, id and name parted by a comma or a tab.

    A name that several ids share is told apart by its id.
    """
    text = read_text(Path(path), f"names file '{path}'", MOST_NAMES_BYTES)
    first = text.partition("\n")[0]
    delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    found: dict[str, str] = {}
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), 1):
            if row and not (number == 1 and row[0].strip().casefold() in HEADERS):
                _take(found, row, number, path)
    except csv.Error as error:
        raise FileError(f"names file '{path}' is not readable: {error}") from None
    if not found:
        raise FileError(f"names file '{path}' names no item", hint="a line each, as in 24,milk")
    times = Counter(found.values())
    return {item: name if times[name] == 1 else f"{name} ({item})" for item, name in found.items()}


def check_named(option: str, domain: Domain, called: Mapping[str, str]) -> tuple[int, int]:
    """How many items have no name, of how many; refused where none has one."""
    if not domain.baskets:
        raise ParameterError(f"{option} is for the items of baskets", hint="leave it out")
    items = domain.attributes[0].labels
    unnamed = sum(item not in called for item in items)
    if unnamed == len(items):
        raise ParameterError(
            f"{option} calls none of these items ({listing(items)}) by name",
            hint="a line each, the item's id first, as in 24,milk",
        )
    return unnamed, len(items)


def _take(found: dict[str, str], row: Sequence[str], number: int, path: str | Path) -> None:
    if len(row) < 2 or not row[0].strip() or not row[1].strip():
        raise FileError(
            f"line {number} of names file '{path}' has no id and name",
            hint="a line each, as in 24,milk",
        )
    item, name = row[0].strip(), row[1].strip()
    if found.get(item, name) != name:
        raise FileError(f"names file '{path}' calls item {item} both '{found[item]}' and '{name}'")
    found[item] = name
