"""The command group: each command is loaded when asked for, and says what the list says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.commands import COMMANDS, loaded
from sfumato.cli.completion import WRITTEN, spellings
from sfumato.cli.mechanism import every_option
from sfumato.mechanisms.registry import MECHANISMS, mechanism_class


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says_of_itself(name: str) -> None:
    own = " ".join((loaded(name).help or "").split())
    assert own.startswith(COMMANDS[name]), (own, COMMANDS[name])


def test_a_near_miss_is_shown() -> None:
    done = CliRunner().invoke(app, ["quer"])
    assert done.exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_completed(shell: str) -> None:
    said = CliRunner().invoke(app, ["--help"]).output
    assert "--install-completion" in said and "--show-completion" in said
    for words, wanted in (("sfumato mi", "mine"), ("sfumato mine --so", "--sort")):
        assert wanted in "\n".join(completed(shell, words))


def completed(shell: str, words: str) -> list[str]:
    """The lines that a shell gets for these words."""
    script = "from sfumato.cli import main; import sys; sys.argv = ['sfumato']; main()"
    facts = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | facts | {"_SFUMATO_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.stdout.splitlines()


def test_what_shells_complete_is_what_the_commands_have() -> None:
    """A Tab reads them from a file, and loads no command."""
    written = json.loads(WRITTEN.read_text(encoding="utf-8"))
    assert written == spellings(COMMANDS), "python -m docs_build.spelling writes them anew"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_shell_is_told_every_option_of_a_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def options(command: Any) -> dict[str, Any]:
        inner = {key: options(each) for key, each in getattr(command, "commands", {}).items()}
        own = {(tuple(each.opts), each.nargs) for each in command.params}
        return {"own": own, **inner}

    real = options(loaded(name))
    monkeypatch.setenv("_SFUMATO_COMPLETE", "complete_bash")
    assert options(loaded(name)) == real


@pytest.mark.parametrize("words", ["sfumato perturb --", "sfumato campaign check --"])
def test_a_tab_loads_neither_arrays_nor_tables(words: str) -> None:
    script = """
import sys
from sfumato.cli import main
sys.argv = ["sfumato"]
try:
    main()
finally:
    print(*sys.modules)
"""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | asked | {"_SFUMATO_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stdout.split()
    assert "--json" in said and "typer" in said
    assert not {"numpy", "pyarrow", "sfumato.table", "sfumato.domain"} & {*said}


def test_an_option_has_one_line_in_a_shell() -> None:
    """Fish takes each line for a completion of its own; the help of --mechanism has many."""
    lines = completed("fish", "sfumato perturb --")
    assert len(lines) > 30 and all(line.startswith("--") and "\t" in line for line in lines)


def test_zsh_completes_at_the_first_tab(tmp_path: Path) -> None:
    """The script is loaded by the first Tab, and must answer that one too."""
    assert "loadautofunc" in on_a_terminal(["--show-completion", "zsh"], tmp_path)
    said = on_a_terminal(["--install-completion", "zsh"], tmp_path)
    assert "zsh completion installed in" in said and "\ufffd" not in said  # no colour's remains
    assert "loadautofunc" in (tmp_path / ".zfunc" / "_sfumato").read_text()


def on_a_terminal(words: list[str], home: Path) -> str:
    """What a terminal is told, in a home of its own and whatever the shell."""
    script = f"from sfumato.cli import main; import sys; sys.argv = ['sfumato', *{words!r}]; main()"
    test = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(home)}
    ours, theirs = os.openpty()
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | test, stdout=theirs, timeout=120
    )
    assert done.returncode == 0
    os.close(theirs)
    return os.read(ours, 1 << 16).decode()


def test_help_lists_every_mechanism_and_every_option() -> None:
    shown = CliRunner().invoke(app, ["perturb", "--help"], env={"COLUMNS": "200"}).output
    for name in MECHANISMS:
        assert name in shown
        assert mechanism_class(name).summary
    for owners in every_option().values():
        assert owners[0][1].flag in shown


def test_one_mechanism_can_be_asked_for_alone() -> None:
    said = CliRunner().invoke(app, ["perturb", "--mechanism", "mask", "--help"]).output
    assert "--keep-ones" in said and "bits of baskets" in said
    assert not any(word in said for word in ("--cutoff", "--questions", "--nfp", "gamma-diagonal"))
    said = CliRunner().invoke(app, ["perturb", "--mechanism=fp-nfp", "--help"]).output
    assert "--nfp" in said and "--gamma" not in said
    missed = CliRunner().invoke(app, ["perturb", "--mechanism", "msk", "--help"])
    assert missed.exit_code == 2 and "did you mean 'mask'" in missed.output


@pytest.mark.parametrize("words", ["", "mine", "campaign", "generate survey"])
def test_a_flag_shows_no_type(words: str) -> None:
    said = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "80"}).output
    assert "--help" in said and "bool" not in said.lower()


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("sfumato pl", ["play", "plan"]),
        ("sfumato perturb --ga", ["--gamma"]),
        ("sfumato perturb --mechanism sq", ["square-wave"]),
        ("sfumato mine --sort l", ["lift"]),
        ("sfumato reproduce li-sarkar-t", ["li-sarkar-table-3", "li-sarkar-table-4"]),
    ],
)
def test_a_shell_completes_commands_options_and_their_values(typed: str, found: list[str]) -> None:
    asked = {
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
        "_SFUMATO_COMPLETE": "complete_bash",
    }
    said = CliRunner().invoke(app, [], prog_name="sfumato", env=asked).stdout
    assert said.split() == found
