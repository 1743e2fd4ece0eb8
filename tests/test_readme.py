"""Every command and every Python example of the README runs, in the order in which a reader meets
them.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from sfumato.cli.commands import COMMANDS
from sfumato.cli.errors import VIOLATION

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(sh|console|python)\n(.*?)^```$", re.M | re.S)


class AccusedError(AssertionError):
    """An audit that found something against a promise."""


@dataclass(frozen=True)
class Step:
    """One shell command or one Python example, and the line of the README it stands on."""

    kind: str
    text: str
    line: int
    output: str | None = None  # what a console shows below the command


def commands(block: str) -> list[str]:
    """The commands of a shell block, continued lines joined, comments left out."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def told(block: str) -> Iterator[tuple[str, str | None]]:
    """The commands of a console, each with the output that the page shows of it, if any."""
    for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command.strip(), output or None


def steps(readme: str) -> Iterator[Step]:
    """What a reader is told to run, in order."""
    for match in FENCE.finditer(readme):
        kind, block = match.groups()
        line = readme.count("\n", 0, match.start()) + 1
        if kind == "python":
            yield Step("python", block, line)
        elif kind == "console":
            yield from (Step("shell", command, line, output) for command, output in told(block))
        else:
            yield from (Step("shell", command, line) for command in commands(block))


def make_targets() -> set[str]:
    """The targets that the Makefile offers."""
    return set(
        re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    )


def arguments(step: Step, folder: Path) -> list[str]:
    """The command line that runs a step."""
    if step.kind == "shell":
        return ["bash", "-euo", "pipefail", "-c", step.text]
    example = folder / "example.txt"
    example.write_text(step.text, encoding="utf-8")
    return [sys.executable, *(["-m", "doctest"] if ">>> " in step.text else []), str(example)]


def run(step: Step, folder: Path) -> None:
    """Run a step in a folder with the environment of the tests first on the path."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    done = subprocess.run(
        arguments(step, folder),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    about = f"README.md:{step.line}: {step.text}\n{done.stdout}\n{done.stderr}"
    if done.returncode == VIOLATION and step.text.startswith("sfumato audit"):
        raise AccusedError(about)
    assert done.returncode == 0, about
    assert step.output is None or done.stdout.strip() == step.output.strip(), about


def check(step: Step, folder: Path) -> None:
    """A `make` line names a target (running it here would never end); anything else runs."""
    if step.kind == "shell" and (made := re.match(r"make\s+([\w-]+)", step.text)):
        assert made.group(1) in make_targets(), (
            f"README.md:{step.line}: no such target: {step.text}"
        )
    else:
        run(step, folder)


def check_all(readme: str, folder: Path) -> None:
    """Every step of a text in a new folder.

    What an audit accuses is made and audited once more: its --false-alarm is one honest release in
    a thousand, and two in a row are one in a million.
    """
    found = list(steps(readme))
    assert found
    for again in (False, True):
        place = folder / ("again" if again else "once")
        place.mkdir()
        try:
            for step in found:
                check(step, place)
            return
        except AccusedError:
            if again:
                raise


def test_everything_in_the_readme_runs(tmp_path: Path) -> None:
    check_all((ROOT / "README.md").read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize(("times", "sound"), [(1, True), (2, False)])
def test_what_an_audit_accuses_twice_is_found(
    times: int, sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accused = iter([True] * times)

    def audit(step: Step, folder: Path) -> None:
        if next(accused, False):
            raise AccusedError(step.text)

    monkeypatch.setattr(sys.modules[__name__], "check", audit)
    with nullcontext() if sound else pytest.raises(AccusedError):
        check_all("```sh\nsfumato audit b.parquet --truth t.csv\n```\n", tmp_path)


def test_the_front_page_names_every_command() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`sfumato ([a-z-]+)", page)) >= set(COMMANDS)


def test_the_readme_fits_on_a_screen_or_two() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 70


@pytest.mark.parametrize(
    "block",
    [
        "```sh\nfalse\n```\n",
        "```sh\ntrue\nfalse | cat\n```\n",
        "```console\n$ false\noutput\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```sh\nmake no-such-target\n```\n",
        "```python\nraise SystemExit(1)\n```\n",
        "```python\n>>> 1 + 1\n3\n```\n",
    ],
)
def test_an_example_that_does_not_run_is_found(block: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        for step in steps(block):
            check(step, tmp_path)


def test_what_a_block_asks_to_run() -> None:
    readme = (
        "text\n```sh\n# why\nmake test   # all\n\ntouch a \\\n  b\n```\n```console\n$ ls\na "
        "b\n```\n```toml\nx = 1\n```\n"
    )
    assert [step.text for step in steps(readme)] == ["make test   # all", "touch a    b", "ls"]
