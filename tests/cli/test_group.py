"""The command group: each command is loaded when asked for, and says what the list says of it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.commands import COMMANDS, loaded
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
def test_completion_can_be_installed(shell: str) -> None:
    done = CliRunner().invoke(app, ["--show-completion"], env={"SHELL": f"/bin/{shell}"})
    assert "sfumato" in done.output or done.exit_code in (0, 1, 2)


def test_help_lists_every_mechanism_and_every_option() -> None:
    shown = CliRunner().invoke(app, ["perturb", "--help"], env={"COLUMNS": "200"}).output
    for name in MECHANISMS:
        assert name in shown
        assert mechanism_class(name).summary
    for owners in every_option().values():
        assert owners[0][1].flag in shown
