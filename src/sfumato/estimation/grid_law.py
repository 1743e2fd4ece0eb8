"""Laws of a number on its grid: what is behind reports in windows, by penalised likelihood.

log f = θ on the grid; penalty λ/2·|Dθ|² with D no, first or third differences; λ and the order by
Laplace evidence, so that spikes stay spikes and bells become bells. The value that most have, such
as the zeros or the forty hours of a column, may stand out of a smooth law; so may all round numbers
alike, as where people round their age to five years; and every value may have its own share of
people beside it (35, 38 and 40 hours): log f is smooth but for independent normal amounts, whose
variance evidence chooses too. Laws of about the same evidence are averaged (`grid_counts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.window import Shape
from sfumato.errors import EstimationError
from sfumato.estimation.heaping import Heaping
from sfumato.one_thread import one_thread

Floats = NDArray[np.float64]

ORDERS = (0, 1, 3)  # of the differences that are held small: none, steps, all but a bell
ROUNDS, STEPS = 60, 8  # of λ, and of Fisher scoring for each
SETTLED = 0.02  # change of log λ at which it stands
LEAST, MOST = 1e-6, 1e10  # λ
# The evidence smooths for the least error, and then what it smooths away is as large as the noise;
# with a smaller λ it is less, and intervals cover. What is left of it is what is expected at the λ
# of the evidence, or so many times as much, for no law is as even as its prior.
ROUGHER, UNEVEN = 30.0, 5.0
# Few reports do not tell a curved law from a bell, and evidence is then as large for any λ beyond;
# waves of log f of height 1 and of a third of a grid of 256 values are such, for third differences.
SMOOTHEST, FINE = 1e7, 256
GAIN = 1e-3  # of the log likelihood, at which Fisher scoring stands
WIDEST = 3.0  # the longest step of any log f
SPIKE = 3.0  # the usual size of a spike, in units of log f
ROUND = 1.5  # of the logarithm of how many times as many people round as do not
# The logarithm of the odds that heaps are as large as they like: many to one where round numbers
# stand out beyond doubt, for no two are alike; one to many elsewhere, for heaps explain as well
# what is not quite smooth.
UNLIKE, RARE = 12.0, 8.0
# The variance of each value's own log f to begin with, where numbers are heaped: beside one spike,
# and where everyone is in heaps.
HEAPS, MANY_HEAPS = 0.5, 3.0
FLATTEST, STEEPEST = 1e-3, 9.0  # that variance
# Where heaps are beyond doubt, by so much evidence, it draws them together for the least error too:
# with more variance they stand as the reports show them, and intervals cover.
DECISIVE, STEEPER = 5.0, 8.0
LEVEL = 1 / 20  # of what it began with: from there on there are no such heaps
STEADY = 0.1  # change of its logarithm at which it stands
HIDDEN = 0.03  # the usual share of people who may be in a part of the grid, whatever the law says
PARTS = 8  # of the grid, in each of which people may be hidden
# Of few reports the law of largest evidence may leave out whole parts where many are: one report
# leaves open what any law would put there, many only what is usual.
FEW, MOST_HIDDEN = 0.6, 0.15
NEGLIGIBLE = 0.01  # the weight below which a law is left out


@dataclass(frozen=True, eq=False)
class GridLaw:
    """A distribution on the grid, and how sure it is: the Laplace covariance of θ."""

    masses: Floats  # (values,)
    hidden: Floats  # (values, parts): where people may be whatever the law says
    covariance: Floats  # (values + parts,) squared, of θ and of the shares of those people
    evidence: float
    order: int
    lumps: Floats  # (values,): which part of the people may stand out of those beside them
    rounded: dict[Heaping, Floats]  # (values,) each: which part of them is at its round numbers

    @property
    def elsewhere(self) -> Floats:  # (parts,)
        """The share of people who may be in each part whatever the law says, as a mean: they are
        few, and do not lie evenly.
        """
        own = np.diag(self.covariance)[len(self.masses) :]
        return np.sqrt(own * 2 / np.pi)

    @property
    def moves(self) -> Floats:  # (values, values + parts)
        """How the masses move with θ, and with shares of people who are elsewhere."""
        law = np.diag(self.masses) - np.outer(self.masses, self.masses)
        return np.concatenate([law, self.hidden - self.masses[:, None]], axis=1)


@dataclass(frozen=True)
class _Held:
    """How tightly log f is held: λ of its differences, and the variance that each value has of its
    own beside what they hold.
    """

    weight: float
    own: float = 0.0

    def left(self, squares: Floats) -> Floats:
        """Of waves whose differences have these squares, the part of their variance that is
        smooth.
        """
        return np.asarray(1 / (1 + self.own * self.weight * squares))

    def precisions(self, squares: Floats) -> Floats:
        """Of the coefficients of such waves: smooth and own variances 1/(λd) + v add up."""
        return self.weight * squares * self.left(squares)

    def near(self, other: _Held) -> bool:
        """Whether two are as good as the same."""
        own = abs(np.log(max(self.own, FLATTEST) / max(other.own, FLATTEST)))
        return bool(abs(np.log(self.weight / other.weight)) < SETTLED and own < STEADY)


@dataclass(frozen=True, eq=False)
class _Penalised:
    """The likelihood of a tally of reports under one order of differences; `spikes` are values
    whose log f may stand out, by a coefficient each beside the smooth ones; of each of `heapings` a
    share s of the people rounds to its numbers, by a coefficient z = log(s/(1−s)): θ = φ + Σ c·e +
    log(1 − Σ s + Σ s·t), t being how many times as many round to a value as are there; with `heaps`
    every value may stand out, by normal amounts.
    """

    counts: Floats  # (reports,)
    shape: Shape
    order: int
    spikes: tuple[int, ...] = ()
    heapings: tuple[Heaping, ...] = ()
    heaps: float = 0.0  # the variance to begin with
    odds: float = 0.0  # their logarithm, beside others, before any report
    begun: tuple[Floats, _Held] | None = None  # what another fit found, to begin with

    @property
    def matrix(self) -> Floats:  # (reports, values)
        """P(report | number)."""
        return self.shape.matrix

    @property
    def _values(self) -> int:
        return self.shape.values

    @cached_property
    def _spiking(self) -> Floats:  # (values, spikes)
        """What the coefficient of each spike adds to θ."""
        return np.eye(self._values)[:, list(self.spikes)]

    @cached_property
    def _rounding(self) -> Floats:  # (values, heapings)
        """How many times as many people are at each value once all have rounded to one kind."""
        return self._for_heapings(Heaping.rounding)

    def _for_heapings(
        self, of: Callable[[Heaping, int], NDArray[Any]]
    ) -> Floats:  # (values, heapings)
        every = [of(heaping, self._values) for heaping in self.heapings]
        return np.column_stack([np.zeros((self._values, 0)), *every])

    @property
    def _sizes(self) -> Floats:  # (spikes + heapings,)
        """How large these coefficients usually are."""
        return np.array([SPIKE] * len(self.spikes) + [ROUND] * len(self.heapings))

    def _shares(self, coefficients: Floats) -> Floats:  # (heapings,)
        """The share of people who round to numbers of each kind: half in all, usually."""
        own = coefficients[self._values + len(self.spikes) :]
        times = np.exp(own) / max(len(own), 1)
        return np.asarray(times / (1 + times.sum()))

    def _times(self, shares: Floats) -> Floats:  # (values,)
        """How many times as many people each value has as it would if nobody rounded."""
        return np.asarray(1 - shares.sum() + self._rounding @ shares)

    def _theta(self, coefficients: Floats) -> Floats:  # (values,)
        smooth, rest = np.split(coefficients, [self._values])
        rounded = np.log(self._times(self._shares(coefficients)))
        return np.asarray(smooth + self._spiking @ rest[: len(self.spikes)] + rounded)

    def _beside(self, coefficients: Floats) -> Floats:  # (values, spikes + heapings)
        """How θ moves with each coefficient beside the smooth ones."""
        shares = self._shares(coefficients)
        times = self._times(shares)[:, None]
        return np.column_stack([self._spiking, shares * (self._rounding - times) / times])

    def _design(self, coefficients: Floats) -> Floats:  # (values, coefficients)
        """How θ moves with every coefficient."""
        return np.column_stack([np.eye(self._values), self._beside(coefficients)])

    def _prior(self, held: _Held) -> Floats:
        """The precision of the coefficients."""
        values, (squares, waves) = self._values, _waves(self._values, self.order)
        found = np.diag(1 / np.r_[np.ones(values), self._sizes] ** 2)
        found[:values, :values] = (waves * held.precisions(squares)) @ waves.T
        return found

    def _level(self, coefficients: Floats, prior: Floats) -> tuple[float, Floats, Floats]:
        theta = self._theta(coefficients)
        masses = np.exp(theta - theta.max())
        masses /= masses.sum()
        chances = self.matrix @ masses
        held = float(coefficients @ prior @ coefficients)
        return float(self.counts @ np.log(chances)) - held / 2, masses, chances

    def _slope(self, masses: Floats, chances: Floats) -> Floats:  # (values,)
        """How the log likelihood rises with θ."""
        score = self.matrix.T @ (self.counts / chances)
        return np.asarray(masses * (score - masses @ score))

    def _told(self, masses: Floats, chances: Floats) -> Floats:  # (values, values)
        """What as many reports as there are tell of θ, by Fisher."""
        both = np.outer(masses, masses)
        return np.asarray(self.counts.sum() * both * (self.shape.products(1 / chances) - 1))

    def _curvature(
        self, coefficients: Floats, masses: Floats, chances: Floats, prior: Floats, weight: float
    ) -> Any:
        from scipy.linalg import cho_factor

        values, people = self._values, self.counts.sum()
        # A constant in θ changes nothing: it is held, so that the matrix can be undone.
        told = self._told(masses, chances) + people / values**2
        standing = self._beside(coefficients)
        beside = told @ standing
        known = np.block([[told, beside], [beside.T, standing.T @ beside]]) + prior
        # What neither reports nor penalty hold is kept above the rounding of the two.
        known[np.diag_indices_from(known)] += 1e-9 * (1 + people / values) + 1e-11 * weight
        return cho_factor(known, overwrite_a=True, check_finite=False)

    def _climbed(self, start: Floats, held: _Held) -> tuple[Floats, float, Floats, Any]:
        """The best coefficients for one λ, by Fisher scoring with step halving."""
        from scipy.linalg import cho_solve

        found, prior = start, self._prior(held)
        level, masses, chances = self._level(found, prior)
        for _ in range(STEPS):
            factor = self._curvature(found, masses, chances, prior, held.weight)
            gradient = self._design(found).T @ self._slope(masses, chances) - prior @ found
            step = cho_solve(factor, gradient)
            size = min(1.0, WIDEST / max(float(np.abs(step).max()), 1e-12))
            moved = self._level(found + size * step, prior)
            while moved[0] < level - 1e-9 and size > 1e-8:
                size /= 2
                moved = self._level(found + size * step, prior)
            gain, (level, masses, chances) = moved[0] - level, moved
            found = found + size * step
            found[: self._values] -= found[: self._values].mean()
            if gain < GAIN:
                break
        return found, level, masses, self._curvature(found, masses, chances, prior, held.weight)

    @property
    def _start(self) -> tuple[Floats, _Held]:
        if self.begun is not None:
            found, held = self.begun
            return np.r_[found, np.zeros(len(self._sizes) + self._values - len(found))], held
        rough = 1.0 if self.order == 0 else 1e3 * (self._values / 64) ** (2 * self.order - 1)
        return np.zeros(self._values + len(self._sizes)), _Held(rough, self.heaps)

    def at_round_numbers(self, heapings: Sequence[Heaping]) -> list[_Penalised]:
        """The same with more people at the round numbers of one kind, or of two that follow each
        other: all such laws together are as likely before any report as this one.
        """
        kinds = [*((heaping,) for heaping in heapings), *pairwise(heapings)]
        found, held, _ = self._weighed
        return [
            replace(self, heapings=kind, odds=-math.log(len(kinds)), begun=(found, held))
            for kind in kinds
        ]

    @cached_property
    def _weighed(self) -> tuple[Floats, _Held, float]:
        """The coefficients at the λ, and the variance of single values, of largest evidence
        (MacKay's fixed point); both and that evidence.
        """
        values = self._values
        found, held = self._start
        for _ in range(ROUNDS):
            found, level, _, factor = self._climbed(found, held)
            wanted = self._advised(held, found, factor)
            if wanted.near(held) or wanted.own < self.heaps * LEVEL:
                break
            held = wanted
        sure = 2 * float(np.log(np.diag(factor[0])).sum())
        squares = _waves(values, self.order)[0]
        prior = float(np.log(held.precisions(squares[squares > 0])).sum())
        # A spike has any of the values to stand at; the ends of a range are expected to have one.
        places = [1 if place in (0, values - 1) else values for place in self.spikes]
        prior -= 2 * float(np.log(self._sizes).sum() + np.log(places).sum())
        return found, held, level + (prior - sure) / 2 + self.odds

    def _advised(self, held: _Held, coefficients: Floats, factor: Any) -> _Held:
        """What the coefficients found and their covariance advise: where the evidence is largest,
        Σ s = Σ es(θ² + V) and Σ (1−s) = Σ e(1−s)(θ² + V) over the waves, e being their precisions
        and s the smooth part of their variance.
        """
        from scipy.linalg import cho_solve

        squares, waves = _waves(self._values, self.order)
        spread = cho_solve(factor, np.eye(len(coefficients)))[: self._values, : self._values]
        found = (waves.T @ coefficients[: self._values]) ** 2
        doubt = np.einsum("ij,ij->j", waves, spread @ waves)
        smooth, precision = held.left(squares), held.precisions(squares)
        free = float((smooth - precision * smooth * doubt)[squares > 0].sum())
        rough = float((precision * smooth * found).sum()) / held.weight
        weight = max(free, 1e-3) / max(rough, 1e-12)
        lowest, highest = max(LEAST, held.weight / 30), min(MOST, held.weight * 30)
        own, expected = precision * (1 - smooth) @ (found + doubt), float((1 - smooth).sum())
        times = float(np.clip(own / max(expected, 1e-12), 0.2, 5.0))
        return _Held(
            float(np.clip(weight, lowest, highest)),
            float(np.clip(held.own * times, FLATTEST, STEEPEST)) if self.heaps else 0.0,
        )

    @property
    def evidence(self) -> float:
        """That of the best λ, on the scale of the log likelihood."""
        return self._weighed[2]

    def fit(self, steeper: float = 1.0) -> GridLaw:
        """The law of largest evidence, somewhat rougher where it is smooth, and where its heaps are
        beyond doubt with so many times their variance.
        """
        from scipy.linalg import cho_solve

        found, held, _ = self._weighed
        most = SMOOTHEST * (self._values / FINE) ** 5
        rougher = min(held.weight, most) / ROUGHER if self.order else held.weight
        own = min(held.own * steeper, max(held.own, STEEPEST))
        taken = _Held(rougher, own)
        found, _, masses, factor = self._climbed(found, taken)
        spread, design = cho_solve(factor, np.eye(len(found))), self._design(found)
        hidden, doubt = _hidden(masses, float(self.counts.sum()))
        told = design @ self._rougher(spread, taken) @ design.T
        covariance = self._doubted(masses, told, hidden - masses[:, None], doubt)
        errors = np.sqrt(np.diag(spread))
        lumps, rounded = self._lumps(found, errors, taken), self._rounded(found)
        return GridLaw(masses, hidden, covariance, self.evidence, self.order, lumps, rounded)

    def _rougher(self, spread: Floats, taken: _Held) -> Floats:
        """The covariance of coefficients of which less was smoothed away than their prior expects:
        H⁻¹(I + P·Σ·P)H⁻¹ and not H⁻¹, for H = I + P, a prior of precision P and coefficients of
        covariance Σ.
        """
        if not self.order:
            return spread
        squares, waves = _waves(self._values, self.order)
        expected = replace(taken, weight=taken.weight * ROUGHER / UNEVEN).precisions(squares)
        precision = taken.precisions(squares)
        part = np.divide(precision, expected, out=np.ones_like(squares), where=squares > 0)
        along = spread[:, : self._values] @ waves
        return np.asarray(spread - (along * (precision * (1 - part))) @ along.T)

    def _lumps(self, coefficients: Floats, errors: Floats, taken: _Held) -> Floats:  # (values,)
        """Which part of the people of each value may be anywhere near it, all alike: of heaps two
        standard deviations, all of a spike, and of round numbers as many more as their error
        allows.
        """
        own = taken.own if self.order else 1 / taken.weight
        found, each = self._at_heapings(coefficients), [self._spiking]
        for place in range(len(self.heapings)):
            more, at = coefficients.copy(), self._values + len(self.spikes) + place
            more[at] += errors[at]
            each.append(self._at_heapings(more)[:, place] - found[:, place])
        return np.column_stack(each).max(axis=1, initial=1 - math.exp(-2 * math.sqrt(own)))

    def _at_heapings(self, coefficients: Floats) -> Floats:  # (values, heapings)
        """Which part of the people of each value rounded to it."""
        shares = self._shares(coefficients)
        here = self._for_heapings(Heaping.inside) * self._rounding
        return np.asarray(here * shares / self._times(shares)[:, None])

    def _rounded(self, coefficients: Floats) -> dict[Heaping, Floats]:  # (values,) each
        """Which part of the people of each value is at round numbers, kind by kind."""
        return dict(zip(self.heapings, self._at_heapings(coefficients).T, strict=True))

    def _doubted(self, masses: Floats, spread: Floats, moves: Floats, doubt: Floats) -> Floats:
        """The covariance of θ, whose own is `spread`, and of shares of people who move the masses
        like this and of whom nothing is known but their usual size, by blocks.
        """
        chances, people = self.matrix @ masses, self.counts.sum()
        slope = self.matrix * masses - np.outer(chances, masses)
        away = self.matrix @ moves
        seen = people * away / chances[:, None]
        along = spread @ (slope.T @ seen)
        own = away.T @ seen - (slope.T @ seen).T @ along + np.diag(1 / doubt**2)
        wide = np.concatenate([-along, np.eye(len(doubt))])
        found = np.zeros((len(wide), len(wide)))
        found[: len(masses), : len(masses)] = spread
        return np.asarray(found + wide @ np.linalg.solve(own, wide.T))


def _hidden(masses: Floats, reports: float) -> tuple[Floats, Floats]:  # (values, parts), (parts,)
    """Where people may be whom a law of so many reports leaves out, evenly over a part of the grid
    each, and the usual share of them. Where a law says that hardly anybody is, its logarithm may
    move as it likes and moves nobody; where it says that many are, it moves enough of them by
    itself.
    """
    values = len(masses)
    part = np.arange(values) * PARTS // values
    found = np.eye(PARTS)[part]
    usual = min(np.hypot(HIDDEN, FEW / np.sqrt(reports)), MOST_HIDDEN)
    doubt = usual - found.T @ masses
    open_ = (doubt > HIDDEN / 100) & found.any(axis=0)
    return found[:, open_] / found[:, open_].sum(axis=0), doubt[open_]


@lru_cache(maxsize=64)
def _waves(values: int, order: int) -> tuple[Floats, Floats]:  # (values,), (values, values)
    """The waves that a penalty tells apart, one a column, and the squares of their differences: 0
    for those that it does not hold.
    """
    if order == 0:
        differences = np.eye(values) - 1 / values
    else:
        differences = np.diff(np.eye(values), order, axis=0)
    squares, waves = np.linalg.eigh(differences.T @ differences)
    squares[: max(order, 1)] = 0.0
    return squares, waves


def _best(fits: Sequence[GridLaw]) -> float:
    """The largest evidence."""
    return max(fit.evidence for fit in fits)


@lru_cache(maxsize=64)
@one_thread()
def fitted(
    shape: Shape, counts: bytes, heapings: tuple[Heaping, ...] = ()
) -> tuple[tuple[float, GridLaw], ...]:
    """The distributions behind a tally (float64 counts of the reports), with their weights by
    evidence: of each order, those that are smooth also with a spike where most people are; the
    smoothest with more people at round numbers, and with heaps beside these and that spike, for the
    largest may be no normal amount; where that is not the likeliest, with large heaps alone.
    """
    tally, orders = np.frombuffer(counts), [order for order in ORDERS if order < shape.values]
    smooth = [_Penalised(tally, shape, order) for order in orders]
    fits = [law.fit() for law in smooth]
    mode = int(np.argmax(max(fits, key=lambda fit: fit.evidence).masses))
    fits += [_Penalised(tally, shape, order, (mode,)).fit() for order in orders if order]
    if orders[-1] == ORDERS[-1]:
        smoothest, before = smooth[-1], _best(fits)
        fits += [law.fit() for law in smoothest.at_round_numbers(heapings)]
        rounded = _best(fits) - before > DECISIVE
        odds = UNLIKE if rounded else -RARE
        heaped = replace(smoothest, spikes=(mode,), heapings=heapings, heaps=HEAPS, odds=odds)
        beyond = heaped.evidence - _best(fits) > DECISIVE
        fits.append(heaped.fit(STEEPER if beyond and not rounded else 1.0))
        if fits[-1].evidence < _best(fits):
            fits.append(replace(smoothest, heaps=MANY_HEAPS, odds=-RARE).fit())
    evidence = np.array([fit.evidence for fit in fits])
    if not np.isfinite(evidence.max()):
        raise EstimationError("no distribution could be fitted to these reports")
    weights = np.exp(np.where(np.isfinite(evidence), evidence, -np.inf) - evidence.max())
    weights /= weights.sum()
    kept = weights > NEGLIGIBLE
    pairs = zip(weights[kept] / weights[kept].sum(), np.flatnonzero(kept), strict=True)
    return tuple((float(weight), fits[place]) for weight, place in pairs)
