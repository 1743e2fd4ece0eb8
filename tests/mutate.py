"""Mutation: small wrong changes planted in the sources one at a time, each judged by the tests of
its layer. What no test notices is listed; `make mutate` runs it.

The sample is fixed: of every layer the changes whose digest comes first under the seed, so that an
edit elsewhere does not draw others. A change that the tests of its own module, of its layer, and of
the layers built on it all pass has survived.

    python -m tests.mutate                      the whole sample
    python -m tests.mutate --layer audit        one layer
    python -m tests.mutate --list               what would be changed
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

from tests import reach

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
SEED = "sfumato 0.2"
EACH = 10  # changes of a layer
GOAL = 0.90
SECONDS = 60.0  # of the tests that run what is changed, the quickest first
LONG = 3  # of the tests that take long, those that judge a change that all others passed
PATIENCE = 300  # seconds; a change that never ends has been noticed
LEARNING = 2400  # seconds for what the tests of a few files run
TOGETHER = 8  # files of tests whose reach is learnt and kept at once
# Not judges: what they measure is the machine's as well.
TIMED = ("tests/hostile/test_corpus.py", "tests/cli/test_startup.py")

# Where else the tests of a layer are, beside tests/LAYER/ and tests/test_LAYER.py.
JUDGES: dict[str, tuple[str, ...]] = {
    "bits": ("counting", "mechanisms/test_bitflip.py"),
    "domain": ("table", "mine/test_cube.py"),
    "untrusted": ("test_domain.py", "cli/test_bad_input.py", "hostile/test_lies.py"),
    "observation": ("test_source.py", "mechanisms", "estimation", "mine/test_itemsets.py"),
    "channels": ("estimation", "mechanisms/test_contract.py"),
    "mechanisms": ("test_source.py", "test_audit.py", "test_plan.py"),
    "table": ("test_incremental.py", "cli/test_commands.py", "cli/test_bad_input.py"),
    "counting": (
        "engines/test_engines.py",
        "engines/test_strangers.py",
        "test_source.py",
        "mine/test_itemsets.py",
    ),
    "estimation": (
        "test_source.py",
        "mine/test_coverage.py",
        "mine/test_rules.py",
        "mine/test_cube.py",
    ),
    "source": (
        "test_api.py",
        "test_incremental.py",
        "engines/test_engines.py",
        "mechanisms/test_contract.py",
    ),
    "engines": ("counting/test_kept.py", "cli/test_query.py"),
    "model": ("mine/test_cube.py",),
    "mine": ("cli/test_mine.py", "cli/test_query.py", "cli/test_classify.py"),
    "publish": ("cli/test_publish.py",),
    "audit": ("test_attacks.py", "cli/test_plan_audit.py"),
    "plan": ("test_outlook.py", "cli/test_plan_audit.py"),
    "evaluate": ("cli/test_mine.py",),
    "files": ("test_written.py", "table/test_files.py", "table/test_faults.py", "test_report.py"),
    "interruption": ("cli/test_interruption.py",),
    "address": ("cli/test_canary.py",),
}
# Not judged here: what only prints or draws, and the collector's own suite.
LEFT_ALONE = {"cli", "picture", "report", "errors", "__init__", "__main__", "printable"}

# Changes that change nothing, each with its reason: (path, line as it is, line as changed).
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "estimation/baskets/caps.py",
        "told = 1 / (variance + differ**2 + common**2 + error**2)",
        "told = 2 / (variance + differ**2 + common**2 + error**2)",
    ): "weights of a mean, which is divided by their sum, and its variance by the sum's square",
    (
        "estimation/grid_counts.py",
        "total += weight * (covariance + np.outer(found - mean, found - mean))",
        "total += weight * (covariance + np.outer(found - mean, found + mean))",
    ): "the weighted sum of found is mean: Σ w (f - m)(f ± m)ᵀ is Σ w f fᵀ - m mᵀ with either sign",
    (
        "publish/local_suppression.py",
        "return int(np.ceil(least.sum() - 1e-6)) if len(poor) else 0",
        "return int(np.ceil(least.sum() - 1e-6)) if len(poor) else 1",
    ): "where no group is too small nothing is blanked, which is proved without the bound",
    (
        "datasets/quest.py",
        "zeros - 1,",
        "zeros - 2,",
    ): "any number below zero stands for no pattern yet",
    (
        "domain/attributes.py",
        "if self.step is not None and not 0 < self.step <= (self.max - self.min) * (1 + 1e-9):",
        "if self.step is not None and not 0 < self.step < (self.max - self.min) * (1 + 1e-9):",
    ): "two doubles are never in just this ratio",
    (
        "evaluate.py",
        "shorter, counts, below = supports.empty(), [], np.zeros(1, dtype=np.int64)",
        "shorter, counts, below = supports.empty(), [], np.ones(1, dtype=np.int64)",
    ): "a single item has no shorter part that is looked up",
    (
        "evaluate.py",
        "shorter, counts, below = supports.empty(), [], np.zeros(1, dtype=np.int64)",
        "shorter, counts, below = supports.empty(), [], np.zeros(2, dtype=np.int64)",
    ): "a place more, which nobody looks up",
    (
        "evaluate.py",
        "return np.concatenate([*counts, np.zeros(0)]) / max(supports.rows, 1)",
        "return np.concatenate([*counts, np.ones(0)]) / max(supports.rows, 1)",
    ): "none of them is there",
    (
        "evaluate.py",
        "order = np.lexsort(items.T[::-1]) # where the truth's items stand in another order",
        "order = np.lexsort(items.T[::-2]) # where the truth's items stand in another order",
    ): "the order in which itemsets are counted is undone after it",
    (
        "files.py",
        "token = secrets.token_hex(8)",
        "token = secrets.token_hex(9)",
    ): "any name that nobody else has",
    (
        "plan/planning.py",
        "middle = _between(low, high, above, below, halve=step % 3 == 0)",
        "middle = _between(low, high, above, below, halve=step % 3 != 0)",
    ): "how the bracket is cut decides how soon the search ends, not where",
    (
        "mine/cube/sheet.py",
        "low, high = float(np.min(ends)), float(np.max(ends))",
        "low, high = float(np.min(ends)), float(np.min(ends))",
    ): "where a sum is centred changes how it is rounded, not what it is",
    (
        "mine/cube/query.py",
        "return (order.nulls_first == order.descends, 0, 0)",
        "return (order.nulls_first == order.descends, 0, 1)",
    ): "nulls are compared with each other only, and all are the same",
    (
        "model/fitting.py",
        "theta = np.zeros(likelihood.family.interactions.size)",
        "theta = np.ones(likelihood.family.interactions.size)",
    ): "where the search starts decides how soon it ends, not where",
    (
        "observation.py",
        "return next((place for place, other in enumerate(among) if other is cell), -1)",
        "return next((place for place, other in enumerate(among) if other is cell), -2)",
    ): "any number below zero says that it is not there",
    (
        "plan/planning.py",
        "if high <= low * 1.01:",
        "if high < low * 1.01:",
    ): "two doubles are never in just this ratio",
    (
        "audit/reported_records.py",
        "return np.asarray(ndtri(np.clip(rng.random(count), 1e-12, 1 - 1e-12)))",
        "return np.asarray(ndtri(np.clip(rng.random(count), 1e-12, 2 - 1e-12)))",
    ): "no number drawn is 1, and one in 10^12 lies that near",
    (
        "publish/intruder.py",
        "counts = np.zeros((int(number.max(initial=-1)) + 1, truth.size), dtype=np.int64)",
        "counts = np.zeros((int(number.max(initial=-1)) + 2, truth.size), dtype=np.int64)",
    ): "a row more, which nobody reads",
    (
        "publish/cover.py",
        "marked = np.zeros(int(links.move.max(initial=-1)) + 1, dtype=bool)",
        "marked = np.zeros(int(links.move.max(initial=1)) + 1, dtype=bool)",
    ): "places more, which nobody marks",
    (
        "bits.py",
        "octets = block[item, word].view(np.uint8).reshape(-1, 8)",
        "octets = block[item, word].view(np.uint8).reshape(-2, 8)",
    ): "NumPy takes any number below zero for the length that is left",
    (
        "randomness.py",
        "cls.forks += 1",
        "cls.forks += 2",
    ): "that it changed is all that is asked of it",
    (
        "release.py",
        "return self._tabulated(exact=True)",
        "return self._tabulated(exact=False)",
    ): "without noise the covariances are 0, looked up or computed",
    (
        "release.py",
        "if small or len(columns) > len(self.domain): # baskets beside others: an axis an item",
        "if small or len(columns) >= len(self.domain): # baskets beside others: an axis an item",
    ): "the same supports, table by table: only slower",
    (
        "table/proposal.py",
        "np.abs(numbers - np.round(numbers, decimals)) <= 1e-9 * np.maximum(1, np.abs(numbers))",
        "np.abs(numbers - np.round(numbers, decimals)) < 1e-9 * np.maximum(1, np.abs(numbers))",
    ): "a rounding error is never a billionth to the last digit",
    (
        "table/readers.py",
        "found = pc.index_in(words, value_set=pa.array(FLAG_WORDS)).fill_null(-1)",
        "found = pc.index_in(words, value_set=pa.array(FLAG_WORDS)).fill_null(-2)",
    ): "any number below zero stands for no flag",
    (
        "table/shuffling.py",
        "squares = padded.reshape(-1, 8, groups).transpose(0, 2, 1)",
        "squares = padded.reshape(-2, 8, groups).transpose(0, 2, 1)",
    ): "NumPy takes any number below zero for the length that is left",
}


@dataclass(frozen=True)
class Change:
    """One planted mistake: a span of a source file, and what takes its place."""

    path: str  # below src/sfumato
    line: int
    start: int  # characters from the start of the file
    end: int
    new: str
    before: str  # the line as it is
    after: str  # the line as changed

    @property
    def layer(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def digest(self) -> str:
        """Decides whether it is in the sample; says nothing of where in the file it stands."""
        text = "|".join((SEED, self.path, self.before.strip(), self.after.strip()))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def reason(self) -> str | None:
        """Why it changes nothing, if it does not."""
        return EQUIVALENT.get((self.path, self.before.strip(), self.after.strip()))

    def is_program(self) -> bool:
        """Whether it can be parsed at all."""
        text = (SOURCE / self.path).read_text(encoding="utf-8")
        try:
            ast.parse(text[: self.start] + self.new + text[self.end :])
        except SyntaxError:
            return False
        return True

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"


COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
}
WRITTEN: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.And: "and",
    ast.Or: "or",
}
OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
}
NAMES = {
    "min": "max",
    "max": "min",
    "all": "any",
    "any": "all",
    "floor": "ceil",
    "ceil": "floor",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
    "zeros": "ones",
    "cumsum": "cumprod",
}


class Finder(ast.NodeVisitor):
    """Collects the places where a small change would be a mistake."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.found: list[tuple[int, int, str]] = []

    def place(self, line: int, column: int) -> int:
        """Columns of the parser count bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.place(node.lineno, node.col_offset), self.place(
            node.end_lineno, node.end_col_offset
        )

    def between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Change an operator that stands between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        middle = self.text[start:end]
        at = middle.find(old)
        if at >= 0 and "#" not in middle:
            self.found.append((start + at, start + at + len(old), new))

    # What is not code that decides anything.

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages of errors are words."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion is there for the reader and the type checker."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in (*node.defaults, *(d for d in node.kw_defaults if d is not None)):
            self.visit(default)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Module(self, node: ast.Module) -> None:
        """Constants of a module are mostly sizes of chunks: any would do."""
        for statement in node.body:
            if not isinstance(statement, ast.Assign | ast.AnnAssign):
                self.visit(statement)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words."""

    # What is.

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if type(operator) in COMPARISONS:
                self.between(left, right, WRITTEN[type(operator)], COMPARISONS[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in OPERATIONS and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            self.between(node.left, node.right, WRITTEN[type(node.op)], OPERATIONS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old = WRITTEN[type(node.op)]
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, old, "or" if old == "and" else "and")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            start, _ = self.span(node)
            self.found.append((start, self.span(node.operand)[0], ""))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        start, end = self.span(node)
        if isinstance(node.value, bool):
            self.found.append((start, end, str(not node.value)))
        elif isinstance(node.value, int):
            self.found.append((start, end, str(node.value + 1)))
        elif isinstance(node.value, float) and node.value > 1e-6:
            self.found.append((start, end, repr(node.value * 1.25)))

    def visit_keyword(self, node: ast.keyword) -> None:
        """That two lists are as long as each other is an assertion."""
        if node.arg != "strict":
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        if isinstance(name, ast.Name) and name.id in NAMES:
            self.found.append((*self.span(name), NAMES[name.id]))
        if isinstance(name, ast.Attribute) and name.attr in NAMES:
            end = self.span(name)[1]
            self.found.append((end - len(name.attr), end, NAMES[name.attr]))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        start, end = self.span(node.test)
        self.found.append((start, end, f"not ({self.text[start:end]})"))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATIONS:
            start, end = self.span(node.target)[1], self.span(node.value)[0]
            at = self.text.index("=", start)
            old = WRITTEN[type(node.op)]
            self.found.append((at - len(old), at, OPERATIONS[type(node.op)]))
            assert self.text[at - len(old) : at] == old and at < end
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call for what it does, a check above all, left out; words of documentation stay."""
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            start, end = self.span(node)
            self.found.append((start, end, "None"))
        self.generic_visit(node)


def changes(path: Path) -> Iterator[Change]:
    """Every small change of a source file."""
    text = path.read_text(encoding="utf-8")
    finder = Finder(text)
    finder.visit(ast.parse(text))
    for start, end, new in sorted(set(finder.found)):
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        before = text[first:last]
        after = text[first:start] + new + text[end:last]
        name = path.relative_to(SOURCE).as_posix()
        one_line = [" ".join(part.split()) for part in (before, after)]
        yield Change(name, text.count("\n", 0, start) + 1, start, end, new, *one_line)


def sample(layers: list[str] | None, each: int) -> list[Change]:
    """The first changes of every layer by their digest, at most two of a line."""
    by_layer: dict[str, list[Change]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for change in changes(path):
            if change.layer not in LEFT_ALONE and (layers is None or change.layer in layers):
                by_layer[change.layer].append(change)
    chosen = []
    for layer in sorted(by_layer):
        seen: dict[tuple[str, int], int] = defaultdict(int)
        taken = 0
        for change in sorted(by_layer[layer], key=lambda change: change.digest):
            place = change.path, change.line
            fresh = taken < each and not seen[place] and change.reason is None
            if fresh and change.is_program():
                seen[place] += 1
                taken += 1
                chosen.append(change)
    return chosen


def judges(change: Change) -> list[str]:
    """The files of tests that may judge a change: of its module, its layer, and those built on
    it.
    """
    parts = Path(change.path).with_suffix("").parts
    own = [f"tests/{'/'.join(parts[:-1])}/test_{parts[-1]}.py", f"src/sfumato/{change.path}"]
    layer = [f"tests/{change.layer}", f"tests/test_{change.layer}.py"]
    more = [f"tests/{name}" for name in JUDGES.get(change.layer, ())]
    found: dict[str, None] = {}
    for name in (*own, *layer, *more):
        path = ROOT / name
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] * path.exists()
        found |= dict.fromkeys(file.relative_to(ROOT).as_posix() for file in files)
    return [name for name in found if not name.startswith(TIMED)]


class Reach:
    """Which functions every test runs, and how long it takes; kept in a folder, a file of tests
    at a time, for as long as that file stays as it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.tests: dict[str, dict[str, dict[str, Any]]] = {}

    def kept(self, name: str) -> Path:
        text = name.encode() + (ROOT / name).read_bytes()
        return self.folder / f"{hashlib.sha256(text).hexdigest()[:20]}.json"

    def learn(self, names: list[str]) -> None:
        """Run the files of tests that are not known yet, once, in a copy of marked sources; what a
        few of them run is kept before the next few start.
        """
        missing = [name for name in names if not self.kept(name).exists()]
        if missing:
            copy = Copy()
            reach.mark(copy.folder / "src" / "sfumato")
            for start in range(0, len(missing), TOGETHER):
                few = missing[start : start + TOGETHER]
                print(f"learning what tests run: {start} of {len(missing)} files", flush=True)
                self._learn(copy, [name for name in few if not self.kept(name).exists()])
            copy.close()
        for name in names:
            if name not in self.tests:
                self.tests[name] = json.loads(self.kept(name).read_text())

    def _learn(self, copy: Copy, names: list[str]) -> None:
        if not names:
            return  # another run has learnt them meanwhile
        out = copy.folder / "reach.json"
        out.unlink(missing_ok=True)
        copy.passes(names, {"SFUMATO_REACH_OUT": str(out)}, LEARNING)
        found: dict[str, dict[str, Any]] = {name: {} for name in names}
        for test, facts in json.loads(out.read_text()).items():
            found[test.partition("::")[0]][test] = facts
        for name, tests in found.items():
            self.kept(name).write_text(json.dumps(tests))

    def of(self, change: Change, seconds: float) -> list[str]:
        """The tests that run what a change touches, those that run little else first, for so many
        seconds in all, those of a file together.
        """
        known = self.reaching(change, "sound")
        chosen: dict[str, list[tuple[float, str]]] = defaultdict(list)
        left = seconds
        for test in sorted(known, key=lambda test: (len(known[test]["reached"]), test)):
            spent = known[test]["seconds"]
            if spent <= left:
                left -= spent
                chosen[test.partition("::")[0]].append((spent, test))
        groups = sorted(chosen.values(), key=lambda group: sum(spent for spent, _ in group))
        return [test for group in groups for _, test in group]

    def long_of(self, change: Change) -> list[str]:
        """The long tests that run what a change touches."""
        known = self.reaching(change, "long")
        return sorted(known, key=lambda test: (len(known[test]["reached"]), test))[:LONG]

    def reaching(self, change: Change, kind: str) -> dict[str, dict[str, Any]]:
        """The tests of a kind that run what a change touches."""
        text = (SOURCE / change.path).read_text(encoding="utf-8")
        names = reach.reaching(change.path, change.line, text)
        known = {
            test: facts
            for name in judges(change)
            for test, facts in self.tests[name].items()
            if facts.get(kind)
        }
        able = {t: facts for t, facts in known.items() if not names.isdisjoint(facts["reached"])}
        if able:
            return able  # else it is compiled, perhaps: then whoever runs anything of its layer
        return {test: facts for test, facts in known.items() if runs(facts, change.layer)}


def runs(facts: dict[str, Any], layer: str) -> bool:
    """Whether a test runs any function of a layer."""
    return any(name.startswith((f"{layer}/", f"{layer}.py")) for name in facts["reached"])


class Copy:
    """A copy of the project in which mistakes are planted, with a process that runs its tests."""

    def __init__(self) -> None:
        self.folder = copied()
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "OMP_NUM_THREADS": "1",
            "SFUMATO_DATA": os.environ.get("SFUMATO_DATA", str(ROOT.parent / "shared" / "data")),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def passes(self, arguments: list[str], environment: dict[str, str], patience: float) -> bool:
        """Whether tests pass here."""
        asked = ["-q", "-p", "no:cacheprovider", "-p", "tests.reach", *arguments]
        order = {"arguments": asked, "environment": environment, "patience": patience}
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return bool(json.loads(self.process.stdout.readline()))

    @contextmanager
    def planted(self, change: Change) -> Iterator[None]:
        """The change stands in the sources of this copy."""
        target = self.folder / "src" / "sfumato" / change.path
        text, times = target.read_text(encoding="utf-8"), target.stat()
        target.write_text(text[: change.start] + change.new + text[change.end :], encoding="utf-8")
        # A time that no other text of this file has: what Python compiled is known by it.
        os.utime(target, (times.st_mtime, times.st_mtime + 10 + int(change.digest[:6], 16)))
        try:
            yield
        finally:
            target.write_text(text, encoding="utf-8")
            os.utime(target, (times.st_mtime, times.st_mtime))

    def passes_all(self, tests: list[str]) -> bool:
        """Whether these tests pass here; the first that does not ends it."""
        only = self.folder / "only.txt"
        only.write_text("\n".join(tests))
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        asked = ["-x", *files]
        return not tests or self.passes(asked, {"SFUMATO_REACH_ONLY": str(only)}, PATIENCE)

    def survives(self, change: Change, tests: list[str], long: list[str]) -> bool:
        """Whether these tests pass with the change in place, and then the long ones. One that fails
        has noticed it only if it passes without it.
        """
        return self._passes_with(change, tests) and self._passes_with(change, long)

    def _passes_with(self, change: Change, tests: list[str]) -> bool:
        left = list(tests)
        while left:
            self.failed.unlink(missing_ok=True)
            with self.planted(change):
                if self.passes_all(left):
                    return True
            named = self.failed.read_text() if self.failed.exists() else ""
            if named not in left or self.passes_all([named]):
                return False  # noticed, or nothing could even start
            left = left[left.index(named) + 1 :]  # it fails on a busy machine: the others judge
        return True

    @property
    def failed(self) -> Path:
        """Where the test that noticed is named."""
        return self.folder / "failed.txt"

    def close(self) -> None:
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def copied() -> Path:
    """A copy of what the tests need of the project."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-mutate-"))
    for name in ("src", "tests", "bench", "docs", "README.md", "pyproject.toml", "Makefile"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.exists():
            shutil.copy2(path, folder / name)
    return folder


def judge(chosen: list[Change], known: Reach, asked: argparse.Namespace) -> dict[Change, bool]:
    """Whether each change survives, a few at a time, each in a copy of the project of its own."""
    known.learn(list(dict.fromkeys(name for change in chosen for name in judges(change))))
    free: Queue[Copy] = Queue()
    every = [Copy() for _ in range(asked.jobs)]
    for copy in every:
        free.put(copy)

    before = asked.done.read_text(encoding="utf-8") if asked.done else ""

    def one(change: Change) -> tuple[Change, bool]:
        if any(line.startswith("noticed") for line in before.split("\n") if str(change) in line):
            return change, False
        copy, start = free.get(), time.monotonic()
        try:
            tests = known.of(change, asked.seconds)
            alive = copy.survives(change, tests, known.long_of(change))
        finally:
            free.put(copy)
        word = "SURVIVED" if alive else "noticed"
        spent = time.monotonic() - start
        print(f"{word} {spent:5.0f} s {len(tests):4} tests  {change}", flush=True)
        return change, alive

    try:
        with ThreadPoolExecutor(asked.jobs) as workers:
            return dict(workers.map(one, chosen))
    finally:
        for copy in every:
            copy.close()


def report(found: dict[Change, bool]) -> bool:
    """Print the score of every layer and what survived; whether every layer meets the goal."""
    by_layer: dict[str, list[bool]] = defaultdict(list)
    for change, alive in found.items():
        by_layer[change.layer].append(not alive)
    print(f"\n{'layer':14} {'noticed':>7} {'of':>4}")
    for layer, noticed in sorted(by_layer.items()):
        share = sum(noticed) / len(noticed)
        print(
            f"{layer:14} {sum(noticed):7} {len(noticed):4}  "
            f"{share:4.0%}{'' if share >= GOAL else '  below'}"
        )
    every = [noticed for layer in by_layer.values() for noticed in layer]
    print(f"{'all':14} {sum(every):7} {len(every):4}  {sum(every) / len(every):4.0%}")
    survivors = [change for change, alive in found.items() if alive]
    if survivors:
        print("\nsurvived:")
        for change in survivors:
            print(f"  {change}")
    return all(sum(noticed) >= GOAL * len(noticed) for noticed in by_layer.values())


def main() -> int:
    parser = argparse.ArgumentParser(description="plant small mistakes and see which tests notice")
    parser.add_argument("--layer", action="append", help="only this layer (again for more)")
    parser.add_argument("--each", type=int, default=EACH, help="changes of a layer")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="only say what would be changed")
    parser.add_argument("--reach", type=Path, help="a folder that keeps what every test runs")
    parser.add_argument("--done", type=Path, help="what an earlier run printed: noticed is noticed")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="tests of a change, in all")
    parser.add_argument("--match", help="only changes whose line holds this")
    asked = parser.parse_args()
    chosen = sample(asked.layer, asked.each)
    if asked.match:
        chosen = [change for change in chosen if asked.match in str(change)]
    if asked.list:
        print("\n".join(map(str, chosen)))
        print(f"{len(chosen)} changes")
        return 0
    with tempfile.TemporaryDirectory(prefix="sfumato-reach-") as folder:
        known = Reach(asked.reach or Path(folder))
        return 0 if report(judge(chosen, known, asked)) else 1


if __name__ == "__main__":
    sys.exit(main())
