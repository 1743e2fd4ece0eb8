"""A terminal of 80 columns and 24 lines: plans fit it, no word is cut, no figure is lost; a pipe
gets whole lines.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any

import pytest

from papers.base import Cell, Reproduction, Row
from sfumato.cli.plan import MORE, further_notes
from sfumato.cli.printing import (
    EscapeFilter,
    print_notes,
    print_table,
    print_words,
    show,
    show_brief,
)
from sfumato.datasets.survey import survey
from sfumato.domain import Category, Domain, Items
from sfumato.plan import PURPOSES, plan_release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.view import View

WIDTH, HEIGHT = 80, 24
SENTENCE = "an error above half of what is measured, 50 %, tells nothing; " * 3


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and keeps what it was shown."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")


def seen(show: Callable[..., None], *given: Any, **named: Any) -> str:
    """What a terminal shows, on both streams."""
    screen = Terminal()
    with redirect_stdout(screen), redirect_stderr(screen):
        show(*given, **named)
    return screen.getvalue()


def widest(shown: str) -> int:
    return max(map(len, shown.splitlines()))


def people(columns: int) -> Domain:
    """The survey, or more columns than its."""
    schema = survey(10, seeded(1))[1]
    values = tuple(f"value {number}" for number in range(8))
    further = (Category(f"column {place}", values) for place in range(columns - len(schema)))
    return Domain((*schema, *further))


BASKETS = Domain((Items("items", tuple(map(str, range(2000)))),))
PLANS: dict[str, tuple[Domain, dict[str, Any]]] = {
    **{purpose: (people(10), {"purpose": purpose}) for purpose in PURPOSES if purpose != "pairs"},
    "14 columns": (people(14), {}),
    "pairs": (people(10), {"purpose": "pairs", "pairs": [("age", "sex")]}),
    "a model": (people(10), {"length": 4, "wanted_error": 0.05}),
    "out of reach": (
        people(14),
        {"length": 3, "wanted_error": 0.01, "guarantee": Guarantee(3)},
    ),
    "baskets in rounds": (BASKETS, {"wanted_error": 0.05}),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_fits_one_screen(name: str) -> None:
    domain, wish = PLANS[name]
    plan = plan_release(domain, 50_000, **{"guarantee": Guarantee(19), **wish})
    plan = replace(plan, file="survey.toml", called=None)
    shown = seen(show_brief, plan.brief(), MORE)
    notes = seen(print_notes, further_notes(plan, domain, wish.get("purpose", "itemsets")))
    assert (shown + notes).count("\n") < HEIGHT and widest(shown + notes) <= WIDTH
    assert ("by groups" in notes and "--mechanism ranges" in notes) == (
        name in ("means", "quantiles")
    )
    assert shown.count("\n") < HEIGHT and widest(shown) <= WIDTH, shown  # and the prompt below
    assert shown.startswith(f"{plan.best.name} answers best")
    command, last = shown.partition("to use the first:\n")[2].rsplit("--details")
    assert last.count("\n") == 1
    (_, wanted), *_ = plan.commands(schema="survey.toml")
    assert shlex.split(command.replace("\\\n", "")) == shlex.split(wanted)


def test_what_a_screen_leaves_out_is_among_the_details() -> None:
    plan = plan_release(people(10), 50_000, guarantee=Guarantee(19))
    short, whole = seen(show_brief, plan.brief(), MORE), seen(show, plan.view(), most=None)
    for words in ("by the number of people", "assumed:", "absolute standard errors"):
        assert words in whole and words not in short
    assert all(option.name in short for option in plan.options) and widest(whole) <= WIDTH


def test_words_are_not_cut_on_a_terminal() -> None:
    for say, given in ((print_words, SENTENCE), (print_notes, [SENTENCE])):
        shown = seen(say, given)
        assert widest(shown) <= WIDTH and shown.count("\n") > 2
        assert shown.removeprefix("note: ").split() == SENTENCE.split()
        assert not any(line.startswith("%") for line in shown.splitlines())


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_words(SENTENCE)
    print_notes([SENTENCE])
    show(View(command="sfumato perturb DATA " + "--mechanism mask " * 9))
    told = capsys.readouterr()
    assert told.out.count("\n") == 2 and told.err.count("\n") == 1


def test_a_quoted_name_stays_whole_in_what_is_typed() -> None:
    command = f"sfumato perturb {shlex.quote('my own folder/' + 'long ' * 20)} -o perturbed.parquet"
    assert seen(show, View(command=command)) == f"  {command}\n"


def test_a_table_too_wide_goes_on_below() -> None:
    figures = [f"{number:,} ± {number}" for number in range(100_000, 100_009)]
    names = [f"average {place}" for place in range(9)]
    words = "a rule of several words, which may be broken → as it needs room"
    shown = seen(print_table, ("rule", *names), [(words, *figures)])
    assert all(part in shown for part in (*figures, *names))
    assert widest(shown) <= WIDTH and shown.count("rule ") > 1


def test_a_papers_table_goes_on_below() -> None:
    quantities = tuple(f"quantity number {place}" for place in range(9))
    row = Row(("CENSUS",), tuple(Cell(None, 12345.678) for _ in quantities))
    table = Reproduction("x", SENTENCE, ("data",), quantities, (row,), notes=(SENTENCE,))
    lines = table.to_text(WIDTH).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert all(name in "\n".join(lines) for name in quantities)


def test_what_a_closed_terminal_shields_is_closed() -> None:
    """As a library sees that looks, when Python ends, for a terminal to clear."""
    screen = Terminal()
    shield = EscapeFilter(screen)
    assert not shield.closed
    screen.close()
    assert shield.closed
