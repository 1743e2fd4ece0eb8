"""Condition numbers of FRAPP's figure 7, and each closed form against a dense matrix."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import conditioning
from sfumato.channels.cut import Sizes
from sfumato.errors import ParameterError

CENSUS = (4, 5, 5, 5, 2, 2)
HEALTH = (2, 5, 2, 3, 5, 5, 5)


def gamma_diagonal(gamma: float, cells: int) -> np.ndarray:
    return (np.ones((cells, cells)) + (gamma - 1) * np.eye(cells)) / (gamma + cells - 1)


def marginal_of_gamma_diagonal(gamma: float, sizes: tuple[int, ...], kept: int) -> np.ndarray:
    """The channel of the first `kept` attributes, from the whole matrix by summing over
    the rest.
    """
    inside, outside = math.prod(sizes[:kept]), math.prod(sizes[kept:])
    whole = gamma_diagonal(gamma, inside * outside).reshape(inside, outside, inside, outside)
    return whole.sum(axis=1).mean(axis=2)


@given(gamma=st.floats(1.5, 100), cells=st.integers(2, 40))
def test_gamma_diagonal_is_the_dense_condition_number(gamma: float, cells: int) -> None:
    dense = np.linalg.cond(gamma_diagonal(gamma, cells))
    assert conditioning.gamma_diagonal_condition(gamma, cells) == pytest.approx(dense)


def test_gamma_diagonal_has_the_same_condition_number_on_every_marginal() -> None:
    sizes = (2, 3, 4)
    for kept in (1, 2, 3):
        dense = np.linalg.cond(marginal_of_gamma_diagonal(19, sizes, kept))
        assert dense == pytest.approx(conditioning.gamma_diagonal_condition(19, 24))


def test_inverse_of_a_gamma_diagonal_marginal() -> None:
    """The erratum of FRAPP's theorem 5: the entries of the right inverse for n =
    2000, m = 2.
    """
    gamma, cells, kept = 19, 2000, 2
    keep = (gamma - 1) / (gamma + cells - 1)
    inverse = np.linalg.inv(keep * np.eye(kept) + (1 - keep) / kept)
    assert (
        inverse[0, 1]
        == pytest.approx(-(cells / kept) / (gamma - 1))
        == pytest.approx(-55.56, abs=0.005)
    )
    assert inverse[0, 0] == pytest.approx((gamma + cells - 1 - cells / kept) / (gamma - 1))
    assert inverse[0, 0] == pytest.approx(56.56, abs=0.005)


@given(gamma=st.floats(1.5, 100), cells=st.integers(2, 6), seed=st.integers(0, 2**32 - 1))
def test_no_symmetric_matrix_under_the_same_gamma_is_better_conditioned(
    gamma: float, cells: int, seed: int
) -> None:
    """FRAPP theorem 2, on symmetric matrices whose rows stay within gamma."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0, 1e-2, size=(cells, cells)) / cells
    matrix = gamma_diagonal(gamma, cells) + noise + noise.T
    matrix += np.diag(1 - matrix.sum(axis=0))
    amplified = (matrix.max(axis=1) / matrix.min(axis=1)).max()
    if np.linalg.eigvalsh(matrix)[0] > 0:
        best = conditioning.gamma_diagonal_condition(float(amplified), cells)
        assert np.linalg.cond(matrix) >= best * (1 - 1e-9)


@given(
    keeps=st.lists(st.tuples(st.floats(0.55, 1), st.floats(0.55, 1)), min_size=1, max_size=5),
)
def test_flips_multiply_as_the_kronecker_product_does(keeps: list[tuple[float, float]]) -> None:
    dense = np.ones((1, 1))
    for ones, zeros in keeps:
        dense = np.kron(dense, [[zeros, 1 - ones], [1 - zeros, ones]])
    got = conditioning.product_condition(conditioning.flip_condition(*keep) for keep in keeps)
    assert got == pytest.approx(np.linalg.cond(dense), rel=1e-6)


@pytest.mark.parametrize("length", range(1, 8))
@pytest.mark.parametrize("keep", [0.2, 0.5, 0.8])
def test_olap_figure_6(keep: float, length: int) -> None:
    columns = [conditioning.retention_condition(keep, 0.5)] * length
    assert conditioning.product_condition(columns) == pytest.approx(keep**-length)


def test_retention_of_an_uneven_range() -> None:
    keep, mass = 0.3, 0.15
    dense = keep * np.eye(2) + (1 - keep) * np.array([[1 - mass], [mass]])
    assert conditioning.retention_condition(keep, mass) == pytest.approx(np.linalg.cond(dense))
    eigenvalues = np.linalg.eigvals(np.kron(dense, np.kron(dense, dense)))
    assert (eigenvalues.max(), eigenvalues.min()) == pytest.approx((1, keep**3))


def test_mask_parameters_of_frapp() -> None:
    assert 1 - conditioning.mask_keep(19, 6) == pytest.approx(0.439, abs=5e-4)
    assert 1 - conditioning.mask_keep(19, 7) == pytest.approx(0.448, abs=5e-4)


def test_mask_keep_amplifies_by_gamma_on_one_hot_records() -> None:
    sizes, gamma = (2, 3), 19
    keep = conditioning.mask_keep(gamma, ones=len(sizes))
    records = [
        np.concatenate([np.eye(n)[v] for n, v in zip(sizes, cell, strict=True)])
        for cell in np.ndindex(sizes)
    ]
    reports = np.array(list(itertools.product([0, 1], repeat=sum(sizes))))
    matches = (reports[:, None, :] == np.array(records)[None, :, :]).sum(axis=2)
    channel = keep**matches * (1 - keep) ** (sum(sizes) - matches)
    assert (channel.max(axis=1) / channel.min(axis=1)).max() == pytest.approx(gamma)


def test_figure_7() -> None:
    """DET-GD is level; MASK grows exponentially to the order of 1e5; cut-and-paste grows faster and
    ends at its cutoff.
    """
    mask = conditioning.by_length(lambda length: conditioning.mask_condition(1 - 0.439, length), 6)
    cut = conditioning.by_length(
        lambda length: conditioning.cut_and_paste_condition(6, length, 3, 0.494), 6
    )
    level = conditioning.gamma_diagonal_condition(19, math.prod(CENSUS))
    assert level == pytest.approx(112.1, abs=0.05)
    assert conditioning.gamma_diagonal_condition(19, math.prod(HEALTH)) == pytest.approx(
        417.7, abs=0.05
    )
    assert mask[1] < level < mask[2]
    assert 1e5 < mask[5] < 1e6
    assert cut[1] > mask[1]
    assert cut[2] > mask[2]
    assert cut[3:] == (math.inf, math.inf, math.inf)


def frapp_equation_11(size: int, length: int, cutoff: int, insert: float) -> np.ndarray:
    """Eq. 11 as printed, with the itemset's length for M_b."""

    def choose(n: int, k: int) -> int:
        return math.comb(n, k) if 0 <= k <= n else 0

    def survivors(z: int) -> float:
        total = 0.0
        for w in range(min(cutoff, z) + 1):
            weight = 1 - size / (cutoff + 1) if w == size and w < cutoff else 1 / (cutoff + 1)
            total += (
                choose(size - w, z - w) * insert ** (z - w) * (1 - insert) ** (size - z) * weight
            )
        return total

    matrix = np.zeros((length + 1, length + 1))
    for before, after, z in itertools.product(
        range(length + 1), range(length + 1), range(size + 1)
    ):
        for q in range(
            max(0, z + before - size, before + after - length), min(z, before, after) + 1
        ):
            hyper = choose(before, q) * choose(size - before, z - q) / choose(size, z)
            added = choose(length - before, after - q) * insert ** (after - q)
            matrix[after, before] += (
                survivors(z) * hyper * added * (1 - insert) ** (length - before - after + q)
            )
    return matrix


@pytest.mark.parametrize(("size", "cutoff"), [(6, 3), (3, 5), (4, 4), (7, 0)])
def test_partial_supports_are_frapps_equation_11(size: int, cutoff: int) -> None:
    for length in range(1, size + 1):
        got = conditioning.cut_and_paste_partial_supports(size, length, cutoff, 0.494)
        np.testing.assert_allclose(got, frapp_equation_11(size, length, cutoff, 0.494), atol=1e-12)
        np.testing.assert_allclose(got.sum(axis=0), 1)


def cut_and_paste_by_enumeration(
    size: int, cutoff: int, insert: float, universe: int
) -> np.ndarray:
    """P(report | basket) for every report and every basket of `size` items, from the words of the
    definition.
    """
    reports = list(itertools.product([0, 1], repeat=universe))
    baskets = list(itertools.combinations(range(universe), size))
    channel = np.zeros((len(reports), len(baskets)))
    for column, basket in enumerate(baskets):
        for draw in range(cutoff + 1):
            cuts = list(itertools.combinations(basket, min(draw, size)))
            for kept, (row, report) in itertools.product(cuts, enumerate(reports)):
                rest = [report[item] for item in range(universe) if item not in kept]
                if all(report[item] for item in kept):
                    chance = insert ** sum(rest) * (1 - insert) ** (len(rest) - sum(rest))
                    channel[row, column] += chance / len(cuts) / (cutoff + 1)
    return channel


@pytest.mark.parametrize(("size", "cutoff"), [(2, 1), (2, 3), (3, 2)])
def test_cut_and_paste_against_every_basket_and_report(size: int, cutoff: int) -> None:
    universe, insert = 6, 0.4
    channel = cut_and_paste_by_enumeration(size, cutoff, insert, universe)
    baskets = np.array(list(itertools.combinations(range(universe), size)))
    reports = np.array(list(itertools.product([0, 1], repeat=universe)))
    for length in range(1, size + 1):
        present = (baskets < length).sum(axis=1)
        reported = reports[:, :length].sum(axis=1)
        expected = conditioning.cut_and_paste_partial_supports(size, length, cutoff, insert)
        for column, before in enumerate(present):
            after = np.bincount(reported, weights=channel[:, column], minlength=length + 1)
            np.testing.assert_allclose(after, expected[:, before], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: conditioning.gamma_diagonal_condition(1, 10),
            "gamma=1 makes every report equally likely",
        ),
        (lambda: conditioning.mask_keep(1, 6), "gamma=1 leaves only keep=0.5"),
        (lambda: conditioning.mask_condition(0.9, 0), "length=0 is too small"),
        (
            lambda: conditioning.cut_and_paste_partial_supports(2, 3, 1, 0.5),
            "size=2 is too small; use size >= 3",
        ),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_coin_toss_is_singular() -> None:
    assert conditioning.mask_condition(0.5, 2) == math.inf


def test_partial_supports_are_those_the_channel_inverts() -> None:
    for length in range(1, 7):
        dense = Sizes.cut_and_paste(length, basket=6, cutoff=3, insert=0.494).to_dense()
        np.testing.assert_allclose(
            conditioning.cut_and_paste_partial_supports(6, length, 3, 0.494), dense, atol=1e-12
        )


@pytest.mark.parametrize("insert", [-0.1, 1.5, float("nan")])
def test_an_insert_that_is_no_probability_is_refused(insert: float) -> None:
    with pytest.raises(ParameterError, match="insert"):
        conditioning.cut_and_paste_partial_supports(2, 1, 1, insert)
