"""Partial supports against the votes that they add up."""

import numpy as np

from sfumato.domain import Category, Domain
from sfumato.estimation.supports.base import Measured
from sfumato.estimation.supports.partial import PartialSupports
from sfumato.estimation.supports.voted import VotedSupports
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.randomness import seeded
from sfumato.source import Release, perturb
from sfumato.table import Table

PEOPLE = Domain(
    (
        Category("a", ("x", "y")),
        Category("b", ("x", "y", "z")),
        Category("c", ("x", "y")),
        Category("d", ("x", "y")),
    )
)


def release() -> Release:
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


def voted(source: Release) -> VotedSupports:
    """The same supports, from a pass over the rows for each itemset."""
    partial = source.supports()
    assert isinstance(partial, PartialSupports)
    return VotedSupports(
        partial.names, partial.groups, partial.rows, partial.votes, longest=partial.longest
    )


def test_the_mined_itemsets_are_those_of_the_votes() -> None:
    source = release()
    by_votes = frequent_itemsets(voted(source), 0.05)
    by_counts = frequent_itemsets(source, 0.05)
    assert by_counts.items == by_votes.items
    assert max(by_counts.length) == 3
    np.testing.assert_allclose(by_counts.support, by_votes.support, rtol=1e-9)
    np.testing.assert_allclose(by_counts.stderr, by_votes.stderr, rtol=1e-9)


def test_a_wrong_weight_is_seen() -> None:
    right = release().supports()
    assert isinstance(right, PartialSupports)
    items = np.arange(len(right.names), dtype=np.int32)[:, None]
    measured = right.measure(items, np.zeros_like(items), right.empty())
    assert isinstance(measured, Measured)
    votes = [right.votes([int(item)]).sum() for item in items[:, 0]]
    np.testing.assert_allclose(measured.count, votes)
    assert not np.allclose(measured.observed, votes, rtol=0.05)
