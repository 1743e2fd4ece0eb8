"""An owner's true baskets, from a file, a table, a data frame or plain lists, and the patterns
that are not to be found in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.arguments import shown
from sfumato.bits import Bits
from sfumato.domain import Domain, Items, as_bits
from sfumato.errors import DataError, ParameterError
from sfumato.publish.restriction import ARROWS, Restriction, read_restrictions
from sfumato.received import MOST_LIST_BYTES, read_text
from sfumato.table import Table, propose, read_items, reader_of
from sfumato.table.baskets import BasketReader
from sfumato.table.readers import ITEMS_NAME

__all__ = ["baskets_of", "bits_of", "item_names", "least_count", "patterns_of"]


def baskets_of(data: Any, items: str | Path | None = None) -> Table:
    """The true baskets as a table with one column of items.

    >>> table = baskets_of([["tea", "milk"], ["tea"]])
    >>> table.rows, item_names(table)
    (2, ('milk', 'tea'))
    """
    table = data if isinstance(data, Table) else _read(framed(data), items)
    if table.provenance is not None:
        raise ParameterError("these baskets were perturbed", hint="give the true baskets")
    if not table.domain.baskets:
        raise ParameterError("these are records, not baskets", hint="swap is for records")
    if not table.rows:
        raise DataError("there is no basket")
    return table


def item_names(table: Table) -> tuple[str, ...]:
    """The names of the items, in the order of their codes."""
    return table.domain.attributes[0].labels


def bits_of(table: Table) -> Bits:
    """The baskets as bits."""
    return as_bits(table.columns[0])


def _read(data: Any, items: str | Path | None) -> Table:
    reader = reader_of(data)
    if reader.description is not None:
        raise ParameterError(
            f"{reader.where} is itself a perturbed file", hint="give the true baskets"
        )
    if items is not None and not reader.baskets:
        raise ParameterError("an items file is for basket files", hint="leave it out")
    named = not isinstance(reader, BasketReader)
    domain = propose(reader).domain if items is None else read_items(items, named=named)
    if not domain.baskets:
        raise ParameterError(
            f"{reader.where} holds records, not baskets", hint="swap is for records"
        )
    return reader.table(domain)


def framed(data: Any) -> Any:
    """Plain lists of items as an Arrow table; anything else as it is."""
    if (
        isinstance(data, str | Path)
        or hasattr(data, "__arrow_c_stream__")
        or not isinstance(data, Iterable)
    ):
        return data
    lists = []
    for place, basket in enumerate(data, 1):
        if isinstance(basket, str) or not isinstance(basket, Iterable):
            raise DataError(
                f"basket {place} is {shown(basket)}, not a list of items",
                hint='give lists, as in [["tea", "milk"], ["tea"]]',
            )
        lists.append(sorted({str(item) for item in basket}))
    names = tuple(sorted({item for basket in lists for item in basket}))
    if not names:
        raise DataError("no basket holds an item")
    domain = Domain((Items(ITEMS_NAME, names),))
    return Table.from_arrow(pa.table({ITEMS_NAME: pa.array(lists, pa.list_(pa.string()))}), domain)


def least_count(min_support: float | None, min_count: int | None, rows: int) -> int:
    """The number of baskets from which a pattern is found.

    >>> least_count(0.003, None, 88162)
    265
    """
    if (min_support is None) == (min_count is None):
        raise ParameterError("say what is frequent, one way", hint="give min_support or min_count")
    if min_count is not None:
        if isinstance(min_count, bool) or not isinstance(min_count, int):
            raise ParameterError(f"min_count={shown(min_count)} is no whole number")
        return min_count
    if isinstance(min_support, bool) or not isinstance(min_support, int | float):
        raise ParameterError(
            f"min_support={shown(min_support)} is no number", hint="use 0 < S <= 1"
        )
    if not 0 < min_support <= 1:
        raise ParameterError(f"min_support={min_support:g} is no fraction", hint="use 0 < S <= 1")
    return max(1, math.ceil(min_support * rows * (1 - 1e-12)))


def patterns_of(patterns: Any, names: Sequence[str]) -> tuple[Restriction, ...]:
    """The restrictions in a file, in text with one a line, or in a list of texts, itemsets or
    restrictions.

    >>> patterns_of(["tea milk", ("tea", "jam")], ["jam", "milk", "tea"])
    (Restriction(antecedent=(1, 2), consequent=()), Restriction(antecedent=(0, 2), consequent=()))
    """
    if isinstance(patterns, Restriction):
        return (patterns,)
    if isinstance(patterns, str | Path):
        return read_restrictions(_lines(patterns), names)
    if not isinstance(patterns, Iterable):
        raise ParameterError(
            f"patterns={shown(patterns)} names no pattern",
            hint='give a file, or a list such as ["39 48"]',
        )
    found = list(patterns)
    ready = [one for one in found if isinstance(one, Restriction)]
    written = [_written(one) for one in found if not isinstance(one, Restriction)]
    return tuple(ready) + (read_restrictions(written, names) if written or not ready else ())


def _lines(patterns: str | Path) -> list[str]:
    if isinstance(patterns, str) and _is_text(patterns) and not _is_file(patterns):
        return patterns.splitlines()
    return read_text(Path(patterns), f"patterns file '{patterns}'", MOST_LIST_BYTES).splitlines()


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a name
        return False


def _is_text(patterns: str) -> bool:
    """Whether a string is patterns rather than the name of a file: names have no blanks."""
    return any(mark.isspace() for mark in patterns) or ("/" not in patterns and "." not in patterns)


def _written(pattern: Any) -> str | list[str]:
    if isinstance(pattern, str):
        return pattern
    if isinstance(pattern, Iterable):
        words = [str(item) for item in pattern]
        return " ".join(words) if set(words) & set(ARROWS) else words
    raise ParameterError(
        f"{shown(pattern)} is no pattern",
        hint='write "39 48" for an itemset, "39 -> 48" for a rule',
    )
