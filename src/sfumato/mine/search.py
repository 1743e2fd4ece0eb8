"""The search for frequent itemsets, level by level (Apriori): what is measured, what is pruned, and
how probable it is that an itemset is frequent, given all that was looked at.
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

Sets = NDArray[np.int32]  # (n, k), items ascending

# Supports are resolved in cells that widen by a third of a doubling, down to one row in 33,000.
EDGES = np.r_[0.0, 2.0 ** (-np.arange(45, -1, -1) / 3)]
STEPS = 60  # of the fit
IMAGINED = 2.0  # candidates of every support alike, who keep a prior of few candidates open
BOUND_ERRORS = 3.0  # an itemset is no more frequent than its subsets and this many of their errors
# Rounding of min_support · rows must not turn away an itemset that meets the threshold exactly.
_SLACK = 1 - 1e-12
# One more item seldom multiplies errors by more; if it does, all candidates are measured in vain.
_CLEAR = 30


def normal_below(reach: Floats) -> Floats:
    """How probable it is that a normal error is at most so many standard errors."""
    from scipy.special import ndtr

    return np.asarray(ndtr(reach))


def evenly(many: int, most: int) -> NDArray[np.intp]:
    """At most so many of many places, spread evenly.

    >>> evenly(9, 3).tolist(), evenly(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.linspace(0, many - 1, min(most, many)).astype(np.intp)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Estimated supports of itemsets of one length, and the most that each can be."""

    support: Floats
    stderr: Floats
    most: Floats  # by the subsets, at most 1

    def take(self, rows: NDArray[np.intp] | slice) -> Candidates:
        """Some of them."""
        return Candidates(self.support[rows], self.stderr[rows], self.most[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Candidates]) -> Candidates:
        """Those of all parts."""
        return cls(
            np.concatenate([part.support for part in parts]),
            np.concatenate([part.stderr for part in parts]),
            np.concatenate([part.most for part in parts]),
        )

    def sample(self, number: int) -> Candidates:
        """At most this many of them, spread evenly."""
        return self.take(evenly(len(self.support), number))

    def weights(self, edges: Floats) -> Floats:  # (itemsets, cells)
        """How likely each estimate is if the true support lies in each cell, up to a factor of the
        itemset's own; a cell beyond the most it can be has none.
        """
        from scipy.special import log_ndtr

        ends = np.minimum(edges[None, :], self.most[:, None])
        below = (ends - self.support[:, None]) / self.stderr[:, None]
        low, high = below[:, :-1], below[:, 1:]
        # Far out on either side a difference of two shares is one of two small tails.
        flipped = low > 0
        low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
        with np.errstate(divide="ignore"):
            tail = log_ndtr(high)
            logs = tail + np.log1p(-np.exp(np.minimum(log_ndtr(low) - tail, 0)))
        most = np.maximum(logs.max(axis=1, keepdims=True), -1e300)
        weights: Floats = np.exp(logs - most)
        return weights


@dataclass(frozen=True, eq=False)
class Prior:
    """How true supports are spread among the candidates of one length, by what all of them show.

    Fitted to the estimates and their normal errors by the EM algorithm, smoothed at every step so
    that it does not chase single candidates (empirical Bayes, Robbins 1956; EMS, Silverman et al.
    1990). A high estimate among many that are noise is so taken for noise.
    """

    density: Floats  # (cells,)

    @classmethod
    def even(cls) -> Prior:
        """All supports alike."""
        return cls(np.ones(len(EDGES) - 1))

    @classmethod
    def fitted(cls, candidates: Candidates) -> Prior:
        """The prior of candidates whose errors are not 0."""
        widths = np.diff(EDGES)
        even = np.full(len(widths), 1 / len(widths))
        likely = candidates.sample(limits.FITTED).weights(EDGES) / widths
        masses = even
        for _ in range(STEPS):
            total = likely @ masses
            each = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
            masses = masses * (each @ likely) + IMAGINED * even
            around = np.r_[masses[0], masses, masses[-1]]  # beyond its ends it goes on as it ended
            masses = 2 * masses + around[:-2] + around[2:]
            masses /= masses.sum()
        return cls(masses / widths)

    def probability(self, candidates: Candidates, goal: float) -> Floats:
        """The probability that each true support is at least `goal`."""
        edges = np.unique(np.r_[EDGES, min(goal, 1.0)])
        cells = np.searchsorted(EDGES, edges[:-1], side="right") - 1
        above = edges[:-1] >= goal
        parts = [np.zeros(0)]
        for start in range(0, len(candidates.support), limits.WEIGHED):
            part = candidates.take(slice(start, start + limits.WEIGHED))
            joint = part.weights(edges) * self.density[cells]
            share = joint[:, above].sum(axis=1) / np.maximum(joint.sum(axis=1), 1e-300)
            parts.append(np.minimum(share, 1.0))  # two sums of the same may differ by rounding
        return np.concatenate(parts)


def most_by_subsets(subsets: NDArray[np.int32], support: Floats, stderr: Floats) -> Floats:
    """The most that the support of each itemset can be, by the estimates of its subsets.

    >>> most_by_subsets(np.array([[0, 1]]), np.array([0.5, 0.2]), np.array([0.01, 0.02]))
    array([0.26])
    """
    known = support[subsets] + BOUND_ERRORS * stderr[subsets]
    return np.clip(known.min(axis=1), 1e-12, 1.0)


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
        measured = tier.measured
        probability = (measured.count >= self.goal(rows)).astype(np.float64)
        uncertain = np.flatnonzero(measured.stderr > 0)
        if tier.tried is not None and len(uncertain):
            goal, candidates = self.goal(rows) / max(rows, 1), tier.candidates(rows)
            probability[uncertain] = tier.prior.probability(candidates.take(uncertain), goal)
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
    # Some of all candidates of this length, frequent or not: no one's where a model has drawn
    # together what they have in common, None where nothing is estimated.
    tried: Candidates | None = None

    @cached_property
    def prior(self) -> Prior:
        """How true supports are spread among all candidates of this length."""
        if self.tried is None or not len(self.tried.support):
            return Prior.even()
        return Prior.fitted(self.tried.take(np.flatnonzero(self.tried.stderr > 0)))

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
        """The itemsets as supports with their own errors, none above those of its subsets."""
        found = list[tuple[Floats, Floats]]()
        for each in (self.measured, *(() if self.below is None else (self.below.measured,))):
            own = each.stderr if each.noise is None else each.noise
            found.append((each.count / max(rows, 1), own / max(rows, 1)))
        support, stderr = found[0]
        if self.below is None:
            return Candidates(support, stderr, np.ones(len(support)))
        return Candidates(support, stderr, most_by_subsets(self.subsets, *found[1]))

    @classmethod
    def concatenate(cls, parts: list[Tier], tried: Candidates | None) -> Tier:
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
        # Whether errors are not so small that one more item will hardly lose everything: then of
        # many candidates a few are measured first.
        error = _CLEAR * float(np.median(tier.measured.stderr))
        doubtful = not supports.exact and is_lost(error, supports.rows)
        items = np.arange(len(supports.names), dtype=np.int32)[:, None]
        single = [(items, np.zeros_like(items))][: len(items)]
        joined = _joined(tier, supports.groups, self.max_candidates) if tier.length else single
        for itemsets, subsets in joined:
            if doubtful and not parts and len(itemsets) >= 8 * limits.PROBED:
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
        every = Candidates.concatenate(tried) if tried else None
        if every is not None and supports.shrunk:
            every = every.take(slice(0))
        return Tier.concatenate(parts, every)

    def _lost(self, measured: Measured, tier: Tier) -> Lost | None:
        """Whether half of these supports have errors beyond any use; single items are reported
        whatever they are, and the papers' own search (prune_errors = 0) goes on regardless.
        """
        if not self.threshold.prune_errors or tier.length == 0 or not len(measured.stderr):
            return None
        stderr, rows = float(np.median(measured.stderr)), self.supports.rows
        return Lost(tier.length + 1, stderr, rows) if is_lost(stderr, rows) else None

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
    length = tier.length + 1
    head, last = tier.subsets[:, -1].astype(np.int64), tier.itemsets[:, -1].astype(np.int64)
    following = np.searchsorted(head, head, side="right") - np.arange(len(head)) - 1
    ends = np.cumsum(following)
    number = int(ends[-1])
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
        own = np.repeat(np.cumsum(repeats) - repeats, repeats)
        second = np.arange(len(first)) - own + first + 1
        start = stop
        compatible = np.flatnonzero(groups[last[first]] != groups[last[second]])
        first, second = first[compatible], second[compatible]
        subsets: list[NDArray[Any]] = []
        for position in range(tier.length - 1):
            wanted = tier.subsets[first, position].astype(np.int64) * len(groups) + last[second]
            found = np.searchsorted(keys, wanted)
            present = np.flatnonzero(keys[np.minimum(found, len(keys) - 1)] == wanted)
            first, second = first[present], second[present]
            subsets = [rows[present] for rows in [*subsets, found]]
        itemsets = np.concatenate([tier.itemsets[first], tier.itemsets[second, -1:]], axis=1)
        yield itemsets, np.stack([*subsets, second, first], axis=1).astype(np.int32)


def require(condition: bool, message: str) -> None:
    """Refuse unless the condition holds."""
    if not condition:
        raise ParameterError(message)
