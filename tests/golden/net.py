"""The golden net: what every command answers from files that version 0.2.0 wrote.

The cases are data: tables of command lines in `cases/*.toml`, typed in a copy of the folder
`0.2.0`. What each is expected to answer stands in `expected/*.json`, by the line itself; it is
written by `python -m tests.golden.freeze`, on purpose, and never by the tests.

Of a case are compared: the exit code; what `--json` prints and what is written to files (names,
words and numbers); the columns of Arrow tables with their types; and of the text for people the
numbers in their order. Prose (three words or more) counts by its numbers alone, and an error by its
kind: words are free to change.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).parent
FILES, CASES, EXPECTED = HERE / "0.2.0", HERE / "cases", HERE / "expected"
WITHIN = 1e-9  # of itself that a number may differ, unless its case says otherwise
FLOOR = 1e-10  # that any number may differ: a share or a count that is nothing but for rounding
LOOSE = 0.2  # of itself that a number of an unsteady answer may differ
UNSTEADY = ("query", "mine", "classify", "fit", "arrow")  # what asks them for more than they say
# What of an unsteady answer is not held: it falls from one side to the other.
FALLING = frozenset(
    ("false_discovery_rate", "probability", "status", "law", "auc", "tree", "evidence")
)
ENDLESS = 1e15  # a condition above it is that of a matrix without inverse
LARGE = 200_000  # bytes; a larger file of expectations is kept as gzip
WIDTH = "200"  # letters of a line of text, so that no number is broken
OUTPUT = "out"  # what the names of the files that a case writes begin with
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
# What of the hostile corpus is left to its own tests, which run each file as a process.
COSTLY = (
    "matrix, the largest",
    "100,000 items",
    "DuckDB, description of 100 megabytes",
    "Parquet, rows without number",
    "Parquet, a word without end",
)
# Of each run its own: how long it took and when; and the random id of a file that the case wrote.
FRESH = frozenset(("seconds", "hiding_seconds", "made"))
IDENTITY = frozenset(("release", "digest"))
SECONDS = re.compile(r"\d[\d.,]*\s(?:s|ms|seconds)\b")


@dataclass(frozen=True)
class Case:
    """A line that is typed, and how closely its answer is held."""

    line: str
    table: str  # the file that declares it and that of its expectation
    within: float = WITHIN
    drawn: bool = False  # whether what a seed draws decides it
    text: bool = True  # whether the text for people is held too
    unsteady: bool = False  # whether rounding alone moves its digits, see `cases/files.toml`
    call: Mapping[str, Any] = field(default_factory=dict)  # a call in Python instead of a line
    hostile: Any = None  # a file of the hostile corpus instead of one of 0.2.0

    def __str__(self) -> str:
        return self.line


def load() -> list[Case]:
    """All cases, as their tables state them."""
    groups = tomllib.loads((CASES / "files.toml").read_text(encoding="utf-8"))
    found: dict[tuple[str, str], Case] = {}
    for path in sorted(CASES.glob("*.toml")):
        if path.stem == "files":
            continue
        for stated in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            for case in _cases(stated, path.stem, groups):
                if (case.table, case.line) in found:
                    raise ValueError(f"stated twice in {path.name}: {case.line}")
                found[case.table, case.line] = case
    return [*found.values(), *_hostile()]


def _hostile() -> Iterator[Case]:
    """The hostile corpus, but for what takes seconds to make or to refuse."""
    from tests.hostile.corpus import CORPUS

    for hostile in CORPUS:
        if not hostile.name.startswith(COSTLY):
            yield Case(hostile.name, "hostile", text=False, hostile=hostile)


def _cases(stated: Mapping[str, Any], table: str, groups: Mapping[str, Any]) -> Iterator[Case]:
    given = {name: stated[name] for name in ("within", "drawn", "text") if name in stated}
    for file, line in _lines(stated, groups):
        how = dict(given)
        if stated.get("unsteady") or (file in groups["unsteady"] and table in UNSTEADY):
            how |= {"within": LOOSE, "text": False, "unsteady": True}
        if "call" in stated:
            call = _called(stated["call"], file, line)
            yield Case(shown(call), table, call=call, **how)
        else:
            yield Case(line.replace("FILE", file), table, **how)


def _lines(stated: Mapping[str, Any], groups: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    files = [file for name in stated.get("of", [""]) for file in groups.get(name, [name])]
    for file in files:
        for line in stated.get("lines", [""]):
            yield file, line


def _called(call: Any, file: str, line: str) -> Any:
    """The call with its file and its line in their places."""
    if isinstance(call, str):
        return {"FILE": file, "LINE": line}.get(call, call.replace("FILE", file))
    if isinstance(call, Mapping):
        return {name: _called(part, file, line) for name, part in call.items()}
    if isinstance(call, Sequence):
        return [_called(part, file, line) for part in call]
    return call


def shown(call: Any) -> str:
    """A call as it is written in Python."""
    if isinstance(call, list):
        return f"[{', '.join(map(shown, call))}]"
    if not isinstance(call, Mapping) or "function" not in call:
        return repr(call)
    words = [shown(each) for each in call.get("args", [])]
    words += [f"{name}={shown(value)}" for name, value in call.get("options", {}).items()]
    line = f"{call['function']}({', '.join(words)})"
    for method, *args in call.get("then", []):
        line += f".{method}" + (f"({', '.join(map(shown, args))})" if args else "")
    return line


class Room:
    """A copy of the files in which cases are run, one after the other in one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "golden"
        shutil.copytree(FILES, self.folder)
        for path in self.folder.glob("*.duckdb.gz"):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        self.before = self._listed()

    def _listed(self) -> frozenset[str]:
        """The names of the files, without those that SQLite keeps beside a store."""
        return frozenset(name for name in os.listdir(self.folder) if ".db-" not in name)

    def run(self, case: Case) -> dict[str, Any]:
        """What a case answers."""
        former = Path.cwd()
        os.chdir(self.folder)
        try:
            return self._refused(case) if case.hostile else self._answered(case)
        finally:
            self.clean()
            os.chdir(former)

    def _refused(self, case: Case) -> dict[str, Any]:
        """Exit code and kind of error of a hostile file."""
        from tests.hostile.test_corpus import arguments

        apart = self.folder / OUTPUT
        apart.mkdir()
        os.chdir(apart)
        words = arguments(case.hostile, apart, lambda make: str(make(apart)))
        code, printed, _ = typed([*words, "--json"])
        os.chdir(self.folder)
        return {"code": code, "kind": json.loads(printed).get("error", {}).get("kind")}

    def _answered(self, case: Case) -> dict[str, Any]:
        if case.call:
            return called(case.call)
        words = shlex.split(case.line)
        code, printed, _ = typed([*words, "--json"])
        found: dict[str, Any] = {"code": code}
        if code == 2:
            found["kind"] = json.loads(printed)["error"]["kind"]
        else:
            found["json"] = json.loads(printed)
        if written := self.written():
            found = without(found | written, IDENTITY)
        self.clean()
        if not case.text:
            return held(found)
        again, text, error = typed(words)
        if code != 2:
            found["numbers"] = numbers(text)
        if again != code or (code == 2 and (text or not one_line(error))):
            found["text"] = {"code": again, "out": text, "error": error}
        return held(found)

    def written(self) -> dict[str, Any]:
        """What stands in the files that the case wrote."""
        new = sorted(self._listed() - self.before)
        return {"files": {name: contents(self.folder / name) for name in new}} if new else {}

    def clean(self) -> None:
        for name in self._listed() - self.before:
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def typed(words: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    from typer.testing import CliRunner

    from sfumato.cli import app

    runner = CliRunner(env={"COLUMNS": WIDTH, "NO_COLOR": "1", "TERM": "dumb"})
    with patch.object(sys, "argv", ["sfumato", *words]):  # which dossiers and pages repeat
        done = runner.invoke(app, list(words))
    return done.exit_code, done.stdout, done.stderr


def one_line(error: str) -> bool:
    return error.startswith("sfumato: ") and error.count("\n") == 1


def called(call: Mapping[str, Any]) -> dict[str, Any]:
    """The Arrow table of a result in Python, or the kind of error."""
    import sfumato
    from sfumato.errors import SfumatoError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {name: _argument(value) for name, value in call.get("options", {}).items()}
            arguments = [_argument(value) for value in call.get("args", [])]
            result = getattr(sfumato, call["function"])(*arguments, **options)
            for method, *args in call.get("then", []):
                part = getattr(result, method)
                result = part(*map(_argument, args)) if args else part
            return held({"arrow": columns_of(result.to_arrow())})
    except SfumatoError as error:
        return {"kind": error.kind}


def _argument(value: Any) -> Any:
    """An argument as Python takes it: a call inside a call is a table with `function`."""
    import sfumato

    if isinstance(value, Mapping) and "function" in value:
        options = {name: _argument(each) for name, each in value.get("options", {}).items()}
        arguments = [_argument(each) for each in value.get("args", [])]
        return getattr(sfumato, value["function"])(*arguments, **options)
    if isinstance(value, list):
        return [_argument(each) for each in value]
    return value


def columns_of(table: Any) -> list[dict[str, Any]]:
    """The columns of an Arrow table in their order: their types and values."""
    return [
        {"name": name, "type": str(column.type), "values": column.to_pylist()}
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name not in FRESH
    ]


def contents(path: Path) -> Any:
    """What a file says."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return columns_of(pq.read_table(path))
    if path.suffix in (".arrow", ".feather"):
        import pyarrow.feather

        return columns_of(pyarrow.feather.read_table(path))
    text = path.read_bytes()
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".csv":
        lines = csv.reader(io.StringIO(text.decode("utf-8")))
        return [[_number(word) for word in line] for line in lines]
    if path.suffix in (".toml", ".dat", ".txt"):
        return text.decode("utf-8").splitlines()
    return "there"  # a picture, a page, a database


def _number(word: str) -> str | float:
    """A field of a CSV file as the number it is."""
    return float(word) if NUMBER.fullmatch(word) and "," not in word else word


def without(answer: Any, names: frozenset[str]) -> Any:
    """An answer without the fields of these names."""
    if isinstance(answer, dict):
        return {k: without(part, names) for k, part in answer.items() if k not in names}
    return [without(part, names) for part in answer] if isinstance(answer, list) else answer


def numbers(text: str) -> list[str]:
    """The numbers of a text in their order, as they stand there."""
    return [found.replace("−", "-") for found in NUMBER.findall(SECONDS.sub(" ", text))]


def held(answer: Any) -> Any:
    """An answer as it is kept: prose by its numbers alone, floats that JSON knows no name for by
    one.
    """
    if isinstance(answer, Mapping):
        return {str(name): held(value) for name, value in answer.items() if name not in FRESH}
    if isinstance(answer, list | tuple):
        return [held(each) for each in answer]
    if isinstance(answer, str):
        return " ".join(["~", *numbers(answer)]) if len(answer.split()) > 2 else answer
    if isinstance(answer, float) and not math.isfinite(answer):
        return str(answer)
    if answer is None or isinstance(answer, bool | int | float):
        return answer
    return str(answer)


def difference(wanted: Any, found: Any, within: float, path: str = "") -> str | None:
    """The first place at which an answer is not what it was, or None."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        if wanted.keys() != found.keys():
            missing, more = sorted(wanted.keys() - found), sorted(found.keys() - wanted)
            return f"{path}: missing {missing}, new {more}"
        pairs = [(f"{path}.{name}", wanted[name], found[name]) for name in wanted]
    elif isinstance(wanted, list) and isinstance(found, list):
        if path.endswith(".numbers"):
            return _different_text(wanted, found, path)
        if len(wanted) != len(found):
            return f"{path}: {len(found)} entries instead of {len(wanted)}"
        pairs = [
            (f"{path}[{place}]", *each)
            for place, each in enumerate(zip(wanted, found, strict=True))
        ]
    else:
        return None if _same(wanted, found, within) else f"{path}: {found!r} instead of {wanted!r}"
    return next((told for at, *each in pairs if (told := difference(*each, within, at))), None)


def _same(wanted: Any, found: Any, within: float) -> bool:
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if isinstance(wanted, int | float) and isinstance(found, int | float):
        if min(wanted, found) > ENDLESS:
            return True
        floor = FLOOR if within < LOOSE else 1e-6
        return abs(wanted - found) <= within * max(abs(wanted), abs(found)) + floor
    if isinstance(wanted, str) and isinstance(found, str) and wanted[:1] == found[:1] == "~":
        return _different_text(wanted.split()[1:], found.split()[1:], "") is None
    return wanted == found


def _different_text(wanted: list[str], found: list[str], path: str) -> str | None:
    """The first number of a text that is another one."""
    for place, (then, now) in enumerate(zip(wanted, found, strict=False)):
        if not _rounded_alike(then, now):
            now, then = (" ".join(each[place : place + 6]) for each in (found, wanted))
            return f"{path}[{place}]: {now} … instead of {then} …"
    if len(wanted) != len(found):
        return f"{path}: {len(found)} numbers instead of {len(wanted)}"
    return None


def _rounded_alike(then: str, now: str) -> bool:
    """Whether two numbers are the same as they are shown: what was rounded for people may fall to
    either side, so the last digit behind a point may differ by one; whole numbers may not.
    """
    if then == now or ("e+" in then and "e+" in now and float(then) > ENDLESS < float(now)):
        return True
    if "." not in then or "." not in now or ("e" in then) != ("e" in now):
        return False
    (left, *powers), (right, *others) = (word.replace(",", "").split("e") for word in (then, now))
    digits = len(left.partition(".")[2])
    if powers != others or digits != len(right.partition(".")[2]):
        return False
    return abs(float(left) - float(right)) < 1.5 * 10.0**-digits


def compared(case: Case, wanted: Any, found: Any) -> str | None:
    """The first place at which a case does not answer as it did, or None."""
    if case.unsteady:
        wanted, found = without(wanted, FALLING), without(found, FALLING)
    return difference(wanted, found, case.within)


def expected(table: str) -> dict[str, Any]:
    """What the cases of a table are expected to answer."""
    plain, packed = EXPECTED / f"{table}.json", EXPECTED / f"{table}.json.gz"
    if packed.exists():
        return json.loads(gzip.decompress(packed.read_bytes()))
    return json.loads(plain.read_text(encoding="utf-8")) if plain.exists() else {}


def keep(table: str, answers: Mapping[str, Any]) -> None:
    """Write what the cases of a table are expected to answer, a line each."""
    lines = [
        f"{json.dumps(line, ensure_ascii=False)}:"
        + json.dumps(answers[line], ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        for line in sorted(answers)
    ]
    text = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    plain, packed = EXPECTED / f"{table}.json", EXPECTED / f"{table}.json.gz"
    for path in (plain, packed):
        path.unlink(missing_ok=True)
    EXPECTED.mkdir(exist_ok=True)
    if len(text) > LARGE:
        packed.write_bytes(gzip.compress(text, 9, mtime=0))
    else:
        plain.write_bytes(text)
