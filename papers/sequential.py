"""The general record sampler of FRAPP §7: draw attribute after attribute, each given those already
drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import code_dtype
from sfumato.errors import ParameterError
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.randomness import Keystream

LARGEST_TOTAL = 1 << 63  # of the weights of one column: sums and draws are 64-bit integers
WORKING_WEIGHTS = 1 << 20  # weights held at once: as many rows are drawn together as this allows

Codes = Sequence[NDArray[Any]]  # one array an attribute


class PartialSums(Protocol):
    """A matrix of integer weights whose sums over the attributes not yet drawn are known."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute of a report has."""

    def following(
        self, records: Codes, drawn: Codes
    ) -> NDArray[np.uint64]:  # (rows, sizes[len(drawn)])
        """For each value of the next attribute, the weight of all reports that begin with what was
        drawn and this value.
        """


def sample_sequentially(
    sums: PartialSums, records: Codes, rng: Keystream
) -> tuple[NDArray[Any], ...]:
    """The reports of these records, exact in integers, at a cost of Σ n_j a record (FRAPP eq.
    25-26).

    P(v_1, …, v_M) = ∏ S(v_1…v_j) / S(v_1…v_{j-1}) with S the partial sums: the product telescopes
    to the weight of v over the total. An integer below S(v_1…v_{j-1}) decides each step.
    """
    rows = len(records[0])
    reports = tuple(np.empty(rows, dtype=code_dtype(size)) for size in sums.sizes)
    step = max(1, WORKING_WEIGHTS // max(sums.sizes))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        drawn: list[NDArray[Any]] = []
        for report in reports:
            values = _draw_by_weight(
                sums.following([record[part] for record in records], drawn), rng
            )
            drawn.append(values)
            report[part] = values
    return reports


def _draw_by_weight(
    weights: NDArray[np.uint64], rng: Keystream
) -> NDArray[np.intp]:  # (rows, values) -> (rows,)
    cumulative = np.cumsum(weights, axis=1, dtype=np.uint64)
    draws = _below_each(cumulative[:, -1], rng)
    return (cumulative <= draws[:, None]).sum(axis=1)


def _below_each(bounds: NDArray[np.uint64], rng: Keystream) -> NDArray[np.uint64]:
    """For each bound an integer uniform on 0..bound-1: words masked to its bits, drawn again where
    not below it.
    """
    masks = bounds - np.uint64(1)
    for shift in (1, 2, 4, 8, 16, 32):
        masks |= masks >> np.uint64(shift)
    draws = rng.words(len(bounds)) & masks
    bad = np.flatnonzero(draws >= bounds)
    while bad.size:
        draws[bad] = rng.words(bad.size) & masks[bad]
        bad = bad[draws[bad] >= bounds[bad]]
    return draws


def partial_sums(mechanism: GammaDiagonal | UserMatrix) -> PartialSums:
    """The matrix of a mechanism as `sample_sequentially` takes it: the same distribution, attribute
    by attribute.
    """
    shape = mechanism.domain.private.shape
    if isinstance(mechanism, UserMatrix):
        return DenseSums(mechanism.weights, shape)
    gamma = Fraction(mechanism.gamma)
    return DiagonalSums(shape, diagonal=gamma.numerator, other=gamma.denominator)


@dataclass(frozen=True)
class DiagonalSums:
    """The gamma-diagonal matrix: one weight on the diagonal, another everywhere else (γ = diagonal
    / other).

    >>> sums = DiagonalSums((2, 3), diagonal=5, other=1)
    >>> sums.following([np.array([0]), np.array([2])], []).tolist()
    [[7, 3]]
    """

    sizes: tuple[int, ...]
    diagonal: int
    other: int

    def __post_init__(self) -> None:
        _check_total(self.diagonal + self.other * (math.prod(self.sizes) - 1))

    def following(self, records: Codes, drawn: Codes) -> NDArray[np.uint64]:
        place = len(drawn)
        kept = np.ones(len(records[0]), dtype=bool)
        for record, values in zip(records, drawn, strict=False):
            kept &= record == values
        weights = np.full(
            (len(kept), self.sizes[place]),
            self.other * math.prod(self.sizes[place + 1 :]),
            dtype=np.uint64,
        )
        rows = np.flatnonzero(kept)
        # Unsigned integers wrap, so a diagonal below the rest comes out right as well.
        weights[rows, records[place][rows]] += np.uint64((self.diagonal - self.other) % (1 << 64))
        return weights


@dataclass(frozen=True, eq=False)
class DenseSums:
    """Any matrix of integer weights from records to reports of the same attributes, every column
    with the same total.
    """

    weights: NDArray[np.uint64]  # (reports, records), both flattened
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_total(max(sum(column) for column in self.weights.T.tolist()))

    @cached_property
    def _tables(self) -> tuple[NDArray[np.uint64], ...]:
        """For each attribute the sums over those behind it: (reports up to the one before, its
        values, records).
        """
        before = [math.prod(self.sizes[:place]) for place in range(len(self.sizes))]
        records = self.weights.shape[1]
        return tuple(
            self.weights.reshape(prefix, size, -1, records).sum(axis=2, dtype=np.uint64)
            for prefix, size in zip(before, self.sizes, strict=True)
        )

    def following(self, records: Codes, drawn: Codes) -> NDArray[np.uint64]:
        place = len(drawn)
        prefix = np.zeros(len(records[0]), dtype=np.intp)
        for values, size in zip(drawn, self.sizes, strict=False):
            prefix = prefix * size + values
        joint = np.ravel_multi_index(
            tuple(record.astype(np.intp) for record in records), self.sizes
        )
        return self._tables[place][prefix, :, joint]


def _check_total(total: int) -> None:
    if total > LARGEST_TOTAL:
        raise ParameterError(
            f"the weights of one column sum to about 10^{math.log10(total):.0f}; drawing by "
            "attribute takes up to 2^63",
            hint="use the keep-or-redraw sampler of gamma-diagonal, or a smaller domain",
        )
