"""Synthetic records drawn from a fitted law: they resemble the crowd, and no one in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.channels.contrasts import Axes, Floats
from sfumato.domain import Attribute, Bins, Domain, Items, Numeric, code_dtype
from sfumato.errors import ParameterError
from sfumato.memory import check_room
from sfumato.model.model import Model
from sfumato.randomness import Keystream, drawing
from sfumato.table import Table

PARENTS = 3  # columns on which the next one may depend, where no law of all was fitted
DRAWN = 8  # bytes of a cell, and of each number that it is drawn with
RARE = 1e-6  # a share below which a bin counts as this, whose logarithm has an end
MOST_CELLS = 2000  # of a column and those it depends on


@checked
def sample(model: Model, rows: int, rng: Keystream | None = None) -> Table:
    """Records drawn from a model's law. Of numbers a model knows bins; each is drawn from those of
    its bin by the smoothest law with these bins (`smoothest`), so that the schema of the true
    records reads these too. A column that was given as bins stays so.

    Where laws are fitted set by set, columns are drawn one after the other, each from its law given
    the three before it that tell most about it.

    >>> import sfumato as sf
    >>> people = {"smoker": ["yes", "no", "no"] * 200, "sex": ["f", "m"] * 300}
    >>> model = sf.fit(sf.perturb(people, gamma=19, rng=sf.seeded(1)))
    >>> made = sample(model, 5, sf.seeded(2))
    >>> made.rows, made.domain.names
    (5, ('smoker', 'sex'))
    """
    if rows < 1:
        raise ParameterError(f"rows={rows}; draw at least one record")
    check_room(rows, DRAWN * (len(model.columns) + 4))
    draws = drawing(rng)
    cells = _jointly(model, rows, draws) if model.dense else _in_turn(model, rows, draws)
    known = tuple(_drawn(attribute) for attribute in model.domain if _known(model, attribute))
    columns = tuple(_column(model, attribute, cells, draws) for attribute in known)
    return Table(Domain(known, model.domain.title), columns)


def _known(model: Model, attribute: Attribute) -> bool:
    return any(part.attribute.name == attribute.name for part in model.columns)


def _drawn(attribute: Attribute) -> Attribute:
    """The attribute as it is drawn: private like the law it comes from, and a number where it was
    one before it was cut.
    """
    if isinstance(attribute, Bins) and attribute.step > 0:
        return _numeric(attribute)
    return replace(attribute, public=False)


def _numeric(bins: Bins) -> Numeric:
    """The number that these are the bins of."""
    step, (first, *cuts, last) = bins.step, bins.edges
    # A last bin of one step holds its lower edge for sure; whether the upper one, it does not say.
    largest = cuts[-1] if cuts and last - cuts[-1] <= step * (1 + 1e-9) else last
    ends = (first, largest)
    whole = step == 1 and all(float(edge).is_integer() for edge in ends)
    least, most = map(int, ends) if whole else map(float, ends)
    return Numeric(
        bins.name,
        least,
        most,
        cuts=tuple(cuts),
        step=None if whole else step,
        clip=bins.clip,
        missing=bins.missing,
    )


def _jointly(model: Model, rows: int, rng: Keystream) -> list[NDArray[np.intp]]:
    law = model.law.fit.law
    place = np.searchsorted(np.cumsum(law), rng.random(rows) * law.sum(), side="right")
    place = np.minimum(place, len(law) - 1)
    return [axis.astype(np.intp) for axis in np.unravel_index(place, model.reports.shape)]


def _in_turn(model: Model, rows: int, rng: Keystream) -> list[NDArray[np.intp]]:
    shape = model.reports.shape
    cells: list[NDArray[np.intp]] = []
    for axis, size in enumerate(shape):
        parents = _parents(model, axis)
        axes = (*parents, axis)
        law = model.marginal_of(axes).share.reshape(-1, size)
        running = np.cumsum(law / np.maximum(law.sum(axis=1, keepdims=True), 1e-300), axis=1)
        held = np.zeros(rows, dtype=np.intp)
        if parents:
            codes = tuple(cells[parent] for parent in parents)
            held = np.ravel_multi_index(codes, tuple(shape[parent] for parent in parents))
        cells.append(_picked_within(running, held, rng.random(rows)))
    return cells


def _picked_within(
    running: Floats, held: NDArray[np.intp], draws: Floats
) -> NDArray[np.intp]:  # (groups, cells), (rows,), (rows,) -> (rows,)
    """A cell of each row's group: looked up among the groups end to end, since a table of rows and
    cells takes gigabytes where a column has many.
    """
    groups, size = running.shape
    ends = (np.minimum(running, 1.0) + np.arange(groups)[:, None]).ravel()
    places = np.searchsorted(ends, held + draws, side="right") - held * size
    return np.clip(places, 0, size - 1).astype(np.intp)


def _parents(model: Model, axis: int) -> Axes:
    """The earlier columns that tell most about this one, as long as their cells are few."""
    ranked = sorted(range(axis), key=lambda other: -_information(model, (other, axis)))
    chosen: list[int] = []
    for other in ranked:
        more = (*sorted([*chosen, other]), axis)
        few = math.prod(model.reports.shape[each] for each in more) <= MOST_CELLS
        if len(chosen) < PARENTS and few and model.reaches(more):
            chosen.append(other)
    return tuple(sorted(chosen))


def _information(model: Model, pair: Axes) -> float:
    """The mutual information of two columns, in nats."""
    law = model.marginal_of(pair).share.reshape([model.reports.shape[axis] for axis in pair])
    alone = np.outer(law.sum(axis=1), law.sum(axis=0))
    there = law > 0
    return float((law[there] * np.log(law[there] / alone[there])).sum())


def _column(
    model: Model, attribute: Attribute, cells: Sequence[NDArray[np.intp]], rng: Keystream
) -> Any:
    axes = [a for a, part in enumerate(model.columns) if part.attribute.name == attribute.name]
    if isinstance(attribute, Items):
        return Bits.from_dense(np.stack([cells[axis] == 1 for axis in axes], axis=1))
    cell = cells[axes[0]]
    if isinstance(attribute, Numeric):
        share = model.marginal_of((axes[0],)).share.ravel()
        return _within_bins(attribute, share, cell, rng)
    return cell.astype(code_dtype(attribute.size))


def _within_bins(number: Numeric, share: Floats, cell: NDArray[np.intp], rng: Keystream) -> Any:
    """A number of each row's bin, drawn by the law whose logarithm bends least."""
    starts = number.cells_by_cuts(number.cuts).starts
    assert starts is not None
    edges = np.array([*starts.tolist(), number.size], dtype=np.float64)
    held, slope = np.diff(edges), smoothest(edges, share)[cell]
    with np.errstate(all="ignore"):  # where the law falls with exp(slope·place), its quantiles
        drawn = rng.random(len(cell))
        place = np.where(slope == 0, drawn, np.log1p(drawn * np.expm1(slope)) / slope)
    codes = starts[cell] + np.floor(np.clip(place, 0, 1) * held[cell]).astype(np.int64)
    return np.minimum(codes, edges[cell + 1].astype(np.int64) - 1).astype(code_dtype(number.size))


def smoothest(edges: Floats, share: Floats) -> Floats:  # (bins + 1,), (bins,) -> (bins,)
    """By how much the logarithm of a density grows within each bin: the continuous, piecewise
    log-linear one with these shares whose slope changes least (Tobler 1979, of logarithms). Even
    in a first or last bin of one value, such as zero, which is a kind of its own.

    >>> smoothest(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.2, 0.2, 0.2])).round(6).tolist()
    [0.0, 0.0, 0.0]
    """
    widths, slopes = np.diff(edges), np.zeros(len(share))
    first, last = int(widths[0] <= 1), len(share) - int(widths[-1] <= 1)
    inside, wide = np.maximum(share[first:last], RARE), widths[first:last]
    if len(inside) < 2:
        return slopes
    from scipy.optimize import minimize

    goal, unit = np.log(inside / inside.sum()), wide / wide.sum()
    rises = np.diff(np.eye(len(inside) + 1), axis=0) / unit[:, None]
    bends = np.diff(rises, axis=0) / np.sqrt((unit[1:] + unit[:-1]) / 2)[:, None]
    square = bends.T @ bends

    def missed(knots: Floats) -> Floats:
        return np.asarray(knots[:-1] + np.log(unit * _mean_exp(np.diff(knots))) - goal)

    start = np.append(goal - np.log(unit), goal[-1] - np.log(unit[-1]))
    found = minimize(
        lambda knots: knots @ square @ knots,
        start,
        jac=lambda knots: 2 * square @ knots,
        constraints={"type": "eq", "fun": missed},
        method="SLSQP",
    )
    if found.success:
        slopes[first:last] = np.diff(found.x)
    return slopes


def _mean_exp(rise: Floats) -> Floats:
    """The mean of exp(rise·u) over u from 0 to 1."""
    near = np.abs(rise) < 1e-6
    with np.errstate(over="ignore"):  # a step of the search too far, which it takes back
        return np.where(near, 1 + rise / 2, np.expm1(rise) / np.where(near, 1.0, rise))
