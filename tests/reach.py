"""Reach: which functions of the package each test runs, so that a planted mistake is judged by the
tests that can notice it, and by no others.

A copy of the sources gets one more line at the start of every function; pytest, run there with this
file as a plugin, writes beside each test how long it took and what it ran, in processes that it
started too.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FOLDER = "SFUMATO_REACH"  # where processes that a test starts leave what they ran
RECORDER = "sfumato_reach"  # the module that marked sources import
LONGEST = 5.0  # seconds of CPU of one test
COMPILED = {"njit", "intrinsic", "vectorize"}
KEPT = {"cache", "lru_cache"}

RECORDING = f'''"""Which functions ran in this process."""
import atexit, os
HITS = set()
reached = HITS.add
def leave():
    folder = os.environ.get("{FOLDER}")
    if folder and HITS and os.environ.get("{FOLDER}_OWNER") != str(os.getpid()):
        try:
            with open(os.path.join(folder, str(os.getpid())), "a") as file:
                file.write("\\n".join(HITS) + "\\n")
        except OSError:
            pass
atexit.register(leave)
'''


def name_of(decorator: ast.expr) -> str:
    """`njit` for @njit, @njit(cache=True) and @numba.njit."""
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    return inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")


@dataclass(frozen=True)
class Place:
    """A function of a source file: its name in full, and the lines it takes."""

    name: str  # path::Class.function
    first: int
    last: int
    kept: bool  # its value is kept: only the first test that asks runs it
    body: int  # the line before which a mark may stand
    column: int
    marked: bool


def places(path: str, text: str) -> list[Place]:
    """Every function of a source file, outer ones first."""
    found: list[Place] = []

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}" if outer else child.name
                if not isinstance(child, ast.ClassDef):
                    found.append(place(child, f"{path}::{name}"))
                visit(child, name)
            else:
                visit(child, outer)

    visit(ast.parse(text), "")
    return found


def place(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Place:
    decorators = {name_of(decorator) for decorator in node.decorator_list}
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    body = node.body[ast.get_docstring(node) is not None :]
    own_line = bool(body) and body[0].lineno > node.lineno
    starts = body[0] if body else node
    if isinstance(starts, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        lines = [starts.lineno, *(decorator.lineno for decorator in starts.decorator_list)]
    else:
        lines = [starts.lineno]
    marked = own_line and not decorators & COMPILED and "overload" not in decorators
    return Place(
        name,
        first,
        node.end_lineno or node.lineno,
        bool(decorators & KEPT),
        min(lines),
        starts.col_offset,
        marked,
    )


def mark(source: Path) -> None:
    """Have every function of the package below a folder say that it ran."""
    (source.parent / f"{RECORDER}.py").write_text(RECORDING, encoding="utf-8")
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(source).as_posix()
        lines = text.split("\n")
        marks = [p for p in places(name, text) if p.marked]
        for one in sorted(marks, key=lambda p: -p.body):
            lines.insert(one.body - 1, f"{' ' * one.column}_reached({one.name!r})")
        if marks:
            lines.insert(first_statement(text) - 1, f"from {RECORDER} import reached as _reached")
        path.write_text("\n".join(lines), encoding="utf-8")


def first_statement(text: str) -> int:
    """The line of the first statement that is neither documentation nor of the future."""
    for node in ast.parse(text).body:
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not words and not future:
            return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return text.count("\n") + 1


def reaching(path: str, line: int, text: str) -> set[str]:
    """The functions of which a test must run one to notice a change of a line: the one it stands
    in; of its file any, if it stands in none or in one whose value is kept or that is compiled.
    """
    every = places(path, text)
    inside = [one for one in every if one.first <= line <= one.last]
    if inside and inside[-1].marked and not inside[-1].kept and line >= inside[-1].body:
        return {inside[-1].name}
    return {one.name for one in every}


TOO_LONG = "longer than a planted mistake is judged at first"


def give_up(*_: object) -> None:
    """A test that takes so long judges only what all others passed."""
    raise pytest.fail.Exception(TOO_LONG)


class Recorder:
    """The plugin of a run over marked sources."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.left = out.parent / "processes"
        self.left.mkdir(exist_ok=True)
        os.environ[FOLDER] = str(self.left)
        os.environ[f"{FOLDER}_OWNER"] = str(os.getpid())
        self.hits: set[str] = sys.modules[RECORDER].HITS
        self.of_fixtures: dict[str, set[str]] = {}
        self.tests: dict[str, dict[str, Any]] = {}
        signal.signal(signal.SIGPROF, give_up)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.hits.clear()
        self.tests[item.nodeid] = {"seconds": 0.0, "sound": True, "long": False}
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        try:
            value = yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        found = set(self.hits)
        for name in getattr(item, "fixturenames", ()):
            found |= self.of_fixtures.get(name, set())
        for path in self.left.iterdir():
            found |= set(path.read_text().split("\n"))
            path.unlink()
        self.tests[item.nodeid]["reached"] = sorted(found - {""})
        return value

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        """What a fixture of many tests runs, each of them runs."""
        if fixturedef.scope == "function":
            return (yield)
        before = set(self.hits)
        self.hits.clear()
        value = yield
        self.of_fixtures.setdefault(fixturedef.argname, set()).update(self.hits)
        self.hits |= before
        return value

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        test["sound"] &= report.outcome == "passed"
        test["long"] |= TOO_LONG in report.longreprtext

    def pytest_sessionfinish(self) -> None:
        self.out.write_text(json.dumps(self.tests))


class Chooser:
    """The plugin of a judging run: only the tests of a list, in its order."""

    def __init__(self, chosen: list[str], failed: Path) -> None:
        self.rank = {name: number for number, name in enumerate(chosen)}
        self.failed = failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name the test that noticed."""
        if report.failed:
            self.failed.write_text(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self.rank]
        items[:] = sorted(kept, key=lambda item: self.rank[item.nodeid])


def pytest_configure(config: pytest.Config) -> None:
    if "SFUMATO_REACH_OUT" in os.environ:
        __import__(RECORDER)
        config.pluginmanager.register(Recorder(Path(os.environ["SFUMATO_REACH_OUT"])))
    if "SFUMATO_REACH_ONLY" in os.environ:
        only = Path(os.environ["SFUMATO_REACH_ONLY"])
        chosen = only.read_text().split("\n")
        config.pluginmanager.register(Chooser(chosen, only.with_name("failed.txt")))
