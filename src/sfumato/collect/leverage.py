"""Leverage: how far one crafted report can move an estimate.

A report adds (A⁻ᵀw)_v to the estimate of w·x, whatever mechanism made it; a forger chooses v.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.decoded import Decoded
from sfumato.channels.unary_bits import SubsetBits
from sfumato.collect.tally import Standing
from sfumato.observation import CellTally, ItemsetTally, Observation


def leverage(standing: Standing, counts: Mapping[Any, NDArray[Any]]) -> NDArray[Any] | None:
    """For each cell of a question, the most people by which one report can move its estimate; None
    where it cannot be said.
    """
    seen = standing.seen
    if seen is None or not isinstance(seen.tally, CellTally | ItemsetTally):
        return None
    if isinstance(seen.channel, Decoded):  # whichever bucket or symbol the item has, one report
        own, other = seen.channel.own, seen.channel.other
        return np.full(math.prod(part.size for part in standing.cells), (1 - other) / (own - other))
    # A forger may send what nobody else has sent, so every entry counts as one that occurs.
    channel = seen.channel.settle(counts[seen.tally.key] + 1e-9)
    influence = np.asarray(channel.solve_adjoint(_weights(standing, seen)))
    flat = influence.reshape(math.prod(channel.outputs), -1)
    if isinstance(seen.tally, CellTally):  # a report is one entry of the tally
        return np.abs(flat).max(axis=0)
    chosen = channel.chosen if isinstance(channel, SubsetBits) else None
    return _most_of_itemsets(seen.tally, influence, chosen)


def _weights(standing: Standing, seen: Observation) -> NDArray[Any]:  # (*seen cells, cells)
    """Which of the cells that were observed make up each cell that is asked for."""
    asked = {part.name: part for part in standing.cells}
    shape = [part.size for part in seen.cells]
    place = np.zeros(shape, dtype=np.intp)
    for part in standing.cells:
        axis = [other.name for other in seen.cells].index(part.name)
        group = asked[part.name].within(seen.cells[axis]).group
        along = group.reshape([-1 if other == axis else 1 for other in range(len(shape))])
        place = place * part.size + along
    return np.eye(math.prod(part.size for part in standing.cells))[place]


def _most_of_itemsets(
    tally: ItemsetTally, influence: NDArray[Any], chosen: int | None
) -> NDArray[Any]:
    """A report is counted in every itemset that it shows, and a forger chooses what it shows: at
    most everything that adds, or everything that takes away; where a report shows so many items and
    is refused with more or fewer, so many that add or take away most.
    """
    fixed = [axis for axis, (_, optional) in enumerate(tally.columns) if not optional]
    free = [axis for axis, (_, optional) in enumerate(tally.columns) if optional]
    number = math.prod(tally.shape[axis] for axis in fixed)
    table = np.transpose(influence, [*fixed, *free, influence.ndim - 1])
    table = table.reshape(number, -1, influence.shape[-1])
    everyone, rest = table[:, 0], table[:, 1:]
    if chosen is None:
        up, down = np.maximum(rest, 0), np.minimum(rest, 0)
    else:
        ordered = np.sort(rest, axis=1)
        up, down = ordered[:, -chosen:], ordered[:, :chosen]
    up, down = everyone + up.sum(axis=1), everyone + down.sum(axis=1)
    return np.maximum(np.abs(up), np.abs(down)).max(axis=0)
