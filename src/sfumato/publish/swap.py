"""Release true records with some confidential values exchanged, so that no one's keys give their
value away for certain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.domain import Codes
from sfumato.errors import ParameterError, PrivacyError, listing
from sfumato.printable import percent
from sfumato.privacy.probability import check_number
from sfumato.progress import Progress, silent
from sfumato.publish.cost import Cost, measure
from sfumato.publish.exchange import Assignment, Exchange, solve
from sfumato.publish.feasible import PosteriorCap, fitting_changes, refusal
from sfumato.publish.former import taking_microdata
from sfumato.publish.greedy import phase_one, phase_two
from sfumato.publish.identify import Risk, risk_of, risk_table, status_of
from sfumato.publish.intruder import Intruder, intruder_of, share
from sfumato.publish.owned import (
    Keyed,
    ReleasedRecords,
    attribute_of,
    columns_of,
    patterns,
)
from sfumato.publish.units import Units
from sfumato.publish.verdict import aim
from sfumato.randomness import Keystream, drawing
from sfumato.renderers.frames import json_fields, json_value
from sfumato.renderers.picture import bars
from sfumato.result import Result
from sfumato.table import Table
from sfumato.view import Chart, TableView, View, attribute_columns

MethodName = Literal["optimal", "greedy", "random"]
METHODS: tuple[MethodName, ...] = ("optimal", "greedy", "random")

_HEADS = {  # what people see of the figures of a report
    **{"confidential": "column", "method": "method", "changed": "changed"},
    **{"marginal_drift": "totals moved by", "optimal": "optimal", "objective": "objective"},
    "informed": "guessed of the unique",
}
_FIGURES = {  # of a report, as columns
    **dict.fromkeys(("confidential", "method"), "string"),
    **dict.fromkeys(("proportion", "max_posterior"), "double"),
    **dict.fromkeys(("records", "changed", "changed_unique", "changed_groups"), "int64"),
    **{"marginal_drift": "int64", "optimal": "bool"},
    **dict.fromkeys(("objective", "bound", "gap", "informed", "seconds"), "double"),
}


@dataclass(frozen=True, repr=False)
class SwapReport(Result):
    """What a swap did to one confidential column; it never says to whom.

    `single` holds what can be guessed of each column on its own where several were swapped as one.
    """

    confidential: str
    method: str
    proportion: float
    max_posterior: float
    records: int
    changed: int
    changed_unique: int
    changed_groups: int
    objective: float
    bound: float | None
    gap: float | None
    optimal: bool
    seconds: float
    cost: Cost
    single: tuple[Intruder, ...] = ()
    notes: tuple[str, ...] = ()

    apart = ("cost", "single")  # in JSON as `to_dict` has them

    @property
    def marginal_drift(self) -> int:
        """How many records the totals moved by, each counted once: Σ |N′ − N| / 2."""
        return self.cost.marginal_drift

    @property
    def informed(self) -> float | None:
        """How often an informed guess of a unique record is right."""
        return self.cost.intruder.informed

    @property
    def intruders(self) -> tuple[Intruder, ...]:
        """What can be guessed of the column, and of each of those that it was made of."""
        return (self.cost.intruder, *self.single)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        single = {one.confidential: json_value(one) for one in self.single}
        return {
            **json_fields(self),
            **self.cost.to_dict(),
            **({"single_columns": single} if single else {}),
        }

    def view(self) -> View:
        """The records at risk, what can still be guessed, and what it cost."""
        limit = percent(self.max_posterior, 0)
        words = (
            "An informed intruder knows the keys of a person, how the release was made, the "
            f"proportion and the totals. No guess was to be surer than {limit} from any shown "
            "value."
        )
        risks = {"before": self.cost.before, "after": self.cost.after}
        counted = View(tables=(risk_table(risks, self._counted()),), detail=True)
        return View(
            f"Risk before and after: {self.confidential}",
            (words,),
            charts=(self._chart(),),
            tables=(_overview([self]),),
            notes=self.notes,
            sections=(
                *(each.view(self.max_posterior) for each in self.intruders if any(each.guesses)),
                counted,
                self._costs(),
            ),
        )

    def _chart(self) -> Chart:
        cost = self.cost
        guessed = (self.informed or 0) * cost.intruder.unique
        return bars(
            "records at risk",
            ["unique", "collective", "guessed of the unique"],
            [cost.before.unique, cost.before.collective, cost.before.unique],
            [cost.after.unique, cost.after.collective, guessed],
            caption="Records at risk before and after",
        )

    def _counted(self) -> str:
        """What the counts are of, with a warning where records that count as not identifiable can
        be guessed all the same.
        """
        guessed = "; ".join(
            f"{one.confidential} is still guessed right for {share(one.groups_informed)} of the "
            f"{one.grouped:,} records of groups that shared one value"
            for one in self.intruders
            if one.grouped
        )
        warned = " — counted by what is shown, which is no protection by itself: " + guessed
        return "By the keys matched on" + (warned if guessed else "")

    def _costs(self) -> View:
        cost, bound = self.cost, ""
        if self.optimal:  # whole records need not reach the bound, which would contradict this
            bound = ", proved optimal"
        elif self.bound is not None:
            bound = f" (not proved optimal; lower bound {self.bound:.4f})"
        changed = f"{self.changed_unique:,} unique records, one in each of {self.changed_groups:,}"
        moved = f"{cost.mean_two_way:.4f} on average, {max(cost.two_way.values()):.4f} at most"
        facts = [
            ("changed", f"{changed} groups"),
            ("objective", f"{self.objective:.4f}{bound}"),
            ("totals moved by", f"{cost.marginal_drift:,} records"),
            (
                "I-divergence of the joint",
                f"{cost.i_divergence:.4f} nats (half a record added to each cell)",
            ),
            ("two-way tables changed by", moved),
            ("time", f"{self.seconds:.2f} s for the exchange"),
        ]
        totals = [(str(one.value), one.before, one.after) for one in cost.totals]
        tables = (
            TableView.of(("value", "before", "after"), totals, "Totals"),
            TableView.of(
                ("key", "change"),
                [*cost.two_way.items()],
                "Two-way table of each key, total variation distance",
            ),
        )
        detail = View(tables=tables, detail=True)
        return View(f"What it cost: {self.confidential}", facts=facts, sections=(detail,))


def _overview(reports: Sequence[SwapReport]) -> TableView:
    """A line for each report: what was asked, how many records changed, the objective, and how
    often an informed guess of a unique record is right; those of several swaps join well.
    """
    *columns, informed, seconds = attribute_columns(reports, _FIGURES, _HEADS)
    columns += [replace(informed, words=share), seconds]
    return TableView(columns)


@dataclass(frozen=True, eq=False, repr=False)
class SwapRelease(ReleasedRecords):
    """The records to hand out, and a report for each confidential column."""

    reports: tuple[SwapReport, ...]
    released_risks: dict[str, Risk]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0  # of wall time, everything included

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: one attribute's report at the top, or the sums with all reports under
        `attributes`.
        """
        together = {
            "changed": int(self.changed.sum()),
            "objective": sum(report.objective for report in self.reports),
            "marginal_drift": sum(report.marginal_drift for report in self.reports),
            "optimal": all(report.optimal for report in self.reports),
            "released": json_value(self.released_risks),
            "verdict": json_value(self.verdict),
            "seconds": self.seconds,
        }
        if len(self.reports) > 1:
            attributes = [report.to_dict() for report in self.reports]
            return {**together, "attributes": attributes, "notes": list(self.notes)}
        only = self.reports[0].to_dict()
        return {**only, **together, "notes": [*self.notes, *only["notes"]]}

    def view(self) -> View:
        """A line for each column; what can be guessed of each and what it cost as details."""
        names = listing([report.confidential for report in self.reports])
        words = [
            f"{int(self.changed.sum()):,} of {self.records.rows:,} records have another value of "
            f"{names} ({self.seconds:.1f} s)."
        ]
        words += [
            f"{name} as released: {risk.sample_uniques:,} records unique by their keys; the keys "
            f"of {risk.collective:,} more show one value only."
            for name, risk in self.released_risks.items()
        ]
        return View(
            f"Swapping {names}",
            words,
            verdict=self.verdict.lead,
            tables=(_overview(self.reports),),
            notes=self.notes,
            sections=[replace(report.view(), tables=(), detail=True) for report in self.reports],
        )

    @property
    def remains(self) -> tuple[str, ...]:
        """What can still be learned, in sentences."""
        found = [*self.notes]
        for report in self.reports:
            found += report.notes
            found += [words for one in report.intruders for words in one.remains()]
        found += [
            f"{risk.sample_uniques:,} records are unique by the keys in the file as released: that "
            f"someone is in it can be seen, what is blurred is {name}."
            for name, risk in self.released_risks.items()
        ]
        return tuple(found)


@dataclass(frozen=True)
class _Settings:
    """What is asked of one swap."""

    proportion: float
    method: str
    max_posterior: float | None
    drift: int | None

    def __post_init__(self) -> None:
        check_number("proportion", self.proportion)
        if not 0 < self.proportion <= 1:
            raise ParameterError(
                f"proportion={self.proportion:g} lies outside (0, 1]", hint="use for instance 0.5"
            )
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise ParameterError(
                f"no swapping method {shown(self.method)}", hint=f"use one of {', '.join(METHODS)}"
            )
        if self.drift is not None and (not isinstance(self.drift, int) or self.drift < 0):
            raise ParameterError(
                f"drift={shown(self.drift)} is no number of records",
                hint="use 0 or more, or None to let the totals move as little as must be",
            )
        if self.max_posterior is not None:
            check_number("max_posterior", self.max_posterior)
            PosteriorCap(self.max_posterior, (), ())

    @property
    def limit(self) -> float:
        """How surely a value may be guessed."""
        return 0.9 if self.max_posterior is None else self.max_posterior

    @property
    def fewest(self) -> int:
        """Of how many unique records: a limit that was not stated leaves out what one or two of
        them hold.
        """
        return 3 if self.max_posterior is None else 0


@taking_microdata
@checked
def swap(
    data: Any,
    proportion: float,
    *,
    confidential: str | Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    bins: Mapping[str, str] | None = None,
    method: MethodName = "optimal",
    jointly: bool = False,
    max_posterior: float | None = None,
    drift: int | None = 0,
    release_raw: bool = False,
    max_gain: float | None = None,
    rng: Keystream | None = None,
    progress: Progress = silent,
) -> SwapRelease:
    """A copy of the records in which a proportion of those that are unique by their keys, and one
    record of each group that shares keys and value, have another confidential value.

    `data` is a file, an Arrow table, a data frame or a table. Li and Sarkar (2004), whose U
    are the unique records and V the groups: the change in p(y | x) is made small; `optimal` makes
    it as small as can be and proves it, with these kept:

    * The totals of the confidential column stay, or move by at most `drift` records, each counted
      once (None: as little as must be).
    * Of the unique records that show a value, no more than `max_posterior` truly have any one
      value, so that one who knows how the release was made is never surer. Unless stated it is
      0.9, and leaves out values that only one or two unique records hold.

    Where these cannot all hold, PrivacyError says what would do. Several confidential columns are
    treated in turn, or `jointly` as one. Columns cut by `bins` are released in their bins, unless
    `release_raw`. The verdict says whether an intruder gains more than `max_gain` percentage points
    (10 unless stated) over no release.

    >>> people = {"who": range(40), "ill": ["no", "no", "no", "yes"] * 10}
    >>> release = swap(people, 0.4, confidential="ill")
    >>> release.reports[0].changed, release.reports[0].cost.intruder.worst.posterior <= 0.9
    (16, True)
    """
    started = time.perf_counter()
    wanted = aim(max_gain)
    settings = _Settings(proportion, method, max_posterior, drift)
    keyed = Keyed.of(data, confidential, keys=keys, bins=bins)
    rng = drawing(rng)
    for names in keyed.views(jointly):
        _check_flipping(proportion, keyed.table, names)
    reports: list[SwapReport] = []
    shown: dict[str, Codes] = {}
    for names in keyed.views(jointly):
        report, released = _swap_one(Units.of(keyed, names, rng), settings, rng, progress)
        reports.append(report)
        shown |= released
    whole, changed = keyed.released(shown, raw=release_raw)
    finer = [name for name in bins or () if release_raw and name not in keyed.secret]
    pattern = patterns(columns_of(whole, keyed.keys))
    return SwapRelease(
        whole,
        changed,
        tuple(reports),
        {name: risk_of(pattern, codes) for name, codes in shown.items()},
        (*_finer_note(finer, pattern, changed), *_beside_note(whole, keyed)),
        time.perf_counter() - started,
        guesses=tuple(g for report in reports for one in report.intruders for g in one.guesses),
        max_gain=wanted,
    )


def swap_proportions(
    data: Any, proportions: Sequence[float], *, progress: Progress = silent, **how: Any
) -> tuple[SwapReport | None, ...]:
    """The report of the first column for each proportion; None where a proportion cannot be had."""
    tried: list[SwapReport | None] = []
    for place, proportion in enumerate(proportions):
        progress(f"trying proportion {proportion:g}", place / len(proportions))
        try:
            tried.append(swap(data, proportion, **how).reports[0])
        except PrivacyError:
            tried.append(None)
    return tuple(tried)


def _check_flipping(proportion: float, table: Table, names: Sequence[str]) -> None:
    """Refuse 1 where flipping everything back would undo it."""
    if proportion == 1 and len(names) == 1 and table.domain[names[0]].size == 2:
        raise PrivacyError(
            f"'{names[0]}' has two values, so changing every unique record can be "
            "undone by flipping them back",
            hint="use a proportion below 1, such as 0.5",
        )


def _random(exchange: Exchange, rng: Keystream) -> NDArray[np.intp]:
    """The paper's baseline: who changes is drawn at random, the new value from the marginal without
    the true one.
    """
    order = rng.permutation(exchange.units)
    free = order[exchange.may_stay[order]]
    changing = np.concatenate([free[: exchange.changes], np.flatnonzero(~exchange.may_stay)])
    weight = np.broadcast_to(exchange.totals() + 1.0, (len(changing), exchange.values)).copy()
    weight[np.arange(len(changing)), exchange.true[changing]] = 0
    if exchange.barred is not None:
        weight[exchange.barred[changing]] = 0
    cumulative = np.cumsum(weight, axis=1)
    point = rng.random(len(changing)) * cumulative[:, -1]
    assigned = exchange.true.copy()
    assigned[changing] = (cumulative <= point[:, None]).sum(axis=1)
    return assigned


def _assigned(
    name: str, exchange: Exchange, settings: _Settings, rng: Keystream, progress: Progress
) -> tuple[Assignment, tuple[str, ...]]:
    """New values under everything that was asked, or the refusal that says what would do."""
    if settings.method != "optimal":
        assigned = (
            _random(exchange, rng)
            if settings.method == "random"
            else phase_two(exchange, phase_one(exchange, rng), progress=progress)
        )
        cost, drift = exchange.cost(assigned), exchange.drift(assigned)
        found = Assignment(assigned, cost, -math.inf, False, drift)
        _check_found(name, exchange, found, settings)
        return found, ()
    holdings = exchange.holdings()
    changes = fitting_changes(holdings, settings.drift)
    if changes is None:
        raise refusal(name, settings.proportion, holdings, settings.drift)
    found = solve(
        replace(exchange, changes=changes), drift=2 * (settings.drift or 0), progress=progress
    )
    if changes == exchange.changes:
        return found, ()
    kept = "can stay" if settings.drift == 0 else "move no further than was allowed"
    kept = "move as little as possible" if settings.drift is None else kept
    words = f"{changes} unique records were changed, not {exchange.changes}: so the totals {kept}"
    return found, (words,)


def _check_found(name: str, exchange: Exchange, found: Assignment, settings: _Settings) -> None:
    """Refuse what a method that looks neither at the totals nor at guesses made of them."""
    moved = found.drift // 2
    rows = np.arange(exchange.units)
    if exchange.barred is not None and exchange.barred[rows, found.assigned].any():
        raise PrivacyError(
            f"method {settings.method} leaves a column of '{name}' as it is in groups that share "
            "it",
            hint="use method optimal, or swap the columns in turn",
        )
    if settings.drift is not None and moved > settings.drift:
        raise PrivacyError(
            f"method {settings.method} moved the totals of '{name}' by {moved:,} records",
            hint=f"use method optimal, or allow it with drift={moved}",
        )
    flows = exchange.flows(found.assigned)
    if exchange.cap is None or not exchange.cap.broken(flows):
        return
    share = (flows.max(axis=0) / np.maximum(1, flows.sum(axis=0))).max()
    raise PrivacyError(
        f"method {settings.method} lets '{name}' be guessed with {share:.4g}, more than "
        f"{settings.limit:g}, from one of the values shown",
        hint="use method optimal, or max_posterior=1 to allow it",
    )


def _swap_one(
    units: Units, settings: _Settings, rng: Keystream, progress: Progress
) -> tuple[SwapReport, dict[str, Codes]]:
    """The report, and the codes of the confidential columns as they are released."""
    started = time.perf_counter()
    attribute, truth, parts = units.joined
    changes, notes = units.changes(settings.proportion)
    if len(units.rows) == 0:
        notes += ("no record is identifiable, so nothing was changed",)
    exchange = units.exchange(changes, settings.limit, settings.fewest)
    assignment, more = _assigned(attribute.name, exchange, settings, rng, progress)
    seconds = time.perf_counter() - started
    shown = truth.copy()
    shown[units.rows] = assignment.assigned
    released = {
        name: part[shown].astype(np.int32) for name, part in zip(units.names, parts, strict=True)
    }
    progress("measuring the cost", None)
    cost = measure(units.keyed, attribute, truth, shown)
    moved = shown[units.rows] != truth[units.rows]
    bounded = math.isfinite(assignment.bound)
    report = SwapReport(
        confidential=attribute.name,
        method=settings.method,
        proportion=settings.proportion,
        max_posterior=settings.limit,
        records=len(truth),
        changed=int(moved.sum()),
        changed_unique=int((moved & units.may_stay).sum()),
        changed_groups=int((moved & ~units.may_stay).sum()),
        objective=assignment.objective,
        bound=assignment.bound if bounded else None,
        gap=assignment.gap if bounded else None,
        optimal=assignment.optimal,
        seconds=seconds,
        cost=cost,
        single=_single_columns(units.keyed, released) if len(parts) > 1 else (),
        notes=notes + more + _exempt_note(exchange, cost.intruder, settings),
    )
    return report, released


def _single_columns(keyed: Keyed, released: Mapping[str, Codes]) -> tuple[Intruder, ...]:
    """What can be guessed of each column on its own."""
    found = []
    for name, seen in released.items():
        (truth,) = columns_of(keyed.table, [name])
        status = status_of(keyed.pattern, truth)
        attribute = attribute_of(keyed.table, name)
        found.append(intruder_of(keyed.known, status, attribute, truth, seen))
    return tuple(found)


def _exempt_note(exchange: Exchange, intruder: Intruder, settings: _Settings) -> tuple[str, ...]:
    """A word where a value was left out of the limit because hardly anyone holds it."""
    over = [one for one in intruder.shown if one.posterior > settings.limit + 1e-9]
    if settings.max_posterior is not None or exchange.cap is None or not over:
        return ()
    return (
        f"{len(over)} value(s) that one or two unique records hold are outside the limit of "
        f"{settings.limit:g} ({sum(one.records for one in over)} records); state max_posterior to "
        "hold them to it",
    )


def _finer_note(
    finer: Sequence[str], pattern: NDArray[np.int64], changed: NDArray[np.bool_]
) -> tuple[str, ...]:
    """A word where keys were cut for the swap only, and go out finer."""
    if not finer:
        return ()
    unique = (np.bincount(pattern) == 1)[pattern]
    return (
        f"{', '.join(finer)} was cut for matching but is released as it is: {int(unique.sum()):,} "
        f"records are unique in the file as released, {int((unique & ~changed).sum()):,} of them "
        "with their true value; leave release_raw out to release bins",
    )


def _beside_note(released: Table, keyed: Keyed) -> tuple[str, ...]:
    """A word where columns that are no keys, and so were not looked at, tell more records apart."""
    others = [name for name in released.domain.names if name not in keyed.secret + keyed.keys]
    if not others:
        return ()
    unique, known = (
        int((np.bincount(patterns(columns_of(released, names))) == 1).sum())
        for names in ([*keyed.keys, *others], keyed.keys)
    )
    if unique <= known:
        return ()
    return (
        f"{listing(others)} {'is no key and is' if len(others) == 1 else 'are no keys and are'} "
        f"released as before: whoever knows them too tells {unique:,} records apart, not {known:,}",
    )
