"""Comparison: do groups differ, by how much, and would a difference have been seen?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chndtr, ndtr

from sfumato.arguments import checked
from sfumato.errors import EstimationError, ParameterError, listing
from sfumato.estimation.answer import ANYTHING, Answer, reach
from sfumato.estimation.ratio import Parts, fieller
from sfumato.mine import limits
from sfumato.mine.crosstab import RECORDS, Crosstab, is_number
from sfumato.mine.regression import (
    FAMILIES,
    LINEAR,
    NORMAL,
    chance,
    event_of,
    p_words,
    solve,
    two_sided,
    wald,
)
from sfumato.one_thread import one_thread
from sfumato.privacy.probability import check_number, check_strictly_between
from sfumato.progress import Progress, silent
from sfumato.renderers.frames import json_value
from sfumato.result import Result
from sfumato.source import Source
from sfumato.view import DRAWN, Chart, ColumnView, Panel, Series, TableView, View, shown

Floats = NDArray[Any]
SEEN = 0.8  # of campaigns: the power that studies are planned for
Ends = tuple[float, float] | None  # an interval, or None where nothing bounds it


@dataclass(frozen=True)
class Independence:
    """Wald's test that two columns are independent, and Cramér's V with its interval."""

    chi2: float
    df: int
    p: float
    v: float
    ends: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        v = {"value": self.v, "low": self.ends[0], "high": self.ends[1]}
        plain: dict[str, Any] = json_value({"chi2": self.chi2, "df": self.df, "p": self.p, "v": v})
        return plain


@dataclass(frozen=True)
class Difference:
    """How far a share or a mean of two groups lies apart, and of shares their ratio and odds ratio,
    each with its interval; None where the reports do not bound it.
    """

    groups: tuple[str, str]  # the first less the second
    of: str  # the value whose shares these are, or the number whose means
    found: Answer
    p: float
    p_adjusted: float
    ratio: float | None = None
    ratio_ends: Ends = None
    odds_ratio: float | None = None
    odds_ends: Ends = None

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The JSON form."""
        said: dict[str, Any] = {"groups": [*self.groups], "of": self.of}
        said |= self.found.to_dict(level) | {"p": self.p, "p_adjusted": self.p_adjusted}
        for name, value, ends in (
            ("ratio", self.ratio, self.ratio_ends),
            ("odds_ratio", self.odds_ratio, self.odds_ends),
        ):
            three = (None,) * 3 if value is None or ends is None else (value, *ends)
            names = (name, f"{name}_low", f"{name}_high")
            said |= zip(names, json_value(three), strict=True)
        return said


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Groups of people side by side: shares or means, whether they depend on the group, and what
    lies between every two groups, with Holm's correction for looking at all of them.
    """

    by: str
    of: str
    groups: tuple[str, ...]
    values: tuple[str, ...]  # whose shares are compared, or the one number whose means
    people: tuple[Answer, ...]  # of each group
    found: tuple[tuple[Answer, ...], ...]  # of each group: each value's share, or the mean
    means: bool
    independence: Independence | None
    trends: tuple[tuple[str, Answer, float], ...]  # the value, the slope by the group, its p
    differences: tuple[Difference, ...]
    table: Crosstab
    level: float = 0.95
    power: float | None = None  # of a difference so large
    left_out: str = ""  # what is too rare to be told from nobody

    @property
    def rows(self) -> int:
        """How many people there are."""
        return self.table.rows

    @property
    def origin(self) -> str:
        """What it was computed from: true records, reports or a model."""
        return self.table.origin

    @cached_property
    def seen(self) -> list[tuple[float, float]]:
        """Of each difference: in how many campaigns like this one of the wanted size would have
        been seen at 5 %, and the size that four in five would see: Φ(|Δ|/se − z).
        """
        z, most = reach(0.95), NormalDist().inv_cdf(SEEN)
        wanted = math.nan if self.power is None else abs(self.power)
        errors = [max(each.found.stderr, 1e-300) for each in self.differences]
        return [(float(ndtr(wanted / error - z)), (z + most) * error) for error in errors]

    def notes(self) -> list[str]:
        """What must not be overlooked."""
        said = [*self.table.notes, *self.table.binned((self.by, self.of))]
        if self.left_out:
            said.append(f"left out, too rare to be told from nobody: {self.left_out}")
        if self.power is not None:
            pairs = zip(self.differences, self.seen, strict=True)
            some = sorted(pairs, key=lambda pair: pair[1][0])
            ends = some if len(some) < 2 else (some[0], some[-1])
            said += [self._seen_in_words(*each) for each in ends]
        return said

    def _seen_in_words(self, between: Difference, seen: tuple[float, float]) -> str:
        first, second = between.groups
        of = "" if self.means or len(self.values) == 1 else f" of {between.of}"
        return (
            f"a difference of {self._size(self.power or 0.0)}{of} between {first} and {second} "
            f"would have been seen in {100 * seen[0]:.0f} % of campaigns like this; {100 * SEEN:g} "
            f"% of them would see one of {self._size(seen[1])}"
        )

    def _size(self, difference: float) -> str:
        return f"{difference:.3g}" if self.means else f"{100 * difference:.3g} points"

    def to_dict(self) -> dict[str, Any]:
        """The JSON shape of `sfumato compare`."""
        what, level = "mean" if self.means else "share", self.level
        lines = [
            {"group": group, "people": people.to_dict(level), "of": value, what: one.to_dict(level)}
            for group, people, each in zip(self.groups, self.people, self.found, strict=True)
            for value, one in zip(self.values, each, strict=True)
        ]
        trends = [{"of": value, **slope.to_dict(level), "p": p} for value, slope, p in self.trends]
        power = None
        if self.power is not None:
            power = [
                {"groups": [*each.groups], "of": each.of, "power": seen, "seen_at_80": size}
                for each, (seen, size) in zip(self.differences, self.seen, strict=True)
            ]
        return {
            "by": self.by,
            "of": self.of,
            "from": self.origin,
            "rows": self.rows,
            "level": level,
            "sampling": self.table.samples,
            "groups": lines,
            "independence": json_value(self.independence),
            "trend": trends,
            "differences": [each.to_dict(level) for each in self.differences],
            "difference": self.power,
            "power": power,
            "assumes": self.table.assumes,
            "notes": self.notes(),
        }

    def view(self) -> View:
        """The test, a line for each group and one for every two groups, and a picture."""
        facts: list[tuple[str, Any]] = [("people", self.rows), ("computed from", self.origin)]
        if self.independence is not None:
            test, (low, high) = self.independence, self.independence.ends
            facts += [
                ("independence", f"χ² = {test.chi2:.4g}, df = {test.df}, p {_p(test.p)}"),
                ("Cramér's V", f"{test.v:.3f} [{low:.3f}, {high:.3f}]"),
            ]
        for value, slope, p in self.trends:
            of = "" if len(self.values) == 1 else f" of {value}"
            facts.append((f"trend{of}", f"{shown(slope)} per unit of {self.by}, p {_p(p)}"))
        return View(
            f"{self.of} by {self.by}",
            facts=facts,
            charts=(self._chart(),),
            tables=(self._differences(), self._shares()),
            notes=self.notes(),
        )

    def _lines(self) -> Iterator[tuple[str, str, Answer]]:
        for group, each in zip(self.groups, self.found, strict=True):
            yield from ((group, v, one) for v, one in zip(self.values, each, strict=True))

    def _shares(self) -> TableView:
        lines = [*self._lines()]
        what = f"mean of {self.of}" if self.means else "share"
        column = _estimates(what, [one for _, _, one in lines], self.level)
        columns = [ColumnView(self.by, [group for group, _, _ in lines])]
        if not self.means:
            columns.append(ColumnView(self.of, [value for _, value, _ in lines]))
        return TableView([*columns, column], "Groups")

    def _differences(self) -> TableView:
        every, alone = self.differences, len(self.differences) == 1

        def column(field: str, head: str = "", **how: Any) -> ColumnView:
            return ColumnView(head, [getattr(each, field) for each in every], field=field, **how)

        columns = [
            ColumnView(self.by, [" – ".join(each.groups) for each in every]),
            ColumnView("", [each.groups[0] for each in every], field="group", kind="string"),
            ColumnView("", [each.groups[1] for each in every], field="other", kind="string"),
            column("of", "" if len(self.values) == 1 else self.of, kind="string"),
            _estimates(
                "difference",
                [each.found for each in every],
                self.level,
                ("value", "stderr", "low", "high"),
                beside=self.means,
            ),
            column("p", "p" if alone else "", words=p_words),
            column("p_adjusted", "" if alone else "p (Holm)", words=p_words),
        ]
        if not self.means:
            odds = [_within(each.odds_ratio, each.odds_ends) for each in every]
            columns += [
                ColumnView("ratio", [_within(each.ratio, each.ratio_ends) for each in every]),
                ColumnView("odds ratio", odds),
                column("ratio", kind="double"),
                column("odds_ratio", kind="double"),
            ]
        return TableView(columns, "Differences")

    def _chart(self) -> Chart:
        if len(self.values) == 1:
            named = [(group, one) for group, _, one in self._lines()]
            what = f"mean of {self.of}" if self.means else f"share of {self.of}={self.values[0]}"
        else:
            what = "difference of shares"
            named = [(f"{d.of}: {' – '.join(d.groups)}", d.found) for d in self.differences]
        named = named[:DRAWN]
        answers = [one for _, one in named]
        value, stderr = [one.value for one in answers], [one.stderr for one in answers]
        panel = Panel(
            "points",
            [name for name, _ in named],
            [Series("", value, stderr)],
            quantity=what,
            sideways=True,
            percent=not self.means,
            mark=None if len(self.values) == 1 else (0.0, "no difference"),
            from_zero=not self.means,
        )
        return Chart(panel, f"{self.of} by {self.by}")


def _estimates(
    head: str,
    answers: Sequence[Answer],
    level: float,
    field: tuple[str, ...] = (),
    beside: bool = True,
) -> ColumnView:
    """Answers with their errors, and in words their intervals beside them if these are wanted."""
    value, stderr = [one.value for one in answers], [one.stderr for one in answers]
    ends = [one.interval(level) for one in answers]
    return ColumnView(head, value, stderr, level=level if beside else None, ends=ends, field=field)


def _within(value: float | None, ends: Ends) -> str:
    if value is None or ends is None:
        return "–"
    high = f"{ends[1]:.3g}" if math.isfinite(ends[1]) else "∞"
    return f"{value:#.3g} [{ends[0]:.3g}, {high}]"


def _p(p: float) -> str:
    return p_words(p) if p < 1e-3 else f"= {p_words(p)}"


def _quotient(parts: Parts, level: float) -> tuple[float | None, Ends]:
    """A ratio of what is 0 at least, and Fieller's interval; None where it is not bounded. Where
    noise took a share below 0, the ratio is the end of its interval.
    """
    low, high = map(float, fieller(parts, reach(level), (0.0, math.inf)))
    if math.isnan(low):
        return None, None
    return float(min(max(parts.top / parts.bottom, low), high)), (low, high)


def holm(chances: Sequence[float]) -> list[float]:
    """Adjusted so that looking at all of them finds something by chance no more often than one
    would (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, adjusted, least = np.argsort(chances, kind="stable"), [0.0] * len(chances), 0.0
    for place, at in enumerate(order):
        least = max(least, min(1.0, (len(chances) - place) * chances[at]))
        adjusted[at] = least
    return adjusted


def departures(counts: Floats) -> tuple[Floats, Floats, Floats]:
    """δ = p_ij − p_i·p_j of a table, how it moves with the counts, and the same of δ/√(p_i·p_j)."""
    groups, values = counts.shape
    size, n = counts.size, counts.sum()
    p = counts / n
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    own = (np.eye(size) - p.reshape(-1, 1)) / n
    of_rows = (np.kron(np.eye(groups), np.ones((1, values))) - rows[:, None]) / n
    of_columns = (np.kron(np.ones((1, groups)), np.eye(values)) - columns[:, None]) / n
    i, j = (place.ravel() for place in np.indices(counts.shape))
    delta = (p - np.outer(rows, columns)).ravel()
    slope = own - rows[i, None] * of_columns[j] - columns[j, None] * of_rows[i]
    unit = np.sqrt(np.outer(rows, columns)).ravel()
    about = of_rows[i] / rows[i, None] + of_columns[j] / columns[j, None]
    scaled = slope / unit[:, None] - (delta / unit / 2)[:, None] * about
    return delta, slope, scaled


def independence_of(
    counts: Floats, covariance: Floats, under_null: Floats, level: float
) -> Independence | None:
    """Wald's χ² of the departures, with what their covariance is under independence, and Cramér's
    V; on true records that is Pearson's χ². None where nothing has an error.
    """
    delta, slope, scaled = departures(counts)
    groups, values = counts.shape
    free = np.arange(counts.size).reshape(groups, values)[:-1, :-1].ravel()
    spread = (slope @ under_null @ slope.T)[np.ix_(free, free)]
    if not np.diagonal(spread).any():
        return None
    chi2, df = wald(delta[free], spread)
    p = counts / counts.sum()
    unit = np.sqrt(np.outer(p.sum(axis=1), p.sum(axis=0))).ravel()
    along, most = delta / unit, min(groups, values) - 1
    value, ends = squared_length(along, scaled @ covariance @ scaled.T, level)
    found = [math.sqrt(min(max(each / most, 0.0), 1.0)) for each in (value, *ends)]
    return Independence(chi2, df, chance(chi2, df), found[0], (found[1], found[2]))


def squared_length(
    along: Floats, covariance: Floats, level: float
) -> tuple[float, tuple[float, float]]:
    """|δ|² of a vector known with this covariance, without what noise adds, and its interval.

    |δ + e|² is nearly c·χ²(T/c, |δ|²/c), noncentral, T the trace and c such that the variance 2·tr
    C² + 4·δ′Cδ is met (Patnaik 1949); the interval holds the lengths that would not surprise.
    """
    total, length = float(np.trace(covariance)), float(along @ along)
    squares = float((covariance**2).sum())
    if total <= 0:
        return length, (length, length)
    ahead = float(along @ covariance @ along) / length if length > 0 else squares / total

    def below(true: float) -> float:
        c = (2 * squares + 4 * true * ahead) / (2 * total + 4 * true)
        return float(chndtr(length / c, total / c, true / c))

    ends = []
    for wanted in ((1 + level) / 2, (1 - level) / 2):
        most = max(length, total)
        while below(most) > wanted:
            most *= 2
        ends.append(
            brentq(lambda t, w=wanted: below(t) - w, 0.0, most) if below(0.0) > wanted else 0.0
        )
    return max(length - total, 0.0), (ends[0], ends[1])


@checked
@one_thread()
def compare(
    source: Source,
    by: str,
    of: str,
    *,
    power: float | None = None,
    level: float = 0.95,
    rows_fixed: bool = False,
    tell: Progress = silent,
) -> Comparison:
    """The groups of one column compared by another: shares of its values, or its means where it is
    a number.
    """
    if by == of:
        raise ParameterError(f"'{by}' is compared with itself", hint="name two columns")
    check_strictly_between("level", level)
    if power is not None:
        check_number("power", power)
    for name in (by, of):
        source.domain.axis(name)  # a name that nothing has is refused here
    table = Crosstab.of(source, (by, of), rows_fixed, tell)
    groups, values = table.columns
    if power is not None and abs(power) >= 1 and not is_number(values):
        raise ParameterError(
            f"power={power:g} is no difference of shares, which lie between 0 and 1",
            hint="write three points as 3%, in Python as 0.03",
        )
    if groups.size * values.size > limits.CROSSED:
        raise ParameterError(
            f"'{by}' and '{of}' have {groups.size * values.size:,} cells together; at most "
            f"{limits.CROSSED:,} are compared",
            hint="give numbers fewer cuts = […] in the schema, or merge values",
        )
    return _Compared(table, level).result(power)


@dataclass(frozen=True, eq=False)
class _Compared:
    """What is computed of a crosstab of a group and a value."""

    table: Crosstab
    level: float

    @cached_property
    def _known(self) -> tuple[Floats, Floats]:
        """Which groups and values are more than noise: those that surely somebody has, also when
        only those are counted who have a group and a value that stay.
        """
        parts, codes = self.table.columns, self.table.codes
        found = [np.arange(part.size) for part in parts]
        before: list[int] = []
        while before != (sizes := [*map(len, found)]) and all(sizes):
            before = sizes
            among = [np.isin(codes[:, 1 - axis], found[1 - axis]) for axis in range(2)]
            found = [self._held(axis, found[axis], among[axis]) for axis in range(2)]
        if not all(map(len, found)):
            raise EstimationError(
                f"'{parts[0].name}' and '{parts[1].name}' cannot be compared: no group is larger "
                "than the noise of these reports",
                hint="use coarser cells, or ask more people",
            )
        for axis, part in enumerate(self.table.columns):
            if len(found[axis]) < 2:
                held = listing(part.labels[place] for place in found[axis])
                raise EstimationError(
                    f"'{part.name}' has one value only ({held}), as far as can be told, so there "
                    "is nothing to compare"
                )
        return found[0], found[1]

    def _held(self, axis: int, places: NDArray[Any], among: NDArray[np.bool_]) -> NDArray[Any]:
        """Which of these values have more people among those cells than noise explains."""
        weights = (np.equal.outer(self.table.codes[:, axis], places) & among[:, None]) * 1.0
        noise = np.sqrt(np.maximum(np.diagonal(self.table.covariance(weights, fixed=True)), 0))
        return places[weights.T @ self.table.value > np.maximum(NORMAL * noise, 0.5)]

    @cached_property
    def _cells(self) -> Floats:  # (cells, groups·values)
        """Which cells of the table make up each group's people with each value."""
        group, value = (
            np.equal.outer(self.table.codes[:, axis], kept) * 1.0
            for axis, kept in enumerate(self._known)
        )
        return (group[:, :, None] * value[:, None, :]).reshape(len(group), -1)

    @cached_property
    def _counts(self) -> Floats:  # (groups, values)
        shape = tuple(map(len, self._known))
        return (self._cells.T @ self.table.value).reshape(shape)

    @cached_property
    def _covariance(self) -> Floats:
        """With the variance of one person where a sample has nobody: a count of 0 has that of
        Poisson's mean under a flat prior, since the next sample may have somebody.
        """
        found = self.table.covariance(self._cells)
        if self.table.origin == RECORDS and self.table.samples:
            found = found + np.diag((self._counts.ravel() < 0.5) * 1.0)
        return found

    @property
    def _independence(self) -> Independence | None:
        counts, null = self._counts, self._covariance
        table, estimate = self.table, self.table.estimate
        if not table.rows_fixed and not (estimate is not None and estimate.evidence.samples):
            n = counts.sum()
            alone = np.outer(counts.sum(axis=1), counts.sum(axis=0)).ravel() / n
            drawn = np.diag(alone) - np.outer(alone, alone) / n
            null = table.covariance(self._cells, fixed=True) + drawn
        return independence_of(counts, self._covariance, null, self.level)

    @cached_property
    def _labels(self) -> list[tuple[str, ...]]:
        """The groups and the values that are compared."""
        pairs = zip(self.table.columns, self._known, strict=True)
        return [tuple(part.labels[place] for place in known) for part, known in pairs]

    def result(self, power: float | None) -> Comparison:
        """All of it."""
        (by, of), (groups, labels) = self.table.columns, self._labels
        gone = [
            f"{part.name}={label}"
            for part, kept in zip((by, of), self._labels, strict=True)
            for label in part.labels
            if label not in kept
        ]
        means = is_number(of)
        values, found, covariance = self._means() if means else self._shares(labels)
        stated = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        pairs = zip(found.ravel().tolist(), stated, strict=True)
        possible = ANYTHING if means else (0.0, 1.0)
        answers = [Answer(*each, possible=possible) for each in pairs]
        people = self._cells @ np.kron(np.eye(len(groups)), np.ones((len(labels), 1)))
        step = len(values)
        return Comparison(
            by.name,
            of.name,
            groups,
            tuple(values),
            tuple(self.table.answers(people)),
            tuple(tuple(answers[at : at + step]) for at in range(0, len(answers), step)),
            means,
            self._independence,
            tuple(self._trends(values)),
            self._differences(values, found, covariance, means),
            self.table,
            self.level,
            power,
            listing(gone),
        )

    def _differences(
        self, values: Sequence[str], found: Floats, covariance: Floats, means: bool
    ) -> tuple[Difference, ...]:
        """Every two groups, value by value."""
        groups, made = self._labels[0], []
        possible = ANYTHING if means else (-1.0, 1.0)
        for place, value in enumerate(values):
            for first, second in combinations(range(len(groups)), 2):
                pair = [each * len(values) + place for each in (first, second)]
                inner, (a, b) = covariance[np.ix_(pair, pair)], found.ravel()[pair]
                error = math.sqrt(max(inner[0, 0] + inner[1, 1] - 2 * inner[0, 1], 0.0))
                p, pair_of = two_sided(a - b, error), (groups[first], groups[second])
                apart = Answer(float(a - b), error, possible=possible)
                between = Difference(pair_of, value, apart, p, p)
                if not means:
                    odds, ends = self._odds(first, second, self._labels[1].index(value))
                    ratio, within = _quotient(Parts.of(a, b, inner), self.level)
                    between = replace(
                        between, ratio=ratio, ratio_ends=within, odds_ratio=odds, odds_ends=ends
                    )
                made.append(between)
        adjusted = holm([each.p for each in made])
        pairs = zip(made, adjusted, strict=True)
        return tuple(replace(each, p_adjusted=p) for each, p in pairs)

    def _shares(self, labels: Sequence[str]) -> tuple[Sequence[str], Floats, Floats]:
        """The share of each value in each group, of a yes/no the yes alone."""
        part, counts = self.table.columns[1], self._counts
        chosen = [event_of(part, None)] if part.size == 2 else [*labels]
        places = [labels.index(each) for each in chosen if each in labels]
        sizes = counts.sum(axis=1)
        shares = counts[:, places] / sizes[:, None]
        slope = np.zeros((*shares.shape, *counts.shape))
        for group, size in enumerate(sizes):
            slope[group, :, group, :] = -shares[group][:, None] / size
            for at, place in enumerate(places):
                slope[group, at, group, place] += 1 / size
        flat = slope.reshape(shares.size, counts.size)
        return [labels[place] for place in places], shares, flat @ self._covariance @ flat.T

    def _means(self) -> tuple[Sequence[str], Floats, Floats]:
        """The mean of the number in each group."""
        table, groups = self.table, self._known[0]
        inside = np.equal.outer(table.codes[:, 0], groups) * 1.0
        numbers = table.numbers[:, 1]
        sizes = inside.T @ table.value
        means = (inside * numbers[:, None]).T @ table.value / sizes
        weights = inside * (numbers[:, None] - means) / sizes
        return [table.columns[1].name], means[:, None], table.covariance(weights)

    def _odds(self, first: int, second: int, place: int) -> tuple[float | None, Ends]:
        """The odds ratio of two groups: that of two products of counts."""
        counts, sizes = self._counts, self._counts.sum(axis=1)
        yes, no = counts[[first, second], place], (sizes - counts[:, place])[[first, second]]
        top, bottom = yes[0] * no[1], no[0] * yes[1]
        width = counts.shape[1]
        slope = np.zeros((2, *counts.shape))
        other = np.ones(width)
        other[place] = 0
        slope[0, first, place], slope[0, second] = no[1], slope[0, second] + yes[0] * other
        slope[1, second, place], slope[1, first] = no[0], slope[1, first] + yes[1] * other
        flat = slope.reshape(2, -1)
        return _quotient(Parts.of(top, bottom, flat @ self._covariance @ flat.T), self.level)

    def _trends(self, values: Sequence[str]) -> Iterator[tuple[str, Answer, float]]:
        """How each share, or the mean, moves with the group where groups are numbers: the slope of
        a line (Cochran and Armitage's trend, by least squares).
        """
        table, (by, of) = self.table, self.table.columns
        if not is_number(by):
            return
        scores = table.numbers[:, 0]
        design = np.stack([np.ones_like(scores), scores], axis=1)
        for value in values:
            codes = table.codes[:, 1]
            y = table.numbers[:, 1] if is_number(of) else (codes == of.code(value)) * 1.0
            line = solve(design, y, table.value, table.rows, FAMILIES[LINEAR])
            if line is not None:
                error = math.sqrt(max(table.covariance(line.influence)[1, 1], 0.0))
                slope = Answer(float(line.beta[1]), error, table.samples)
                yield value, slope, two_sided(slope.value, error)
