"""Fitting: the log-linear law that a release makes most probable, its interactions shrunk as far as
the reports themselves advise.

Each coefficient of an interaction A has the prior N(0, v_A / degree³), so that rough contrasts of
ordered cells need more evidence than smooth ones; where the reports show columns rougher than that
and are more probable under v_A / degree, that is the prior. v_A is learned from the reports by
MacKay's fixed point, with one pseudo-coefficient of the size that is usual among interactions of
the same order: v_A ← (Σ degree³θ² + v̄) / (n_A − Σ degree³(H⁻¹)_ii/v_A + 1), v̄ their geometric mean.
Without the pseudo-coefficient an interaction of few coefficients is believed to be absent, or to be
large, too easily: on CENSUS errors at lengths 3 to 6 are some 8 % larger. Learning starts from
large variances: from small ones a strong interaction may be taken for noise and never be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.channels.contrasts import Floats
from sfumato.errors import FileError
from sfumato.model.loglinear import Likelihood
from sfumato.progress import Progress, silent

SMOOTH, ROUGH = 3.0, 1.0  # powers of a contrast's degree in its prior precision
SEEMS_ROUGH = 1.25  # times what is expected of rough contrasts, from which roughness is tried
FIRST_ORDER = 4.0  # prior variance of single columns' coefficients: hardly any shrinkage
START = (FIRST_ORDER, 1.0, 0.003)  # by order
BOUNDS = (1e-5, 25.0)
USUAL = 1.0  # how many coefficients of the usual size each interaction is given
CALM = 0.03  # the largest change of a log variance at which learning stops
ROUNDS = 12
EACH = 1  # steps of a round: Newton's, so near the maximum that a second moves nothing
HALVINGS = 14
ENOUGH = 1e-5  # nats that a step promises below which it is the last while variances are learned
SETTLED = 1e-8  # the same for the last climb, a ten thousandth of a standard error
NEAR = 10.0  # nats that a step promises below which the next one is Newton's
ROUGHLY = 1.0  # the same for the start, where no columns go together
BEGINNING = 6  # steps to it, and the first ones from it
ROUNDING = 1e-12  # of the likelihood: what a step may seem to lose by rounding alone
STEPS = 60


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted law: its coefficients, what the reports say of them, and the variances learned."""

    likelihood: Likelihood
    theta: Floats  # (size,)
    law: Floats  # (cells,)
    variances: Floats  # (interactions,)
    converged: bool
    steps: int
    promised: float = np.inf  # nats that the last step was to gain
    roughness: float = SMOOTH

    @property
    def weights(self) -> Floats:  # (size,)
        """How much smaller than its interaction's the variance of each coefficient is."""
        return self.likelihood.family.interactions.degrees**self.roughness

    @property
    def precision(self) -> Floats:  # (size,)
        """The prior precision of each coefficient."""
        return self.weights / self.variances[self.likelihood.family.interactions.blocks]

    @cached_property
    def information(self) -> Floats:  # (size, size)
        """What such reports say of the coefficients on average, the prior left out."""
        return self.likelihood.score(self.law)[1]

    @property
    def evidence(self) -> float:
        """The logarithm of the chance of these reports under the prior, but for a constant."""
        _, determined = np.linalg.slogdet(self.information + np.diag(self.precision))
        prior = np.log(self.precision).sum() - self.precision @ self.theta**2
        return float(self.likelihood.value(self.law) + (prior - determined) / 2)


def start_variances(likelihood: Likelihood) -> Floats:
    """The variances before anything is learned, by order."""
    orders = likelihood.family.interactions.orders
    return np.array([START[min(order, len(START)) - 1] for order in orders], dtype=np.float64)


def fit(
    likelihood: Likelihood,
    variances: Floats | None = None,
    *,
    learn: bool = True,
    start: Floats | None = None,
    roughness: float = SMOOTH,
    tell: Progress = silent,
) -> Fit:
    """The penalised maximum of the likelihood, and the variances of the interactions learned unless
    they are given to be kept; `start` are coefficients that are near.
    """
    known = start_variances(likelihood) if variances is None else variances
    theta = _independent(likelihood) if start is None else start
    begun = replace(_at(likelihood, theta, known), roughness=roughness)
    learnt = _learned([_ascend(begun, BEGINNING)], tell)[0] if learn else begun
    return _ascend(learnt, STEPS, SETTLED)


def loosened(found: Fit, times: float | Floats) -> Fit:
    """The fit once the variances of interactions, or of each its own, are so many times those
    learned, as far as there is a bound to them.

    Variances that the reports make most probable give the least error of a share, and the bias that
    shrinkage then has is as large as the noise; with larger ones it is less, and intervals cover.
    """
    likelihood, orders = found.likelihood, found.likelihood.family.interactions.orders
    looser = np.where(orders > 1, found.variances * times, found.variances)
    kept = np.minimum(looser, np.maximum(found.variances, BOUNDS[1]))
    return fit(likelihood, kept, learn=False, start=found.theta, roughness=found.roughness)


def refitted(
    likelihood: Likelihood,
    theta: Floats,
    variances: Floats,
    *,
    converged: bool = False,
    steps: int = 0,
    roughness: float = SMOOTH,
) -> Fit:
    """The fit with these coefficients, found before: nothing is searched for."""
    interactions = likelihood.family.interactions
    if theta.shape != (interactions.size,) or variances.shape != (len(interactions.sets),):
        raise FileError(
            f"a law of {theta.size} coefficients and {variances.size} variances; its columns have "
            f"{interactions.size} and {len(interactions.sets)}"
        )
    law = likelihood.family.law(theta)
    return Fit(likelihood, theta, law, variances, converged, steps, roughness=roughness)


def _independent(likelihood: Likelihood) -> Floats:  # (size,)
    """Where every fit starts: as if no columns went together. Steps from no knowledge at all would
    be far too long.
    """
    alone = replace(likelihood, family=likelihood.family.singles())
    size = alone.family.interactions.size
    start = _at(alone, np.zeros(size), np.full(len(alone.family.interactions.sets), FIRST_ORDER))
    theta = np.zeros(likelihood.family.interactions.size)
    theta[:size] = _ascend(start, BEGINNING, ROUGHLY).theta  # single columns come first
    return theta


def _at(likelihood: Likelihood, theta: Floats, variances: Floats) -> Fit:
    return Fit(likelihood, theta, likelihood.family.law(theta), variances, False, 0)


def _ascend(start: Fit, most: int, enough: float = ENOUGH) -> Fit:
    """At most so many steps, each halved until it does not descend; converged if the last promised
    to gain less than `enough`.
    """
    likelihood, precision = start.likelihood, start.precision
    theta, law, steps = start.theta, start.law, start.steps
    value = likelihood.value(law) - 0.5 * float(precision @ theta**2)
    promised = start.promised
    while steps < start.steps + most and (steps == start.steps or promised >= enough):
        step, promised = _step(likelihood, precision, theta, law, near=promised < NEAR)
        theta, law, value = _halved(likelihood, precision, theta, step, value)
        steps += 1
    return replace(
        start, theta=theta, law=law, steps=steps, promised=promised, converged=promised < enough
    )


def _step(
    likelihood: Likelihood, precision: Floats, theta: Floats, law: Floats, *, near: bool
) -> tuple[Floats, float]:
    """A step towards the maximum, and what it promises to gain: Newton's near it, where the
    likelihood curves downwards; else Fisher's, whose information is always positive.
    """
    if near:
        gradient, falls = likelihood.curvature(law)
        gradient -= precision * theta
        step = _solved(falls + np.diag(precision), gradient)
        if step is not None:
            return step, float(step @ gradient)
    gradient, information = likelihood.score(law)
    gradient -= precision * theta
    step = np.linalg.solve(information + np.diag(precision), gradient)
    return step, float(step @ gradient)


def _solved(matrix: Floats, right: Floats) -> Floats | None:
    """The solution, if the matrix is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return np.linalg.solve(matrix, right)


def _halved(
    likelihood: Likelihood, precision: Floats, theta: Floats, step: Floats, before: float
) -> tuple[Floats, Floats, float]:
    """The first point along a step, halved again and again, that is no worse than where
    it starts.
    """
    for halving in range(HALVINGS):
        moved = theta + step / 2**halving
        law = likelihood.family.law(moved)
        value = likelihood.value(law) - 0.5 * float(precision @ moved**2)
        if value >= before - ROUNDING * abs(before):
            return moved, law, value
    return theta, likelihood.family.law(theta), before


def learn_together(likelihoods: Sequence[Likelihood], tell: Progress = silent) -> list[Fit]:
    """Each fitted on its own, but what variance is usual is learned from all of them."""
    starts = []
    for place, each in enumerate(likelihoods):
        tell(f"fitting {len(likelihoods)} pairs of columns", place / len(likelihoods))
        start = _at(each, _independent(each), start_variances(each))
        starts.append(_ascend(start, BEGINNING))
    return _learned(starts, tell)


def _learned(starts: list[Fit], tell: Progress) -> list[Fit]:
    """The variances learned, as smooth or as rough as makes the reports more probable."""
    smooth = _learn_all(starts, tell)
    if _seem_smooth(smooth):
        return smooth
    rough = _learn_all([replace(found, roughness=ROUGH) for found in smooth], tell)
    return max(smooth, rough, key=lambda fits: sum(found.evidence for found in fits))


def _seem_smooth(fits: Sequence[Fit]) -> bool:
    """Whether rough contrasts of interactions are no larger than their prior makes them."""
    found, expected = 0.0, 0.0
    for each in fits:
        interactions = each.likelihood.family.interactions
        rough = (interactions.degrees > 1) & (interactions.orders[interactions.blocks] > 1)
        if rough.any():
            found += float((each.precision * each.theta**2)[rough].sum())
            expected += float(determined(each)[rough].sum())
    return found <= SEEMS_ROUGH * expected


def _learn_all(fits: list[Fit], tell: Progress) -> list[Fit]:
    """Rounds of {new variances, a step} until the variances rest."""
    for number in range(ROUNDS):
        tell(f"learning how far columns go together, at most {ROUNDS} rounds", number / ROUNDS)
        before = np.concatenate([found.variances for found in fits])
        after = learned(fits)
        ends = np.cumsum([len(found.variances) for found in fits])[:-1]
        parts = np.split(after, ends)
        fits = [
            _ascend(replace(found, variances=part), EACH)
            for found, part in zip(fits, parts, strict=True)
        ]
        if np.abs(np.log(after / before)).max(initial=0.0) < CALM:
            break
    return fits


def learned(fits: Sequence[Fit]) -> Floats:  # (interactions of all,)
    """The variances that the coefficients found and their uncertainty advise."""
    size, known = (np.concatenate(part) for part in zip(*map(_advice, fits), strict=True))
    orders = np.concatenate([found.likelihood.family.interactions.orders for found in fits])
    result = np.concatenate([found.variances for found in fits])
    for order in np.unique(orders[orders > 1]):
        own = orders == order
        alone = np.clip(size[own] / np.maximum(known[own], 1e-6), *BOUNDS)
        usual = np.exp(np.log(alone).mean())
        result[own] = (size[own] + USUAL * usual) / (np.maximum(known[own], 0.0) + USUAL)
    return np.clip(result, *BOUNDS)


def _advice(found: Fit) -> tuple[Floats, Floats]:  # (interactions,) each
    """The square of each interaction's coefficients, and how many of them the reports determine."""
    interactions = found.likelihood.family.interactions
    number, squares = len(interactions.sets), found.weights * found.theta**2
    size = np.bincount(interactions.blocks, squares, minlength=number)
    return size, np.bincount(interactions.blocks, determined(found), minlength=number)


def determined(found: Fit) -> Floats:  # (size,)
    """How far the reports determine each coefficient, from 0 (the prior alone) to 1."""
    spread = np.diag(np.linalg.inv(found.information + np.diag(found.precision)))
    return np.asarray(1 - found.precision * spread)
