"""New batches: the same result as a full recount, and the old rows are not counted again."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.counting import in_memory
from sfumato.counting.in_memory import ArrayCounter
from sfumato.domain import Category, Domain, Items
from sfumato.randomness import seeded
from sfumato.release import source_of
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


SOURCES = {
    "flipped baskets": (baskets, sf.BitFlip(BASKETS, 0.9, 0.8)),
    "gamma-diagonal records": (records, sf.GammaDiagonal(RECORDS, 20)),
    "retention records": (records, sf.Retention(RECORDS, 0.5)),
    "one-hot records": (records, sf.BitFlip(RECORDS, 0.9, 0.8)),
    "cut-and-paste records": (records, sf.CutAndPaste(RECORDS, 2, 0.2)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_batches_give_what_a_full_recount_gives(name):
    make, mechanism = SOURCES[name]
    tables = [make(rows, seed) for seed, rows in enumerate((300, 130, 77))]
    sources = [sf.perturb(table, mechanism, seeded(seed)) for seed, table in enumerate(tables)]
    growing = sources[0]
    for source in sources[1:]:
        sf.frequent_itemsets(growing, 0.05, max_length=2)
        growing = growing.extended(source.table)
    whole = source_of(Table.concatenate([source.table for source in sources]))
    found = sf.frequent_itemsets(growing, 0.02, max_length=2)
    recount = sf.frequent_itemsets(whole, 0.02, max_length=2)
    assert growing.rows == 507 and len(found) > 5
    assert found.items == recount.items
    assert np.allclose(found.support, recount.support) and np.allclose(found.stderr, recount.stderr)


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
    sf.frequent_itemsets(source.extended(more.table), 0.05)
    assert sum(number for rows, number in asked if rows == 64) > 50
    long = [number for rows, number in asked if rows == 1000]
    assert (
        sum(long) <= 8 + 5
    )  # the single items, whose counts are a popcount away, and the few new candidates


def test_old_records_are_not_scanned_again(monkeypatch):
    scanned = []
    from sfumato.counting import in_memory

    count = in_memory.contingency
    monkeypatch.setattr(
        in_memory,
        "contingency",
        lambda columns, sizes: scanned.append(len(columns[0])) or count(columns, sizes),
    )
    source = sf.perturb(records(900, 1), sf.GammaDiagonal(RECORDS, 20), seeded(1))
    sf.frequent_itemsets(source, 0.05)
    scanned.clear()
    sf.frequent_itemsets(
        source.extended(sf.perturb(records(50, 2), sf.GammaDiagonal(RECORDS, 20), seeded(2)).table),
        0.05,
    )
    assert set(scanned) == {50}
    assert isinstance(source.counter.parts[0], ArrayCounter)


def test_batches_of_another_mechanism_are_refused():
    source = sf.perturb(records(50, 1), sf.GammaDiagonal(RECORDS, 20), seeded(1))
    with pytest.raises(sf.SfumatoError, match="same mechanism"):
        source.extended(sf.perturb(records(50, 1), sf.GammaDiagonal(RECORDS, 21), seeded(1)).table)
