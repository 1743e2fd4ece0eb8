"""The cheapest way to give records other values with every total kept: solved exactly, with a
proof.

Each unit i (a record, or one member of a group) holds value t and may be given another value r at
price d_i(t, r) = p_i(t) − p_i(r), p_i its posterior (Li and Sarkar 2004, eq. 11). Exactly `changes`
of the units that may stay are changed, every other unit must change, and as many units end with
each value as began with it. A limit on what can be guessed of those that may stay (`cap`) is kept
as well: its rows are added as they are broken, for what breaks none of them needs none.

Relaxing the totals leaves one multiplier per value (μ), one for the number of changes (λ) and one
for each row of the limit (ν ≥ 0, with coefficients A[t, r]):

    L(λ, μ, ν) = Σ_i min_r (d_i(t, r) + [i may stay]·(λ·[r ≠ t] + Σ ν·A[t, r]) − μ_r)
                 + Σ_r μ_r N_r − λ·changes

a lower bound for every (λ, μ, ν), evaluated in one vectorised sweep. What an assignment costs above
L is the sum of its reduced costs and of ν times the slack of each row, all of them ≥ 0; so an
assignment built from choices of reduced cost ≤ θ whose excess is ≤ θ cannot be beaten by any that
uses a choice beyond θ. So a tiny integer programme over the few nearly tied choices is a proof for
all records. Units alike in posterior, value and leave to stay are one kind with a number, so that
equal records are no tie to be broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import EstimationError, PrivacyError
from sfumato.progress import Progress, silent
from sfumato.publish import feasible
from sfumato.publish.feasible import CapRow, Holdings, PosteriorCap
from sfumato.publish.limits import EXCHANGE_SECONDS, FIRST_CHOICES, SAMPLING, SMALLEST_BAND
from sfumato.publish.pricing import Kinds, Moves, Multipliers, nearest_moves, sweep_of
from sfumato.publish.programme import cheapest, refined


@dataclass(frozen=True, eq=False)
class Exchange:
    """Units with posteriors, true values, leave to stay, and how many of those that may stay must
    change.

    `barred` says which values a unit must not take; without it that is its own value for those
    that must change.
    """

    posterior: NDArray[np.float64]  # (units, values)
    true: NDArray[np.intp]  # (units,)
    may_stay: NDArray[np.bool_]  # (units,)
    changes: int
    cap: PosteriorCap | None = None
    barred: NDArray[np.bool_] | None = None  # (units, values)

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.true)

    @property
    def values(self) -> int:
        """The number of confidential values."""
        return int(self.posterior.shape[1])

    def totals(self) -> NDArray[np.int64]:
        """How many units hold each value at the start."""
        return np.bincount(self.true, minlength=self.values)

    def cost(self, assigned: NDArray[np.integer]) -> float:
        """Σ d_i(t, r) of an assignment."""
        rows = np.arange(self.units)
        return float((self.posterior[rows, self.true] - self.posterior[rows, assigned]).sum())

    def drift(self, assigned: NDArray[np.integer]) -> int:
        """Σ_r |N′_r − N_r| of an assignment."""
        after = np.bincount(assigned, minlength=self.values)
        return int(np.abs(after - self.totals()).sum())

    def flows(self, assigned: NDArray[np.integer]) -> NDArray[np.int64]:  # (values, values)
        """How many units that may stay go from each value (row) to each (column)."""
        moved = self.true[self.may_stay] * self.values + assigned[self.may_stay]
        return np.bincount(moved, minlength=self.values**2).reshape(self.values, self.values)

    def holdings(self) -> Holdings:
        """How many units hold each value, for questions in which it does not matter who they
        are.
        """
        free = np.bincount(self.true[self.may_stay], minlength=self.values)
        true = self.true[~self.may_stay]
        if self.barred is None:
            forced = np.bincount(true, minlength=self.values)
            held = np.flatnonzero(forced)
            barred = np.eye(self.values, dtype=bool)[held]
            return Holdings(free, forced[held], held, barred, self.changes, self.cap)
        alike = np.column_stack([true, self.barred[~self.may_stay]])
        kinds, number = np.unique(alike, axis=0, return_counts=True)
        return Holdings(
            free, number, kinds[:, 0].astype(np.intp), kinds[:, 1:] > 0, self.changes, self.cap
        )

    def part(self, some: slice) -> Exchange:
        """The problem of some of the units, with their share of the changes."""
        may_stay = self.may_stay[some]
        share = may_stay.sum() / max(1, self.may_stay.sum())
        return replace(
            self,
            posterior=self.posterior[some],
            true=self.true[some],
            may_stay=may_stay,
            changes=round(self.changes * share),
            barred=None if self.barred is None else self.barred[some],
        )


@dataclass(frozen=True, eq=False)
class Assignment:
    """A new value for every unit, what it costs, and the bound that nothing can undercut."""

    assigned: NDArray[np.intp]
    objective: float
    bound: float
    optimal: bool
    drift: int

    @property
    def gap(self) -> float:
        """Objective above the Lagrangian bound; positive also when the optimum is proved, for
        integers may not reach it.
        """
        return max(0.0, self.objective - self.bound)


def least_drift(exchange: Exchange) -> int:
    """The smallest possible Σ_r |N′_r − N_r|, the objective of the paper's phase I over U and V
    together.
    """
    drift = feasible.least_drift(exchange.holdings())
    if drift is None:
        assert exchange.cap is not None
        raise PrivacyError(
            f"no exchange of {exchange.changes} values keeps every guess at most "
            f"{exchange.cap.limit:g} sure",
            hint="change more records, or use a higher max_posterior",
        )
    return drift


def solve(exchange: Exchange, *, drift: int = 0, progress: Progress = silent) -> Assignment:
    """The minimum of Σ d_i(t, r) with every total kept as nearly as can be, and its proof.

    `drift` lets the totals move by Σ_r |N′_r − N_r| up to that much, which cannot make the minimum
    larger.
    """
    if exchange.units == 0:
        return Assignment(exchange.true.copy(), 0.0, 0.0, True, 0)
    alike = _alike(exchange)
    rows: list[CapRow] = []
    floor = least_drift(replace(exchange, cap=None))
    multipliers = _guess(exchange, drift, progress)
    while True:
        kinds = _kinds(exchange, alike, max(floor, drift // 2 * 2), rows)
        multipliers = refined(kinds, multipliers)
        slack = feasible.least_slack(exchange.holdings(), rows, multipliers.limit, kinds.drift)
        found = _proved(exchange, kinds, multipliers, alike[1], slack, progress)
        broken = exchange.cap.broken(exchange.flows(found.assigned)) if exchange.cap else []
        if not broken:
            return found
        if not rows:
            floor = least_drift(exchange)
        rows += broken
        multipliers = multipliers.with_rows(len(rows))
        progress(f"{len(rows)} limits on what can be guessed", None)


def _proved(
    exchange: Exchange,
    kinds: Kinds,
    multipliers: Multipliers,
    member: NDArray[np.intp],
    slack: float,
    progress: Progress,
) -> Assignment:
    """The whole assignment of least cost, from the nearest ties alone where these prove it.

    `slack` is what every whole assignment costs above the bound whatever its choices, so that one
    beyond the reach costs that much more.
    """
    sweep = sweep_of(kinds, multipliers)
    limit = FIRST_CHOICES
    while True:
        progress(f"breaking the {limit} nearest ties", None)
        moves = nearest_moves(kinds, multipliers, sweep, limit)
        found = cheapest(kinds, multipliers, sweep, moves)
        if found is not None and found.excess <= moves.reach + slack:
            assigned = _spread(sweep.base[member], member, moves, found.taken)
            return Assignment(
                assigned,
                exchange.cost(assigned),
                sweep.bound + slack,
                found.proved,
                exchange.drift(assigned),
            )
        if not np.isfinite(moves.reach):
            raise EstimationError(
                f"no exchange was found within {EXCHANGE_SECONDS:g} s",
                hint="use the greedy method, or a lower proportion",
            )
        limit *= 8


Alike = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]


def _alike(exchange: Exchange, look: int = 4_096) -> Alike:
    """First member of each kind, the kind of each unit, the number of each kind: equal by a 64-bit
    hash of the row.

    Where a look at a few thousand units finds hardly any that are, every unit is a kind of its own.
    """
    some = slice(None, None, max(1, exchange.units // look))
    if len(np.unique(_hashed(exchange, some))) > 0.95 * len(exchange.true[some]):
        alone = np.arange(exchange.units)
        return alone, alone, np.ones(exchange.units, dtype=np.int64)
    _, first, member, number = np.unique(
        _hashed(exchange, slice(None)), return_index=True, return_inverse=True, return_counts=True
    )
    return first, member, number


def _hashed(exchange: Exchange, some: slice) -> NDArray[np.uint64]:
    mixed = (exchange.true[some] * 2 + exchange.may_stay[some]).astype(np.uint64)
    for value, column in enumerate(exchange.posterior[some].T):
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        shown = np.round(column, 12) + 0.0
        if exchange.barred is not None:  # no posterior lies above 1
            shown = np.where(exchange.barred[some, value], shown + 2.0, shown)
        mixed ^= shown.view(np.uint64)
    return mixed


def _kinds(exchange: Exchange, alike: Alike, drift: int, rows: Sequence[CapRow]) -> Kinds:
    first, _, number = alike
    limits = (
        np.zeros((0, exchange.values, exchange.values))
        if exchange.cap is None
        else exchange.cap.stacked(rows)
    )
    return Kinds(
        exchange.posterior[first],
        exchange.true[first],
        exchange.may_stay[first],
        None if exchange.barred is None else exchange.barred[first],
        number,
        exchange.totals(),
        exchange.changes,
        drift,
        limits,
    )


def _guess(exchange: Exchange, drift: int, progress: Progress) -> Multipliers:
    """Multipliers to start from: the best ones for a sixteenth of the units, unless
    there are few.
    """
    if exchange.units <= SMALLEST_BAND:
        return Multipliers.none(exchange.values)
    part = replace(exchange, cap=None).part(slice(None, None, SAMPLING))
    start = _guess(part, drift // SAMPLING, progress)
    progress(f"multipliers from {part.units} records", None)
    floor = least_drift(part)
    return refined(_kinds(part, _alike(part), max(floor, drift // SAMPLING // 2 * 2), ()), start)


def _spread(
    base: NDArray[np.intp], member: NDArray[np.intp], moves: Moves, taken: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Each unit's value: those of a kind that move are its first members, in the order in which the
    units came.
    """
    assigned = base.copy()
    used = np.flatnonzero(taken)
    used = used[np.argsort(moves.kind[used], kind="stable")]
    kind, count = moves.kind[used], taken[used]
    order = np.argsort(member, kind="stable")
    start = np.searchsorted(member[order], kind)
    before = np.cumsum(count) - count
    first_of_kind = np.searchsorted(kind, kind)
    within = (
        np.arange(count.sum())
        - np.repeat(before, count)
        + np.repeat(before - before[first_of_kind], count)
    )
    assigned[order[np.repeat(start, count) + within]] = np.repeat(moves.target[used], count)
    return assigned
