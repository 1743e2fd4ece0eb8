"""Release true records with some confidential values exchanged, so that no one's keys give their
value away for certain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import ParameterError, PrivacyError
from sfumato.publish.conditional import Conditional, conditional_named
from sfumato.publish.cost import ClassifierName, Cost, measure
from sfumato.publish.exchange import Assignment, Exchange, least_drift, solve
from sfumato.publish.greedy import phase_one, phase_two
from sfumato.publish.identify import Risk, risk_of, status_of
from sfumato.publish.microdata import Coded, Microdata
from sfumato.randomness import Keystream, secure

__all__ = ["METHODS", "SwapRelease", "SwapReport", "Units", "exchange_of", "swap", "units_of"]

Progress = Callable[[str], None]
Method = Callable[[Exchange, Keystream, Progress | None], Assignment]
MethodName = Literal["optimal", "greedy", "random"]


@dataclass(frozen=True, eq=False)
class Units:
    """The records that may be changed: all of U, and one member drawn from each group of V, in
    random order.
    """

    rows: NDArray[np.int64]
    may_stay: NDArray[np.bool_]  # True for U

    @property
    def unique(self) -> int:
        """|U|."""
        return int(self.may_stay.sum())

    @property
    def groups(self) -> int:
        """The number of groups in V."""
        return len(self.rows) - self.unique


@dataclass(frozen=True)
class SwapReport:
    """What a swap did to one confidential column; it never says to whom."""

    confidential: str
    method: str
    proportion: float
    conditional: str
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
    notes: tuple[str, ...] = ()

    @property
    def marginal_drift(self) -> int:
        """Σ |N′ − N| over the confidential values."""
        return self.cost.marginal_drift

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        plain = {
            name: value for name, value in self.__dict__.items() if name not in ("cost", "notes")
        }
        return {**plain, **self.cost.to_dict(), "notes": list(self.notes)}


@dataclass(frozen=True, eq=False)
class SwapRelease:
    """The table to hand out and the report; `changed` says which records differ and is for the
    owner alone.
    """

    table: pa.Table
    reports: tuple[SwapReport, ...]
    released_risks: dict[str, Risk]
    changed: NDArray[np.bool_] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: one attribute's report at the top, or the sums with all reports under
        `attributes`.
        """
        together = {
            "changed": int(self.changed.sum()),
            "objective": sum(report.objective for report in self.reports),
            "marginal_drift": sum(report.marginal_drift for report in self.reports),
            "optimal": all(report.optimal for report in self.reports),
            "released": {name: risk.to_dict() for name, risk in self.released_risks.items()},
        }
        if len(self.reports) == 1:
            return {**self.reports[0].to_dict(), **together}
        return {**together, "attributes": [report.to_dict() for report in self.reports]}


def swap(
    microdata: Microdata,
    proportion: float,
    *,
    method: MethodName = "optimal",
    conditional: str = "bayes",
    jointly: bool = False,
    drift: int = 0,
    classifier: ClassifierName = "tree",
    folds: int = 5,
    rng: Keystream | None = None,
    progress: Progress | None = None,
) -> SwapRelease:
    """A copy of the records in which a proportion of U and one record of each group of V have
    another confidential value.

    Li and Sarkar (2004): the totals of the confidential column are kept, and the change in p(y | x)
    is made small; `optimal` makes it as small as can be and proves it, with totals that may move by
    `drift` records in all (0: as little as can be). Several confidential columns are treated in
    turn, or `jointly` as one.
    """
    if method not in METHODS:
        raise ParameterError(
            f"no swapping method '{method}'", hint=f"use one of {', '.join(METHODS)}"
        )
    rng = rng or secure()
    model = conditional_named(conditional)
    views = (
        [microdata.combined()]
        if jointly
        else [microdata.alone(i) for i in range(len(microdata.confidential))]
    )
    for view in views:
        check_proportion(proportion, view.confidential[0])
    chosen = _method(method, drift)
    reports, columns = [], {}
    changed = np.zeros(microdata.rows, dtype=bool)
    for view in views:
        report, codes = _swap_one(
            view, proportion, chosen, (conditional, model), (classifier, folds), rng, progress
        )
        reports.append(report)
        changed |= codes != view.confidential[0].codes
        columns.update(_released(microdata, view.confidential[0], codes, jointly))
    table = _with_columns(microdata.table, columns)
    return SwapRelease(table, tuple(reports), _risks_as_released(table, microdata), changed)


def check_proportion(proportion: float, confidential: Coded) -> None:
    """Refuse a proportion outside (0, 1], and 1 where flipping everything back would undo it."""
    if not 0 < proportion <= 1:
        raise ParameterError(
            f"proportion={proportion:g} lies outside (0, 1]", hint="use for instance 0.5"
        )
    if proportion == 1 and confidential.size == 2:
        raise PrivacyError(
            f"'{confidential.name}' has two values, so changing every unique record can be undone "
            "by flipping them back",
            hint="use a proportion below 1, such as 0.5",
        )


def units_of(microdata: Microdata, rng: Keystream) -> Units:
    """The records of U and a random member of each group of V, shuffled so that no tie depends on
    the order of the table.
    """
    status = status_of(microdata.keys, microdata.confidential[0])
    members = np.flatnonzero(status.collective)
    members = members[rng.permutation(len(members))]
    _, first = np.unique(status.pattern[members], return_index=True)
    rows = np.concatenate([np.flatnonzero(status.unique), members[first]])
    rows = rows[rng.permutation(len(rows))]
    return Units(rows, status.unique[rows])


def exchange_of(microdata: Microdata, units: Units, changes: int, model: Conditional) -> Exchange:
    """The optimisation problem of these units."""
    confidential = microdata.confidential[0]
    posterior = model(microdata.keys, confidential, units.rows)
    return Exchange(
        posterior, confidential.codes[units.rows].astype(np.intp), units.may_stay, changes
    )


def _optimal(exchange: Exchange, rng: Keystream, progress: Progress | None) -> Assignment:
    return solve(exchange, progress=progress)


def _greedy(exchange: Exchange, rng: Keystream, progress: Progress | None) -> Assignment:
    return _unproved(exchange, phase_two(exchange, phase_one(exchange, rng), progress=progress))


def _random(exchange: Exchange, rng: Keystream, progress: Progress | None) -> Assignment:
    """The paper's baseline: who changes is drawn at random, the new value from the marginal without
    the true one.
    """
    order = rng.permutation(exchange.units)
    free = order[exchange.may_stay[order]]
    changing = np.concatenate([free[: exchange.changes], np.flatnonzero(~exchange.may_stay)])
    weight = np.broadcast_to(exchange.totals() + 1.0, (len(changing), exchange.values)).copy()
    weight[np.arange(len(changing)), exchange.true[changing]] = 0
    cumulative = np.cumsum(weight, axis=1)
    point = rng.random(len(changing)) * cumulative[:, -1]
    assigned = exchange.true.copy()
    assigned[changing] = (cumulative <= point[:, None]).sum(axis=1)
    return _unproved(exchange, assigned)


METHODS: dict[str, Method] = {
    "optimal": _optimal,
    "greedy": _greedy,
    "random": _random,
}


def _method(name: str, drift: int) -> tuple[str, Method]:
    if drift < 0 or (drift and name != "optimal"):
        raise ParameterError(
            f"drift={drift} with method {name}",
            hint="a drift of 0 or more is for the optimal method",
        )
    if drift:
        return name, lambda exchange, rng, progress: solve(exchange, drift=drift, progress=progress)
    return name, METHODS[name]


def _unproved(exchange: Exchange, assigned: NDArray[np.intp]) -> Assignment:
    drift = np.abs(np.bincount(assigned, minlength=exchange.values) - exchange.totals()).sum()
    return Assignment(assigned, exchange.cost(assigned), -math.inf, False, int(drift))


def number_of_changes(
    units: Units, proportion: float, confidential: Coded
) -> tuple[int, tuple[str, ...]]:
    """p·|U| rounded up, but never all of U where the column has two values and flipping back would
    undo it.
    """
    changes = math.ceil(proportion * units.unique - 1e-9)
    if confidential.size == 2 and changes == units.unique and changes:
        return changes - 1, (
            f"one unique record is left as it is, or flipping all {changes} back would undo the "
            "swap",
        )
    return changes, ()


def _drift_notes(exchange: Exchange) -> tuple[str, ...]:
    """A warning where so many changes cannot leave the totals alone, and how many could."""
    drift = least_drift(exchange)
    if drift <= exchange.values:  # an odd number of exchanges is no reason to worry
        return ()
    low, high = 0, exchange.changes
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high)
            if least_drift(replace(exchange, changes=middle)) <= exchange.values
            else (low, middle - 1)
        )
    kept = low / max(1, int(exchange.may_stay.sum()))
    advice = f"; up to a proportion of {kept:.2f} they can stay" if low else ""
    return (f"one value is held by so many that the totals must move by {drift} records{advice}",)


def _swap_one(
    view: Microdata,
    proportion: float,
    method: tuple[str, Method],
    conditional: tuple[str, Conditional],
    classifier: tuple[ClassifierName, int],
    rng: Keystream,
    progress: Progress | None,
) -> tuple[SwapReport, NDArray[np.int32]]:
    confidential = view.confidential[0]
    started = time.perf_counter()
    units = units_of(view, rng)
    changes, notes = number_of_changes(units, proportion, confidential)
    if len(units.rows) == 0:
        notes += ("no record is identifiable, so nothing was changed",)
    exchange = exchange_of(view, units, changes, conditional[1])
    notes += _drift_notes(exchange)
    assignment = method[1](exchange, rng, progress)
    seconds = time.perf_counter() - started
    codes = confidential.codes.copy()
    codes[units.rows] = assignment.assigned
    moved = codes[units.rows] != confidential.codes[units.rows]
    if progress:
        progress("measuring the cost")
    cost = measure(
        view.keys,
        confidential,
        Coded(confidential.name, codes, confidential.values),
        classifier=classifier[0],
        folds=classifier[1],
    )
    proved = math.isfinite(assignment.bound)
    report = SwapReport(
        confidential=confidential.name,
        method=method[0],
        proportion=proportion,
        conditional=conditional[0],
        records=view.rows,
        changed=int(moved.sum()),
        changed_unique=int((moved & units.may_stay).sum()),
        changed_groups=int((moved & ~units.may_stay).sum()),
        objective=assignment.objective,
        bound=assignment.bound if proved else None,
        gap=assignment.gap if proved else None,
        optimal=assignment.optimal,
        seconds=seconds,
        cost=cost,
        notes=notes,
    )
    return report, codes


def _released(
    microdata: Microdata, confidential: Coded, codes: NDArray[np.int32], jointly: bool
) -> dict[str, pa.Array]:
    """The released columns as Arrow arrays, of the original type unless the column was binned."""
    if not jointly:
        return {
            confidential.name: _decoded(
                microdata.table, confidential.name, confidential.values, codes
            )
        }
    parts = zip(*confidential.values, strict=True)
    return {
        column.name: _decoded(microdata.table, column.name, tuple(values), codes)
        for column, values in zip(microdata.confidential, parts, strict=True)
    }


def _decoded(
    table: pa.Table, name: str, values: tuple[Any, ...], codes: NDArray[np.int32]
) -> pa.Array:
    original = table.schema.field(name).type
    kind = original.value_type if pa.types.is_dictionary(original) else original
    try:
        choices = pa.array(values, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        choices = pa.array(values, type=pa.string())  # a binned number is released as its bin
    return choices.take(pa.array(codes))


def _with_columns(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, array in columns.items():
        table = table.set_column(table.column_names.index(name), name, array)
    return table


def _risks_as_released(table: pa.Table, microdata: Microdata) -> dict[str, Risk]:
    """Risk on the values as they go out: finer than the keys where those were binned
    for the swap.
    """
    names = [column.name for column in microdata.confidential]
    again = Microdata.read(table, names, keys=[column.name for column in microdata.keys])
    return {column.name: risk_of(again.keys, column) for column in again.confidential}
