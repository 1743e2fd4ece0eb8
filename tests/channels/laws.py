"""What is true of every channel, judged by its dense matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, permutations

import numpy as np
import pytest

from sfumato.channels import Channel, NotLumpableError
from sfumato.channels.conditioning import condition
from sfumato.domain import Category, Cells
from sfumato.testing import amplification

BATCHES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 2))


def close(left: np.ndarray, right: np.ndarray) -> None:
    assert np.shape(left) == np.shape(right)
    np.testing.assert_allclose(
        left, right, rtol=1e-8, atol=1e-8 * (1 + np.abs(right).max(initial=0))
    )


def check_channel(channel: Channel, dense: np.ndarray, seed: int = 0) -> None:
    """Put a channel through every law; `dense` is its matrix, written down without the channel's
    help.
    """
    check_matrix(channel, dense)
    check_products(channel, dense, seed)
    check_figures(channel, dense)
    check_marginals(channel, seed)
    check_coarsening(channel, seed)


def check_matrix(channel: Channel, dense: np.ndarray) -> None:
    close(channel.to_dense(), dense)
    assert dense.min() >= -1e-12
    close(dense.sum(axis=0), np.ones(dense.shape[1]))


def check_products(channel: Channel, dense: np.ndarray, seed: int) -> None:
    """Each of the five products, with and without batch axes, against the matrix or its
    (least-squares) inverse.
    """
    inverse = np.linalg.pinv(dense)
    rng = np.random.default_rng(seed)
    for batch in BATCHES:
        truths = rng.uniform(0, 100, (*channel.inputs, *batch))
        reports = rng.uniform(0, 100, (*channel.outputs, *batch))
        close(channel.apply(truths), times(dense, truths, channel.inputs, channel.outputs))
        close(channel.adjoint(reports), times(dense.T, reports, channel.outputs, channel.inputs))
        close(channel.solve(reports), times(inverse, reports, channel.outputs, channel.inputs))
        close(
            channel.solve_adjoint(truths), times(inverse.T, truths, channel.inputs, channel.outputs)
        )
        close(
            channel.inverse_squared(reports),
            times(inverse**2, reports, channel.outputs, channel.inputs),
        )
        close(channel.solve(channel.apply(truths)), truths)
    assert np.sum(reports * channel.apply(truths)) == pytest.approx(
        np.sum(channel.adjoint(reports) * truths)
    )


def times(
    matrix: np.ndarray, array: np.ndarray, before: tuple[int, ...], after: tuple[int, ...]
) -> np.ndarray:
    return (matrix @ array.reshape(math.prod(before), -1)).reshape(
        *after, *array.shape[len(before) :]
    )


def check_figures(channel: Channel, dense: np.ndarray) -> None:
    assert amplification(channel) == pytest.approx(largest_ratio(dense), rel=1e-6)
    assert condition(channel) == pytest.approx(np.linalg.cond(dense), rel=1e-6)


def largest_ratio(dense: np.ndarray) -> float:
    """Over all reports and pairs of truths, as the definition says; a report that never occurs does
    not count.
    """
    dense = np.where(dense < 1e-14, 0, dense)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = dense[:, :, None] / dense[:, None, :]
    return float(np.nanmax(ratios))


def check_marginals(channel: Channel, seed: int) -> None:
    """Summing out commutes with the channel, for every choice of axes in every order."""
    if channel.inputs != channel.outputs:
        return
    places = range(len(channel.inputs))
    truths = np.random.default_rng(seed).uniform(0, 100, channel.inputs)
    for axes in chain.from_iterable(
        permutations(places, length) for length in range(1, len(channel.inputs) + 1)
    ):
        try:
            marginal = channel.marginal(axes)
        except NotLumpableError:
            assert depends_on_more(channel, axes)
            continue
        assert marginal.inputs == tuple(channel.inputs[axis] for axis in axes)
        close(marginal.apply(summed(truths, axes)), summed(channel.apply(truths), axes))


def summed(table: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    rest = tuple(axis for axis in range(table.ndim) if axis not in axes)
    kept = sorted(axes)
    return table.sum(axis=rest).transpose([kept.index(axis) for axis in axes])


def depends_on_more(channel: Channel, axes: Sequence[int]) -> bool:
    """Whether two truths that agree on these axes give different marginal reports: the reason for
    which to refuse.
    """
    size = math.prod(channel.inputs)
    columns = channel.apply(np.eye(size).reshape(*channel.inputs, size))
    reports = columns.sum(
        axis=tuple(a for a in range(len(channel.inputs)) if a not in axes)
    ).reshape(-1, size)
    cells = np.stack(np.unravel_index(np.arange(size), channel.inputs))[list(axes)]
    return any(
        not np.allclose(reports[:, a], reports[:, b])
        for a in range(size)
        for b in range(a)
        if (cells[:, a] == cells[:, b]).all()
    )


def check_coarsening(channel: Channel, seed: int) -> None:
    """Merging cells commutes with the channel, for random partitions and for the trivial one."""
    if channel.inputs != channel.outputs:
        return
    rng = np.random.default_rng(seed)
    truths = rng.uniform(0, 100, channel.inputs)
    for finest in (True, False):
        cells = [partition(size, rng, finest) for size in channel.inputs]
        try:
            merged = channel.coarsen(cells)
        except NotLumpableError:
            assert not finest
            continue
        assert merged.inputs == tuple(part.size for part in cells)
        close(merged.apply(merge(truths, cells)), merge(channel.apply(truths), cells))


def partition(size: int, rng: np.random.Generator, finest: bool = False) -> Cells:
    """Random cells of an attribute with this many values, every cell with at least one."""
    attribute = Category("a", tuple(map(str, range(size))))
    if finest:
        return attribute.cells()
    count = int(rng.integers(1, size + 1))
    group = np.concatenate([np.arange(count), rng.integers(0, count, size - count)])
    return Cells(attribute, tuple(map(str, range(count))), rng.permutation(group))


def merge(table: np.ndarray, cells: Sequence[Cells]) -> np.ndarray:
    """The table summed by cells, axis by axis and code by code."""
    for axis, part in enumerate(cells):
        result = np.zeros((*table.shape[:axis], part.size, *table.shape[axis + 1 :]))
        for code in range(table.shape[axis]):
            place = (slice(None),) * axis
            result[(*place, part.group[code])] += table[(*place, code)]
        table = result
    return table
