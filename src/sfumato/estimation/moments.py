"""Sums of powers of one number over the cells of a question: what SUM, AVG and VAR of a perturbed
column are made of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Distribution
from sfumato.channels.channel import is_exact, keep_of, own_axes
from sfumato.counting import Counter
from sfumato.domain import Cells, Numeric
from sfumato.errors import EstimationError

POWERS = 2  # the highest power that is estimated; variances need sums of twice that power
NARROW = 1 / 64  # of half the range: reports that spread less are summed about their own mean


@dataclass(frozen=True)
class Scale:
    """Numbers brought to about [-1, 1], so that their fourth powers can be summed without loss."""

    middle: float
    half: float

    @classmethod
    def of(cls, attribute: Numeric) -> Scale:
        """The scale of an attribute's range."""
        return cls((attribute.min + attribute.max) / 2, (attribute.max - attribute.min) / 2)

    def apply(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """The numbers on this scale."""
        return (numbers - self.middle) / self.half

    def powers(self, centre: float) -> NDArray[Any]:  # (3, 3)
        """The matrix that turns Σ z^p of this scale into Σ (number - centre)^p, p = 0, 1, 2."""
        shift, half = self.middle - centre, self.half
        return np.array([[1, 0, 0], [shift, half, 0], [shift**2, 2 * shift * half, half**2]])


class PowerSums(Protocol):
    """Estimated sums of powers of a number over cells, from one release or several.

    Whoever asks states the centre: a spread is made of sums about the mean of its own group, since
    sums about anything else would cancel.
    """

    def assumes(self, squares: bool) -> str | None:
        """What the sums suppose beyond the reports, with those of the squares or without them."""

    def about(self, centre: float, squares: bool = True) -> NDArray[Any]:  # (*cells, 3)
        """The estimated sums of (number - centre)^p, p = 0, 1, 2, in each cell; those of the
        squares only if they are needed, for they may cost more.
        """

    def covariance_matrix(
        self, weights: NDArray[Any], centre: float
    ) -> NDArray[Any]:  # (*cells, 3, n) -> (n, n)
        """The covariances of the estimates of n weighted sums of the values about a centre."""


@dataclass(frozen=True, eq=False)
class KnownSums:
    """Sums of powers of a number that was sent as it is, over cells that were: without error.

    Each cell's squares are summed about a centre of its own, so that nothing cancels however far
    the cells lie apart.
    """

    spreads: NDArray[Any]  # (*cells, 4): rows, their sum, their centre, squares about it
    copies: int = 1

    def assumes(self, squares: bool) -> str | None:
        return None

    def about(self, centre: float, squares: bool = True) -> NDArray[Any]:
        rows, total, middle, about_it = np.moveaxis(self.spreads, -1, 0)
        shift = middle - centre
        first = total - centre * rows
        second = about_it + shift * (2 * (total - middle * rows) + shift * rows)
        return np.stack([rows, first, second], axis=-1) / self.copies

    def covariance_matrix(self, weights: NDArray[Any], centre: float) -> NDArray[Any]:
        return np.zeros((weights.shape[-1],) * 2)


@dataclass(frozen=True, eq=False)
class Moments:
    """Reconstructed sums Σ z^p, p = 0, 1, 2, of a number over the cells of a question, z on the
    attribute's scale.

    Reports give Σ z^p for p up to 4 in each cell. The number's own column is undone first: with
    keep κ and b_cp the mean of z^p·1[cell c] under its replacement law, a report z stands for
    (z^p·1[c] - (1-κ)·b_cp) / κ; then the other columns as in counting. A weighted sum of these is a
    polynomial in z in each cell, so its variance Σ g² - Σ (E g)² is again made of sums of powers.
    Nothing grows with the number of values the column can take.
    """

    cells: tuple[Cells, ...]
    axis: int  # of the number among the cells
    sums: NDArray[Any]  # (*cells, 5), of the reports
    channel: Channel  # over the cells
    law: (
        NDArray[Any] | None
    )  # (cells of the number, 5): b_cp; None where the law is the column's own distribution
    scale: Scale
    rows: int
    copies: int = 1
    permuted: bool = False

    @cached_property
    def _settled(self) -> Channel:
        return self.channel.settle(self.sums[..., 0])

    @cached_property
    def _others(self) -> list[int]:
        return [place for place in range(len(self.cells)) if place != self.axis]

    @cached_property
    def _rest(self) -> Channel | None:
        return self._settled.marginal(self._others) if self._others else None

    @cached_property
    def _keep(self) -> float:
        factor = keep_of(self.channel, self.axis)
        if factor is None:
            raise EstimationError(
                "this number was perturbed together with other columns, so its sums cannot be "
                "undone"
            )
        return factor

    @cached_property
    def _law(self) -> NDArray[Any]:
        if self.law is not None:
            return self.law
        total = float(self.sums[..., 0].sum())
        return self._aside(self.sums).sum(axis=tuple(range(len(self._others)))) / max(total, 1.0)

    def _aside(self, table: NDArray[Any]) -> NDArray[Any]:
        """The axes of a table (*cells, p) with the number's own axis brought beside the powers."""
        return np.moveaxis(table, self.axis, -2)

    @cached_property
    def _totals(self) -> NDArray[Any]:  # (*others, cells of the number, 5)
        return self._undone(self._aside(self.sums))

    def _undone(self, sums: NDArray[Any]) -> NDArray[Any]:
        table = self._rest.solve(sums) if self._rest is not None else sums
        everyone = table[..., 0].sum(axis=-1)[..., None, None]
        return (table - (1 - self._keep) * self._law * everyone) / self._keep

    @cached_property
    def _value(self) -> NDArray[Any]:  # (*cells, 3)
        """The estimated sums of the powers 0, 1, 2 of z in each cell."""
        return np.moveaxis(self._totals[..., : POWERS + 1], -2, self.axis) / self.copies

    def assumes(self, squares: bool) -> str | None:
        return None

    def about(self, centre: float, squares: bool = True) -> NDArray[Any]:  # (*cells, 3)
        """The estimated sums of (number - centre)^p, p = 0, 1, 2, in each cell."""
        return self._value @ self.scale.powers(centre).T

    def covariance_matrix(
        self, weights: NDArray[Any], centre: float
    ) -> NDArray[Any]:  # (*cells, 3, n) -> (n, n)
        """The covariances of the estimates of n weighted sums of the values, with the true rows
        held fixed.
        """
        number = weights.shape[-1]
        weights = np.einsum("pq,...pn->...qn", self.scale.powers(centre), weights)
        influence = [self._influence(self._aside(weights[..., place])) for place in range(number)]
        expected = [self._expected(each) for each in influence]
        matrix = np.empty((number, number))
        sums, totals = self._aside(self.sums), self._totals
        for i in range(number):
            for j in range(i, number):
                raw = (_times(influence[i], influence[j]) * sums).sum()
                matrix[i, j] = matrix[j, i] = (
                    raw - (_times(expected[i], expected[j]) * totals).sum()
                )
        found = np.maximum(np.diagonal(matrix), [self._least_variance(g) for g in influence])
        np.fill_diagonal(matrix, found)
        return matrix / self.copies**2

    def _least_variance(self, influence: NDArray[Any]) -> float:
        """The least variance that any truth has: whatever it is, the number is replaced with
        1-κ, and what is drawn scatters as its law does.
        """
        if self._keep == 1:
            return 0.0
        mean = (influence * self._law[:, : POWERS + 1]).sum(axis=(-2, -1))
        square = (_times(influence, influence) * self._law).sum(axis=(-2, -1))
        people = float(self.sums[..., 0].sum())
        return float(people * (1 - self._keep) * np.maximum(square - mean**2, 0.0).min())

    def _influence(
        self, weights: NDArray[Any]
    ) -> NDArray[Any]:  # both (*others, cells of the number, 3)
        """What one more report adds to a weighted sum: the coefficients of a polynomial in z, cell
        by cell.
        """
        if self.permuted and not self._others:
            return np.zeros_like(weights)  # a permuted column keeps its sums
        spread = self._rest.solve_adjoint(weights) if self._rest is not None else weights
        influence = spread / self._keep
        drawn = (spread * self._law[:, : POWERS + 1]).sum(axis=(-2, -1))
        influence[..., 0] -= (1 - self._keep) / self._keep * drawn[..., None]
        return influence + self._through_laws(weights)

    def _through_laws(self, weights: NDArray[Any]) -> NDArray[Any]:
        """How a weighted sum moves with the laws that were read off the same reports."""
        moved = np.zeros_like(weights)
        total = float(self.sums[..., 0].sum())
        if self.law is None:
            everyone = self._aside(self.sums)[..., 0].sum(axis=-1)
            solved = self._rest.solve(everyone) if self._rest is not None else everyone
            slope = (weights * np.asarray(solved)[..., None, None]).sum(
                axis=tuple(range(len(self._others)))
            )
            moved += -(1 - self._keep) / (self._keep * total) * slope
        own = {axis: keep for axis, keep, _ in own_axes(self.channel)}
        for place, axis in enumerate(self._others):
            if axis in own:
                keep = own[axis]
                moved[..., 0] += -(1 - keep) / (keep * total) * self._slope(weights, place, axis)
        return moved

    def _slope(self, weights: NDArray[Any], place: int, axis: int) -> NDArray[Any]:
        """How a weighted sum moves with the law of another column, as a function of that column
        alone.
        """
        solved = self._without(axis)._totals[..., : POWERS + 1]
        products = np.moveaxis(weights, place, 0) * solved
        slope = products.reshape(products.shape[0], -1).sum(axis=1)
        return slope.reshape([-1 if other == place else 1 for other in range(weights.ndim - 1)])

    def _without(self, axis: int) -> Moments:
        """The same question with one of the other columns summed out."""
        kept = [place for place in range(len(self.cells)) if place != axis]
        return replace(
            self,
            cells=tuple(self.cells[place] for place in kept),
            axis=kept.index(self.axis),
            sums=self.sums.sum(axis=axis),
            channel=self.channel.marginal(kept),
        )

    def _expected(self, influence: NDArray[Any]) -> NDArray[Any]:
        """The mean contribution of a record, as a polynomial in its true z, cell by cell."""
        drawn = (influence * self._law[:, : POWERS + 1]).sum(axis=(-2, -1))
        expected = self._keep * influence
        expected[..., 0] += (1 - self._keep) * drawn[..., None]
        return self._rest.adjoint(expected) if self._rest is not None else expected


def moments_of(
    counter: Counter,
    cells: tuple[Cells, ...],
    axis: int,
    channel: Channel,
    fine: Channel,
    rows: int,
    copies: int = 1,
) -> PowerSums:
    """The sums of powers of the number that cells[axis] partitions, from one scan of the reports,
    or two where they lie close together.

    `channel` is the channel over the cells, `fine` that of the number's values, before any law is
    read off the reports.
    """
    attribute = cells[axis].attribute
    if not isinstance(attribute, Numeric):
        raise EstimationError(f"'{attribute.name}' holds no numbers, so it has no sum")
    if is_exact(channel):
        return KnownSums(counter.spreads(cells, axis), copies)
    kept, drawn_from = keep_of(channel, axis), fine.replaced(0)
    if drawn_from is None or kept is None:
        raise EstimationError(
            f"'{attribute.name}' was perturbed together with other columns, so its sums cannot be "
            "undone"
        )
    scale, sums = _centred(counter, cells, axis, attribute)
    drawn = (
        np.zeros((cells[axis].size, 2 * POWERS + 1))
        if kept == 1
        else drawn_moments(drawn_from.drawn, attribute, cells[axis], scale)
    )
    return Moments(
        cells, axis, sums, channel, drawn, scale, rows, copies, drawn_from.drawn.permuted
    )


def _centred(
    counter: Counter, cells: tuple[Cells, ...], axis: int, attribute: Numeric
) -> tuple[Scale, NDArray[Any]]:
    """The sums of powers of the reports on the scale of the range; on their own where they fill
    little of it, since sums about the middle of the range would cancel.
    """
    scale = Scale.of(attribute)
    sums = counter.power_sums(cells, axis, scale.middle, scale.half)
    rows, first, second = sums.reshape(-1, 2 * POWERS + 1)[:, : POWERS + 1].sum(axis=0)
    if rows == 0:
        return scale, sums
    mean = first / rows
    spread = math.sqrt(max(second / rows - mean**2, 1e-14))
    if spread > NARROW:
        return scale, sums
    narrow = Scale(scale.middle + mean * scale.half, spread * scale.half)
    return narrow, counter.power_sums(cells, axis, narrow.middle, narrow.half)


def drawn_moments(
    drawn: Distribution, attribute: Numeric, cells: Cells, scale: Scale
) -> NDArray[Any] | None:  # (cells, 5)
    """The mean of z^p in each cell of what is drawn; None where that is the column's own
    distribution.
    """
    if drawn.own:
        return None
    if drawn.uniform:
        return _uniform_moments(attribute, cells, scale)
    numbers = scale.apply(attribute.numbers(np.arange(attribute.size)).astype(np.float64))
    masses, columns = drawn.vector().copy(), []
    for _ in range(2 * POWERS + 1):
        columns.append(cells.sum(masses))
        masses *= numbers
    return np.stack(columns, axis=1)


def _uniform_moments(attribute: Numeric, cells: Cells, scale: Scale) -> NDArray[Any]:  # (cells, 5)
    """The mean of z^p in each cell where every value is drawn alike: a run of L values about its
    middle m has Σ (m + d·u)^p, with Σu = Σu³ = 0 and known Σu², Σu⁴, whatever L.
    """
    starts = np.arange(attribute.size) if cells.starts is None else cells.starts
    length = np.diff(np.append(starts, attribute.size)).astype(np.float64)
    ends = attribute.numbers(np.stack([starts, starts + length.astype(np.int64) - 1]))
    middle, step = scale.apply(ends.mean(axis=0)), attribute.grid_step / scale.half
    second = length * (length**2 - 1) / 12 * step**2
    fourth = length * (length**2 - 1) * (3 * length**2 - 7) / 240 * step**4
    powers = [
        length,
        length * middle,
        length * middle**2 + second,
        length * middle**3 + 3 * middle * second,
        length * middle**4 + 6 * middle**2 * second + fourth,
    ]
    sums = [np.bincount(cells.group, weights=each, minlength=cells.size) for each in powers]
    return np.stack(sums, axis=1) / attribute.size


def _times(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """The product of two polynomials, cell by cell."""
    product = np.zeros((*first.shape[:-1], 2 * POWERS + 1))
    for p in range(POWERS + 1):
        for q in range(POWERS + 1):
            product[..., p + q] += first[..., p] * second[..., q]
    return product
