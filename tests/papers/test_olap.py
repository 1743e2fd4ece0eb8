"""OLAP's figures, by the sentences that its text says about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from papers import olap
from papers.base import Reproduction, Settings, view_of
from sfumato.channels import Product, Retain
from sfumato.domain import Numeric
from sfumato.mechanisms.retention import Retention
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.renderers.html import page
from sfumato.renderers.picture import draw
from sfumato.table import Table


@pytest.fixture(scope="module")
def people(data_dir: Path) -> Table:
    return olap.adult(Settings(data_dir))


@pytest.fixture(scope="module")
def zipfian() -> Table:
    return olap.zipf(10_000, 5, seeded(1))


def curve(found: Reproduction, quantity: str, *labels: float) -> np.ndarray:
    """The values of one line, along the axis."""
    place = found.quantities.index(quantity)
    return np.array(
        [row.cells[place].value for row in found.rows if row.labels[:-1] == labels], dtype=float
    )


def adult_errors(people: Table, columns: int, keep: float, seeds: int = 4) -> dict[str, float]:
    """Mean errors over seeds."""
    cells = olap.adult_cells(columns)
    table = people.recode(people.domain.project([part.name for part in cells]))
    runs = [olap.errors(table, cells, keep, seeded(seed)) for seed in range(seeds)]
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def test_a_predicate_is_two_cells_with_its_ends_inside() -> None:
    cells = olap.predicate(Numeric("x", 1, 10), 3, 5)
    assert cells.assign(np.arange(10)).tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]
    for low, high in ((1, 4), (7, 10), (1, 10)):
        inside = olap.predicate(Numeric("x", 1, 10), low, high).assign(np.arange(10))
        assert inside.tolist() == [int(low <= value <= high) for value in range(1, 11)]


def test_the_predicates_of_the_paper_hold_for_whom_they_say(people: Table) -> None:
    table = Exact(people).marginal(olap.adult_cells(4)).value
    arrow = people.to_arrow().to_pandas()
    for name, (low, high) in olap.PREDICATES.items():
        arrow = arrow[arrow[name].between(low, high)]
    assert table[1, 1, 1, 1] == len(arrow) > 0
    assert people.rows == table.sum() == 32_561


def test_zipfian_columns_have_a_tenth_of_the_rows_as_values_the_rarest_five_times(
    zipfian: Table,
) -> None:
    counts = np.bincount(np.asarray(zipfian.columns[0]))
    assert len(counts) == 1_000 and zipfian.rows == counts.sum() == 10_000
    assert 4 <= counts[-100:].mean() <= 6 and counts[0] > 25 * counts[-1]
    slope = np.polyfit(np.log(np.arange(1, 501)), np.log(counts[:500]), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.03)
    shares = Exact(zipfian).marginal(olap.zipf_cells(zipfian, 2)).value / zipfian.rows
    np.testing.assert_allclose(shares, 0.25, atol=0.02)  # selectivity 1/2, uncorrelated


def test_error_falls_with_retention_and_reconstruction_pays(people: Table) -> None:
    found = [adult_errors(people, 2, keep) for keep in (0.1, 0.3, 0.9)]
    for method in (olap.RANDOMIZED, olap.ITERATIVE, olap.INVERSION):
        assert found[0][method] > found[1][method] > found[2][method]
    assert all(one[olap.ITERATIVE] < one[olap.RANDOMIZED] / 2 for one in found[1:])


def test_both_methods_agree_where_little_is_asked_and_iteration_wins_where_much_is(
    people: Table,
) -> None:
    easy, hard = adult_errors(people, 2, 0.6), adult_errors(people, 4, 0.2)
    assert easy[olap.ITERATIVE] == pytest.approx(easy[olap.INVERSION], rel=1e-3)
    assert hard[olap.ITERATIVE] < hard[olap.INVERSION] / 3
    assert hard[olap.ITERATIVE] <= 2 < hard[olap.INVERSION]


def test_inversion_errors_grow_like_the_condition_number(zipfian: Table) -> None:
    """By p^-k a column, times what one more column of cells adds to an l1 norm."""
    means = []
    for columns in (2, 3, 4):
        table = zipfian.recode(zipfian.domain.project(zipfian.domain.names[:columns]))
        cells = olap.zipf_cells(table, columns)
        truth = Exact(table).marginal(cells).value
        releases = [
            perturb(table, Retention(table.domain, 0.2), seeded(seed)) for seed in range(20)
        ]
        means.append(
            np.mean([np.abs(release.marginal(cells).value - truth).sum() for release in releases])
        )
    growth = np.array(means[1:]) / means[:-1]
    assert ((growth > 4) & (growth < 9)).all(), growth


def test_condition_numbers_are_those_of_the_matrices() -> None:
    found = olap.condition_numbers()
    for keep in (0.2, 0.8):
        factor = Retain.uniform(keep, (2,))
        dense = [
            np.linalg.cond(Product.of(*[factor] * columns).to_dense()) for columns in (1, 2, 3)
        ]
        np.testing.assert_allclose(curve(found, "condition number", keep)[:3], dense)


def test_error_flattens_out_on_zipfian_data_and_falls_with_the_rows() -> None:
    found = olap.zipf_by_columns(Settings(quick=True))
    assert curve(found, olap.ITERATIVE, 0.2).max() < 2 < curve(found, olap.INVERSION, 0.2)[-1]
    by_rows = olap.zipf_by_rows(Settings(quick=True))
    for keep in (0.6, 0.8, 0.9):
        few, many = curve(by_rows, olap.ITERATIVE, keep)
        assert 1.5 < few / many < 6.5  # √10 for one seed each


def test_relative_error_rises_as_the_range_narrows_and_both_fall_with_the_rows() -> None:
    few, many = (olap.range_errors(rows, seed=1) for rows in (1_000, 100_000))
    absolute = np.array([[run[width][0] for width in olap.WIDTHS] for run in (few, many)])
    relative = np.array([[run[width][1] for width in olap.WIDTHS] for run in (few, many)])
    assert (absolute[0] / absolute[1]).mean() == pytest.approx(10, rel=0.4)
    assert (relative[:, 0] > 3 * relative[:, -1]).all() and (relative[0] > 2 * relative[1]).all()
    assert (absolute.max(axis=1) < 6 * absolute.min(axis=1)).all()


def test_the_largest_safe_retention(people: Table) -> None:
    for columns, common, rare in ((2, 0.4103, 0.9061), (3, 0.3683, 0.8169)):
        found = olap.safe_retention(people, columns)
        at_half = next(row for row in found.rows if row.labels == (0.5,))
        values = [cell.value for cell in at_half.cells]
        assert values[1] == pytest.approx(common, abs=1e-3) and values[3] == pytest.approx(
            rare, abs=1e-3
        )
        assert values[1] >= 0.3 and values[3] >= 0.8  # what §7.3 says may be retained
        for line in np.array([[cell.value for cell in row.cells] for row in found.rows]).T:
            assert (np.diff(line) < 0).all()  # the likelier a priori, the less may be retained


def test_figures_are_drawn() -> None:
    found = olap.condition_numbers()
    drawn = found.drawing()
    assert drawn is not None
    axes = draw(drawn)
    assert axes.get_yscale() == "log" and len(axes.get_legend().get_texts()) == len(olap.CURVES)
    assert "by columns" in page(view_of([found]))
