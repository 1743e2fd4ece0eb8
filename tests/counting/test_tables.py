"""A counter over batches: all rows, in the order they came."""

from __future__ import annotations

import numpy as np

from sfumato.counting.in_memory import TableCounter
from sfumato.domain import Category, Domain
from sfumato.table import Table

PETS = Domain((Category("pet", ("cat", "dog", "eel")),))


def table(*codes: int) -> Table:
    return Table(PETS, (np.array(codes, dtype=np.uint8),))


def test_one_batch_is_the_table_itself_and_several_are_one_after_the_other() -> None:
    first = table(0, 1, 2)
    counter = TableCounter.of(first)
    assert counter.table is first
    longer = counter.extended(table(2, 2)).extended(table(1))
    assert longer.table.columns[0].tolist() == [0, 1, 2, 2, 2, 1] and longer.rows == 6
    assert longer.count([PETS["pet"].cells()]).tolist() == [1, 2, 3]
