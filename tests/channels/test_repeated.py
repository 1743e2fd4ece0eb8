"""Channels whose tally counts a report several times, or not at all: judged by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from tests.channels.laws import BATCHES, close
from tests.mechanisms.added.sampled import Sampled

from sfumato.channels import Channel, CutBaskets, CutRecords, Product, Retain, Unary
from sfumato.channels.channel import scatter
from sfumato.channels.unary_bits import SubsetBits
from sfumato.errors import ParameterError, Unanswerable
from sfumato.model.margins import margin_consistent

Law = list[tuple[float, np.ndarray]]  # every tally that one report may add, with its probability


def bits_law(ones: np.ndarray, zeros: np.ndarray, truth: int) -> Law:
    chances = np.where(np.arange(len(ones)) == truth, ones, 1 - zeros)
    return [
        (
            float(np.prod(np.where(shown, chances, 1 - chances))),
            np.array([1.0, *map(float, shown)]),
        )
        for shown in product((False, True), repeat=len(ones))
    ]


def outer(laws: list[Law]) -> Law:
    result: Law = [(1.0, np.ones(()))]
    for law in laws:
        result = [(p * q, np.multiply.outer(a, b)) for p, a in result for q, b in law]
    return result


def cut_law(shape: tuple[int, ...], record: int, cutoff: int, insert: float, truth) -> Law:
    """Cut-and-paste on a record of which the first columns are asked about, draw by draw."""
    result: Law = []
    for draw in range(cutoff + 1):
        kept = min(draw, record)
        for chosen in combinations(range(record), kept):
            laws = [
                bits_law(
                    np.full(size, 1.0 if place in chosen else insert),
                    np.full(size, 1 - insert),
                    truth[place],
                )
                for place, size in enumerate(shape)
            ]
            weight = 1 / (cutoff + 1) / comb(record, kept)
            result += [(weight * p, tally) for p, tally in outer(laws)]
    return result


UNARY = Unary(np.array([0.9, 0.7]), np.array([0.8, 0.6]))
WIDE = Unary(np.array([0.9, 0.7, 0.5]), np.array([0.8, 0.6, 0.9]))


def truths(channel: Channel) -> Iterator[tuple[int, ...]]:
    return iter(np.ndindex(*channel.inputs))


def laws_of(name: str) -> tuple[Channel, dict[tuple[int, ...], Law]]:
    if name.startswith(CONSISTENT):
        channel, laws = laws_of(name.removeprefix(CONSISTENT))
        return margin_consistent(channel), laws
    if name == "unary":
        return UNARY, {u: bits_law(UNARY.ones, UNARY.zeros, u[0]) for u in truths(UNARY)}
    if name == "two unaries":
        both = Product.of(UNARY, WIDE)
        return both, {
            u: outer([bits_law(c.ones, c.zeros, u[i]) for i, c in enumerate((UNARY, WIDE))])
            for u in truths(both)
        }
    if name == "unary beside retain":
        retain = Retain.uniform(0.4, (3,))
        mixed = Product((WIDE, retain), ((1,), (0,)))
        dense = retain.to_dense()
        return mixed, {
            (a, b): outer(
                [
                    [(float(dense[v, a]), np.eye(3)[v]) for v in range(3)],
                    bits_law(WIDE.ones, WIDE.zeros, b),
                ]
            )
            for a, b in truths(mixed)
        }
    if name == "cut-and-paste records":
        cut = CutRecords((2, 3), 4, 3, 0.2)
        return cut, {u: cut_law((2, 3), 4, 3, 0.2, u) for u in truths(cut)}
    inner = CutRecords((2,), 2, 2, 0.3)
    mixed = Product.of(Retain.identity((2,)), inner)
    return mixed, {
        (a, b): outer([[(1.0, np.eye(2)[a])], cut_law((2,), 2, 2, 0.3, (b,))])
        for a, b in truths(mixed)
    }


CONSISTENT = "margin-consistent "
PLAIN = ("unary", "two unaries", "unary beside retain", "cut-and-paste records", "cut beside")
NAMES = (*PLAIN, *(CONSISTENT + name for name in PLAIN))


@pytest.mark.parametrize("name", NAMES)
def test_expected_tallies_and_their_scatter_are_those_of_every_possible_report(name: str) -> None:
    channel, laws = laws_of(name)
    rng = np.random.default_rng(1)
    for batch in BATCHES[1:2]:
        g = rng.normal(size=(*channel.outputs, *batch))
        h = rng.normal(size=(*channel.outputs, *batch))
        mean, scattered = channel.adjoint(g), scatter(channel, g, h)
        axes = len(channel.outputs)
        for truth, law in laws.items():
            assert sum(p for p, _ in law) == pytest.approx(1)
            left = [(p, np.tensordot(tally, g, axes)) for p, tally in law]
            right = [np.tensordot(tally, h, axes) for _, tally in law]
            expected = sum(p * value for p, value in left)
            close(np.asarray(mean[truth]), np.asarray(expected))
            both = sum(p * a * b for (p, a), b in zip(left, right, strict=True))
            other = sum(p * b for (p, _), b in zip(left, right, strict=True))
            close(np.asarray(scattered[truth]), np.asarray(both - expected * other))


@pytest.mark.parametrize("name", NAMES)
def test_solving_undoes_and_the_adjoints_agree(name: str) -> None:
    channel, _ = laws_of(name)
    rng = np.random.default_rng(2)
    dense = channel.to_dense()
    for batch in BATCHES:
        x = rng.uniform(0, 100, (*channel.inputs, *batch))
        y = rng.uniform(0, 100, (*channel.outputs, *batch))
        w = rng.normal(size=x.shape)
        close(channel.solve(channel.apply(x)), x)
        flat = (dense @ x.reshape(dense.shape[1], -1)).reshape(channel.apply(x).shape)
        close(channel.apply(x), flat)
        assert np.sum(channel.adjoint(y) * x) == pytest.approx(np.sum(y * channel.apply(x)))
        assert np.sum(channel.solve_adjoint(w) * y) == pytest.approx(np.sum(w * channel.solve(y)))


@pytest.mark.parametrize("name", NAMES)
def test_counted_squares_are_those_of_each_cell(name: str) -> None:
    """Σ over reports of (what it adds to a cell)²: from the tally alone."""
    channel, laws = laws_of(name)
    axes = len(channel.outputs)
    for law in laws.values():
        tally = sum(p * t for p, t in law)
        for cell in truths(channel):
            unit = np.zeros(channel.inputs)
            unit[cell] = 1
            influence = channel.solve_adjoint(unit)
            squares = sum(p * float(np.tensordot(t, influence, axes)) ** 2 for p, t in law)
            assert channel.inverse_squared(tally)[cell] == pytest.approx(squares)


@pytest.mark.parametrize("name", NAMES)
def test_moments_are_those_of_every_possible_report(name: str) -> None:
    channel, laws = laws_of(name)
    x = np.random.default_rng(5).uniform(0, 9, (*channel.inputs, 2))
    expected = sum(
        p * np.multiply.outer(np.outer(tally, tally), x[truth])
        for truth, law in laws.items()
        for p, tally in law
    )
    close(channel.moments(x), np.asarray(expected))


def test_moments_of_a_set_are_those_of_its_terms() -> None:
    channel = SubsetBits(np.full(4, 0.7), np.full(4, 0.6), chosen=2)
    x = np.random.default_rng(5).uniform(0, 9, (4, 2))
    terms = channel.sqrt_factors(np.eye(5))  # (truths, terms, outputs)
    close(channel.moments(x), np.einsum("uti,utj,ub->ijb", terms, terms, x))


@pytest.mark.parametrize("name", ["two unaries", "cut-and-paste records"])
def test_levelled_cells_add_up_to_what_fewer_columns_say_alone(name: str) -> None:
    """Each sum over a column of k values once gathered the noise of k bits."""
    channel, _ = laws_of(name)
    tally = np.random.default_rng(6).uniform(0, 100, channel.outputs)
    found = margin_consistent(channel).solve(tally)
    alone = UNARY if name == "two unaries" else CutRecords((2,), 4, 3, 0.2)
    margin = margin_consistent(alone).solve(tally[:, 0])
    close(found.sum(axis=1), margin)
    assert found.sum() == pytest.approx(tally[0, 0])
    assert not np.allclose(channel.solve(tally).sum(axis=1), margin)


def test_a_bit_that_tells_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="must differ from 1"):
        Unary(np.array([0.5]), np.array([0.5]))


# Cut-and-paste on baskets: one block a size.


def test_baskets_of_each_size_have_their_own_block() -> None:
    channel = CutBaskets(5, 2, 3, 0.2)
    dense = channel.to_dense().reshape(5, 4, 5, 4)
    held = np.array([0, 1, 1, 2])
    for size in range(5):
        block = dense[size, :, size]
        possible = held <= size
        close(block[:, possible].sum(axis=0), np.ones(possible.sum()))
        assert not block[:, ~possible].any()
        back = np.stack(
            [
                channel.solve(
                    np.pad(block[:, [u]].T, ((size, 4 - size), (0, 0))).reshape(5, 2, 2)
                ).ravel()
                for u in np.flatnonzero(possible)
            ]
        )
        wanted = np.eye(20)[[4 * size + u for u in np.flatnonzero(possible)]]
        close(back, wanted)


def test_sizes_that_do_not_occur_are_never_computed() -> None:
    channel = CutBaskets(20_000, 2, 3, 0.2)
    counts = np.zeros(channel.inputs)
    counts[7] = 100
    settled = channel.settle(counts)
    assert settled.occurring == (7,) and settled.solve(counts)[7].sum() == pytest.approx(400)


def test_more_items_than_are_kept_cannot_be_asked_for() -> None:
    with pytest.raises(Unanswerable, match="at most cutoff=2"):
        CutRecords((2, 2, 2), 4, 2, 0.2)
    with pytest.raises(Unanswerable, match="at most cutoff=1"):
        CutBaskets(4, 2, 1, 0.2).solve(np.ones((4, 2, 2)))


# Questions dealt by chance.


def dealt(groups: tuple[int, ...] = ()) -> Sampled:
    first, second = Retain.uniform(0.5, (3,)), Retain.uniform(0.3, (3,))
    return Sampled((first, None, second), (0.5, 0.3, 0.2), 4, groups)


@pytest.mark.parametrize("groups", [(), (2,)])
def test_a_dealt_question_is_undone_whatever_the_shares(groups: tuple[int, ...]) -> None:
    channel = dealt(groups)
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 100, channel.inputs)
    y, w = rng.uniform(1, 100, channel.outputs), rng.normal(size=channel.inputs)
    y.reshape(*groups, 3, 4)[..., 3] = 0  # the questions have three answers each
    for each in (channel, channel.settle(y)):
        close(each.solve(each.apply(x)), x)
        assert np.sum(each.solve_adjoint(w) * y) == pytest.approx(np.sum(w * each.solve(y)))
        g = rng.normal(size=channel.outputs)
        assert np.sum(each.adjoint(g) * x) == pytest.approx(np.sum(g * each.apply(x)))


def test_the_error_of_a_dealt_question_is_that_of_repeated_deals() -> None:
    """The people who got a question stand in the denominator, and the error knows it."""
    channel, rng = dealt(), np.random.default_rng(4)
    truth = np.array([600, 300, 100])
    w = np.array([1.0, 0.0, 0.0])
    estimates, stated = [], []
    columns = [Retain.uniform(keep, (3,)).to_dense() for keep in (0.5, 0.3)]
    for _ in range(2000):
        tally = np.zeros((3, 4))
        for value, people in enumerate(truth):
            a, _, b = rng.multinomial(people, channel.shares)
            tally[0, :3] += rng.multinomial(a, columns[0][:, value])
            tally[2, :3] += rng.multinomial(b, columns[1][:, value])
        tally[1, 0] = truth.sum() - tally.sum()
        known = channel.settle(tally.ravel())
        influence, found = known.solve_adjoint(w), known.solve(tally.ravel())
        estimates.append(float(found @ w))
        stated.append(float((found * scatter(known, influence, influence)).sum()))
    assert np.mean(estimates) == pytest.approx(600, abs=5 * np.std(estimates) / np.sqrt(2000))
    assert np.std(estimates) == pytest.approx(np.sqrt(np.mean(stated)), rel=0.08)
    planned = channel.solve_adjoint(w)
    naive = float((truth * scatter(channel, planned, planned)).sum())
    assert naive > 1.05 * np.mean(stated)  # dividing by the planned shares would be noisier
