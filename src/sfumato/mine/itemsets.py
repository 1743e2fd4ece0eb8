"""Frequent itemsets of any source, exact or perturbed, level by level, each with its standard
error.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato import plots
from sfumato.arguments import checked, shown
from sfumato.errors import ParameterError
from sfumato.estimation.noise import is_lost, noise_told
from sfumato.estimation.supports.asked import AskedSupports
from sfumato.estimation.supports.base import Assuming, Floats, Integers, Measured, Supports
from sfumato.mine.frequency import FITTED, Candidates, Prior, evenly, most_by_subsets, normal_below
from sfumato.privacy.probability import check_count, check_number
from sfumato.renderers.picture import points_told
from sfumato.result import Result
from sfumato.source import Release
from sfumato.view import DRAWN, LISTED, Chart, ColumnView, TableView, View

if TYPE_CHECKING:
    import pandas

__all__ = ["Itemset", "Itemsets", "Level", "Threshold", "Tier", "frequent_itemsets"]

# Candidates counted together: bounds what is held beside the bitmaps.
_CHUNK = 1 << 18
# Candidates of a length that are measured first, where there are many.
_PROBE, _MANY_PROBES = 256, 8
# One more item seldom multiplies errors by more; if it does, all candidates are measured in vain.
_CLEAR = 30
# Itemsets of a length that are joined further where the top ones are asked for.
_MOST_KEPT, _KEPT_TIMES = 20_000, 20
# Rounding of min_support · rows must not turn away an itemset that meets the threshold exactly.
_SLACK = 1 - 1e-12
# An itemset is surely frequent from this probability on, unless the caller names a level.
_SURE = 0.95


class HasSupports(Protocol):
    """A source that can be mined."""

    def supports(self) -> Supports:
        """Estimated counts of itemsets, one length after the other."""


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


class Itemset(NamedTuple):
    """One frequent itemset and how far to trust it."""

    items: tuple[str, ...]
    support: float
    stderr: float
    probability: float
    status: str


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
        for name in ("min_support", "relax", "prune_errors"):
            check_number(name, getattr(self, name))
        _require(
            0 < self.min_support <= 1,
            f"min_support={self.min_support:g} is no fraction; use one above 0 and up to 1, as in "
            "0.02 for 2 %",
        )
        _require(0 <= self.relax < 1, f"relax={self.relax:g} must be at least 0 and below 1")
        _require(
            self.prune_errors >= 0,
            f"prune_errors={self.prune_errors:g} must be 0 or more standard errors",
        )
        if self.level is not None:
            check_number("level", self.level)
            _require(0 < self.level < 1, f"level={self.level:g} must lie strictly between 0 and 1")
            _require(
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
            errors = max(errors, -_normal_quantile(self.level))
        return measured.count + errors * measured.stderr >= (1 - self.relax) * self.goal(rows)

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

    itemsets: NDArray[np.int32]  # (n, k), items ascending, rows in lexicographic order
    subsets: NDArray[np.int32]  # (n, k): row in the tier below of the itemset without its item j
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

    def sample(self, number: int) -> Tier:
        """At most this many of the itemsets, spread evenly, without what longer ones need."""
        few = evenly(len(self.itemsets), number)
        return replace(self, measured=replace(self.measured, memory=())).take(few)

    @classmethod
    def concatenate(cls, parts: list[Tier]) -> Tier:
        """The itemsets of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.itemsets for part in parts]),
            np.concatenate([part.subsets for part in parts]),
            Measured.concatenate([part.measured for part in parts]),
            parts[0].below,
        )


def _fractions(measured: Measured, rows: int) -> tuple[Floats, Floats]:
    """Estimated supports and their own errors."""
    total, own = max(rows, 1), measured.noise
    return measured.count / total, (measured.stderr if own is None else own) / total


@dataclass(frozen=True, eq=False)
class Tried:
    """Some of all itemsets of one length that were tried, frequent or not."""

    parts: list[Tier]
    rows: int
    shrunk: bool  # by a law: what they have in common is in each of them already

    @cached_property
    def prior(self) -> Prior:
        """How their true supports are spread; fitted when somebody asks for a probability."""
        if self.shrunk:
            return Prior.even()
        tried = Candidates.concatenate([part.candidates(self.rows) for part in self.parts])
        return Prior.fitted(tried.take(np.flatnonzero(tried.stderr > 0)))


@checked
def frequent_itemsets(
    source: HasSupports | Supports,
    min_support: float | None = None,
    *,
    min_count: float | None = None,
    max_length: int | None = None,
    relax: float = 0.0,
    level: float | None = None,
    top: int | None = None,
    prune_errors: float = 2.0,
    max_candidates: int = 10_000_000,
    progress: Callable[[Level], None] | None = None,
) -> Itemsets:
    """The itemsets whose estimated support reaches `min_support`, with standard errors.

    Level-wise (Apriori) with a reconstruction at each level (MASK §4, FRAPP §8.1). `relax` lowers
    the threshold to (1 - relax) · min_support (MASK §6); `level` reports instead what is frequent
    with at least that probability. `prune_errors` is the error bar left to an itemset before its
    supersets are given up: more of it finds more long itemsets in perturbed data and costs time; 0
    prunes as the papers do. `top` keeps the itemsets of largest support only. More than
    `max_candidates` candidates at one length are refused. The search ends where the reports say
    nothing more: at a length whose supports have standard errors above one half (with 0 it goes on
    as the papers do).

    >>> from sfumato.source import Exact
    >>> from sfumato.table import read
    >>> people = Exact(read({"tea": ["yes", "yes", "no"], "milk": ["yes", "yes", "yes"]}))
    >>> found = frequent_itemsets(people, 0.6)
    >>> [(itemset.items, round(itemset.support, 3)) for itemset in found]
    [(('tea=yes',), 0.667), (('milk=yes',), 1.0), (('tea=yes', 'milk=yes'), 0.667)]
    """
    supports = _supports_of(source)
    fraction = _fraction(min_support, min_count, top, supports.rows)
    if top is not None and isinstance(supports, AskedSupports):
        fraction = max(fraction, 0.999 * supports.least(top))
    threshold = Threshold(fraction, relax=relax, level=level, prune_errors=prune_errors)
    for name, value in (
        ("max_length", max_length),
        ("top", top),
        ("max_candidates", max_candidates),
    ):
        if value is not None or name == "max_candidates":
            check_number(name, value)
        _require(value is None or value >= 1, f"{name}={value} must be 1 or more")
    longest = supports.longest
    max_length = (
        longest
        if max_length is None
        else max_length
        if longest is None
        else min(longest, max_length)
    )
    search = _Search(supports, threshold, max_length, top, max_candidates, progress)
    found = replace(search.run(), round=_round_of(source))
    return found if top is None else found.top(top)


def _round_of(source: Any) -> int | None:
    """The round that a release is, where it is one of several."""
    turn = source.provenance.turn if isinstance(source, Release) else None
    return None if turn is None else turn.round


def _supports_of(source: Any) -> Supports:
    """What a source knows of itemsets; a table or data frame is not a source yet."""
    if hasattr(source, "supports"):
        source = source.supports()
    if not hasattr(source, "measure"):
        raise ParameterError(
            f"a {type(source).__name__} cannot be mined as it is",
            hint="give a release, or the truth as in sf.Exact(sf.read(data))",
        )
    supports: Supports = source
    return supports


def _fraction(
    min_support: float | None, min_count: float | None, top: int | None, rows: int
) -> float:
    """The smallest support wanted, stated as a fraction, as a count, or left open by asking for the
    top ones.
    """
    _require(min_support is None or min_count is None, "give min_support or min_count, not both")
    if min_support is not None:
        return min_support
    if min_count is not None:
        check_number("min_count", min_count)
        _require(
            0 < min_count <= max(rows, 1),
            f"min_count={min_count:g} must lie in 1..{rows}, the number of rows",
        )
        return min_count / max(rows, 1)
    _require(top is not None, "say what is frequent: min_support, min_count or top")
    return 1 / max(rows, 1)


@dataclass(frozen=True, eq=False)
class _Search:
    supports: Supports
    threshold: Threshold
    max_length: int | None
    top: int | None
    max_candidates: int
    progress: Callable[[Level], None] | None

    def run(self) -> Itemsets:
        """Grow itemsets until no candidate survives."""
        threshold, tiers, lost = self.threshold, list[Tier](), None
        none = np.zeros((1, 0), np.int32)
        tier = Tier(none, none, self.supports.empty(), None)
        while len(tier.itemsets) and (self.max_length is None or tier.length < self.max_length):
            longer = self._grow(tier, threshold)
            if isinstance(longer, Lost):
                lost = longer
                break
            threshold = self._raised(threshold, [*tiers, longer])
            tier = self._above(longer, threshold)
            tiers.append(tier)
        kept = tuple(tier for tier in tiers if len(tier.itemsets))
        rows = self.supports.rows
        asked = threshold.level is not None  # else they are computed when somebody looks
        likely = threshold.probabilities(kept, rows) if asked else [None] * len(kept)
        chosen = tuple(
            np.flatnonzero(threshold.reports(tier, rows, each))
            for tier, each in zip(kept, likely, strict=True)
        )
        return Itemsets(self.supports, kept, chosen, threshold, lost=lost)

    def _grow(self, tier: Tier, threshold: Threshold) -> Tier | Lost:
        """The surviving itemsets one item longer, or that the reports say nothing of them."""
        parts, tried, candidates = list[Tier](), list[Tier](), 0
        for itemsets, subsets in self._candidates(tier):
            lost = None if parts else self._probed(itemsets, subsets, tier)
            if lost is not None:
                return lost
            measured = self.supports.measure(itemsets, subsets, tier.measured)
            lost = None if parts else self._lost(measured, tier)
            if lost is not None:
                return lost
            part = Tier(itemsets, subsets, measured, tier)
            parts.append(
                part.take(np.flatnonzero(threshold.survives(measured, self.supports.rows)))
            )
            if not self.supports.exact:
                tried.append(part.sample(FITTED))
            candidates += len(itemsets)
        longer = self._together(parts, tried) if parts else _nothing(tier.length + 1)
        if self.progress:
            self.progress(Level(longer.length, candidates, len(longer.itemsets)))
        return longer

    def _together(self, parts: list[Tier], tried: list[Tier]) -> Tier:
        """The survivors of all parts, beside some of all that were tried."""
        found = Tier.concatenate(parts)
        if self.supports.exact:
            return found
        return replace(found, tried=Tried(tried, self.supports.rows, self.supports.shrunk))

    def _probed(
        self, itemsets: NDArray[np.int32], subsets: NDArray[np.int32], tier: Tier
    ) -> Lost | None:
        """Whether supports of many itemsets are not worth measuring, by a few of them."""
        if self.supports.exact or len(itemsets) < _MANY_PROBES * _PROBE or self._clear(tier):
            return None
        few = evenly(len(itemsets), _PROBE)
        measured = self.supports.measure(itemsets[few], subsets[few], tier.measured)
        return self._lost(measured, tier)

    def _clear(self, tier: Tier) -> bool:
        """Whether errors are still so small that one more item will hardly lose everything."""
        stderr = float(np.median(tier.measured.stderr))
        return not is_lost(_CLEAR * stderr, self.supports.rows)

    def _lost(self, measured: Measured, tier: Tier) -> Lost | None:
        """Whether half of these supports have errors beyond any use; single items are told whatever
        they are, and the papers' own search (no errors left to an itemset) goes on regardless.
        """
        if not self.threshold.prune_errors or tier.length == 0 or not len(measured.stderr):
            return None
        stderr, rows = float(np.median(measured.stderr)), self.supports.rows
        return Lost(tier.length + 1, stderr, rows) if is_lost(stderr, rows) else None

    def _candidates(self, tier: Tier) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
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
        most = max(_MOST_KEPT, _KEPT_TIMES * self.top)
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
        if self.top is None:
            return threshold
        counts = np.concatenate([tier.measured.count for tier in tiers])
        if len(counts) < self.top:
            return threshold
        last = float(np.partition(counts, -self.top)[-self.top])
        return replace(
            threshold,
            min_support=min(1.0, max(threshold.min_support, last / max(self.supports.rows, 1))),
        )


def _nothing(length: int) -> Tier:
    none = np.zeros((0, length), dtype=np.int32)
    return Tier(none, none, Measured(np.zeros(0), np.zeros(0), np.zeros(0)), None)


def _joined(
    tier: Tier, groups: Integers, max_candidates: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Itemsets one item longer, all of whose subsets are in the tier, with the rows of those
    subsets (Apriori join).

    Two itemsets that differ only in their last item are joined. Any other subset of the union ends
    with the same last item as the second and starts with a subset of the first, so a known row of
    the tier below and an item name it.
    """
    head, last = tier.subsets[:, -1].astype(np.int64), tier.itemsets[:, -1].astype(np.int64)
    following = np.searchsorted(head, head, side="right") - np.arange(len(head)) - 1
    ends = np.cumsum(following)
    apart = _never_joined(groups[last]) if tier.length == 1 else 0
    _check_number(tier.length + 1, int(ends[-1]) - apart, max_candidates)
    keys = head * len(groups) + last
    start = 0
    while start < len(head):
        stop = max(
            start + 1,
            int(np.searchsorted(ends, ends[start] - following[start] + _CHUNK, side="right")),
        )
        rows, repeats = np.arange(start, stop), following[start:stop]
        first = np.repeat(rows, repeats)
        second = (
            np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats) + first + 1
        )
        start = stop
        yield _with_all_subsets(tier, groups, keys, first, second)


def _never_joined(groups: Integers) -> int:
    """How many pairs of items are of one group."""
    many = np.unique(groups, return_counts=True)[1]
    return int((many * (many - 1) // 2).sum())


def _with_all_subsets(
    tier: Tier, groups: Integers, keys: Integers, first: Integers, second: Integers
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
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


def _check_number(length: int, number: int, limit: int) -> None:
    if number > limit:
        raise ParameterError(
            f"length {length} would need up to {number:,} candidate itemsets, more than "
            f"max_candidates={limit:,}",
            hint=f"raise min_support, set max_length={length - 1}, or raise max_candidates",
            length=length,
            candidates=number,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Itemsets(Result):
    """Frequent itemsets as a table: shortest first, then in the order of the items.

    `tiers` holds every itemset that the search kept, reported or not, so that the support of each
    subset of a reported itemset is at hand for rules; `chosen` the rows of each tier that are
    reported.
    """

    supports: Supports
    tiers: tuple[Tier, ...]
    chosen: tuple[Integers, ...]
    threshold: Threshold
    labels: tuple[str, ...] | None = None  # what the items are called, where not as in the source
    lost: Lost | None = None  # the length from which on the reports say nothing
    round: int | None = None  # of several, where these are of that round's people alone
    # The true supports of every tier's itemsets, where somebody knows them.
    true: tuple[Floats, ...] | None = None

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.chosen)

    def __iter__(self) -> Iterator[Itemset]:
        columns = (
            self.support.tolist(),
            self.stderr.tolist(),
            self.probability.tolist(),
            self.status.tolist(),
        )
        return map(Itemset._make, zip(self.items, *columns, strict=True))

    @property
    def rows(self) -> int:
        """The number of baskets or records behind the supports."""
        return self.supports.rows

    @property
    def min_support(self) -> float:
        """The support from which an itemset counts as frequent."""
        return self.threshold.min_support

    @property
    def names(self) -> tuple[str, ...]:
        """What each item of the source is called."""
        return self.supports.names if self.labels is None else self.labels

    @checked
    def named(self, names: Mapping[str, str]) -> Itemsets:
        """The same itemsets, their items called by these names where they have one."""
        return replace(self, labels=tuple(names.get(item, item) for item in self.supports.names))

    @cached_property
    def items(self) -> list[tuple[str, ...]]:
        """The item names of each itemset, in the order of the source's items."""
        names = np.array(self.names, dtype=object)
        return [tuple(row) for itemsets in self._itemsets() for row in names[itemsets].tolist()]

    @property
    def itemsets(self) -> list[frozenset[str]]:
        """The item names of each itemset, as sets."""
        return [frozenset(items) for items in self.items]

    @cached_property
    def length(self) -> Integers:
        """The number of items of each itemset."""
        return np.repeat(
            [tier.length for tier in self.tiers], [len(rows) for rows in self.chosen]
        ).astype(np.int64)

    @cached_property
    def count(self) -> Floats:
        """The estimated number of rows that hold each itemset; negative where noise made it so."""
        return self._column("count")

    @cached_property
    def support(self) -> Floats:
        """The estimated share of rows that hold each itemset."""
        return self.count / max(self.rows, 1)

    @cached_property
    def stderr(self) -> Floats:
        """The standard error of each support, the rows held fixed."""
        return self._column("stderr") / max(self.rows, 1)

    @cached_property
    def true_support(self) -> Floats | None:
        """The true support of each itemset, where it is known."""
        if self.true is None:
            return None
        parts = [each[rows] for each, rows in zip(self.true, self.chosen, strict=True)]
        return np.concatenate([*parts, np.zeros(0)])

    def _told(self) -> dict[str, Floats]:
        """The column of the truth, where it is known."""
        return {} if self.true_support is None else {"true_support": self.true_support}

    @cached_property
    def probability(self) -> Floats:
        """The probability that each itemset's true support reaches `min_support`."""
        likely = self.threshold.probabilities(self.tiers, self.rows)
        parts = [each[rows] for each, rows in zip(likely, self.chosen, strict=True)]
        return np.concatenate(parts) if parts else np.zeros(0)

    @property
    def untold(self) -> int | None:
        """The length from which on the reports say nothing."""
        return None if self.lost is None else self.lost.length

    @property
    def left_out(self) -> int:
        """How many itemsets reach the threshold, but are lost in their errors and no finding."""
        goal = (1 - self.threshold.relax) * self.threshold.goal(self.rows)
        found = (t.measured for t in self.tiers if self.threshold.prune_errors)
        lost = [(m.count >= goal) & is_lost(m.stderr, self.rows) for m in found]
        return sum(int(each.sum()) for each in lost)

    @property
    def false_discoveries(self) -> float:
        """The share of the reported itemsets that is expected not to be frequent."""
        return float(np.mean(1 - self.probability)) if len(self) else 0.0

    @cached_property
    def assumes(self) -> list[str | None]:
        """What a model supposed for the support of each itemset, beyond the reports."""
        return [each for part in self._itemsets() for each in self.assumed(part)]

    @checked
    def assumed(self, itemsets: NDArray[np.int32]) -> list[str | None]:
        """What a model supposed for the supports of these itemsets, each a row of item numbers."""
        if np.ndim(itemsets) != 2 or np.asarray(itemsets).dtype.kind not in "iu":
            raise ParameterError(
                "these are no itemsets of one length", hint="give a row of item numbers for each"
            )
        if not isinstance(self.supports, Assuming):
            return [None] * len(itemsets)
        return self.supports.assumed(itemsets)

    @cached_property
    def status(self) -> NDArray[np.str_]:
        """'surely' frequent, 'borderline', or 'relaxed': below min_support and here only by
        relaxation.

        Surely means a probability of 0.95, or of the level asked for if that is higher than one
        half.
        """
        sure = (
            self.threshold.level if self.threshold.level and self.threshold.level > 0.5 else _SURE
        )
        below = self.count < self.threshold.goal(self.rows)
        return np.select([self.probability >= sure, below], ["surely", "relaxed"], "borderline")

    def by_length(self) -> dict[int, int]:
        """How many itemsets there are of each length."""
        return {
            tier.length: len(rows)
            for tier, rows in zip(self.tiers, self.chosen, strict=True)
            if len(rows)
        }

    @checked
    def where(self, mask: NDArray[np.bool_]) -> Itemsets:
        """The itemsets for which the mask, one truth value an itemset, is true."""
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (len(self),):
            raise ParameterError(
                "the mask will not do", hint=f"give True or False for each of {len(self)} itemsets"
            )
        ends = np.cumsum([len(rows) for rows in self.chosen])
        chosen = [
            rows[mask[end - len(rows) : end]] for rows, end in zip(self.chosen, ends, strict=True)
        ]
        return replace(self, chosen=tuple(chosen))

    @checked
    def top(self, number: int) -> Itemsets:
        """The `number` itemsets of largest support; of equal ones the shorter and earlier."""
        check_count("number", number, least=0)
        mask = np.zeros(len(self), dtype=bool)
        mask[np.argsort(-self.count, kind="stable")[:number]] = True
        return self.where(mask)

    @checked
    def order(self, by: str = "length") -> Integers:
        """The numbers of the itemsets in the order people read them: the shortest first and of
        these the strongest, or by "support" alone.
        """
        _require(
            by in ("length", "support"), f"itemsets go by length or support, not by {shown(by)}"
        )
        lengths = self.length if by == "length" else 0 * self.length
        return np.lexsort((-self.support, lengths))

    def maximal(self) -> Itemsets:
        """The itemsets with no superset in the result."""
        return self.where(np.isneginf(self._largest_superset()))

    def closed(self) -> Itemsets:
        """The itemsets with no superset of the same support (or, of estimates, a larger one) in the
        result.
        """
        return self.where(self._largest_superset() < self.count)

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame in mlxtend's form: support, itemsets (frozensets), and our columns after
        them.
        """
        import pandas

        return pandas.DataFrame(
            {
                "support": self.support,
                "itemsets": self.itemsets,
                "length": self.length,
                "stderr": self.stderr,
                "probability": self.probability,
                "status": self.status,
                **self._told(),
            }
        )

    def to_arrow(self, *, by: str | None = None) -> Any:
        """An Arrow table: support, itemsets (lists of names), length, stderr, probability, status,
        and true_support where the truth is known; in the order of `order(by)` where one is asked
        for.
        """
        import pyarrow as pa

        flat = np.concatenate(
            [itemsets.ravel() for itemsets in self._itemsets()] or [np.zeros(0, np.int32)]
        )
        offsets = np.concatenate([[0], np.cumsum(self.length)]).astype(np.int32)
        itemsets = pa.ListArray.from_arrays(
            offsets, pa.array(self.names, pa.string()).take(pa.array(flat))
        )
        return pa.table(
            {
                "support": self.support,
                "itemsets": itemsets,
                "length": self.length,
                "stderr": self.stderr,
                "probability": self.probability,
                "status": pa.array(self.status.tolist(), pa.string()),
                **self._told(),
            }
        ).take(np.array(self._places(by), dtype=np.int64))

    @checked
    def view(self, by: str = "support", most: int = LISTED) -> View:
        """The itemsets, at most so many, the strongest first or in another order, and how far to
        trust them.
        """
        found = ", ".join(
            f"{number:,} of length {length}" for length, number in self.by_length().items()
        )
        title = f"{len(self):,} itemsets in {self.rows:,} rows at support {self.min_support:.4g}"
        caption = "Itemsets of largest support"
        caption += ", with 95 % intervals" if self.stderr.any() else ""
        caption += "" if self.true_support is None else "; the truth as bars"
        return View(
            f"{title}: {found}" if found else title,
            words=[*self._trust()],
            charts=(Chart(self.plot, caption, self._told_of_picture()),),
            tables=(self._listed(by, most),),
            notes=self.notes,
        )

    def _trust(self) -> Iterator[str]:
        """How far to trust what was found."""
        if self.supports.exact:
            yield "exact: counted in true records"
        if not self.supports.exact and len(self):
            false = self.false_discoveries
            yield (
                f"of these about {false * len(self):,.0f} are expected not to be that frequent "
                f"(false-discovery rate {false:.2g})"
            )
        if self.left_out:
            yield f"{self.left_out:,} more are lost in standard errors above half of the rows"

    def _listed(self, by: str, most: int) -> TableView:
        order = self.order(by)[:most]
        true = self.true_support
        columns = [
            ColumnView("itemset", [", ".join(self.items[place]) for place in order]),
            ColumnView(
                "support",
                self.support[order].tolist(),
                self.stderr[order].tolist(),
                words="{:.4f}".format,
                counts=True,
                mark=self.min_support,
            ),
            *([] if true is None else [ColumnView("true", true[order].tolist())]),
            ColumnView("P(frequent)", self.probability[order].tolist(), words="{:.2f}".format),
            ColumnView("", self.status[order].tolist()),
        ]
        return TableView(columns, rest="more itemsets", total=len(self))

    def _told_of_picture(self) -> str:
        order = self.order("support")[:DRAWN]
        names = [", ".join(self.items[place]) for place in order]
        return points_told("Supports", names, self.support[order], self.stderr[order])

    @property
    def notes(self) -> tuple[str, ...]:
        """What should be known of these itemsets, in words."""
        alone = (
            f"this is round {self.round} alone, of a part of the people: mine all rounds together, "
            "as in sf.mine([one, two, three])",
        )
        lost = f"itemsets of {self.untold} or more items were not looked for: {self.lost}"
        told = (*(alone if self.round else ()), *((lost,) if self.lost else ()))
        return (*self.suppositions, *told)

    @property
    def suppositions(self) -> tuple[str, ...]:
        """What a model supposed for some of these itemsets, in words."""
        counted = Counter(each for each in self.assumes if each is not None)
        return tuple(
            f"model-based: {number:,} of these {len(self):,} itemsets assume {supposed}"
            for supposed, number in counted.items()
        )

    @checked
    def plot(self, truth: Floats | None = None, *, top: int = DRAWN, axes: Any = None) -> Any:
        """The `top` itemsets of largest support with 95 % intervals, and the true supports (one an
        itemset, as `evaluate.true_supports` gives them) as bars; the axes they were drawn on.
        """
        check_count("top", top, least=1)
        if truth is not None and np.shape(truth) != (len(self),):
            raise ParameterError(
                "truth will not do", hint=f"give the support of each of {len(self)} itemsets"
            )
        truth = self.true_support if truth is None else truth
        order = self.order("support")
        return plots.supports(
            [", ".join(self.items[place]) for place in order],
            self.support[order],
            self.stderr[order],
            truth=None if truth is None else np.asarray(truth)[order],
            top=top,
            min_support=self.min_support,
            axes=axes,
        )

    def to_csv(self, *, by: str | None = None) -> str:
        """Text with one itemset a line, items written {a,b} as the R package arules does, in the
        order of `order(by)` where one is asked for.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        heads = ["itemsets", "length", "support", "stderr", "probability", "status", *self._told()]
        writer.writerow(heads)
        lines = list(zip(self, self._truths(), strict=True))
        for row, true in (lines[place] for place in self._places(by)):
            braced = "{" + ",".join(row.items) + "}"
            writer.writerow([braced, len(row.items), *row[1:], *true.values()])
        return text.getvalue()

    def to_dicts(self, *, by: str | None = None) -> list[dict[str, Any]]:
        """The itemsets in the shape of `sfumato mine --json`, in the order of `order(by)` where one
        is asked for.
        """
        listed = [
            {"items": list(row.items), "length": len(row.items), **_facts(row), **true}
            | ({} if supposed is None else {"assumes": supposed})
            for row, true, supposed in zip(self, self._truths(), self.assumes, strict=True)
        ]
        return [listed[place] for place in self._places(by)]

    def _truths(self) -> list[dict[str, float]]:
        """What is known to be true of each itemset, by its name."""
        if self.true_support is None:
            return [{} for _ in range(len(self))]
        return [{"true_support": each} for each in self.true_support.tolist()]

    def to_json(self, *, by: str | None = None) -> str:
        """The result as one JSON object, in the order of `order(by)` where one is asked for."""
        return json.dumps(
            {"rows": self.rows, "min_support": self.min_support, "itemsets": self.to_dicts(by=by)}
        )

    def _places(self, by: str | None) -> list[int]:
        """The numbers of the itemsets in an order, or as they were found."""
        return list(range(len(self))) if by is None else self.order(by).tolist()

    def _itemsets(self) -> list[NDArray[np.int32]]:
        return [tier.itemsets[rows] for tier, rows in zip(self.tiers, self.chosen, strict=True)]

    def _column(self, name: str) -> Floats:
        parts = [
            getattr(tier.measured, name)[rows]
            for tier, rows in zip(self.tiers, self.chosen, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _largest_superset(self) -> Floats:
        """The largest count among the reported supersets of each reported itemset; -inf where there
        is none.
        """
        above = [np.full(len(tier.itemsets), -np.inf) for tier in self.tiers]
        for position in reversed(range(1, len(self.tiers))):
            tier, rows = self.tiers[position], self.chosen[position]
            reach = above[position].copy()
            reach[rows] = np.maximum(reach[rows], tier.measured.count[rows])
            np.maximum.at(above[position - 1], tier.subsets, reach[:, None])
        parts = [counts[rows] for counts, rows in zip(above, self.chosen, strict=True)]
        return np.concatenate(parts) if parts else np.zeros(0)


def _facts(row: Itemset) -> dict[str, Any]:
    return {
        "support": row.support,
        "stderr": row.stderr,
        "probability": row.probability,
        "status": row.status,
    }


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ParameterError(message)


def _normal_quantile(share: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(share))
