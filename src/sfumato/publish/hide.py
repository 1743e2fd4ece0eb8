"""Release baskets from which chosen patterns can no longer be mined, and say what that cost the
others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.arguments import checked, shown
from sfumato.bits import Bits
from sfumato.domain import as_bits
from sfumato.errors import DataError, ParameterError, SfumatoError
from sfumato.estimation.supports.flipped import FlippedSupports
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.printable import percent
from sfumato.privacy.probability import check_number, check_seconds
from sfumato.progress import Progress, silent
from sfumato.publish.cover import cover
from sfumato.publish.limits import MOST_REPAIRS
from sfumato.publish.owned import baskets_of
from sfumato.publish.restriction import (
    RULES_OF_REMOVAL,
    Entries,
    Limits,
    Restriction,
    Sensitive,
    number_to_sanitise,
    patterns_of,
    remove,
)
from sfumato.publish.verdict import Guesses, Judged, aim
from sfumato.randomness import Keystream, drawing
from sfumato.renderers.frames import json_value
from sfumato.renderers.picture import bars
from sfumato.result import Record
from sfumato.table import Table, save
from sfumato.view import ColumnView, TableView, View, attribute_columns

HIDING_METHODS = ("cover", *RULES_OF_REMOVAL)
_PATTERN = {  # of a hidden pattern, as columns
    **{"pattern": "string", "count_before": "int64", "count_after": "int64"},
    **{"found_before": "bool", "found_after": "bool"},
    **{"confidence_before": "double", "confidence_after": "double"},
}

Counted = dict[tuple[int, ...], int]  # itemsets with their counts


@dataclass(frozen=True)
class Hidden:
    """One restriction before and after.

    `company` counts the other itemsets of two items or more that a miner finds who lowers the
    threshold until this one shows; None where it is hidden far below.
    """

    pattern: str
    count_before: int
    count_after: int
    found_before: bool
    found_after: bool
    confidence_before: float | None = None
    confidence_after: float | None = None
    reverse_before: float | None = None
    reverse_after: float | None = None
    company: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; the confidences only of a rule."""
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True, repr=False)
class HideReport(Record):
    """What hiding reached and what it cost (measures of Oliveira and Zaïane 2002).

    `hiding_failure` |RP(D′)|/|RP(D)|, `misses_cost` |~RP(D) ∖ ~RP(D′)|/|~RP(D)|, `artifactual` |P′
    ∖ P|/|P′| (none: nothing is put in), `dissimilarity` the share of item occurrences taken out. A
    frequent itemset that contains a secret one cannot stay and is no miss. `seconds` is wall time,
    mining before and after included; `hiding_seconds` is the part that chose what to take out.
    """

    method: str
    disclosure: float | None
    margin: int
    rows: int
    min_count: int
    hiding_failure: float
    misses_cost: float
    artifactual: float
    dissimilarity: float
    changed_transactions: int
    removed: int
    frequent_before: int
    frequent_after: int
    lawful: int
    patterns: tuple[Hidden, ...]
    lost: tuple[tuple[str, ...], ...]
    seconds: float
    hiding_seconds: float
    notes: tuple[str, ...] = ()

    def view(self) -> View:
        """The patterns before and after, and what hiding them cost; the lost itemsets as a
        detail.
        """
        lost = TableView.of(("lost itemsets",), [(" ".join(items),) for items in self.lost])
        cost = View(
            "What it cost",
            facts=[
                ("method", self.method),
                ("hiding failure", percent(self.hiding_failure)),
                (
                    "misses cost",
                    f"{percent(self.misses_cost, 2)} of {self.lawful:,} lawful itemsets",
                ),
                ("artifactual", percent(self.artifactual, 2)),
                ("dissimilarity", percent(self.dissimilarity, 3)),
                ("entries removed", self.removed),
                ("baskets changed", f"{self.changed_transactions:,} of {self.rows:,}"),
                (
                    "frequent itemsets",
                    f"{self.frequent_before:,} before, {self.frequent_after:,} after",
                ),
                ("time", f"{self.seconds:.2f} s ({self.hiding_seconds:.2f} s for the choice)"),
            ],
            sections=(View(tables=(lost,), detail=True),),
        )
        words = (
            f"{self.changed_transactions:,} of {self.rows:,} baskets changed.",
            f"A pattern is found from {self.min_count:,} baskets on. Company counts the other "
            "itemsets that show when the threshold is lowered to a hidden one.",
        )
        return View("Hidden patterns", words, notes=self.notes, sections=(self._risk(), cost))

    def _risk(self) -> View:
        """How many baskets hold each pattern, its confidence either way, whether it is found."""
        seen = {"pattern": "pattern", "count_before": "count", "count_after": "after"}
        columns = attribute_columns(self.patterns, _PATTERN, seen)
        names, before, after = (column.values for column in columns[:3])
        ends = [*zip(after, before, strict=True)]
        columns[2] = replace(columns[2], counts=True, ends=ends)
        beside: dict[str, list[Any]] = {
            "confidence": [_change(o.confidence_before, o.confidence_after) for o in self.patterns],
            "reverse": [_change(o.reverse_before, o.reverse_after) for o in self.patterns],
            "company": [one.company for one in self.patterns],
            "now": ["found" if one.found_after else "hidden" for one in self.patterns],
        }
        columns += [ColumnView(head, values) for head, values in beside.items()]
        caption = "Baskets with each pattern, before and after"
        chart = bars("baskets with the pattern", names, before, after, caption=caption)
        return View("Risk before and after", charts=(chart,), tables=(TableView(columns),))


def _change(before: float | None, after: float | None) -> str | None:
    return None if before is None else f"{before:.3f} → {after or 0:.3f}"


@dataclass(frozen=True, eq=False, repr=False)
class HideRelease(Judged):
    """The baskets to hand out, and the report; `removed` says from whom and is for the owner
    alone.
    """

    table: Table
    report: HideReport
    removed: Entries = field(repr=False)

    @property
    def bits(self) -> Bits:
        """The baskets to hand out, as bits."""
        return as_bits(self.table.columns[0])

    def to_arrow(self) -> Any:
        """The baskets to hand out, one a row; what was done is in `to_dict` and `report`."""
        return self.table.to_arrow()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of the report."""
        return self.report.to_dict() | {"verdict": json_value(self.verdict)}

    def view(self) -> View:
        """That of the report."""
        return replace(self.report.view(), verdict=self.verdict.lead)

    @property
    def remains(self) -> tuple[str, ...]:
        """What can still be learned, in sentences."""
        found = sum(one.found_after for one in self.report.patterns)
        return (
            *self.report.notes,
            f"{found} of {len(self.report.patterns)} patterns are still found.",
            "Below the threshold each is still held by the baskets counted above; one who knows "
            "what someone bought can see that an item is missing.",
        )

    @checked
    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the baskets to hand out: .dat, .csv or .parquet, by the name."""
        save(self.table, path, force=force)

    def revealed(self) -> dict[str, list[list[Any]]]:
        """Which items left which baskets (numbered from 1): for the owner alone."""
        names, pairs = self.table.domain.attributes[0].labels, self.removed
        left = zip(pairs.rows, pairs.items, strict=True)
        return {"removed": [[int(row) + 1, names[item]] for row, item in left]}


@checked
def hide(
    baskets: Any,
    patterns: Any,
    *,
    min_support: float | None = None,
    min_count: int | None = None,
    min_confidence: float | None = None,
    items: str | Path | None = None,
    method: str = "cover",
    disclosure: float | None = None,
    margin: int | float = 0,
    seconds: float = 5.0,
    max_gain: float | None = None,
    rng: Keystream | None = None,
    progress: Progress = silent,
) -> HideRelease:
    """A copy of the baskets in which the patterns are not found at `min_support` (or `min_count`;
    and `min_confidence` for rules).

    `baskets` is a file, a table, a data frame with a column of lists, or plain lists; `patterns` a
    file or a list, "39 48" an itemset, "39 -> 48" a rule. `naive`, `minfia`, `maxfia` and `iga`
    sanitise a share 1 − ψ of each restriction's baskets, ψ = `disclosure` (0 unless given); they
    hide for certain only if ψ is small enough. `cover` starts from what these would remove and
    takes no more than hiding needs, from where it hurts least; given ψ, it also leaves at most that
    share of the sensitive baskets alone. A `margin` (baskets, or a share of the threshold below 1)
    hides each pattern at least that far below the threshold, and a random part of as much again.
    The verdict says whether more than `max_gain` per cent of the patterns (10 unless stated) are
    still found.

    >>> release = hide([["tea", "milk"]] * 4 + [["tea"]] * 2 + [["milk"]] * 2, ["tea milk"],
    ...     min_count=3)
    >>> release.report.patterns[0].count_after, release.report.misses_cost
    (2, 0.0)
    """
    started = time.perf_counter()
    check_seconds(seconds)
    wanted = aim(max_gain)
    table = baskets_of(baskets, items)
    bits, names = as_bits(table.columns[0]), table.domain.attributes[0].labels
    restrictions = patterns_of(patterns, names)
    limits = Limits.stated(bits.rows, min_support, min_count, min_confidence)
    deep = margin_baskets(margin, limits.min_count)
    hiding = _Hiding(
        bits, names, restrictions, limits, method, disclosure, deep, seconds, drawing(rng), progress
    )
    progress("mining the true baskets", None)
    before = frequent_counts(bits, names, limits.min_count)
    lawful = hiding.lawful(before)
    chosen = time.perf_counter()
    progress(f"hiding {len(hiding.active)} patterns by {method}", 0.0)
    removed = hiding.removed(lawful)
    released = remove(bits, removed)
    hiding_seconds = time.perf_counter() - chosen
    report = hiding.report(before, lawful, removed, released)
    seconds = time.perf_counter() - started
    report = replace(report, seconds=seconds, hiding_seconds=hiding_seconds)
    secret = Guesses(f"the {len(hiding.active):,} secret patterns", 0.0, report.hiding_failure)
    guesses = (secret,) if hiding.active else ()
    given = Table(table.domain, (released,))
    return HideRelease(given, report, removed, guesses=guesses, max_gain=wanted)


@dataclass(frozen=True, eq=False)
class _Hiding:
    """True baskets, what must not be found in them, and how it is hidden."""

    bits: Bits
    names: Sequence[str]
    restrictions: Sequence[Restriction]
    limits: Limits
    method: str
    disclosure: float | None
    margin: int
    seconds: float
    rng: Keystream
    progress: Progress

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in HIDING_METHODS:
            raise ParameterError(
                f"no hiding method {shown(self.method)}",
                hint=f"use one of {', '.join(HIDING_METHODS)}",
            )
        if self.disclosure is not None:
            check_number("disclosure", self.disclosure)
            if not 0 <= self.disclosure <= 1:
                raise ParameterError(
                    f"disclosure={self.disclosure:g} lies outside [0, 1]; it is the share ψ left "
                    "alone"
                )
        if self.margin and self.method != "cover":
            raise ParameterError(
                f"a margin is for the method cover; {self.method} goes by the disclosure",
                hint="leave the margin out, or use cover",
            )
        if self.limits.min_confidence is None and any(r.consequent for r in self.restrictions):
            raise ParameterError(
                "to hide a rule, say from which confidence on it holds", hint="give min_confidence"
            )
        never = [r.named(self.names) for r in self.restrictions if not len(r.holders(self.bits))]
        if never:
            raise DataError(
                f"{len(never)} pattern(s) never occur in these baskets: {'; '.join(never)}",
                hint="remove them from the file",
            )

    @cached_property
    def active(self) -> list[Restriction]:
        """What a miner would find."""
        return [each for each in self.restrictions if each.holds(self.bits, self.limits)]

    def lawful(self, frequent: Counted) -> Counted:
        """The frequent itemsets that contain no secret itemset."""
        secret = [set(each.items) for each in self.active if not each.consequent]
        return {
            items: count
            for items, count in frequent.items()
            if not any(part <= set(items) for part in secret)
        }

    def removed(self, lawful: Counted) -> Entries:
        """What is taken out of which baskets."""
        if not self.active:
            return Entries.joined([])
        if self.method == "cover":
            return self._covered(list(lawful))
        sensitive = Sensitive.find(self.bits, self.active, self.rng)
        share = self.disclosure or 0.0
        numbers = [number_to_sanitise(len(rows), share) for rows in sensitive.holders]
        return RULES_OF_REMOVAL[self.method](self.bits, sensitive, numbers)

    def _covered(self, lawful: Sequence[tuple[int, ...]]) -> Entries:
        """The search for few losses, repeated where hiding one restriction took antecedents away
        from a rule and so raised its confidence again.
        """
        active, limits, released = self.active, self.limits, self.bits
        sensitive = Sensitive.find(released, active, self.rng)
        share = 1.0 if self.disclosure is None else self.disclosure
        caps = [math.floor(share * len(each.holders(released)) + 1e-9) for each in active]
        depth = self.margin + self.rng.below(self.margin + 1, len(active)).astype(int)
        parts: list[Entries] = []
        for _ in range(MOST_REPAIRS):
            left = [
                max(0, min(each.most_left(released, limits) - below, cap))
                for each, below, cap in zip(active, depth.tolist(), caps, strict=True)
            ]
            held = [len(holders) for holders in sensitive.holders]
            if all(have <= most for have, most in zip(held, left, strict=True)):
                break
            # What each of the simple rules would remove so that no more is left of a restriction.
            numbers = [max(0, have - most) for have, most in zip(held, left, strict=True)]
            counted = [(each, _count(released, each)) for each in lawful]
            found = cover(
                released,
                active,
                left,
                [one for one in counted if one[1] >= limits.min_count],
                limits.min_count,
                self.rng,
                starts=[rule(released, sensitive, numbers) for rule in RULES_OF_REMOVAL.values()],
                seconds=self.seconds,
                progress=self.progress,
            )
            parts.append(found)
            released = remove(released, found)
            sensitive = Sensitive.find(released, active, self.rng)
        return Entries.joined(parts)

    def report(
        self, before: Counted, lawful: Counted, removed: Entries, released: Bits
    ) -> HideReport:
        """What hiding reached and what it cost, the seconds still open."""
        self.progress("mining the released baskets", None)
        after = frequent_counts(released, self.names, self.limits.min_count)
        outcomes = self.outcomes(released)
        lost = [items for items in lawful if items not in after]
        secrets = [outcome for outcome in outcomes if outcome.found_before]
        return HideReport(
            method=self.method,
            disclosure=self.disclosure,
            margin=self.margin,
            rows=self.bits.rows,
            min_count=self.limits.min_count,
            hiding_failure=sum(each.found_after for each in secrets) / max(1, len(secrets)),
            misses_cost=len(lost) / max(1, len(lawful)),
            artifactual=sum(items not in before for items in after) / max(1, len(after)),
            dissimilarity=len(removed) / max(1, int(self.bits.counts().sum())),
            changed_transactions=len(np.unique(removed.rows)),
            removed=len(removed),
            frequent_before=len(before),
            frequent_after=len(after),
            lawful=len(lawful),
            patterns=outcomes,
            lost=tuple(tuple(self.names[item] for item in items) for items in lost),
            seconds=0.0,
            hiding_seconds=0.0,
            notes=self.notes(outcomes),
        )

    def outcomes(self, released: Bits) -> tuple[Hidden, ...]:
        """Each restriction before and after, those hidden within a tenth below the threshold with
        the number of itemsets that stand beside them there.
        """
        true, limits = self.bits, self.limits
        found = [
            Hidden(
                each.named(self.names),
                len(each.holders(true)),
                len(each.holders(released)),
                each.holds(true, limits),
                each.holds(released, limits),
                each.confidence(true),
                each.confidence(released),
                each.reverse_confidence(true),
                each.reverse_confidence(released),
            )
            for each in self.restrictions
        ]
        near = {
            place: outcome.count_after
            for place, outcome in enumerate(found)
            if 0.9 * limits.min_count <= outcome.count_after < limits.min_count
            and not self.restrictions[place].consequent
            and outcome.found_before
        }
        if not near:
            return tuple(found)
        longest = max(len(self.restrictions[place].items) for place in near)
        self.progress("mining a little below the threshold", None)
        try:
            lower = frequent_counts(released, self.names, min(near.values()), longest)
        except SfumatoError:  # too many itemsets to be listed: nothing stands alone among them
            return tuple(found)
        secret = {each.items for each in self.restrictions}
        others = [lower[items] for items in lower if len(items) > 1 and items not in secret]
        beside = np.array([count for count in others if count < limits.min_count])
        for place, count in near.items():
            found[place] = replace(found[place], company=int((beside >= count).sum()))
        return tuple(found)

    def notes(self, outcomes: Sequence[Hidden]) -> tuple[str, ...]:
        """What must not be overlooked of the patterns."""
        least, limits = self.limits.min_confidence or 0.0, self.limits
        absent = [
            f"'{each.pattern}' is not found even in the true baskets"
            for each in outcomes
            if not each.found_before
        ]
        alone = [
            f"'{each.pattern}' stands alone just below the threshold ({each.count_after:,} of "
            f"{limits.min_count:,}): mining a little lower shows it; a margin hides it deeper"
            for each in outcomes
            if each.company == 0
        ]
        lost = [
            f"'{each.pattern}' read backwards, which is no secret, falls below the confidence of "
            f"{least:g} too"
            for each in outcomes
            if (each.reverse_after or 0.0) < least <= (each.reverse_before or 0.0)
        ]
        return (*absent, *alone, *lost)


def hide_disclosures(
    baskets: Any,
    patterns: Any,
    disclosures: Sequence[float],
    *,
    methods: Sequence[str] = HIDING_METHODS,
    progress: Progress = silent,
    **how: Any,
) -> dict[str, tuple[HideReport, ...]]:
    """The reports of several methods at each disclosure threshold ψ."""
    table = baskets_of(baskets)
    tried: dict[str, tuple[HideReport, ...]] = {}
    for place, method in enumerate(methods):
        progress(f"trying {method} with other ψ", place / len(methods))
        tried[method] = tuple(
            hide(table, patterns, method=method, disclosure=psi, **how).report
            for psi in disclosures
        )
    return tried


def margin_baskets(margin: int | float, min_count: int) -> int:
    """A margin in baskets: a number of them, or a share of the threshold rounded up."""
    if (
        isinstance(margin, bool)
        or not isinstance(margin, int | float)
        or not 0 <= margin < math.inf
    ):
        raise ParameterError(
            f"margin={shown(margin)} is no margin",
            hint="use a number of baskets, or a share below 1",
        )
    found = math.ceil(margin * min_count) if 0 < margin < 1 else math.ceil(margin)
    if found >= min_count:
        raise ParameterError(
            f"a margin of {found} baskets leaves nothing of the threshold of {min_count}",
            hint="use a smaller one",
        )
    return found


def _count(bits: Bits, items: Sequence[int]) -> int:
    return int(np.bitwise_count(np.bitwise_and.reduce(bits.words[list(items)], axis=0)).sum())


def frequent_counts(
    bits: Bits, names: Sequence[str], min_count: int, longest: int | None = None
) -> Counted:
    """Every frequent itemset and its count."""
    if bits.rows < min_count:
        return {}
    supports = FlippedSupports(bits, tuple(names))
    found = frequent_itemsets(supports, min_count=min_count, max_length=longest)
    items = found.kept.items(found.chosen, range(len(names)))
    return dict(zip(items, np.rint(found.count).astype(int).tolist(), strict=True))
