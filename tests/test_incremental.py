"""A new batch is a release combined with those before it: their rows are not counted again."""

import numpy as np

import sfumato as sf
from sfumato.bits import Bits
from sfumato.counting import in_memory
from sfumato.domain import Category, Domain, Items
from sfumato.randomness import seeded
from sfumato.table import Table

BASKETS = Domain((Items("items", tuple("abcdefgh")),))
RECORDS = Domain(
    (
        Category("a", tuple("012")),
        Category("b", tuple("01")),
        Category("c", tuple("01"), public=True),
    )
)


def baskets(rows: int, seed: int) -> Table:
    return Table(BASKETS, (Bits.from_dense(np.random.default_rng(seed).random((rows, 8)) < 0.4),))


def records(rows: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    return Table(RECORDS, tuple(rng.integers(0, size, rows).astype(np.uint8) for size in (3, 2, 2)))


def test_old_baskets_are_not_counted_again(monkeypatch):
    flip = sf.BitFlip(BASKETS, 0.99, 0.99)
    source, more = (
        sf.perturb(baskets(rows, seed), flip, seeded(seed)) for rows, seed in ((1000, 1), (64, 2))
    )
    sf.frequent_itemsets(source, 0.05)
    asked = []
    count = in_memory.itemset_counts
    monkeypatch.setattr(
        in_memory,
        "itemset_counts",
        lambda bits, sets: asked.append((bits.rows, len(sets))) or count(bits, sets),
    )
    sf.frequent_itemsets(sf.combine([source, more]), 0.05)
    assert sum(number for rows, number in asked if rows == 64) > 50
    long = [number for rows, number in asked if rows == 1000]
    assert (
        sum(long) <= 8 + 5
    )  # the single items, whose counts are a popcount away, and the few new candidates


def test_old_records_are_not_scanned_again(monkeypatch):
    scanned = []
    count = in_memory.contingency
    monkeypatch.setattr(
        in_memory,
        "contingency",
        lambda columns, sizes: scanned.append(len(columns[0])) or count(columns, sizes),
    )
    source = sf.perturb(records(900, 1), sf.GammaDiagonal(RECORDS, 20), seeded(1))
    sf.frequent_itemsets(source, 0.05)
    scanned.clear()
    more = sf.perturb(records(50, 2), sf.GammaDiagonal(RECORDS, 20), seeded(2))
    sf.frequent_itemsets(sf.combine([source, more]), 0.05)
    assert set(scanned) == {50}
