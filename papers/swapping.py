"""Li and Sarkar's tables as reproductions: the worked example of tables 1 to 3, and the Census half
of table 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from papers.base import Cell, Printed, Reproduction, Row, Runs, Settings
from papers.data_sets import data_directory
from papers.li_sarkar import AMOUNTS, OFFER_NOTE, census, worked_example

EXAMPLE_NOTES = (
    "the greedy phase II of the paper happens to reach the optimum with U and V each preserved "
    "on their own; preserving the "
    "marginal over both together, solved exactly, does better",
    "P(30–39 | Med) is 3/6; the 3/16 of the text is a misprint, and its linear programme prints "
    "s⁻ + s⁺ for s⁻ - s⁺",
)
QUICK_FOLDS, FOLDS = 2, 10


def reproduce(names: Sequence[str], settings: Settings) -> Iterator[Reproduction]:
    """The tables asked for."""
    for name in names:
        if name == "li-sarkar-table-4":
            yield table_4(settings)
        else:
            yield table_3() if name == "li-sarkar-table-3" else example()


def example() -> Reproduction:
    """The figures of the worked example."""
    rows = [
        Row((_words(figure, part),), (Cell(paper, ours),))
        for figure, both in worked_example().to_dict().items()
        for part, paper, ours in _pairs(both)
    ]
    return Reproduction(
        "li-sarkar-example",
        "Li and Sarkar: the worked example",
        ("figure",),
        ("value",),
        tuple(rows),
        EXAMPLE_NOTES,
    )


def table_3() -> Reproduction:
    """The posteriors of the identifiable records, one record a row."""
    rows = [
        Row(
            (number, amount, first),
            tuple(Cell(theirs, ours) for theirs, ours in posteriors),
        )
        for number, amount, first, posteriors in worked_example().table_3()
    ]
    return Reproduction(
        "li-sarkar-table-3",
        "Li and Sarkar table 3: the records of U and V, and what their keys say of the amount",
        ("record", "amount", "after phase I"),
        tuple(f"P({amount})" for amount in AMOUNTS),
        tuple(rows),
        (
            "simple Bayes from the frequencies of all sixteen records; the column after phase I "
            "is the paper's own solution, from which the objectives of the example are computed",
        ),
    )


def table_4(settings: Settings) -> Reproduction:
    """Errors and leaves of a decision tree learnt from each release of the Census data."""
    folds = QUICK_FOLDS if settings.quick else FOLDS
    runs = [census(data_directory(settings.data), seed=seed, folds=folds) for seed in settings.runs]
    quantities = (
        "error within the release (%)",
        "leaves",
        "seconds",
        "error on the truth (%)",
        "objective",
    )
    rows = []
    for lines in zip(*(run["rows"] for run in runs), strict=True):
        paper = lines[0]["paper"] or {}
        cells = (
            Cell(
                _percent(paper.get("error")),
                Runs(tuple(_percent(line["ours"]["error"]) for line in lines)),
            ),
            Cell(paper.get("leaves"), Runs(tuple(line["ours"].get("leaves") for line in lines))),
            # One number: a difference from the paper's machine means nothing.
            Cell(
                paper.get("seconds"),
                Runs((Runs(tuple(line["ours"].get("seconds") for line in lines)).mean,)),
            ),
            Cell(None, Runs(tuple(_percent(line["ours"].get("error_on_truth")) for line in lines))),
            Cell(None, Runs(tuple(line["ours"].get("objective") for line in lines))),
        )
        rows.append(Row((lines[0]["method"],), cells))
    notes = (
        _identifiable_note(runs[0]["identifiable"]),
        OFFER_NOTE,
        "the paper's tree is C4.5; ours is grown like it",
    )
    title = f"Li and Sarkar table 4: Census, p = 0.5, {folds} folds ({settings.counted})"
    whole = ("li-sarkar-table-4", title, ("release",), quantities, tuple(rows), notes)
    return Reproduction(*whole, apart="seconds of another machine")


def _pairs(both: Mapping[str, Any]) -> Iterator[tuple[str, float | None, float]]:
    """The paper's and our numbers; of a group of numbers each one that the paper gives."""
    if not isinstance(both["paper"], Mapping):
        yield "", both["paper"], float(both["ours"])
        return
    for part, paper in both["paper"].items():
        yield part, paper, float(both["ours"][part])


def _words(figure: str, part: str) -> str:
    return f"{figure} {part}".replace("_", " ").strip()


def _percent(share: float | None) -> float | None:
    """A share in percent; one that a paper prints keeps its digits."""
    if isinstance(share, Printed):
        return Printed(f"{100 * share:.{len(share.text.partition('.')[2]) - 2}f}")
    return None if share is None else round(100 * share, 10)


def _identifiable_note(both: Mapping[str, Mapping[str, int]]) -> str:
    parts = [
        f"{name} {both['ours'][name]:,} (paper {paper:,})" for name, paper in both["paper"].items()
    ]
    return f"the working sample is drawn anew, and its binning is not stated: {', '.join(parts)}"
