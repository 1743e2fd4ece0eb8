"""Misfit: how far the reports are from what a fitted law lets expect.

An answer of a law with interactions of two columns is right about two columns only as long as no
report spoke of three: a law that cannot hold what three columns show makes up for it elsewhere,
and then its answers about one column are off too, by many times their errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sfumato.channels.contrasts import Floats
from sfumato.model.fitting import Fit, determined
from sfumato.model.measurement import NOBODY

CONTRADICTED = 3.5  # standard errors of Pearson's sum from which the reports contradict the law


class Pearson(NamedTuple):
    """A sum of squares over what is expected of it, its mean and its variance under the law."""

    found: float
    mean: float
    variance: float

    @classmethod
    def of(cls, counts: Floats, chances: Floats) -> Pearson:
        """That of answers which people gave with these chances."""
        people, possible = float(counts.sum()), chances > NOBODY
        expected, size = people * chances[possible], int(possible.sum())
        found = float(((counts[possible] - expected) ** 2 / expected).sum())
        few = (1 / expected).sum() - (size**2 + 2 * size - 2) / people
        return cls(found, size - 1.0, 2.0 * (size - 1) + max(float(few), 0.0))


def misfit(fit: Fit) -> float:
    """How many standard errors Pearson's sum over all answers lies above its mean."""
    found, mean, variance = (sum(each) for each in zip((0.0, 0.0, 0.0), *_sums(fit), strict=True))
    mean -= float(determined(fit).sum())
    return float((found - mean) / np.sqrt(variance)) if variance > 0 else 0.0


def _sums(fit: Fit) -> Iterator[Pearson]:
    likelihood, law = fit.likelihood, fit.law
    table = law.reshape(likelihood.family.interactions.shape)
    for part in (*likelihood.parts.answered, *likelihood.full):
        rest = tuple(axis for axis in range(table.ndim) if axis not in part.axes)
        yield Pearson.of(part.counts, part.response.apply(table.sum(axis=rest).ravel()))
    means = likelihood.means(law)
    for normal in likelihood.parts.normals:
        away, size = means[normal.places] - normal.means, float(len(normal.means))
        yield Pearson(float(away @ normal.information @ away), size, 2 * size)
