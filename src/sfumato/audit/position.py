"""Position: whether the truth comes through more in some places of the file than in others.

A mechanism that forgets the first rows, the last batch or every 50th record lets whole records
through, and no total shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.agreement import Agreement, Agreements
from sfumato.audit.check import Check, bounded, worst_log

SHORTEST = 16  # rows of the smallest stretch that is judged on its own
MOST_MODULUS = 4096
FEWEST_IN_CLASS = 4  # rows of a class that is judged
MODULO_ROWS = 1 << 19  # a leak that comes back at every 4096th row or oftener is seen in so many
MODULO_NUMBERS = 1 << 20  # rows times series that are searched for one
MODULO_SERIES = 4  # the whole and the first columns: the search is long
# A sum of squared score below this is likelier than one among all that are searched.
NOTHING = 30.0

Floats = NDArray[np.float64]


def position_checks(found: Agreements) -> list[Check]:
    """The checks of all rows, of stretches, of rows that come back, and of runs."""
    checks = (total_check, stretch_check, modulo_check)
    return [*(check(found.series) for check in checks), run_check(found)]


def total_check(series: tuple[Agreement, ...]) -> Check:
    """Whether the truth comes through as often as it should in all rows together."""
    name = "the truth comes through as often as it should"
    logs = [bounded(one.left.sum(), one.variance.sum(), one.most, one.least) for one in series]
    return worst_log(name, logs, len(series), lambda place: series[place].name)


def stretches(rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where stretches start and stop: lengths doubled from the shortest, each half over the next,
    and one of each length at the end.
    """
    starts, stops = [], []
    length = SHORTEST
    while length <= rows // 2:
        first = np.append(np.arange(0, rows - length, length // 2), rows - length)
        starts.append(first)
        stops.append(first + length)
        length *= 2
    empty = [np.zeros(0, dtype=np.intp)]
    return np.concatenate(starts or empty), np.concatenate(stops or empty)


def stretch_check(series: tuple[Agreement, ...]) -> Check:
    """Whether any stretch of the file has the truth more often, or less, than it should."""
    name = "the truth comes through no more in one stretch of rows than in another"
    starts, stops = stretches(series[0].rows)
    if not len(starts):
        return Check(name, 1.0, "too few rows to tell")
    logs = np.stack([_stretch_logs(one, starts, stops) for one in series])

    def detail(place: int) -> str:
        which, stretch = divmod(place, len(starts))
        return f"{series[which].name}, rows {starts[stretch] + 1:,} to {stops[stretch]:,}"

    return worst_log(name, logs.ravel(), logs.size, detail)


def _stretch_logs(
    one: Agreement, starts: NDArray[np.intp], stops: NDArray[np.intp]
) -> NDArray[np.float64]:
    left, variance = (np.append(0.0, np.cumsum(values)) for values in (one.left, one.variance))
    return bounded(
        left[stops] - left[starts], variance[stops] - variance[starts], one.most, one.least
    )


def modulo_check(series: tuple[Agreement, ...]) -> Check:
    """Whether rows that come back every 2, 3, … 4096 rows have the truth more often."""
    name = "the truth comes through no more at every 2nd, 3rd, … row than at others"
    rows = min(series[0].rows, MODULO_ROWS)
    series = series[: max(1, min(MODULO_SERIES, MODULO_NUMBERS // rows))]
    moduli = range(2, min(MOST_MODULUS, rows // FEWEST_IN_CLASS) + 1)
    most, least = (np.array([bound(one) for one in series]) for bound in (_most, _least))
    logs: list[Floats] = []
    places: list[tuple[int, int, int]] = []  # which modulus, class and series
    for modulus, left, variance in _classes(series, rows, moduli):
        telling = left * left > NOTHING * variance
        if telling.any():
            row, one = np.nonzero(telling)
            logs.append(bounded(left[row, one], variance[row, one], most[one], least[one]))
            places += [(modulus, *place) for place in zip(row.tolist(), one.tolist(), strict=True)]

    def detail(place: int) -> str:
        modulus, first, one = places[place]
        return f"{series[one].name}, every {modulus:,}th row from row {first + 1:,}"

    return worst_log(name, np.concatenate(logs) if logs else [], len(series) * sum(moduli), detail)


def _most(one: Agreement) -> float:
    return one.most


def _least(one: Agreement) -> float:
    return one.least


def _classes(
    series: tuple[Agreement, ...], rows: int, moduli: range
) -> Iterator[tuple[int, Floats, Floats]]:
    """For every modulus the sums of what chance left, and of variances, over its classes; both of
    shape (classes, series).

    Only the larger half of the moduli goes through all rows; each smaller one has a multiple among
    them, whose classes it merges.
    """
    if not moduli:
        return
    parts = [one.left[:rows] for one in series] + [one.variance[:rows] for one in series]
    both, most = np.stack(parts), moduli[-1]
    folded = {modulus: _folded(both, modulus) for modulus in range(most // 2 + 1, most + 1)}
    for modulus in moduli:
        times = most // modulus
        sums = folded[modulus] if times == 1 else _folded(folded[modulus * times], modulus)
        yield modulus, sums[: len(series)].T, sums[len(series) :].T


def _folded(values: Floats, modulus: int) -> Floats:  # (n, rows) -> (n, modulus)
    series, rows = values.shape
    whole = rows // modulus * modulus
    sums = values[:, :whole].reshape(series, -1, modulus).sum(axis=1)
    sums[:, : rows - whole] += values[:, whole:]
    return sums


def run_check(found: Agreements) -> Check:
    """Whether any run of reports that are their records is longer than chance makes it."""
    start, length = longest_run(found.unchanged)
    name = "no long run of reports are the records themselves"
    if not length:
        return Check(name, 1.0)
    detail = f"{length:,} unchanged records from row {start + 1:,} on"
    return Check(name, float(np.exp(min(0.0, run_log(found.staying, length)))), detail)


def longest_run(unchanged: NDArray[np.bool_]) -> tuple[int, int]:
    """Where the longest run starts, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], unchanged, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    place = int(np.argmax(lengths))
    return int(edges[2 * place]), int(lengths[place])


def run_log(staying: Floats, length: int) -> float:
    """The logarithm of a bound on the probability of a run of this length anywhere: the sum over
    all places of the product of the rows' own probabilities.
    """
    from scipy.special import logsumexp

    sums = np.append(0.0, np.cumsum(np.log(np.maximum(staying, 1e-300))))
    return float(logsumexp(sums[length:] - sums[:-length]))
