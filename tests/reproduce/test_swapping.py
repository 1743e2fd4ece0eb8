"""Li and Sarkar's worked example as a reproduction."""

from sfumato.reproduce.swapping import example


def test_the_worked_example_agrees_with_the_paper() -> None:
    found = example()
    figures = {row.labels[0]: row.cells[0] for row in found.rows}
    assert not any(cell.differs for cell in figures.values())
    assert round(figures["objective after phase one"].value or 0, 4) == 4.0718
    assert round(figures["optimum"].value or 0, 4) == 2.1353
