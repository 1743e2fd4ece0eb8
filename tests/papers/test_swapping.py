"""Li and Sarkar's worked example as a reproduction."""

from papers.swapping import example, table_3


def test_the_worked_example_agrees_with_the_paper() -> None:
    found = example()
    figures = {row.labels[0]: row.cells[0] for row in found.rows}
    assert not any(cell.differs for cell in figures.values())
    assert round(figures["objective after phase one"].value or 0, 4) == 4.0718
    assert round(figures["optimum"].value or 0, 4) == 2.1353


def test_table_3_agrees_record_by_record() -> None:
    found = table_3()
    assert [row.labels[0] for row in found.rows] == [1, 6, 7, 10, 13, 16, 2, 4, 11]
    assert found.verdict == "exact: all 27 printed numbers"
    assert all(abs(sum(cell.value or 0 for cell in row.cells) - 1) < 1e-9 for row in found.rows)
