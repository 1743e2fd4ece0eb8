"""Sight: how well reports alone tell the cells of a question, were every law as likely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.channels.contrasts import Axes, Floats, Interactions
from sfumato.model.measurement import Measurement, Measurements, Reconstruction
from sfumato.model.reports import Reports

MOST_CELLS = 1024  # of a question whose covariance is written down


def sight(reports: Reports, axes: Axes, share: Floats) -> Floats:  # (cells,) -> (cells, n)
    """Columns whose products are the covariances of shares that reports alone leave to the cells of
    some axes (ascending), at a law of these shares.

    The mean of a feature that nothing was reported of is as open as features are: their mean square
    is 1. Where the cells are too many, each is left as open as a share can be.
    """
    if len(share) > MOST_CELLS:
        return np.full((len(share), 1), 0.5)
    unbiased = reports.unbiased(axes)
    if unbiased is not None:
        chance = (np.diag(share) - np.outer(share, share)) / reports.people
        values, vectors = np.linalg.eigh(unbiased + chance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    shape = tuple(reports.shape[axis] for axis in axes)
    every = Interactions.up_to(shape, tuple(reports.ordered[axis] for axis in axes), len(axes))
    known = np.eye(every.size) + _information(every, reports.measurements(axes), share)
    features = every.features(tuple(range(len(axes)))).matrix
    rows = np.linalg.solve(np.linalg.cholesky(known), features.T)
    return np.asarray(rows.T / len(share))


def _information(
    every: Interactions, measurements: Sequence[Measurement | Reconstruction], share: Floats
) -> Floats:  # (size, size)
    """What measurements say of the means of all features."""
    result = np.zeros((every.size, every.size))
    parts = Measurements.of(every, measurements)
    if parts:
        own = parts.interactions
        places = np.concatenate([every.places(part) for part in own.sets])
        weights = parts.weights(own.means(share[:, None])[:, 0])
        result[np.ix_(places, places)] = parts.information(weights, np.eye(own.size))
    return result
