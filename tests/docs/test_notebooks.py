"""The example notebooks run, cell by cell, and show what they say: tables for results, pictures for
plots.
"""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sfumato as sf
from docs_build.running import DOCS
from sfumato.renderers import picture

BOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
PEOPLE = {"smoker": ["no", "yes"] * 500}


def code(book: dict[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


def shown(text: str, names: dict[str, Any]) -> Any:
    """What a cell ends with, as a notebook sees it; nothing after a semicolon."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return None if text.rstrip().endswith(";") and not _drawn(value) else value


def _drawn(value: Any) -> Any:
    first = value[0] if isinstance(value, list) and value else value
    return getattr(first, "figure", None)


def test_there_are_three_of_them() -> None:
    assert [book.stem for book in BOOKS] == ["analyst", "owner", "respondent"]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    book = json.loads(path.read_text(encoding="utf-8"))
    assert book["nbformat"] == 4 and len({cell["id"] for cell in book["cells"]}) == len(
        book["cells"]
    )
    assert all(not cell.get("outputs") for cell in book["cells"])  # nothing typed by hand
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    tables = pictures = 0
    for text in code(book):
        value = shown(text, names)
        tables += hasattr(value, "_repr_html_")
        if (figure := _drawn(value)) is not None:
            figure.canvas.draw()
            pictures += 1
    assert tables >= 2 and pictures >= 1


def test_a_notebook_shows_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    release = sf.perturb(PEOPLE, gamma=19, rng=sf.seeded(1))
    release.plot()
    assert pyplot.get_fignums() == []
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not picture.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object()))
    assert picture.in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    monkeypatch.setattr(picture, "in_notebook", lambda: True)
    axes = release.marginal(["smoker"]).plot()
    assert pyplot.get_fignums() and pyplot.gcf() is axes.figure
    pyplot.close("all")


def test_every_figure_of_a_notebook_is_shown_not_only_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    def first(**how: Any) -> Any:  # Jupyter's backend turns it on when it is loaded
        matplotlib.interactive(True)
        return made(**how)

    made = pyplot.figure
    monkeypatch.setattr(picture, "in_notebook", lambda: True)
    monkeypatch.setattr(pyplot, "figure", first)
    monkeypatch.setitem(matplotlib.rcParams, "interactive", False)
    sf.Answer(5.0, 1.0).plot()
    assert matplotlib.is_interactive()  # else Jupyter shows nothing of what is drawn later
    pyplot.close("all")
