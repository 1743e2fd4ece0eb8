"""Every reader of the package and every hostile thing it may be given, as two lists; the tests run
each with each.
"""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CAMPAIGN = """name = "c"
title = { en = "C" }
schema = "s.toml"
[promise]
gamma = 19
[mechanism]
name = "gamma-diagonal"
"""
SCHEMA = "[[attribute]]\nname = 'c'\ntype = 'category'\nvalues = ['a', 'b', 'x']\n"
COUNT = "SELECT COUNT(*) FROM t"
DEEP = 100_000
MILLION = "9" * 1_000_000


@dataclass(frozen=True)
class Reader:
    """A command that opens the file called `file` in a folder where all else is honest."""

    name: str
    file: str
    command: tuple[str, ...]

    @property
    def serves(self) -> bool:
        """Whether it goes on where nothing is wrong."""
        return self.command[0] == "serve"


@dataclass(frozen=True)
class Input:
    """Something hostile, made at a path."""

    name: str
    make: Callable[[Path], object]
    file: bool = True  # else it is no file, which nothing reads
    served: bool = False  # whether a server takes it, and goes on


def honest(folder: Path) -> None:
    """What the commands need: truth, schemas, a release with its order, a store, a model."""
    from typer.testing import CliRunner

    from sfumato.cli import app

    (folder / "truth.csv").write_text("c\n" + "a\nb\nx\n" * 20)
    (folder / "b.dat").write_text("1 2\n3\n" * 10)
    (folder / "s.toml").write_text(SCHEMA)
    (folder / "c.toml").write_text(CAMPAIGN)
    before = Path.cwd()
    os.chdir(folder)
    try:
        for words in (
            "perturb truth.csv --schema s.toml --gamma 19 -o r.parquet --order o.npy",
            "perturb truth.csv --schema s.toml --gamma 19 -o r.csv --keep-order",
            "fit r.parquet -o m.json",
        ):
            done = CliRunner().invoke(app, words.split())
            assert done.exit_code == 0, done.output
        from sfumato.collect.campaign_file import CampaignFile
        from sfumato.collect.store import open_store

        store = open_store("store.db", create=True)
        store.enrol(CampaignFile.load("c.toml"))
        store.close()
    finally:
        os.chdir(before)


PERTURB = ("perturb", "truth.csv", "--gamma", "19", "-o", "out.csv", "--schema", "s.toml")
BASKETS = ("perturb", "b.dat", "--gamma", "19", "-o", "out.dat")
MATRIX = ("perturb", "truth.csv", "--schema", "s.toml", "--mechanism", "matrix", "-o", "out.csv")
NOWHERE = "http://127.0.0.1:9/c"

READERS = [
    Reader("schema", "f.toml", (*PERTURB[:-1], "f.toml")),
    Reader("schema of a plan", "f.toml", ("plan", "f.toml", "--gamma", "19", "--people", "1000")),
    Reader("schema of a new campaign", "f.toml", ("campaign", "init", "f.toml", "-o", "n.toml")),
    Reader("campaign", "f.toml", ("campaign", "check", "f.toml")),
    Reader("campaign to serve", "f.toml", ("serve", "f.toml", "--port", "0")),
    Reader("campaign to simulate", "f.toml", ("simulate", "f.toml", "--people", "10")),
    Reader(
        "campaign as a form",
        "f.toml",
        ("campaign", "form", "f.toml", "--server", NOWHERE, "-o", "n.html"),
    ),
    Reader("schema of a campaign", "s.toml", ("campaign", "check", "c.toml")),
    Reader("schema of a campaign to serve", "s.toml", ("serve", "c.toml", "--port", "0")),
    Reader("store to export", "f.db", ("export", "f.db", "--campaign", "c", "-o", "out.csv")),
    Reader("store of tokens", "f.db", ("token", "list", "--store", "f.db")),
    Reader("store to serve", "f.db", ("serve", "c.toml", "--store", "f.db", "--port", "0")),
    Reader("store of a round", "f.db", ("campaign", "next", "c.toml", "--store", "f.db")),
    Reader("store to query", "f.db", ("query", "sqlite://f.db#c", COUNT)),
    Reader("ledger", "f.db", ("send", NOWHERE, "truth.csv", "--ledger", "f.db", "--patience", "0")),
    Reader(
        "order",
        "f.npy",
        ("audit", "r.parquet", "--truth", "truth.csv", "--schema", "s.toml", "--order", "f.npy"),
    ),
    Reader("model", "f.json", ("query", "f.json", COUNT)),
    Reader("model to describe", "f.json", ("describe", "f.json")),
    Reader("matrix as NumPy's", "f.npy", (*MATRIX, "--matrix", "f.npy")),
    Reader("matrix as JSON", "f.json", (*MATRIX, "--matrix", "f.json")),
    Reader("matrix as CSV", "f.csv", (*MATRIX, "--matrix", "f.csv")),
    Reader(
        "candidates",
        "f.txt",
        (*BASKETS, "--mechanism", "item-set", "--candidates", "f.txt"),
    ),
    Reader("items", "f.txt", (*BASKETS, "--items", "f.txt")),
    Reader("names", "f.csv", ("mine", "b.dat", "--min-support", "0.1", "--names", "f.csv")),
    Reader(
        "patterns",
        "f.txt",
        ("hide", "b.dat", "-o", "out.dat", "--patterns", "f.txt", "--min-support", "0.1"),
    ),
    Reader("side file", "r.csv.sfumato.json", ("describe", "r.csv")),
    Reader("data as CSV", "f.csv", ("schema", "f.csv")),
    Reader("data as baskets", "f.dat", ("mine", "f.dat", "--min-support", "0.1")),
    Reader("data as Parquet", "f.parquet", ("schema", "f.parquet")),
    Reader("release", "f.parquet", ("query", "f.parquet", COUNT)),
    Reader("part of a release", "d/1.parquet", ("query", "d", COUNT)),
    Reader("database", "f.duckdb", ("query", "duckdb://f.duckdb#t", COUNT)),
]


def holding(*parts: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(
        b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    )


def sparse(path: Path) -> None:
    """A file of four gigabytes that takes no room."""
    with path.open("wb") as file:
        file.truncate(4 << 30)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(path))


INPUTS = [
    Input("nothing", lambda path: None, file=False, served=True),
    Input("a folder", lambda path: path.mkdir(), file=False),
    Input("a device", lambda path: path.symlink_to("/dev/zero"), file=False),
    Input("a link to itself", lambda path: path.symlink_to(path.name), file=False),
    Input("a pipe without a writer", lambda path: os.mkfifo(path), file=False),
    Input("a link to a pipe", lambda path: _linked_pipe(path), file=False),
    Input("a socket", listening, file=False),
    Input("empty", holding(), served=True),
    Input("four gigabytes of zeros", sparse),
    Input("no UTF-8", holding(b"\xff\xfe\x00c = \xc3\x28\n" * 9)),
    Input("nuls", holding(b"a = 1\x00\n" * 9)),
    Input("40 megabytes of lines", holding("a = 1\n" * 7_000_000)),
    Input("one line of 40 megabytes", holding("a" * 40_000_000)),
    Input("half a gigabyte, packed", holding(gzip.compress(b"a = 1\n" * 200_000) * 400)),
    Input("deep lists", holding("[" * DEEP, "]" * DEEP)),
    Input("deep lists left open", holding("[" * DEEP)),
    Input("deep TOML", holding("a = ", "[" * DEEP, "]" * DEEP)),
    Input("deep tables", holding("[", "a." * DEEP, "a]\n")),
    Input("deep objects", holding('{"a":' * DEEP, "1", "}" * DEEP)),
    Input("a number of a million digits, TOML", holding(f"a = {MILLION}\n[promise]\ngamma = 2\n")),
    Input("a number of a million digits, JSON", holding('{"format": ', MILLION, "}")),
    Input("no numbers", holding('{"format": NaN, "rows": Infinity, "c": -Infinity}')),
    Input("infinite TOML", holding("a = inf\nb = nan\n[promise]\ngamma = inf\n")),
    Input("one key twice, JSON", holding('{"format": "sfumato model", "format": 1, "rows": 1}')),
    Input("one key twice, TOML", holding("name = 'a'\nname = 'b'\n")),
    Input("half a letter", holding('{"format": "\\ud800"}')),
    Input("100,000 keys", holding(*(f"k{number} = 1\n" for number in range(100_000)))),
    Input("lines without end", holding("\r\n" * 2_000_000)),
]


def _linked_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def stores(changed: str, value: object) -> Callable[[Path], object]:
    """The honest store with a column of its campaigns changed."""

    def make(path: Path) -> None:
        store = path.with_name("store.db")
        if store != path:
            shutil.copy(store, path)
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE campaign SET {changed} = ?", (value,))
        connection.close()

    return make


# What only one kind of reader takes for its own.
MODEL = '{"format":"sfumato model","version":1,'
MODELS = [
    Input("deep", holding(MODEL, '"described":', "[" * DEEP)),
    Input("deep and closed", holding(MODEL, '"described":', '{"a":' * DEEP, "1", "}" * (DEEP + 1))),
    Input("40 megabytes", holding(MODEL, '"described": "', "a" * 40_000_000, '"}')),
    Input("a million values", holding(MODEL, '"described": [', "1," * 3_000_000, "1]}")),
    Input("a number of a million digits", holding(MODEL, f'"order": {MILLION}}}')),
    Input("no number", holding(MODEL, '"described": {"rows": NaN}}')),
    Input("one key twice", holding(MODEL, '"version":1}')),
    Input("cut short", holding(MODEL)),
    Input("of the future", holding(MODEL.replace(":1,", ":99,"), '"described": {}}')),
]
STORES = [
    Input("a spec that is deep", stores("spec", "[" * DEEP)),
    Input("a spec that is deep and closed", stores("spec", '{"a":' * DEEP + "1" + "}" * DEEP)),
    Input("a spec of 40 megabytes", stores("spec", " " * 40_000_000)),
    Input("a spec that is a number", stores("spec", 7)),
    Input("a spec of bytes", stores("spec", b"\xff\x00")),
    Input("a spec of no numbers", stores("spec", '{"format": NaN}')),
    Input("a spec with one key twice", stores("spec", '{"format": 1, "format": 1}')),
    Input("a frozen that is deep", stores("frozen", "[" * DEEP)),
    Input("a name of bytes", stores("name", b"\xff")),
    Input("a round that is a word", stores("round", "first")),
]


def saying(text: str, instead: str) -> Callable[[Path], object]:
    """The honest campaign with a line changed."""
    assert text in CAMPAIGN
    return holding(CAMPAIGN.replace(text, instead))


CAMPAIGNS = [
    *(
        Input(
            f"a gamma of {name}",
            saying("gamma = 19", f"gamma = {gamma}"),
            served=name == "4,000 decimals",
        )
        for name, gamma in {
            "4,000 digits": "9" * 4000,
            "5,000 digits": "9" * 5000,
            "4,000 decimals": f"2.{'3' * 4000}",
            "1e300": "1e300",
            "1e999999999": "1e999999999",
            "no number": "nan",
            "infinity": "inf",
            "a word": '"1/0"',
        }.items()
    ),
    *(
        Input(
            f"{key} of 500 digits",
            saying("[mechanism]", f"{table}\n{key} = {'9' * 500}\n[mechanism]"),
        )
        for table, key in (
            ("[budget]", "round"),
            ("[budget]", "epsilon"),
            ("[dashboard]", "least"),
            ("[dashboard]", "step"),
            ("[rounds]", "people"),
        )
    ),
    *(
        Input(f"{key} of 500 digits", saying("gamma = 19", f"{key} = {'9' * 500}"))
        for key in ("epsilon", "rho1", "rho2")
    ),
    *(
        Input(f"a schema that is {place}", saying("s.toml", place))
        for place in ("/dev/zero", "/dev/stdin", "/proc/self/mem", ".", "", "a\\u0000b", "x" * 5000)
    ),
    Input(
        "a day of the future",
        saying("[promise]", "opens = 9999-12-31\ncloses = 0001-01-01\n[promise]"),
    ),
    Input(
        "a mechanism's file that is a device",
        saying('"gamma-diagonal"', '"matrix"\nmatrix = "/dev/zero"'),
    ),
]
