"""Independence: whether the noise of one report says anything about the noise of another, as a
reused keystream would.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.check import Check, two_sided
from sfumato.bits import Bits
from sfumato.domain import Columns, same_rows
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import Keystream

FEWEST = 64  # pairs of rows below which a distance is not judged
REPEATED_ROWS = 4096  # times that one record is perturbed, twice over
# reports that differ from the next one show that there is noise, which cannot come out the same by
# chance
NOISY = 50


def keystream_check(residuals: NDArray[np.float64]) -> Check:
    """Whether noises at some distance between rows go together: a keystream drawn again shows at
    the distance it repeats.

    For every lag k the score Σ r_i r_{i+k} / √Σ r_i² r_{i+k}² is standard normal if the noises are
    independent, whatever the truths; both sums for all lags come from one Fourier transform each.
    """
    name = "the noise of a row is independent of that of every other row"
    rows = len(residuals)
    if rows < 2 * FEWEST:
        return Check(name, 1.0, "too few rows to tell")
    centred = residuals - residuals.mean()
    lags = rows - FEWEST
    scores = _autocovariance(centred)[1:lags] / np.sqrt(
        np.maximum(_autocovariance(centred**2)[1:lags], 1e-9 * rows)
    )
    place = int(np.argmax(np.abs(scores)))
    return Check(
        name, min(1.0, float(two_sided(scores[place])) * len(scores)), f"rows {place + 1:,} apart"
    )


def _autocovariance(series: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(2 * len(series), real=True)
    return np.asarray(irfft(np.abs(rfft(series, size)) ** 2, size)[: len(series)])


def fresh_noise_check(mechanism: Mechanism, record: Columns, rng: Keystream) -> Check:
    """Whether one record, perturbed many times and then again from a keystream that runs on, gets
    different noise.
    """
    repeated = np.zeros(REPEATED_ROWS, dtype=np.intp)
    records = tuple(column.take(repeated) for column in record)
    once, again = (_private(mechanism, mechanism.perturb(records, rng)) for _ in range(2))
    name = "records perturbed again get fresh noise"
    if not all(same_rows(left, right) for left, right in zip(once, again, strict=True)):
        return Check(name, 1.0)
    changes = int(np.logical_or.reduce([_changes(column) for column in once]).sum())
    return Check(
        name, 0.0 if changes >= NOISY else 1.0, "a second batch has the very noise of the first"
    )


def _private(mechanism: Mechanism, reports: Columns) -> Columns:
    return tuple(
        column
        for attribute, column in zip(mechanism.reports, reports, strict=True)
        if not attribute.public
    )


def _changes(column: Any) -> NDArray[np.bool_]:
    """Whether each row differs from the next."""
    if not isinstance(column, Bits):
        return np.asarray(column[1:] != column[:-1])
    dense = column.select(np.arange(min(column.items, FEWEST))).to_dense()
    return np.asarray((dense[1:] != dense[:-1]).any(axis=1))
