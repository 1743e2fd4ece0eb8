"""An owner's true baskets, from a file, a table, a data frame or plain lists."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.arguments import shown
from sfumato.domain import Domain, Items
from sfumato.errors import DataError, ParameterError
from sfumato.table import Table, propose, read_items, reader_of
from sfumato.table.baskets import BasketReader
from sfumato.table.readers import ITEMS_NAME

__all__ = ["baskets_of", "framed"]


def baskets_of(data: Any, items: str | Path | None = None) -> Table:
    """The true baskets as a table with one column of items.

    >>> table = baskets_of([["tea", "milk"], ["tea"]])
    >>> table.rows, table.domain["items"].labels
    (2, ('milk', 'tea'))
    """
    data = framed(data)
    if isinstance(data, Table):
        domain, where = data.domain, "this table"
        perturbed = data.provenance is not None
    else:
        reader = reader_of(data)
        perturbed, where = reader.description is not None, reader.where
    if perturbed:
        raise ParameterError(f"{where} is itself a perturbed file", hint="give the true baskets")
    if not isinstance(data, Table):
        if items is not None and not reader.baskets:
            raise ParameterError("an items file is for basket files", hint="leave it out")
        named = not isinstance(reader, BasketReader)
        domain = propose(reader).domain if items is None else read_items(items, named=named)
    if not domain.baskets:
        raise ParameterError(f"{where} holds records, not baskets", hint="swap is for records")
    table = data if isinstance(data, Table) else reader.table(domain)
    if not table.rows:
        raise DataError("there is no basket")
    return table


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
