"""Long work tells a terminal how much of it is done, and a pipe nothing."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest

from sfumato.cli.owner import telling
from sfumato.publish.cost import classification
from sfumato.publish.microdata import Coded
from sfumato.randomness import seeded


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and keeps what it was shown."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def columns() -> list[Coded]:
    """A key, a confidential column and its release, 300 records each."""
    codes = seeded(1).below(3, 900).reshape(3, 300).astype(np.int32)
    return [Coded(name, part, ("a", "b", "c")) for name, part in zip("kcr", codes, strict=True)]


@pytest.mark.parametrize(("model", "classifiers"), [("tree", 22), ("bayes", 20)])
def test_the_cost_to_a_classifier_is_told_step_by_step(
    model: str, classifiers: int, columns: list[Coded]
) -> None:
    told: list[float] = []
    key, truth, release = columns
    classification(
        [key],
        truth,
        release,
        model=model,  # type: ignore[arg-type]
        progress=lambda _, share: None if share is None else told.append(share),
    )
    assert told == [place / classifiers for place in range(classifiers)]


def test_a_terminal_sees_the_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", screen)
    with telling() as tell:
        tell("counting", None)
        for share in (0.0, 0.25, 0.5):
            tell("growing the tree", share)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "growing the tree …" in shown and "50%" in shown
    assert re.search(r"\d:\d\d:\d\d|-:--:--", shown)


def test_a_pipe_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with telling() as tell:
        tell("growing the tree", 0.5)
    assert capsys.readouterr().err == ""
