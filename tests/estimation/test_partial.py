"""Partial supports against votes that are cast report by report."""

from itertools import combinations

import numpy as np

from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items
from sfumato.estimation.supports.partial import PartialSupports
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.randomness import seeded
from sfumato.release import Release, perturb
from sfumato.table import Table

PEOPLE = Domain(
    (
        Category("a", ("x", "y")),
        Category("b", ("x", "y", "z")),
        Category("c", ("x", "y")),
        Category("d", ("x", "y")),
    )
)
SHOP = Domain((Items("items", tuple("abcdef")),))


def records() -> Release:
    """Cut-and-paste reports of 3,000 records with some structure in them."""
    rng = seeded(1)
    first = rng.below(2, 3_000).astype(np.uint8)
    columns = (
        first,
        rng.below(3, 3_000).astype(np.uint8),
        first ^ rng.chance(9_000, 16, 3_000),
        rng.below(2, 3_000).astype(np.uint8),
    )
    table = Table(PEOPLE, tuple(np.asarray(column, dtype=np.uint8) for column in columns))
    return perturb(table, CutAndPaste(PEOPLE, cutoff=3, insert=0.3), seeded(2))


def baskets() -> Release:
    """Cut-and-paste reports of baskets of many sizes, the empty one among them."""
    dense = np.random.default_rng(4).random((4_000, 6)) < np.linspace(0.2, 0.6, 6)
    table = Table(SHOP, (Bits.from_dense(dense),))
    return perturb(table, CutAndPaste(SHOP, cutoff=3, insert=0.2), seeded(3), copies=2)


def votes(source: Release, items: list[int]) -> np.ndarray:
    """What every report says about these items, from the report itself."""
    law, bits = source.mechanism.item_law, source.table.columns[0].to_dense()
    shown = bits[:, items].sum(axis=1)
    if isinstance(law.size, int):
        return law.votes(len(items), law.size)[shown]
    sizes = np.asarray(source.table.columns[1]).tolist()
    pairs = zip(sizes, shown.tolist(), strict=True)
    return np.array([law.votes(len(items), m)[s] if m >= len(items) else 0.0 for m, s in pairs])


def check(source: Release) -> None:
    supports = source.supports()
    assert isinstance(supports, PartialSupports)
    found = frequent_itemsets(source, 0.02)
    assert max(found.length) == 3 and len(found) > 10
    numbers = {name: place for place, name in enumerate(supports.names)}
    for itemset in found:
        cast = votes(source, [numbers[name] for name in itemset.items]) / source.copies
        assert np.isclose(itemset.support * source.rows, cast.sum())
        spread = cast @ cast - cast.sum() / source.copies
        assert np.isclose(itemset.stderr * source.rows, np.sqrt(max(spread, 0)))


def test_records_are_counted_as_their_reports_vote() -> None:
    check(records())


def test_baskets_of_every_size_are_counted_as_their_reports_vote() -> None:
    check(baskets())


def test_covariances_are_those_of_the_votes() -> None:
    for source in (records(), baskets()):
        supports = source.supports()
        groups = supports.groups
        triples = [t for t in combinations(range(len(groups)), 3) if len(set(groups[list(t)])) == 3]
        sets = np.array(triples[:5], dtype=np.int32)
        whole, rest = supports.covariances(sets, np.zeros((5, 8)), np.zeros((5, 8)))
        for row, items in enumerate(sets.tolist()):
            cast = [
                votes(source, [item for place, item in enumerate(items) if subset >> place & 1])
                if subset
                else np.ones(source.table.rows)
                for subset in range(8)
            ]
            scale = source.copies**2
            expected = [(cast[s] @ cast[7] - cast[7].sum()) / scale for s in range(8)]
            np.testing.assert_allclose(whole[row], expected, rtol=1e-8, atol=1e-6)
            beside = [(cast[s] @ cast[7 - s] - cast[7].sum()) / scale for s in range(8)]
            np.testing.assert_allclose(rest[row], beside, rtol=1e-8, atol=1e-6)
