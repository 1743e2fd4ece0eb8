"""The search for frequent itemsets, level by level (Apriori): what is measured, what is pruned, and
how probable it is that an itemset is frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.errors import ParameterError
from sfumato.estimation.noise import is_lost, noise_told
from sfumato.estimation.supports.supports import (
    Assuming,
    Floats,
    Integers,
    Measured,
    Supports,
)
from sfumato.mine import limits
from sfumato.mine.frequency import Candidates, Prior, evenly, most_by_subsets, normal_below

Sets = NDArray[np.int32]  # (n, k), items ascending

# Rounding of min_support · rows must not turn away an itemset that meets the threshold exactly.
_SLACK = 1 - 1e-12
# One more item seldom multiplies errors by more; if it does, all candidates are measured in vain.
_CLEAR = 30


class Level(NamedTuple):
    """What one level of the search did."""

    length: int
    candidates: int
    kept: int


class Lost(NamedTuple):
    """A length of which the reports say nothing."""

    length: int
    stderr: float  # of half of its counts, or more
    rows: int

    def __str__(self) -> str:
        return noise_told(f"{self.length} items together leave", self.stderr, self.rows)


@checked
@dataclass(frozen=True)
class Threshold:
    """When an itemset is pruned and when it is reported, two separate decisions.

    Reported: estimate ≥ (1 - relax) · min_support, or, with a `level`, probability of being
    frequent ≥ level; what is lost in its error is no finding. Pruned: estimate + prune_errors ·
    stderr < (1 - relax) · min_support, since a wrongly pruned itemset takes all its supersets with
    it. On exact data both are the plain threshold.
    """

    min_support: float
    relax: float = 0.0
    level: float | None = None
    prune_errors: float = 2.0

    def __post_init__(self) -> None:
        require(
            0 < self.min_support <= 1,
            f"min_support={self.min_support:g} is no fraction; use one above 0 and up to 1, as in "
            "0.02 for 2 %",
        )
        require(0 <= self.relax < 1, f"relax={self.relax:g} must be at least 0 and below 1")
        require(
            self.prune_errors >= 0,
            f"prune_errors={self.prune_errors:g} must be 0 or more standard errors",
        )
        if self.level is not None:
            require(0 < self.level < 1, f"level={self.level:g} must lie strictly between 0 and 1")
            require(
                self.relax == 0,
                "give relax or level, not both: a level is the error-aware form of relaxing",
            )

    def goal(self, rows: int) -> float:
        """The count from which an itemset is truly frequent."""
        return self.min_support * max(rows, 1) * _SLACK

    def survives(self, measured: Measured, rows: int) -> NDArray[np.bool_]:
        """Which itemsets may still have frequent supersets."""
        errors = self.prune_errors
        if self.level is not None and self.level < 0.5:
            errors = max(errors, -NormalDist().inv_cdf(self.level))
        return measured.count + errors * measured.stderr >= (1 - self.relax) * self.goal(rows)

    def reported(self, kept: Survivors) -> NDArray[np.bool_]:
        """Which of the itemsets that a search kept, by their numbers, are part of the result."""
        rows, likely = kept.supports.rows, list[Floats | None]([None] * len(kept.tiers))
        if self.level is not None:  # else probabilities are computed when somebody looks
            likely = [*self.probabilities(kept.tiers, rows)]
        pairs = zip(kept.tiers, likely, strict=True)
        return np.concatenate([[False], *(self.reports(tier, rows, each) for tier, each in pairs)])

    def reports(self, tier: Tier, rows: int, probability: Floats | None) -> NDArray[np.bool_]:
        """Which itemsets are part of the result; the probability matters where there is a level."""
        measured = tier.measured
        if self.level is not None and probability is not None:
            reached = probability >= self.level
        else:
            reached = measured.count >= (1 - self.relax) * self.goal(rows)
        # With no errors left to an itemset it is the papers' own search, which reports regardless.
        return reached & ~is_lost(measured.stderr, rows) if self.prune_errors else reached

    def probability(self, tier: Tier, rows: int) -> Floats:
        """How probable it is that each true support reaches min_support: by the estimate and its
        error, by what the subsets allow, and by how common such supports are among all candidates
        of this length.
        """
        measured, tried = tier.measured, tier.tried
        probability = (measured.count >= self.goal(rows)).astype(np.float64)
        uncertain = np.flatnonzero(measured.stderr > 0)
        if tried is not None and len(uncertain):
            goal, candidates = self.goal(rows) / max(rows, 1), tier.candidates(rows)
            probability[uncertain] = tried.prior.probability(candidates.take(uncertain), goal)
        if measured.noise is not None and len(uncertain):
            # The prior tells findings from noise; that all may be off together is another doubt.
            error = measured.stderr if measured.down is None else measured.down
            reach = (measured.count - self.goal(rows))[uncertain] / error[uncertain]
            probability[uncertain] = np.minimum(probability[uncertain], normal_below(reach))
        return probability

    def probabilities(self, tiers: Sequence[Tier], rows: int) -> list[Floats]:
        """The same of tiers one above the other: an itemset is frequent only where all its subsets
        are, so that it is no more probably so than any of them.
        """
        found: list[Floats] = []
        for tier in tiers:
            own = self.probability(tier, rows)
            if found:
                own = np.minimum(own, found[-1][tier.subsets].min(axis=1))
            found.append(own)
        return found


@dataclass(frozen=True, eq=False)
class Tier:
    """All surviving itemsets of one length k, sorted, with their estimates."""

    itemsets: Sets  # (n, k), rows in lexicographic order
    subsets: Sets  # (n, k): row in the tier below of the itemset without its item j
    measured: Measured
    below: Tier | None  # None of no item at all
    tried: Tried | None = None  # None where nothing is estimated

    @property
    def length(self) -> int:
        """The number of items in each itemset."""
        return int(self.itemsets.shape[1])

    def take(self, rows: Integers) -> Tier:
        """Some of the itemsets."""
        return replace(
            self,
            itemsets=self.itemsets[rows],
            subsets=self.subsets[rows],
            measured=self.measured.take(rows),
        )

    def candidates(self, rows: int) -> Candidates:
        """The itemsets as supports, none above those of its subsets."""
        support, stderr = _fractions(self.measured, rows)
        if self.below is None:
            return Candidates(support, stderr, np.ones(len(support)))
        most = most_by_subsets(self.subsets, *_fractions(self.below.measured, rows))
        return Candidates(support, stderr, most)

    @classmethod
    def concatenate(cls, parts: list[Tier], tried: Tried | None) -> Tier:
        """The itemsets of all parts, one part after the other."""
        if len(parts) == 1:
            return replace(parts[0], tried=tried)
        return cls(
            np.concatenate([part.itemsets for part in parts]),
            np.concatenate([part.subsets for part in parts]),
            Measured.concatenate([part.measured for part in parts]),
            parts[0].below,
            tried,
        )


def _fractions(measured: Measured, rows: int) -> tuple[Floats, Floats]:
    """Estimated supports and their own errors."""
    total, own = max(rows, 1), measured.noise
    return measured.count / total, (measured.stderr if own is None else own) / total


@dataclass(frozen=True, eq=False)
class Tried:
    """Some of all itemsets of one length that were tried, frequent or not."""

    parts: list[Candidates]
    shrunk: bool  # by a model: what they have in common is in each of them already

    @cached_property
    def prior(self) -> Prior:
        """How their true supports are spread; fitted when somebody asks for a probability."""
        if self.shrunk:
            return Prior.even()
        tried = Candidates.concatenate(self.parts)
        return Prior.fitted(tried.take(np.flatnonzero(tried.stderr > 0)))


@dataclass(frozen=True, eq=False)
class Survivors:
    """Every itemset that a search kept, numbered through: 0 is the empty one, then come those of
    one item, of two, and so on.
    """

    supports: Supports
    tiers: tuple[Tier, ...]

    @cached_property
    def starts(self) -> list[int]:  # of each tier, and where the last ends
        """The number of the first itemset of each length."""
        return np.cumsum([1, *(len(tier.itemsets) for tier in self.tiers)]).tolist()

    @cached_property
    def length(self) -> Integers:
        """How many items each itemset has."""
        many = [1, *(len(tier.itemsets) for tier in self.tiers)]
        return np.repeat(np.arange(len(many)), many)

    @cached_property
    def measured(self) -> Measured:
        """The estimates of all."""
        parts = (self.supports.empty(), *(tier.measured for tier in self.tiers))
        return Measured(
            np.concatenate([part.observed for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.stderr for part in parts]),
        )

    def without(self, numbers: Integers, length: int, item: int | slice) -> Integers:
        """The numbers of these itemsets of one length without their item at this place."""
        first, below = self.starts[length - 1], self.starts[length - 2] if length > 1 else 0
        return self.tiers[length - 1].subsets[numbers - first, item].astype(np.int64) + below

    def by_length(self, numbers: Integers) -> Iterator[tuple[list[int], Sets]]:
        """Which of these numbers are of each length, and the items of those."""
        for length, tier in enumerate(self.tiers, start=1):
            here = np.flatnonzero(self.length[numbers] == length)
            yield here.tolist(), tier.itemsets[numbers[here] - self.starts[length - 1]]

    def items(self, numbers: Integers, names: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What the items of these itemsets are called, in the order of the source's items."""
        called, result = np.array(names, dtype=object), list[Any]([()] * len(numbers))
        for places, itemsets in self.by_length(numbers):
            for place, row in zip(places, called[itemsets].tolist(), strict=True):
                result[place] = tuple(row)
        return result

    def assumed(self, numbers: Integers) -> list[str | None]:
        """What a model supposed for the supports of these itemsets, beyond the reports."""
        result: list[str | None] = [None] * len(numbers)
        if isinstance(self.supports, Assuming):
            for places, itemsets in self.by_length(numbers):
                for place, each in zip(places, self.supports.assumed(itemsets), strict=True):
                    result[place] = each
        return result


@dataclass(frozen=True, eq=False)
class LevelwiseSearch:
    """A level-wise search (Agrawal and Srikant 1994) in estimated supports."""

    supports: Supports
    threshold: Threshold
    max_length: int | None
    top: int | None
    max_candidates: int
    progress: Callable[[Level], None] | None

    def run(self) -> tuple[Survivors, Threshold, Lost | None]:
        """Grow itemsets until no candidate survives: those of each length, the threshold (raised
        where only the top are wanted), and the length at which the reports say nothing more.
        """
        threshold, tiers, lost = self.threshold, list[Tier](), None
        none = np.zeros((1, 0), np.int32)
        tier = Tier(none, none, self.supports.empty(), None)
        while self.max_length is None or tier.length < self.max_length:
            longer = self._grow(tier, threshold)
            if not isinstance(longer, Tier):
                lost = longer
                break
            threshold = self._raised(threshold, [*tiers, longer])
            tier = self._above(longer, threshold)
            if not len(tier.itemsets):
                break
            tiers.append(tier)
        return Survivors(self.supports, tuple(tiers)), threshold, lost

    def _grow(self, tier: Tier, threshold: Threshold) -> Tier | Lost | None:
        """The surviving itemsets one item longer, or that the reports say nothing of them, or that
        there are none.
        """
        supports, parts, tried, number = self.supports, list[Tier](), list[Candidates](), 0
        for itemsets, subsets in self._candidates(tier):
            if not parts and self._is_worth_a_probe(len(itemsets), tier):
                few = evenly(len(itemsets), limits.PROBED)
                probe = supports.measure(itemsets[few], subsets[few], tier.measured)
                if (lost := self._lost(probe, tier)) is not None:
                    return lost
            measured = supports.measure(itemsets, subsets, tier.measured)
            if not parts and (lost := self._lost(measured, tier)) is not None:
                return lost
            part = Tier(itemsets, subsets, measured, tier)
            parts.append(part.take(np.flatnonzero(threshold.survives(measured, supports.rows))))
            if not supports.exact:
                some = part.take(evenly(len(itemsets), limits.FITTED))
                tried.append(some.candidates(supports.rows))
            number += len(itemsets)
        kept = sum(len(part.itemsets) for part in parts)
        if self.progress:
            self.progress(Level(tier.length + 1, number, kept))
        if not kept:
            return None
        return Tier.concatenate(parts, None if supports.exact else Tried(tried, supports.shrunk))

    def _is_worth_a_probe(self, number: int, tier: Tier) -> bool:
        """Whether there are many candidates, and errors not so small that one more item will hardly
        lose everything.
        """
        if self.supports.exact or number < 8 * limits.PROBED:
            return False
        return bool(is_lost(_CLEAR * float(np.median(tier.measured.stderr)), self.supports.rows))

    def _lost(self, measured: Measured, tier: Tier) -> Lost | None:
        """Whether half of these supports have errors beyond any use; single items are reported
        whatever they are, and the papers' own search (prune_errors = 0) goes on regardless.
        """
        if not self.threshold.prune_errors or tier.length == 0 or not len(measured.stderr):
            return None
        stderr, rows = float(np.median(measured.stderr)), self.supports.rows
        return Lost(tier.length + 1, stderr, rows) if is_lost(stderr, rows) else None

    def _candidates(self, tier: Tier) -> Iterator[tuple[Sets, Sets]]:
        if tier.length == 0:
            items = np.arange(len(self.supports.names), dtype=np.int32)[:, None]
            return iter([(items, np.zeros_like(items))] if len(items) else [])
        return _joined(tier, self.supports.groups, self.max_candidates)

    def _above(self, tier: Tier, threshold: Threshold) -> Tier:
        """With `top`, what a raised threshold leaves of a tier: the rest would be joined for
        nothing. Of many that are alike, such as all parts of a basket that everybody holds, the
        first are enough: no part of an itemset is rarer than it, so that the parts of the top are
        among the top of their length.
        """
        if self.top is None:
            return tier
        kept = tier.take(np.flatnonzero(threshold.survives(tier.measured, self.supports.rows)))
        most = max(limits.KEPT, limits.KEPT_PER_TOP * self.top)
        if len(kept.itemsets) <= most:
            return kept
        count = kept.measured.count
        reach = count + threshold.prune_errors * kept.measured.stderr
        best, may = (np.argsort(-each, kind="stable") for each in (count, reach))
        return kept.take(np.union1d(best[: self.top], may[:most]))

    def _raised(self, threshold: Threshold, tiers: list[Tier]) -> Threshold:
        """With `top`, the support of the last of the best so far: no itemset below it can enter the
        result.
        """
        counts = np.concatenate([tier.measured.count for tier in tiers])
        if self.top is None or len(counts) < self.top:
            return threshold
        last = float(np.partition(counts, -self.top)[-self.top]) / max(self.supports.rows, 1)
        return replace(threshold, min_support=min(1.0, max(threshold.min_support, last)))


def _joined(tier: Tier, groups: Integers, max_candidates: int) -> Iterator[tuple[Sets, Sets]]:
    """Itemsets one item longer, all of whose subsets are in the tier, with the rows of those
    subsets (Apriori join).

    Two itemsets that differ only in their last item are joined. Any other subset of the union ends
    with the same last item as the second and starts with a subset of the first, so a known row of
    the tier below and an item name it.
    """
    head, last = tier.subsets[:, -1].astype(np.int64), tier.itemsets[:, -1].astype(np.int64)
    following = np.searchsorted(head, head, side="right") - np.arange(len(head)) - 1
    ends = np.cumsum(following)
    number, length = int(ends[-1]), tier.length + 1
    if tier.length == 1:  # pairs of items of one group are never joined
        many = np.unique(groups[last], return_counts=True)[1]
        number -= int((many * (many - 1) // 2).sum())
    if number > max_candidates:
        raise ParameterError(
            f"length {length} would need up to {number:,} candidate itemsets, more than "
            f"max_candidates={max_candidates:,}",
            hint=f"raise min_support, set max_length={length - 1}, or raise max_candidates",
            length=length,
            candidates=number,
        )
    keys = head * len(groups) + last
    start = 0
    while start < len(head):
        most = ends[start] - following[start] + limits.CANDIDATES
        stop = max(start + 1, int(np.searchsorted(ends, most, side="right")))
        repeats = following[start:stop]
        first = np.repeat(np.arange(start, stop), repeats)
        second = (
            np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats) + first + 1
        )
        start = stop
        yield _with_all_subsets(tier, groups, keys, first, second)


def _with_all_subsets(
    tier: Tier, groups: Integers, keys: Integers, first: Integers, second: Integers
) -> tuple[Sets, Sets]:
    last = tier.itemsets[:, -1]
    compatible = np.flatnonzero(groups[last[first]] != groups[last[second]])
    first, second = first[compatible], second[compatible]
    subsets: list[NDArray[Any]] = []
    for position in range(tier.length - 1):
        wanted = tier.subsets[first, position].astype(np.int64) * len(groups) + last[second]
        found = np.searchsorted(keys, wanted)
        present = np.flatnonzero(keys[np.minimum(found, len(keys) - 1)] == wanted)
        first, second = first[present], second[present]
        subsets = [rows[present] for rows in [*subsets, found]]
    itemsets = np.concatenate([tier.itemsets[first], last[second][:, None]], axis=1)
    return itemsets, np.stack([*subsets, second, first], axis=1).astype(np.int32)


def require(condition: bool, message: str) -> None:
    """Refuse unless the condition holds."""
    if not condition:
        raise ParameterError(message)
