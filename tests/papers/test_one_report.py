"""`sfumato reproduce one-report`: every way is in the table, and the verdict is that of targets."""

from __future__ import annotations

from pathlib import Path

from papers import one_report
from papers.base import Cell, Row, Runs, Settings


def rows(*errors: float) -> list[Row]:
    cells = [(Cell(None, Runs((error,))), Cell(None, Runs((95.0,)))) for error in errors]
    return [
        *(Row(("questionnaire, model", place), each) for place, each in enumerate(cells, 1)),
        Row(("DET-GD", 1), (Cell(None, Runs((99.0,))), Cell(None, Runs((95.0,))))),
    ]


def test_the_verdict_names_the_lengths_that_err_too_much() -> None:
    assert one_report.judged(rows(3.0, 5.0)).endswith("met at every length")
    verdict = one_report.judged(rows(3.0, 6.2, 7.4))
    assert verdict.endswith("length 2 has 6.2 %; length 3 has 7.4 %")


def test_one_small_question_errs_less_than_whole_records_at_the_same_gamma(
    data_dir: Path,
) -> None:
    found = one_report.table_of(Settings(data_dir, quick=True))
    errors = {row.labels: row.cells[0].value or 0.0 for row in found.rows}
    ours = [errors["questionnaire, model", length] for length in range(1, 7)]
    assert all(ours[length - 1] < errors["DET-GD × 5", length] / 2 for length in (1, 2, 3))
    assert all(error < 9 for error in ours)
    assert all(error > 25 for label, error in errors.items() if label[0] == "DET-GD")
    assert {"retention", "MASK", "C&P"} < {label for label, _ in errors}
    assert "met at every length" in found.verdict
    assert "19^5" in found.to_text()
