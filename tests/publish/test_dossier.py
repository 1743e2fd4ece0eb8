"""A dossier is the view of a result with what remains and what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.publish.dossier import BEWARE, Dossier
from sfumato.randomness import seeded
from sfumato.renderers.html import page
from sfumato.renderers.text import Paper, lines_of

RNG = np.random.default_rng(3)
PEOPLE = pa.table(
    {
        "age": RNG.integers(20, 40, 200),
        "town": RNG.choice(["Ghent", "Lyon", "Turin"], 200),
        "ill": RNG.choice(["no", "yes"], 200),
    }
)
MADE = {
    "identify": lambda: sf.identify(PEOPLE, confidential="ill", population=9000),
    "swap": lambda: sf.swap(PEOPLE, 0.2, confidential="ill", drift=None, rng=seeded(1)),
    "suppress": lambda: sf.suppress(PEOPLE, 2, confidential="ill", rng=seeded(1)),
    "pram": lambda: sf.pram(PEOPLE, "ill", gamma=9, within="town", rng=seeded(1)),
    "hide": lambda: sf.hide([["tea", "milk"]] * 4 + [["tea"]] * 2, ["tea milk"], min_count=3),
}


def dossier_of(result: Any, tmp_path: Path) -> Dossier:
    settings = {"keys": ["age", "town"], "bins": None, "share": 0.123456789}
    (tmp_path / "people.csv").write_text("age\n31\n")
    files = {"input": tmp_path / "people.csv", "output": "-", "reveal": None}
    return Dossier.of(result, command="sfumato …", settings=settings, files=files)


@pytest.mark.parametrize("method", MADE)
def test_a_dossier_says_all_of_its_result_and_what_remains(method: str, tmp_path: Path) -> None:
    result = MADE[method]()
    dossier = dossier_of(result, tmp_path)
    view, own = dossier.view(), result.view()
    lines, first = lines_of(view, Paper()), lines_of(own, Paper())
    assert lines[: len(first)] == first
    assert [part.title for part in view.sections[-2:]] == ["What remains", "What was done"]
    told = [*view.sections[-2].words, *view.all_notes()]
    assert {*result.remains} <= {*told} and len(told) == len({*told})  # nothing is said twice
    assert view.notes[0] == BEWARE
    whole = page(view)
    assert "0.123456789" in whole and "age, town" in whole and ">bins</th><td>" not in whole
    record = json.loads(json.dumps(dossier.to_dict(), allow_nan=False))
    assert record["title"] == own.title and record["remains"] == [*result.remains]
    assert record["result"] == json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert record["files"]["output"] == {"name": "-"} and record["files"]["input"]["bytes"] == 7


def test_details_stand_below_a_command_and_on_a_page_not_at_the_prompt() -> None:
    release = MADE["pram"]()
    heading = "What it cost: ill"
    assert heading in lines_of(release.view(), Paper()) and heading in page(release.view())
    assert heading not in repr(release) and heading not in release._repr_html_()
    assert heading in repr(release.reports[0])


def test_the_notes_of_details_are_said_everywhere() -> None:
    alone = pa.table({"town": ["a"] * 4 + ["b"] * 4, "ill": ["no"] * 4 + ["no", "yes"] * 2})
    release = sf.pram(alone, "ill", gamma=9, within="town", rng=seeded(1))
    (note,) = release.reports[0].notes
    assert note in " ".join(repr(release).split()) and note in release._repr_html_()
