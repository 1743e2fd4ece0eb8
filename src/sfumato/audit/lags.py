"""Lags: whether what chance left in one row goes with what it left in another, some rows on or
mirrored.

A coin that a counter tosses, a keystream drawn again or backwards: the rates are right, and yet the
noise of one row gives that of another away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import Agreement
from sfumato.audit.check import Check, bounded, worst_log

FEWEST = 64  # pairs of rows below which a distance is not judged

Floats = NDArray[np.float64]


def lag_check(series: tuple[Agreement, ...]) -> Check:
    """For every distance k, whether Σ r_i r_{i+k} is what independent rows make it."""
    name = "whether a row has the truth is independent of every other row"
    rows = series[0].rows
    if rows < 2 * FEWEST:
        return Check(name, 1.0, "too few rows to tell")
    lags = np.arange(1, rows - FEWEST)
    logs = np.stack([_lag_logs(one, lags) for one in series])

    def detail(place: int) -> str:
        which, lag = divmod(place, len(lags))
        return f"{series[which].name}, rows {lags[lag]:,} apart"

    return worst_log(name, logs.ravel(), logs.size, detail)


def mirror_check(series: tuple[Agreement, ...]) -> Check:
    """For every sum s of row numbers, whether Σ r_i r_{s-i} is what independent rows make it."""
    name = "whether a row has the truth is independent of the row mirrored to it"
    rows = series[0].rows
    if rows < 2 * FEWEST:
        return Check(name, 1.0, "too few rows to tell")
    sums = np.arange(2 * FEWEST, 2 * (rows - FEWEST) - 1)
    logs = np.stack([_mirror_logs(one, sums) for one in series])

    def detail(place: int) -> str:
        which, place_of_sum = divmod(place, len(sums))
        first = max(0, int(sums[place_of_sum]) - rows + 1)
        last = int(sums[place_of_sum]) - first
        return f"{series[which].name}, rows {first + 1:,} to {last + 1:,} mirrored"

    return worst_log(name, logs.ravel(), logs.size, detail)


def _lag_logs(one: Agreement, lags: NDArray[np.intp]) -> Floats:
    """Given the rows before, r_{i+k} has mean 0 and variance v_{i+k}: so Σ r_i² v_{i+k} is what the
    sum may spread (Freedman's inequality for martingales).
    """
    spread = np.maximum(
        _correlation(one.left**2, one.variance), _correlation(one.variance, one.variance)
    )
    return _logs(one, _correlation(one.left, one.left)[lags], spread[lags])


def _mirror_logs(one: Agreement, sums: NDArray[np.intp]) -> Floats:
    # Each pair comes twice, and where the sum is even a row meets itself.
    own = np.zeros(2 * one.rows - 1)
    own[::2] = one.left**2
    products = (_convolution(one.left, one.left) - own) / 2
    own[::2] = one.left**2 * one.variance
    left = (_convolution(one.left**2, one.variance) - own) / 2
    own[::2] = one.variance**2
    spread = np.maximum(left, (_convolution(one.variance, one.variance) - own) / 2)
    return _logs(one, products[sums], spread[sums])


def _logs(one: Agreement, products: Floats, spread: Floats) -> Floats:
    largest = float(np.abs(one.left).max()) ** 2
    return bounded(products, np.maximum(spread, 0.0), largest, largest)


def _correlation(first: Floats, second: Floats) -> Floats:  # (rows,) -> (rows,), by lag
    """Σ_i first_i second_{i+k} for every k from 0 on."""
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(2 * len(first), real=True)
    product = np.conj(rfft(first, size)) * rfft(second, size)
    return np.asarray(irfft(product, size)[: len(first)])


def _convolution(first: Floats, second: Floats) -> Floats:  # (rows,) -> (2·rows - 1,), by sum
    """Σ_i first_i second_{s-i} for every s from 0 on."""
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(2 * len(first), real=True)
    return np.asarray(irfft(rfft(first, size) * rfft(second, size), size)[: 2 * len(first) - 1])
