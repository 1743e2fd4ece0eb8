"""Counts that are possible, at the price of a bias: clipped, projected, or the most likely ones, in
closed form for retain channels, by accelerated iterative Bayes for the others.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Dense, Product, Retain
from sfumato.errors import ConvergenceWarning
from sfumato.estimation.limits import MOST_STEPS, MULTIPLIED

TOLERANCE = 1e-9  # largest relative gain in log-likelihood per report that a step may still promise


@dataclass(frozen=True, eq=False)
class MostLikely:
    """The non-negative counts that make the reports most likely, and how the search for
    them ended.
    """

    value: NDArray[Any]
    steps: int
    gap: float  # upper bound on the log-likelihood per report still to be gained
    converged: bool


def maximum_likelihood(
    channel: Channel, counts: NDArray[Any], *, tolerance: float = TOLERANCE, steps: int = MOST_STEPS
) -> MostLikely:
    """The truths under which these reports are most likely, none of them negative.

    Where the inversion has no negative cell the two agree. Iterative Bayes (OLAP 4.2.2) is EM for
    this likelihood; it crawls on ill-conditioned channels, so retain channels are solved in closed
    form and the others are accelerated (SQUAREM, Varadhan and Roland 2008). The stopping rule is a
    bound, not a small step: by concavity the log-likelihood per report is within max_u (Aᵀ(y/Ax))_u
    - 1 of its maximum.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if float(counts.sum()) <= 0:
        return MostLikely(np.zeros(channel.inputs), 0, 0.0, True)
    if isinstance(channel, Retain) and channel.keep > 0:
        return MostLikely(retain_maximum(channel, counts), 0, 0.0, True)
    blocks = _in_blocks(channel) if isinstance(channel, Product) else channel
    found = _accelerated(blocks, counts.reshape(blocks.outputs), tolerance, steps)
    return replace(found, value=found.value.reshape(channel.inputs))


def _in_blocks(channel: Product) -> Channel:
    """The same channel over fewer, longer axes: neighbouring small factors multiplied out, since
    every step takes them all.
    """
    if channel.axes != Product.of(*channel.factors).axes or channel.inputs != channel.outputs:
        return channel
    blocks: list[NDArray[Any]] = []
    for factor in channel.factors:
        if math.prod(factor.inputs) > MULTIPLIED:
            return channel
        matrix = factor.to_dense()
        if blocks and len(blocks[-1]) * len(matrix) <= MULTIPLIED:
            blocks[-1] = np.kron(blocks[-1], matrix)
        else:
            blocks.append(matrix)
    return Product.of(*(Dense.square(block) for block in blocks))


def retain_maximum(channel: Retain, counts: NDArray[Any]) -> NDArray[Any]:
    """The maximum for keep·I + (1-keep)·b·1ᵀ: x_i = max(0, y_i/μ - c_i/keep), c = (1-keep)·b, μ
    such that Σx = 1.

    In shares. Cells enter in the order of y_i/c_i; with the first k in, μ = Σy / (1 + Σc/keep), and
    k is the largest number for which the last one in is still positive.
    """
    total, keep = float(counts.sum()), channel.keep
    shares = np.ravel(counts) / total
    if keep == 1:
        return np.array(counts, dtype=np.float64)
    noise = (1 - keep) * np.ravel(channel.replacement)
    with np.errstate(divide="ignore", invalid="ignore"):
        lift = np.where(noise > 0, shares / noise, np.where(shares > 0, np.inf, 0.0))
    order = np.argsort(-lift, kind="stable")
    level = np.cumsum(shares[order]) / (1 + np.cumsum(noise[order]) / keep)
    inside = shares[order] * keep > noise[order] * level
    mu = level[int(np.flatnonzero(inside)[-1])]
    value = np.maximum(0.0, shares / mu - noise / keep)
    return (value * total).reshape(counts.shape)


def _accelerated(
    channel: Channel, counts: NDArray[Any], tolerance: float, steps: int
) -> MostLikely:
    total = float(counts.sum())
    observed = counts / total
    value = np.full(channel.inputs, 1 / np.prod(channel.inputs))
    gap, step = np.inf, 0
    while step < steps:
        first, gap = _bayes_step(channel, observed, value)
        if gap <= tolerance:
            break
        second, _ = _bayes_step(channel, observed, first)
        value, step = _leap(channel, observed, value, first, second), step + 3
    if gap > tolerance:
        warnings.warn(
            f"iterative Bayes stopped after {step} steps; the log-likelihood per report may still "
            f"gain {gap:.2g}, "
            f"above the tolerance {tolerance:.2g}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return MostLikely(value * total, step, float(gap), bool(gap <= tolerance))


def _bayes_step(
    channel: Channel, observed: NDArray[Any], value: NDArray[Any]
) -> tuple[NDArray[Any], float]:
    """x_u Σ_v y_v A[v,u] / (Ax)_v, and the bound on what is still to be gained."""
    expected = np.maximum(channel.apply(value), 1e-300)
    gradient = channel.adjoint(observed / expected)
    return value * gradient, float(gradient.max() - 1)


def _leap(
    channel: Channel,
    observed: NDArray[Any],
    start: NDArray[Any],
    first: NDArray[Any],
    second: NDArray[Any],
) -> NDArray[Any]:
    """One SQUAREM extrapolation along two Bayes steps, taken back to the plain step where it lowers
    the likelihood.
    """
    change, bend = first - start, second - 2 * first + start
    size = float(np.sqrt((bend**2).sum()))
    stride = max(1.0, float(np.sqrt((change**2).sum())) / size) if size > 0 else 1.0
    leapt = np.maximum(start + 2 * stride * change + stride**2 * bend, start * 1e-12)
    leapt, _ = _bayes_step(channel, observed, leapt / leapt.sum())
    return (
        leapt
        if _log_likelihood(channel, observed, leapt) >= _log_likelihood(channel, observed, second)
        else second
    )


def _log_likelihood(channel: Channel, observed: NDArray[Any], value: NDArray[Any]) -> float:
    return float((observed * np.log(np.maximum(channel.apply(value), 1e-300))).sum())


def clip_and_scale(counts: NDArray[Any], total: float | None = None) -> NDArray[Any]:
    """Negative counts set to zero and the rest scaled to the total (FRAPP §8.2.1).

    >>> clip_and_scale(np.array([-2.0, 6.0, 6.0])).tolist()
    [0.0, 5.0, 5.0]
    """
    wanted = float(np.sum(counts)) if total is None else total
    positive = np.maximum(counts, 0.0)
    mass = float(positive.sum())
    return (
        positive * (max(wanted, 0.0) / mass)
        if mass > 0
        else np.full(np.shape(counts), max(wanted, 0.0) / np.size(counts))
    )


def project_simplex(counts: NDArray[Any], total: float | None = None) -> NDArray[Any]:
    """The nearest non-negative counts with this total, in Euclidean distance: one threshold is
    taken off every cell.

    >>> project_simplex(np.array([-2.0, 6.0, 6.0])).tolist()
    [0.0, 5.0, 5.0]
    """
    wanted = max(float(np.sum(counts)) if total is None else total, 0.0)
    ordered = np.sort(np.ravel(counts))[::-1]
    excess = (np.cumsum(ordered) - wanted) / np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered - excess >= 0)[-1])
    return np.maximum(np.asarray(counts, dtype=float) - excess[last], 0.0)
