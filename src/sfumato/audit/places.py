"""Places in the file: whether the truth comes through more in some rows than in others, whether a
row or its noise gives another one away, and whether the order of the reports says anything.

A mechanism that forgets the first rows, the last batch or every 50th record lets whole records
through, and no total shows it. A coin that a counter tosses, a keystream drawn again or backwards:
the rates are right, and yet the rows are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.limits import (
    FEWEST,
    MODULO_ROWS,
    MOST_COLUMNS,
    MOST_MODULUS,
    SHORTEST,
)
from sfumato.audit.paired import Paired, cells_of, judged_cells
from sfumato.audit.score import TOO_FEW, Agreements, Check, Floats, RowScores, ScoreTest
from sfumato.bits import Bits
from sfumato.domain import Cells, Columns, same_rows
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import Keystream

WHOSE = {-1: "the record before", 0: "the person's own", 1: "the record after"}
Scores = Sequence[RowScores]


def place_checks(found: Agreements) -> list[Check]:
    """The checks of distances, of all rows, of stretches, of rows that come back, and of runs."""
    checks = (lag_check, mirror_check, total_check, stretch_check, modulo_check)
    return [*(check(found.scores) for check in checks), run_check(found)]


def total_check(scores: Scores) -> Check:
    """Whether the truth comes through as often as it should in all rows together."""
    return Check.of(
        "the truth comes through as often as it should", [one.total() for one in scores]
    )


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


def stretch_test(one: RowScores, after: str = "") -> ScoreTest:
    """The sums over every stretch of the file."""
    starts, stops = stretches(one.rows)

    def sums(values: Floats) -> Floats:
        if not values.ndim:
            return np.asarray(values * (stops - starts))
        cumulated = np.append(0.0, np.cumsum(values))
        return np.asarray(cumulated[stops] - cumulated[starts])

    def where(place: int) -> str:
        rows = f"rows {starts[place] + 1:,} to {stops[place]:,}{after}"
        return f"{one.name}, {rows}" if one.name else rows

    return one.test(sums, where)


def stretch_check(scores: Scores) -> Check:
    """Whether any stretch of the file has the truth more often, or less, than it should."""
    name = "the truth comes through no more in one stretch of rows than in another"
    return Check.of(name, map(stretch_test, scores), nothing=TOO_FEW)


def modulo_check(scores: Scores) -> Check:
    """Whether rows that come back every 2, 3, … 4096 rows have the truth more often.

    Looked at are the whole and the first columns, for the search is long; classes of four rows or
    more; and of these only what is no likely sum: a squared score of 30 is likelier than one among
    all that are searched.
    """
    name = "the truth comes through no more at every 2nd, 3rd, … row than at others"
    rows = min(scores[0].rows, MODULO_ROWS)
    scores = scores[: max(1, min(4, 2 * MODULO_ROWS // rows))]
    moduli = range(2, min(MOST_MODULUS, rows // 4) + 1)
    found, words = [np.zeros((4, 0))], list[str]()
    for modulus, left, variance in _classes(scores, rows, moduli):
        row, one = np.nonzero(left * left > 30 * variance)
        ends = [[scores[which].most, scores[which].least] for which in one.tolist()]
        found.append(np.array([left[row, one], variance[row, one], *np.reshape(ends, (-1, 2)).T]))
        words += [
            f"{scores[which].name}, every {modulus:,}th row from row {first + 1:,}"
            for first, which in zip(row.tolist(), one.tolist(), strict=True)
        ]
    deviation, spread, most, least = np.hstack(found)
    places = len(scores) * sum(moduli)
    return Check.of(name, [ScoreTest.of(deviation, spread, words, most, least, places)])


def _classes(scores: Scores, rows: int, moduli: range) -> Iterator[tuple[int, Floats, Floats]]:
    """For every modulus the sums of what chance left, and of variances, over its classes; both of
    shape (classes, scores).

    Only the larger half of the moduli goes through all rows; each smaller one has a multiple among
    them, whose classes it merges.
    """
    if not moduli:
        return
    parts = [one.left[:rows] for one in scores] + [one.variance[:rows] for one in scores]
    both, most = np.stack(parts), moduli[-1]
    folded = {modulus: _folded(both, modulus) for modulus in range(most // 2 + 1, most + 1)}
    for modulus in moduli:
        times = most // modulus
        sums = folded[modulus] if times == 1 else _folded(folded[modulus * times], modulus)
        yield modulus, sums[: len(scores)].T, sums[len(scores) :].T


def _folded(values: Floats, modulus: int) -> Floats:  # (n, rows) -> (n, modulus)
    scores, rows = values.shape
    whole = rows // modulus * modulus
    sums = values[:, :whole].reshape(scores, -1, modulus).sum(axis=1)
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


def lag_check(scores: Scores) -> Check:
    """For every distance k, whether Σ r_i r_{i+k} is what independent rows make it.

    Given the rows before, r_{i+k} has mean 0 and variance v_{i+k}: so Σ r_i² v_{i+k} is what the
    sum may vary (Freedman's inequality for martingales).
    """
    rows = scores[0].rows

    def products(first: Floats, second: Floats) -> Floats:
        return _products(first, second)[1 : rows - FEWEST]

    def words(place: int) -> str:
        return f"rows {place + 1:,} apart"

    name = "whether a row has the truth is independent of every other row"
    return _product_check(name, scores, products, words)


def mirror_check(scores: Scores) -> Check:
    """For every sum s of row numbers, whether Σ r_i r_{s-i} is what independent rows make it."""
    rows = scores[0].rows
    sums = range(2 * FEWEST, 2 * (rows - FEWEST) - 1)

    def products(first: Floats, second: Floats) -> Floats:
        # Each pair comes twice, and where the sum is even a row meets itself.
        own = np.zeros(2 * rows - 1)
        own[::2] = first * second
        every = _products(first, second, mirrored=True)[: len(own)] - own
        return np.asarray(every[sums.start : sums.stop] / 2)

    def words(place: int) -> str:
        first = max(0, sums[place] - rows + 1)
        return f"rows {first + 1:,} to {sums[place] - first + 1:,} mirrored"

    name = "whether a row has the truth is independent of the row mirrored to it"
    return _product_check(name, scores, products, words)


def _product_check(
    name: str,
    scores: Scores,
    products: Callable[[Floats, Floats], Floats],
    words: Callable[[int], str],
) -> Check:
    """Whether sums of products of what chance left in two rows are near 0."""

    def test(one: RowScores) -> ScoreTest:
        left, variance, largest = one.left, one.variance, float(np.abs(one.left).max()) ** 2
        found = products(left, left)
        spread = np.maximum(products(left**2, variance), products(variance, variance))
        return ScoreTest.of(
            found,
            np.maximum(spread, 0.0),
            lambda place: f"{one.name}, {words(place)}",
            largest,
            largest,
        )

    if scores[0].rows < 2 * FEWEST:
        return Check(name, 1.0, TOO_FEW)
    return Check.of(name, [test(one) for one in scores])


def keystream_check(residuals: Floats) -> Check:
    """Whether noises at some distance between rows go together: a keystream drawn again shows at
    the distance it repeats.

    For every lag k the score Σ r_i r_{i+k} / √Σ r_i² r_{i+k}² is standard normal if the noises are
    independent, whatever the truths; both sums for all lags come from one Fourier transform each.
    """
    name = "the noise of a row is independent of that of every other row"
    rows = len(residuals)
    if rows < 2 * FEWEST:
        return Check(name, 1.0, TOO_FEW)
    centred = residuals - residuals.mean()
    square = centred**2
    products, variance = (_products(each, each)[1 : rows - FEWEST] for each in (centred, square))
    test = ScoreTest.of(
        products, np.maximum(variance, 1e-9 * rows), lambda place: f"rows {place + 1:,} apart", 0, 0
    )
    return Check.of(name, [test])


def _products(first: Floats, second: Floats, *, mirrored: bool = False) -> Floats:
    """Σ_i first_i second_{i+k} for every distance k; mirrored, Σ_i first_i second_{s-i} for every
    sum s.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(2 * len(first), real=True)
    one = rfft(first, size)
    other = one if second is first else rfft(second, size)
    return np.asarray(irfft((one if mirrored else np.conj(one)) * other, size))


def fresh_noise_check(mechanism: Mechanism, record: Columns, rng: Keystream) -> Check:
    """Whether one record, perturbed 4096 times and then again from a keystream that runs on, gets
    different noise. Fifty reports that differ from the next show that there is noise, which cannot
    come out the same by chance.
    """
    records = tuple(column.take(np.zeros(4096, dtype=np.intp)) for column in record)

    def drawn() -> list[Any]:
        pairs = zip(mechanism.reports, mechanism.perturb(records, rng), strict=True)
        return [column for attribute, column in pairs if not attribute.public]

    once, again = drawn(), drawn()
    name = "records perturbed again get fresh noise"
    if not all(same_rows(left, right) for left, right in zip(once, again, strict=True)):
        return Check(name, 1.0)
    changes = int(np.logical_or.reduce([_changes(column) for column in once]).sum())
    return Check(
        name, 0.0 if changes >= 50 else 1.0, "a second batch has the very noise of the first"
    )


def _changes(column: Any) -> NDArray[np.bool_]:
    """Whether each row differs from the next."""
    if not isinstance(column, Bits):
        return np.asarray(column[1:] != column[:-1])
    dense = column.select(np.arange(min(column.items, FEWEST))).to_dense()
    return np.asarray((dense[1:] != dense[:-1]).any(axis=1))


def report_order_check(paired: Paired) -> Check:
    """Whether what is reported in any stretch of the file, or of near neighbours, differs from what
    is reported in all of it, as a random order would not have it.

    A file sorted by what it should hide, published in that order, gives it away whatever the noise:
    the reports of neighbours average to their truths. This needs no truth to be seen. Drawn without
    replacement, as a random order draws a stretch, sums deviate less than of independent terms
    (Hoeffding 1963).
    """
    name = "the order of the reports says nothing about the records"
    if paired.people < FEWEST:
        return Check(name, 1.0, TOO_FEW)
    tests, apart = [], range(1, 9)
    for what, shown in _shown(paired):
        share = float(shown.mean())
        spread = share * (1 - share)
        if spread > 0:
            one = RowScores(what, shown, np.asarray(share), np.asarray(spread))
            tests.append(stretch_test(one))
            products = [float(one.left[:-k] @ one.left[k:]) for k in apart]
            words = [f"{what}, reports {k} apart" for k in apart]
            tests.append(ScoreTest.of(products, spread**2 * one.rows, words))
    return Check.of(name, tests)


def _shown(paired: Paired) -> Iterator[tuple[str, Floats]]:
    """What the first report of each person shows of every private column, value by value."""
    for attribute in paired.mechanism.private_reports:
        column: Any = paired.release.column(attribute.name)
        if isinstance(column, Bits):
            for item in np.argsort(-column.counts(), kind="stable")[:MOST_COLUMNS]:
                values = column.column(int(item))[:: paired.copies]
                yield f"item '{attribute.labels[item]}'", values.astype(np.float64)
            continue
        cells = judged_cells(attribute)
        codes = cells_of(cells, column)[:: paired.copies]
        for code, label in enumerate(cells.labels):
            yield f"'{attribute.name}' reported as {label}", (codes == code).astype(np.float64)


def permutation_check(order: NDArray[np.int64]) -> Check:
    """Whether the secret order itself is one that chance would draw: no neighbours left together,
    no stretch left in its place.
    """
    name, rows = "the order of the reports was drawn by chance", len(order)
    if rows < FEWEST:
        return Check(name, 1.0, TOO_FEW)
    together = int((np.abs(np.diff(order)) == 1).sum())
    place = order / (rows - 1) - 0.5
    uniform = RowScores("", place, np.asarray(0.0), np.asarray(1 / 12), 0.5, 0.5)
    # Records that stayed near their place: its product with the new one, on average 0.
    moved = float(place @ (np.arange(rows) / (rows - 1) - 0.5))
    return Check.of(
        name,
        [
            # As often as a Poisson count of mean 2.
            ScoreTest.of(
                together - 2, 2.0, [f"{together:,} neighbours of the truth are neighbours still"]
            ),
            ScoreTest.of(moved, rows / 144, ["records stand near their old place"], 0.25, 0.25),
            stretch_test(uniform, " come from one part"),
        ],
    )


def shifted(rows: int, apart: int) -> tuple[slice, slice]:
    """Rows, and the rows so far from them."""
    if apart >= 0:
        return slice(0, max(rows - apart, 0)), slice(apart, rows)
    return slice(-apart, rows), slice(0, max(rows + apart, 0))


def trait_tests(
    found: Agreements | None, apart: int, rows: slice, trait: Cells, held: NDArray[np.intp]
) -> Iterator[ScoreTest]:
    """What chance left of agreement, summed over the rows whose neighbour holds each value.

    Given all truths it is independent of every one of them, so that its sums must be as near to 0
    as their variances say.
    """

    def sums(values: Floats) -> Floats:
        return np.asarray(np.bincount(held, values[rows], trait.size), dtype=np.float64)

    for one in found.scores if found is not None else ():
        # A person's own truth decides whether the same column agrees.
        if apart or one.name not in ("whole records", f"'{trait.name}'"):
            whether = f"whether {one.name} is true depends on {WHOSE[apart]} '{trait.name}' being"
            yield one.test(sums, [f"{whether} {label}" for label in trait.labels])
