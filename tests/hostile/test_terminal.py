"""No label of a file commands the terminal: no control byte, no C1, no mark that turns the
direction of writing reaches standard output or standard error.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain, Items
from sfumato.printable import escaped, one_line, plain
from sfumato.randomness import seeded
from sfumato.table import Table, save

TITLE = "\x1b]0;owned\x07"  # sets the title of the window
RED = "\x1b[31mred\x1b[0m"
C1 = "\x9b31m and \x85"
TURNED = "\u202egnp.exe\u2066\u200f"
FORGED = "x\nsfumato: all is well"
LABELS = (TITLE, RED, C1, TURNED, FORGED, "\x08\x08\x08\x7f", "plain")
NAME = f"col{RED}{TURNED}"
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Truth and releases whose names and labels are as hostile as labels can be."""
    folder = tmp_path_factory.mktemp("labels")
    records = Domain((Category(NAME, LABELS), Category("sex", ("F", "M"))), title=RED)
    rows = {NAME: [*LABELS] * 40, "sex": ["F", "M"] * 20 * len(LABELS)}
    pq.write_table(pa.table(rows), folder / "truth.parquet")
    (folder / "s.toml").write_text(records.to_toml(), encoding="utf-8")
    table = Table.from_arrow(pa.table(rows), records)
    for kind in ("parquet", "csv"):
        save(sf.perturb(table, sf.Retention(records, 0.5), seeded(1)).table, folder / f"r.{kind}")
    shop = Domain((Items("items", LABELS),))
    baskets = Table.from_arrow(pa.table({"items": [[*LABELS[:4]], [LABELS[1]]] * 50}), shop)
    save(sf.perturb(baskets, sf.BitFlip(shop, 0.9, 0.9), seeded(1)).table, folder / "b.parquet")
    save(sf.perturb(baskets, sf.CutAndPaste(shop, 3, 0.1), seeded(1)).table, folder / "c.parquet")
    return folder


QUOTED = '"' + NAME + '"'
COMMANDS = {
    "describe": ["describe", "r.parquet"],
    "describe, csv": ["describe", "r.csv"],
    "describe, baskets": ["describe", "b.parquet"],
    "describe, cut-and-paste": ["describe", "c.parquet"],
    "query": ["query", "r.parquet", f"SELECT {QUOTED}, COUNT(*) FROM t GROUP BY {QUOTED}"],
    "query, unknown": ["query", "r.parquet", f"SELECT COUNT(*) FROM t WHERE {QUOTED} = '{RED}z'"],
    "mine": ["mine", "r.parquet", "--min-support", "0.05"],
    "mine, baskets": ["mine", "b.parquet", "--min-support", "0.05"],
    "mine, truth": ["mine", "truth.parquet", "--schema", "s.toml", "--min-support", "0.05"],
    "plan": ["plan", "s.toml", "--rows", "1000", "--gamma", "19"],
    "perturb": ["perturb", "truth.parquet", "--schema", "s.toml", "--gamma", "19"],
    "schema": ["schema", "truth.parquet"],
    "identify": ["identify", "truth.parquet", "--confidential", "sex"],
    "classify": ["classify", "r.parquet", "--target", "sex"],
    "no such file": ["describe", f"{RED}{TURNED}.parquet"],
    "no such command": [f"descri{RED}be"],
}


def command(arguments: list[str], tmp_path: Path, *extra: str) -> list[str]:
    output = ["-o", str(tmp_path / "p.parquet")] if arguments[0] == "perturb" else []
    return [sys.executable, "-m", "sfumato", *arguments, *output, *extra]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed_commands_nothing(name: str, folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(COMMANDS[name], tmp_path),
        cwd=folder,
        capture_output=True,
        env={**os.environ, "COLUMNS": "1000"},  # so that no line is folded
        timeout=120,
    )
    shown = done.stdout.decode() + done.stderr.decode()
    assert done.returncode in (0, 2), shown
    assert shown.strip() and not FORBIDDEN.search(shown)
    assert not [line for line in shown.splitlines() if line.startswith("sfumato: all is well")]


@pytest.mark.parametrize("name", ["describe", "query", "mine", "plan", "no such file"])
def test_json_escapes_and_loses_nothing(name: str, folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command(COMMANDS[name], tmp_path, "--json"), cwd=folder, capture_output=True, timeout=120
    )
    shown = done.stdout.decode() + done.stderr.decode()
    assert not FORBIDDEN.search(shown)
    found = json.dumps(json.loads(done.stdout), ensure_ascii=False)
    assert json.dumps(TURNED, ensure_ascii=False).strip('"') in found


@pytest.mark.parametrize("name", ["describe", "query", "mine"])
def test_a_terminal_gets_our_colours_and_nothing_else(
    name: str, folder: Path, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "400"}
    subprocess.run(
        command(COMMANDS[name], tmp_path),
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
        env=environment,
        timeout=120,
    )
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 1 << 16):
            shown += block
    except OSError:  # how Linux says that a terminal is closed
        pass
    os.close(ours)
    text = shown.decode().replace("\r\n", "\n")
    assert "\x1b[1m" in text, "headings are bold, so this is a terminal"
    for mark in (TITLE, RED, "\x9b", "\x85", "\u202e", "\u2066", "\u200f", "\x08", "\x7f", "\x07"):
        assert mark not in text
    assert not FORBIDDEN.search(re.sub(r"\r|\x1b\[[0-9;?]*[A-Za-z]", "", text))


def test_a_warning_is_a_note_that_commands_nothing(folder: Path) -> None:
    script = (
        "import warnings\n"
        "from sfumato.cli.printing import shielded\n"
        "with shielded():\n"
        f"    warnings.warn({'Glyph ' + TITLE + TURNED!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=True
    )
    told = done.stderr.decode()
    assert told.startswith("note: Glyph") and not FORBIDDEN.search(told)


def test_a_plot_of_hostile_labels_warns_without_obeying(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = ["--plot", str(tmp_path / "p.png")]
    done = subprocess.run(
        command(COMMANDS["query"], tmp_path, *plot), cwd=folder, capture_output=True, timeout=120
    )
    shown = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, shown
    assert not FORBIDDEN.search(shown)


def test_a_schema_survives_its_way_through_the_terminal(folder: Path) -> None:
    domain = Domain((Category(NAME, LABELS),))
    text = domain.to_toml()
    assert not FORBIDDEN.search(text) and Domain.from_toml(text) == domain


def test_letters_of_every_script_are_left_alone() -> None:
    for word in ("Zürich", "می‌خواهم", "日本 語", "👩‍🔬", "naïve", "±σ≤", "a\tb\nc"):
        assert plain(word) == word and escaped(word) == word
    assert one_line("a\tb\n  c\r\u2028d") == "a b c\ufffd\ufffdd"
