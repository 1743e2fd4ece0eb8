"""A reproduction as text, JSON and page; what is marked as different and what is not."""

from __future__ import annotations

import json
import math

import pytest

from papers.base import (
    LENGTH,
    MARK,
    Cell,
    Printed,
    Reproduction,
    Row,
    Runs,
    Settings,
    rounding,
    view_of,
)
from sfumato.errors import ParameterError
from sfumato.renderers.html import page
from sfumato.renderers.picture import draw


def table(**changes: object) -> Reproduction:
    """Two lengths of two quantities."""
    rows = (
        Row((1,), (Cell(249, 249.0), Cell(5.89, Runs((6.1, 6.4, 6.3))))),
        Row((2,), (Cell(239, 236.0), Cell(3.87, Runs((30.1, 30.2, 30.3) * 4)))),
    )
    facts = {
        "labels": (LENGTH,),
        "quantities": ("|F|", "error (%)"),
        "rows": rows,
        "notes": ("a remark",),
    } | changes
    return Reproduction("demo", "A table", **facts)


def test_runs_have_a_mean_and_a_spread() -> None:
    runs = Runs((1.0, None, 3.0))
    assert (runs.mean, runs.spread) == (2.0, pytest.approx(math.sqrt(2)))
    assert (Runs((None,)).mean, Runs((None,)).spread, Runs((4.0,)).spread) == (None, None, None)


def test_equal_runs_have_no_spread_even_where_they_cannot_be_written_exactly() -> None:
    assert Runs((100 / 9,) * 3).spread == 0


def test_a_number_is_excluded_only_where_a_further_run_would_hardly_give_it() -> None:
    runs = Runs((4.0, 5.0, 6.0) * 4)  # t(11, 0.995) = 3.106, so the interval is 5 ± 2.76
    assert not runs.excludes(7.77) and runs.excludes(7.79)  # and the last digit may be 2 off
    assert not Runs((5.0,)).excludes(90.0)


def test_few_seeds_mark_nothing() -> None:
    """Three runs tell so little of their spread that 11 deviations would pass for chance."""
    assert not Runs((4.0, 5.0, 6.0)).excludes(500.0)
    assert Runs((4.0, 5.0, 6.0) * 4).excludes(500.0)


def test_a_verdict_says_how_the_printed_numbers_stand() -> None:
    def verdict(*cells: Cell) -> str:
        rows = tuple(Row((place,), (cell,)) for place, cell in enumerate(cells))
        return Reproduction("demo", "A table", (LENGTH,), ("x",), rows).verdict

    many = Runs((4.0, 5.0, 6.0) * 4)
    assert verdict(Cell(None, 3.0)).startswith("shape only")
    assert verdict(Cell(5, 5.0), Cell(6, 6.2)) == "exact: all 2 printed numbers"
    close = verdict(Cell(4.0718, 4.07184), Cell(2.4237, 2.42376))
    assert close == "to rounding: all 2 printed numbers, 1 but for the last digit"
    assert verdict(Cell(5, 5.0), Cell(5.1, many)) == "within error: all 2 printed numbers"
    assert verdict(Cell(5, 9.0), Cell(50, many), Cell(None, 1.0)).startswith("misses 2 of 2")
    assert verdict(Cell(5.1, Runs((4.0, 5.0)))).startswith("not judged: 2 seed(s)")


def test_a_printed_number_keeps_its_digits() -> None:
    assert Cell(Printed("91.30"), 91.31).printed() == "91.30"
    assert Cell(Printed("91.30"), 91.31).shown() == "91.31"
    assert rounding(Printed("91.30")) == 0.02


def test_runs_that_agree_exclude_a_number_only_by_their_grain() -> None:
    assert not Runs((0.0,) * 10).excludes(25.0)
    assert not Runs((0.0,) * 10, grain=25.0).excludes(25.0)
    assert Runs((100.0,) * 10, grain=0.1).excludes(50.9)


def test_a_printed_number_may_be_rounded_or_cut_off() -> None:
    assert (rounding(88.52), rounding(91.3), rounding(203)) == (0.02, 0.2, 0.5)
    assert not Cell(88.52, 88.5355).differs and Cell(88.52, 88.55).differs
    assert not Cell(203, 203.0).differs and Cell(203, 204.0).differs


def test_text_shows_theirs_beside_ours_and_marks_what_differs() -> None:
    lines = table().to_text().splitlines()
    assert lines[0] == "A table"
    assert lines[3].split() == ["1", "249", "249", "5.89", "6.27", "±", "0.15"]
    assert lines[4].count(MARK) == 2
    assert lines[5].startswith("  · verdict: misses 2 of 4 printed numbers")
    assert lines[6].startswith(f"  · {MARK} marks") and lines[-1] == "  · a remark"


def test_a_quantity_that_the_paper_does_not_print_has_one_column() -> None:
    plain = table(rows=(Row((1,), (Cell(None, 3.0), Cell(None, math.inf))),))
    assert " paper " not in plain.to_text().splitlines()[2] and "∞" in plain.to_text()


def test_json_holds_every_run_and_no_infinity() -> None:
    found = json.loads(json.dumps(table().to_dict(), allow_nan=False))
    assert found["rows"][0]["error (%)"]["ours"]["values"] == [6.1, 6.4, 6.3]
    assert found["rows"][0][LENGTH] == 1 and found["notes"] == ["a remark"]
    assert Cell(None, math.inf).to_dict()["ours"] is None


def test_a_page_draws_what_goes_by_length() -> None:
    pytest.importorskip("matplotlib")
    html = page(view_of([table()]))
    assert "A table" in html and "a remark" in html and html.count("<img") == 1
    drawn = table().drawing()
    assert drawn is not None
    assert draw(drawn)[0].get_legend_handles_labels()[1] == ["ours", "paper"]
    assert table(labels=("data",)).drawing() is None


def test_rows_must_fit() -> None:
    with pytest.raises(ParameterError, match="1 labels and 2 cells, where 2 and 2 are named"):
        table(labels=("data", LENGTH))


def test_settings() -> None:
    assert list(Settings(seeds=3).runs) == [1, 2, 3] and Settings(seeds=3).counted == "3 seeds"
    assert (
        list(Settings(seeds=3, quick=True).runs) == [1] and Settings(quick=True).counted == "1 seed"
    )
    with pytest.raises(ParameterError, match="seeds=0"):
        Settings(seeds=0)


def test_what_the_runs_did_not_find_is_not_judged_by_them() -> None:
    counted, run = Cell(203, Runs((204.0,))), Cell(6.3, Runs((6.1, 6.4, 6.3) * 4))
    beside = table(quantities=("|F|", "error (%)"), rows=(Row((1,), (counted, run)),))
    assert beside.verdict == (
        "within error: all 1 printed numbers; 1 more are not judged: they are not of the runs"
    )
    silent = table(rows=(Row((1,), (counted, Cell(None, run.ours))),), apart="of other data")
    assert silent.verdict == "shape only: the 1 printed numbers are not judged: of other data"


def test_what_is_set_apart_does_not_count_among_what_agrees() -> None:
    """Numbers of a stand-in stood among "misses 1 of 3", as if two had been found again."""
    exact, apart = Cell(203, 204.0), Cell(250, Runs((90.0,)))
    found = table(quantities=("|F|", "of others"), rows=(Row((1,), (exact, apart)),))
    assert found.verdict.startswith("misses 1 of 1 printed numbers")
    assert "1 more are not judged" in found.verdict


def test_a_page_and_json_keep_the_digits_that_are_printed() -> None:
    found = table(rows=(Row((1,), (Cell(Printed("91.30"), 91.3), Cell(None, None))),))
    assert '<td class="number">91.30</td>' in page(view_of([found]))
    assert found.to_dict()["rows"][0]["|F|"]["printed"] == "91.30"
