"""Product: factors of every kind on axes in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.channels.laws import check_channel, close
from tests.channels.test_dense import random_matrix
from tests.mechanisms.added.sampled import Sampled

from sfumato.channels import Dense, Distribution, Product, Retain
from sfumato.channels.channel import has_known_laws
from sfumato.channels.conditioning import condition
from sfumato.channels.unary_bits import Unary
from sfumato.errors import ParameterError, Unanswerable

Shape = tuple[int, ...]


def brute(
    factors: list[np.ndarray], shapes: list[tuple[Shape, Shape]], axes: list[Shape]
) -> np.ndarray:
    """The Kronecker product entry by entry: the product of the factors' entries at their share of
    the indices.
    """
    order = [axis for own in axes for axis in own]
    inputs = dict(zip(order, (size for before, _ in shapes for size in before), strict=True))
    outputs = dict(zip(order, (size for _, after in shapes for size in after), strict=True))
    before, after = (
        tuple(inputs[a] for a in sorted(inputs)),
        tuple(outputs[a] for a in sorted(outputs)),
    )
    dense = np.ones((int(np.prod(after)), int(np.prod(before))))
    for row, report in enumerate(np.ndindex(*after)):
        for column, truth in enumerate(np.ndindex(*before)):
            for factor, (into, out), own in zip(factors, shapes, axes, strict=True):
                there = np.ravel_multi_index([report[a] for a in own], out)
                here = np.ravel_multi_index([truth[a] for a in own], into)
                dense[row, column] *= factor[there, here]
    return dense


def check(factors: list[Retain | Dense], axes: list[tuple[int, ...]], seed: int) -> None:
    channel = Product(tuple(factors), tuple(axes))
    dense = brute([f.to_dense() for f in factors], [(f.inputs, f.outputs) for f in factors], axes)
    check_channel(channel, dense, seed)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(4)), first=st.integers(1, 3))
def test_two_factors_on_interleaved_axes(seed: int, order: list[int], first: int) -> None:
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 4, 4)
    left, right = order[:first], order[first:]
    masses = tuple(
        Distribution(int(shape[axis]), rng.dirichlet(np.full(shape[axis], 3.0))) for axis in right
    )
    factors: list[Retain | Dense] = [
        Retain.uniform(0.4, [int(shape[axis]) for axis in left]),
        Retain(0.7, masses),
    ]
    check(factors, [tuple(left), tuple(right)], seed)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(3)))
def test_retain_and_dense_factors_side_by_side(seed: int, order: list[int]) -> None:
    factors: list[Retain | Dense] = [
        Retain.flip(0.9, 0.7),
        Dense(random_matrix(6, 6, seed), (2, 3), (2, 3)),
    ]
    check(factors, [(order[0],), (order[1], order[2])], seed)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(3)))
def test_reports_of_another_shape_than_the_truths(seed: int, order: list[int]) -> None:
    factors: list[Retain | Dense] = [
        Dense(random_matrix(5, 2, seed), (2,), (5,)),
        Retain.uniform(0.3, (3, 2)),
    ]
    check(factors, [(order[0],), (order[1], order[2])], seed)


def test_reports_in_another_number_of_axes_stand_factor_by_factor() -> None:
    """One category reported as two bits, a public column beside it: truths (column, category),
    reports (bit, bit, column).
    """
    bits = Dense(random_matrix(4, 3, 1), (3,), (2, 2))
    channel = Product((bits, Retain.identity((2,))), ((1,), (0,)))
    assert (channel.inputs, channel.outputs) == ((2, 3), (2, 2, 2))
    dense = np.zeros((4, 2, 2, 3))
    dense[:, 0, 0, :] = dense[:, 1, 1, :] = bits.to_dense()
    check_channel(channel, dense.reshape(8, 6))


def test_bits_one_after_the_other() -> None:
    flips = [Retain.flip(0.9, 0.8), Retain.flip(0.3, 0.4), Retain.flip(0.6, 0.9)]
    dense = np.kron(np.kron(*(flip.to_dense() for flip in flips[:2])), flips[2].to_dense())
    check_channel(Product.of(*flips), dense)


def test_retention_on_k_columns_has_the_condition_of_theory() -> None:
    """Largest and smallest eigenvalue 1 and p^k (OLAP §4)."""
    assert condition(Product.of(*(Retain.uniform(0.2, (5,)) for _ in range(3)))) == pytest.approx(
        0.2**-3
    )


@given(seed=st.integers(0, 10**6), order=st.permutations(range(3)))
def test_each_factor_is_settled_on_its_own_margin(seed: int, order: list[int]) -> None:
    shape = (2, 3, 4)
    counts = np.random.default_rng(seed).uniform(1, 9, shape)
    left, right = (order[0],), (order[1], order[2])
    channel = Product(
        (
            Retain(0.5, (Distribution(shape[order[0]], own=True),)),
            Retain(0.6, tuple(Distribution(shape[axis], own=True) for axis in right)),
        ),
        (left, right),
    )
    assert not has_known_laws(channel)
    settled = channel.settle(counts)
    assert has_known_laws(settled) and settled.settle(counts) is settled
    for axis in range(3):
        margin = counts.sum(axis=tuple(other for other in range(3) if other != axis)) / counts.sum()
        keep = 0.5 if axis == order[0] else 0.6
        close(
            settled.marginal([axis]).to_dense(),
            keep * np.eye(shape[axis]) + (1 - keep) * margin[:, None],
        )


def test_one_factor_in_order_is_itself() -> None:
    channel = Product.of(Retain.flip(0.9, 0.8), Retain.uniform(0.5, (2, 3)))
    assert isinstance(channel.marginal([1, 2]), Retain)
    assert isinstance(channel.marginal([2, 0]), Product)


def test_factors_must_share_out_the_axes() -> None:
    with pytest.raises(ParameterError, match="share out the axes"):
        Product((Retain.flip(0.9, 0.8), Retain.flip(0.9, 0.8)), ((0,), (0,)))
    with pytest.raises(ParameterError, match="cannot act on axes"):
        Product((Retain.uniform(0.5, (2, 3)),), ((0,),))


def test_a_factor_that_deals_questions_squares_a_batch() -> None:
    """The squares of a product are those of the written-down inverse, also beside a factor without
    a formula of its own.
    """
    dealt = Sampled((Retain.uniform(0.4, (3,)), None), (0.5, 0.5), 3)
    channel = Product.of(dealt, Retain.uniform(0.5, (2,)))
    counts = np.random.default_rng(5).integers(1, 50, channel.outputs).astype(float)
    inverse = channel.solve(np.eye(counts.size).reshape(*channel.outputs, -1))
    expected = (np.asarray(inverse) ** 2 * counts.ravel()).sum(axis=-1)
    np.testing.assert_allclose(channel.inverse_squared(counts), expected)


def test_weights_that_are_products_have_the_moments_of_all_bits_together() -> None:
    """Conditions joined by AND need no table of every pair of bits, whatever else is asked with
    them.
    """
    rng = np.random.default_rng(3)
    sizes = (2, 3, 4)
    factors = [Unary(rng.uniform(0.5, 0.9, size), rng.uniform(0.6, 0.9, size)) for size in sizes]
    channel = Product.of(*factors)
    lines = [rng.normal(size=size + 1) for size in sizes]
    joined = np.einsum("i,j,k->ijk", *lines)
    other = rng.normal(size=channel.outputs)
    every = channel.moments(np.eye(24).reshape(*sizes, 24))
    for weights in (joined, np.stack([joined, -2 * joined], axis=-1), other):
        flat = weights.reshape(60, -1)
        slow = np.einsum("in,iju,jn->un", flat, every, flat)
        close(channel.second_moment(weights, weights).reshape(24, -1), slow)


def test_moments_that_would_fill_the_memory_are_refused_with_their_number() -> None:
    bits = Unary(np.full(40, 0.7), np.full(40, 0.6))
    channel = Product.of(bits, bits, bits)
    weights = np.random.default_rng(0).normal(size=channel.outputs)
    with pytest.raises(Unanswerable, match="over 3 columns needs 4,410,944,000 numbers"):
        channel.second_moment(weights, weights)
