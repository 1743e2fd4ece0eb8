"""Product: independent channels on separate groups of axes, applied one factor at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.channel import (
    Channel,
    Counts,
    Repeating,
    Replacement,
    batched,
    has_known_laws,
    to_tally,
    to_truths,
    unbatched,
)
from sfumato.channels.limits import TERMS
from sfumato.domain import Cells
from sfumato.errors import ParameterError, Unanswerable

ROUNDING = 1e-12  # of the largest entry of a table


@dataclass(frozen=True, eq=False)
class Product(Channel):
    """The Kronecker product of its factors; factor i acts on the axes `axes[i]` of the table.

    Reports stand where their truths do; where some factor reports in another number of axes, they
    stand factor by factor.

    >>> from sfumato.channels.retain import Retain
    >>> Product.of(Retain.flip(0.9, 0.9), Retain.flip(0.8, 0.8)).to_dense()[0]
    array([0.72, 0.18, 0.08, 0.02])
    """

    factors: tuple[Channel, ...]
    axes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if sorted(self._order) != list(range(len(self._order))):
            raise ParameterError(
                f"the factors of a product must share out the axes; found {self.axes}"
            )
        for factor, axes in zip(self.factors, self.axes, strict=True):
            if len(factor.inputs) != len(axes):
                raise ParameterError(
                    f"a factor with shape {factor.inputs} -> {factor.outputs} cannot act on axes "
                    f"{axes}"
                )

    @classmethod
    def of(cls, *factors: Channel) -> Product:
        """The product of factors on consecutive axes."""
        flat, axes, start = list[Channel](), list[tuple[int, ...]](), 0
        for factor in factors:
            nested = isinstance(factor, Product) and factor.repeats
            inner = factor.factors if nested and isinstance(factor, Product) else (factor,)
            places = factor.axes if nested and isinstance(factor, Product) else ()
            own = places or (tuple(range(len(factor.inputs))),)
            flat += inner
            axes += [tuple(start + axis for axis in group) for group in own]
            start += len(factor.inputs)
        return cls(tuple(flat), tuple(axes))

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The axes, factor by factor."""
        return tuple(axis for axes in self.axes for axis in axes)

    @cached_property
    def report_axes(self) -> tuple[tuple[int, ...], ...]:
        """Where the reports of each factor stand."""
        widths = [len(factor.outputs) for factor in self.factors]
        if widths == [len(axes) for axes in self.axes]:
            return self.axes
        starts = np.cumsum([0, *widths]).tolist()
        return tuple(
            tuple(range(start, start + width)) for start, width in zip(starts, widths, strict=False)
        )

    @cached_property
    def _report_order(self) -> tuple[int, ...]:
        return tuple(axis for axes in self.report_axes for axis in axes)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        sizes = [size for factor in self.factors for size in factor.inputs]
        return tuple(size for _, size in sorted(zip(self._order, sizes, strict=True)))

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        sizes = [size for factor in self.factors for size in factor.outputs]
        return tuple(size for _, size in sorted(zip(self._report_order, sizes, strict=True)))

    def _through(self, table: Counts, step: str, before: str, after: str) -> Counts:
        """From "inputs" to "outputs" or back, each factor by its own method of this name."""
        orders = {"inputs": self._order, "outputs": self._report_order}
        table = table.transpose(*orders[before], table.ndim - 1)
        for factor in self.factors:
            own = table.reshape(*getattr(factor, before), -1)
            table = _turned(getattr(factor, step)(own))
        sizes = [size for factor in self.factors for size in getattr(factor, after)]
        return table.reshape(-1, *sizes).transpose(*(np.argsort(orders[after]) + 1), 0)

    @to_tally
    def apply(self, table: Counts) -> Counts:
        return self._through(table, "apply", "inputs", "outputs")

    @to_truths
    def adjoint(self, table: Counts) -> Counts:
        return self._through(table, "adjoint", "outputs", "inputs")

    @to_truths
    def solve(self, table: Counts) -> Counts:
        return self._through(table, "solve", "outputs", "inputs")

    @to_tally
    def solve_adjoint(self, table: Counts) -> Counts:
        return self._through(table, "solve_adjoint", "inputs", "outputs")

    @to_truths
    def inverse_squared(self, table: Counts) -> Counts:
        """The square of a Kronecker product, entry by entry, is the product of the squares."""
        return self._through(table, "inverse_squared", "outputs", "inputs")

    @property
    def repeats(self) -> bool:
        return any(factor.repeats for factor in self.factors)

    def second_moment(self, first: Counts, other: Counts) -> Counts:
        """Factors that count a report several times first: the moments of one are its own, those of
        several their product where both weights are one, as of conditions joined by AND, else a sum
        of products (`Repeating.sqrt_factors`). The others follow by their adjoint.
        """
        repeating = [f for f in self.factors if isinstance(f, Repeating) and f.repeats]
        single = [factor for factor in self.factors if not factor.repeats]
        if not repeating:
            return self.adjoint(first * other)
        left, right = self._repeating_first(first), self._repeating_first(other)
        if len(repeating) > 1:
            table = _multiplied(repeating, left, right)
        else:  # (batch, outputs that repeat, others) to (batch, inputs, others)
            own, batch = repeating[0], len(left)
            parts = [
                np.moveaxis(each.reshape(batch, math.prod(own.outputs), -1), 1, 0)
                for each in (left, right)
            ]
            found = own.second_moment(*(part.reshape(*own.outputs, -1) for part in parts))
            table = np.moveaxis(found.reshape(math.prod(own.inputs), batch, -1), 0, 1)
        table = table.reshape(-1, *(size for factor in single for size in factor.outputs))
        table = np.moveaxis(table, 0, -1)
        for factor in single:
            table = _turned(factor.adjoint(table.reshape(*factor.outputs, -1)))
        table = table.reshape(-1, math.prod(size for factor in single for size in factor.inputs))
        sizes = [size for factor in (*repeating, *single) for size in factor.inputs]
        order = self._repeating_axes(self.axes)
        turned = table.reshape(-1, *sizes).transpose(*(np.argsort(order) + 1), 0)
        return unbatched(turned, first, self.outputs, self.inputs)

    def _repeating_axes(self, axes: Sequence[Sequence[int]]) -> list[int]:
        """The axes of the factors that count a report several times, then those of the others."""
        pairs = [*zip(self.factors, axes, strict=True)]
        twice = [own for factor, own in pairs if factor.repeats]
        once = [own for factor, own in pairs if not factor.repeats]
        return [axis for own in (*twice, *once) for axis in own]

    def _repeating_first(self, weights: Counts) -> Counts:  # (batch, outputs that repeat, others)
        order = self._repeating_axes(self.report_axes)
        table = batched(weights, self.outputs).transpose(*order, len(self.outputs))
        return np.moveaxis(table, -1, 0)

    def moments(self, counts: Counts) -> Counts:
        """Factor by factor: given the truth they report independently of one another."""
        table = batched(counts, self.inputs).transpose(*self._order, len(self.inputs))
        for factor in self.factors:
            table = _turned(factor.moments(table.reshape(*factor.inputs, -1)))
        sizes = [size for factor in self.factors for size in factor.outputs]
        widths = [math.prod(factor.outputs) for factor in self.factors]
        # Behind the batch each factor stands twice: all first ones go to the front.
        places = range(1, 2 * len(widths), 2)
        table = table.reshape(-1, *(width for width in widths for _ in range(2)))
        table = table.transpose(*places, *(place + 1 for place in places), 0)
        order = np.argsort(self._report_order)
        twice = [*order, *(order + len(sizes)), 2 * len(sizes)]
        every = math.prod(sizes)
        return table.reshape(*sizes, *sizes, -1).transpose(*twice).reshape(every, every, -1)

    def replaced(self, axis: int) -> Replacement | None:
        number, place = self._place_of[axis]
        return self.factors[number].replaced(place)

    @cached_property
    def _place_of(self) -> dict[int, tuple[int, int]]:
        """The number of the factor that acts on an axis, and which of its own axes that is."""
        return {
            axis: (number, place)
            for number, own in enumerate(self.axes)
            for place, axis in enumerate(own)
        }

    def chances(
        self, reports: Sequence[NDArray[Any]], truths: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        own = [
            factor.chances([reports[axis] for axis in shown], [truths[axis] for axis in axes])
            for factor, axes, shown in zip(self.factors, self.axes, self.report_axes, strict=True)
        ]
        return np.asarray(math.prod(own[1:], start=own[0]))

    def mixed(
        self,
        reports: Sequence[NDArray[Any]],
        within: Sequence[NDArray[Any]],
        margins: Sequence[NDArray[Any]] | None = None,
    ) -> NDArray[Any]:
        own = [
            factor.mixed(
                [reports[axis] for axis in shown],
                [within[axis] for axis in axes],
                None if margins is None else [margins[axis] for axis in axes],
            )
            for factor, axes, shown in zip(self.factors, self.axes, self.report_axes, strict=True)
        ]
        return np.asarray(math.prod(own[1:], start=own[0]))

    def marginal(self, axes: Sequence[int]) -> Channel:
        factors, places = [], []
        for factor, own in zip(self.factors, self.axes, strict=True):
            kept = [axis for axis in axes if axis in own]
            if kept:
                factors.append(factor.marginal([own.index(axis) for axis in kept]))
                places.append(tuple(list(axes).index(axis) for axis in kept))
        return (
            factors[0]
            if len(factors) == 1 and places[0] == tuple(range(len(axes)))
            else Product(tuple(factors), tuple(places))
        )

    def coarsen(self, cells: Sequence[Cells]) -> Product:
        return replace(
            self,
            factors=tuple(
                factor.coarsen([cells[axis] for axis in own])
                for factor, own in zip(self.factors, self.axes, strict=True)
            ),
        )

    def settle(self, counts: Counts) -> Product:
        known, factors = [*map(has_known_laws, self.factors)], list(self.factors)
        if all(known):
            return self
        for place, factor in enumerate(self.factors):
            if not known[place]:
                own = counts  # of this factor's reports, each once, whatever the others show
                if any(each.repeats for other, each in enumerate(self.factors) if other != place):
                    own = counts * self._together({place: np.ones(factor.outputs)})
                factors[place] = factor.settle(_margin(own, self.report_axes[place]))
        return replace(self, factors=tuple(factors))

    @property
    def everyone(self) -> Counts:
        return np.broadcast_to(self._together({}), self.outputs)

    def shown_at(self, axis: int, weights: Counts) -> Counts:
        """What `shown_at` says, of a product."""
        number, place = self._place_of[axis]
        stated = shown_at(self.factors[number], place, weights)
        return np.broadcast_to(self._together({number: stated}), self.outputs)

    def _together(self, stated: Mapping[int, Counts]) -> Counts:  # broadcast to the outputs
        """The products of weights stated for some factors; the others count every report once."""
        weights = np.ones(())
        for number, factor in enumerate(self.factors):
            weights = np.multiply.outer(weights, stated.get(number, _once(factor)))
        return weights.transpose(*np.argsort(self._report_order))


def sqrt_factors(
    factors: Sequence[Repeating], table: Counts
) -> Counts:  # (batch, outputs, others) -> (batch, inputs, others, terms)
    """The terms of each factor multiplied with those of all others (`Repeating.sqrt_factors`)."""
    batch, terms, done = len(table), 1, 1
    _check_size(factors, table)
    table = table.reshape(batch, 1, -1, 1)  # batch, inputs so far, outputs left, terms
    for factor in factors:
        width = math.prod(factor.outputs)
        table = table.reshape(batch, done, width, -1, terms)
        spread = factor.sqrt_factors(np.moveaxis(table, 2, 0))  # (inputs, more, …)
        size, more = spread.shape[:2]
        spread = np.moveaxis(spread, (0, 1), (3, 5))  # batch, done, left, size, terms, more
        table = np.moveaxis(spread, 3, 2)
        done, terms = done * size, terms * more
        table = table.reshape(batch, done, -1, terms)
    return table


def _multiplied(
    factors: Sequence[Repeating], left: Counts, right: Counts
) -> Counts:  # (batch, outputs, …) each -> (batch, inputs, others)
    """The second moments of factors that count a report several times."""
    batch, widths = len(left), [math.prod(factor.outputs) for factor in factors]
    rows = [np.moveaxis(t.reshape(batch, math.prod(widths), -1), 1, 2) for t in (left, right)]
    own, others = (_as_product(each.reshape(-1, *widths)) for each in rows)
    if own is None or others is None:
        return (sqrt_factors(factors, left) * sqrt_factors(factors, right)).sum(axis=-1)
    found = np.ones((len(own[0]), 1))
    for factor, first, second in zip(factors, own, others, strict=True):
        both = [part.T.reshape(*factor.outputs, -1) for part in (first, second)]
        moments = factor.second_moment(both[0], both[1]).reshape(-1, len(found))
        found = (found[:, :, None] * moments.T[:, None]).reshape(len(found), -1)
    return np.moveaxis(found.reshape(batch, -1, found.shape[-1]), 1, 2)


def _as_product(table: Counts) -> list[Counts] | None:  # (rows, …) -> (rows, width) each
    """Tables as outer products of a vector for each axis, read off where they are largest; None
    where some are no such products.
    """
    rows, axes = len(table), tuple(range(1, table.ndim))
    peaks = np.unravel_index(np.abs(table.reshape(rows, -1)).argmax(axis=1), table.shape[1:])
    at = [np.arange(rows), *peaks]
    lines = [table[(*at[:axis], slice(None), *at[axis + 1 :])] for axis in axes]
    top = table[tuple(at)][:, None]
    lines[1:] = [line / np.where(top == 0, 1.0, top) for line in lines[1:]]
    product = lines[0]
    for line in lines[1:]:
        product = product[..., None] * line.reshape(rows, *(1,) * (product.ndim - 1), -1)
    away = np.abs(product - table).max(axis=axes)
    return lines if (away <= ROUNDING * np.abs(top[:, 0])).all() else None


def _check_size(factors: Sequence[Repeating], table: Counts) -> None:
    """Refuse moments that would need too many numbers at once."""
    size = table.size * math.prod(math.prod(factor.inputs) for factor in factors)
    if size > TERMS:
        raise Unanswerable(
            f"the error of these counts over {len(factors)} columns needs {size:,} numbers at "
            f"once, more than {TERMS:,}",
            hint="ask about fewer columns, or conditions joined by AND alone",
        )


def _once(channel: Channel) -> Counts:  # broadcast to the outputs
    """Weights under which a tally counts every report once."""
    if isinstance(channel, Product | Repeating) and channel.repeats:
        return channel.everyone
    return np.ones((1,) * len(channel.outputs))


def people_in(channel: Channel, counts: Counts) -> float:
    """How many reports a tally counted, each once."""
    return float((counts * _once(channel)).sum())


def people_by(channel: Channel, counts: Counts, axes: Sequence[int]) -> Counts:
    """How many reports show each cell of axes that are reported as they are, each once."""
    once = np.broadcast_to(_once(channel), channel.outputs)
    shape, seen = tuple(channel.inputs[axis] for axis in axes), once != 0
    place = np.zeros(np.count_nonzero(seen), np.intp)
    for axis, size in zip(axes, shape, strict=True):
        codes = shown_at(channel, axis, np.arange(float(size)))[seen] / once[seen]
        place = place * size + np.rint(codes).astype(np.intp)
    people = np.bincount(place, (counts * once)[seen], minlength=math.prod(shape))
    return people.reshape(shape)


def shown_at(
    channel: Channel, axis: int, weights: Counts
) -> Counts:  # values of an axis -> outputs
    """Weights of what an axis shows as weights of the tally, each report counted once; for axes
    that are reported in their own values.
    """
    if isinstance(channel, Product):
        return channel.shown_at(axis, weights)
    places = [-1 if place == axis else 1 for place in range(len(channel.outputs))]
    return np.broadcast_to(np.reshape(weights, places), channel.outputs)


def _turned(table: Counts) -> Counts:
    """The axes of the factor that has just acted moved behind all others: one flat transposition,
    whatever the axes.
    """
    return np.ascontiguousarray(table.reshape(-1, table.shape[-1]).T)


def _margin(counts: Counts, axes: Sequence[int]) -> Counts:
    """Counts summed to these axes, in this order."""
    shape = np.shape(counts)
    if len(axes) == 1:  # without many small axes, over which sums are slow
        before = math.prod(shape[: axes[0]])
        return np.asarray(counts).reshape(before, shape[axes[0]], -1).sum(axis=(0, 2))
    rest = tuple(axis for axis in range(np.ndim(counts)) if axis not in axes)
    order = np.argsort(np.argsort(axes))
    return np.asarray(counts).sum(axis=rest).transpose(*order)
