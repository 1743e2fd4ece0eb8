"""Each layer imports only those before it, so the program keeps the shape of the path
of the data.
"""

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "sfumato"
LAYERS = (
    ("lazy",),
    ("errors",),
    ("arguments",),
    ("interruption", "memory", "one_thread", "printable", "progress", "untrusted", "view"),
    ("address",),
    ("files",),
    ("renderers",),
    ("result",),
    ("bits",),
    ("domain",),
    ("randomness",),
    ("privacy",),
    ("channels",),
    ("observation",),
    ("mechanisms",),
    ("table",),
    ("counting",),
    ("estimation",),
    ("source",),
    ("release",),
    ("engines",),
    ("model",),
    ("rounds",),
    ("mine",),
    ("publish",),
    ("evaluate",),
    ("audit",),
    ("plan",),
    ("api",),
    ("datasets",),
    ("testing",),
    ("collect",),
    ("cli",),
    ("__main__",),
)
RANK = {layer: rank for rank, layers in enumerate(LAYERS) for layer in layers}
HEAVY = {"duckdb", "matplotlib", "numba", "pandas", "polars", "pyspark", "scipy", "sklearn"}


def layer_of(module: str) -> str:
    """The layer of a module of this package: `channels` for `sfumato.channels.retain`."""
    return module.split(".")[1]


def imported(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a source imports, at its top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            stem = (
                ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                if node.level
                else ""
            )
            module = ".".join(filter(None, (stem, node.module)))
            # `from sfumato import channels` imports sfumato.channels; anywhere else the module is
            # named in full.
            names = (
                [f"{module}.{alias.name}" for alias in node.names]
                if module == "sfumato"
                else [module]
            )
            yield from ((node.lineno, name) for name in names)


def breaches(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module imports from a layer that is not before its own."""
    own = layer_of(module)
    package = module if is_package else module.rpartition(".")[0]
    found = []
    for line, name in imported(ast.parse(source), package):
        if name == "sfumato":
            found.append(
                f"{module}:{line} imports the whole package; name the module that holds what it "
                "needs"
            )
        elif name.startswith("sfumato.") and name != "sfumato.__version__":
            other = layer_of(name)
            if other != own and RANK.get(other, len(LAYERS)) >= RANK[own]:
                found.append(f"{module}:{line} imports {name}, which does not come before {own}")
    return found


def module_name(path: Path) -> str:
    """`sfumato.channels.retain` for its file, `sfumato.channels` for that folder's __init__.py."""
    parts = ("sfumato", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def sources() -> list[Path]:
    """Every source file except the package's own __init__.py, which offers the names of
    all layers.
    """
    return [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / "__init__.py"]


def test_every_module_belongs_to_a_layer() -> None:
    unknown = {layer_of(module_name(path)) for path in sources()} - RANK.keys()
    assert not unknown, f"give {sorted(unknown)} a place in LAYERS"


@pytest.mark.parametrize("path", sources(), ids=module_name)
def test_a_layer_imports_only_those_before_it(path: Path) -> None:
    found = breaches(
        path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py"
    )
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "import sfumato",
        "import sfumato.mine.rules",
        "from sfumato import mine",
        "from sfumato import perturb",
        "from sfumato.mine.rules import Rule",
        "from ..mine import rules",
        "from ..mine.rules import Rule",
        "def late():\n    from sfumato.cli import main",
    ],
)
def test_an_import_of_a_later_layer_is_found(line: str) -> None:
    assert breaches(line, "sfumato.channels.retain")


@pytest.mark.parametrize(
    "line",
    [
        "import numpy",
        "from sfumato import __version__",
        "from sfumato.domain import Domain",
        "from sfumato import domain",
        "from . import base",
        "from .base import Channel",
        "from ..errors import SfumatoError",
    ],
)
def test_an_import_of_an_earlier_layer_is_accepted(line: str) -> None:
    assert not breaches(line, "sfumato.channels.retain")


def test_a_relative_import_in_a_package_starts_from_the_package() -> None:
    assert not breaches("from .retain import Retain", "sfumato.channels", is_package=True)
    assert breaches("from ..mine import rules", "sfumato.channels", is_package=True)


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in memory after a statement runs in a new interpreter."""
    script = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_nothing_but_itself() -> None:
    assert not loaded_by("import sfumato") & (HEAVY | {"numpy", "pyarrow"})


def test_help_loads_no_heavy_library() -> None:
    script = """
import sfumato.cli
sys.argv = ["sfumato", "--help"]
try:
    sfumato.cli.main()
except SystemExit:
    pass
"""
    assert not loaded_by(script) & HEAVY


def classes(folder: Path) -> dict[str, list[str]]:
    """The modules that define each class of the sources, by its name."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(folder)))
    return found


def test_one_word_has_one_meaning() -> None:
    shared = {name: modules for name, modules in classes(SOURCE).items() if len(modules) > 1}
    assert shared == {}


def test_a_class_name_in_two_modules_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Cells: ...")
    (tmp_path / "b.py").write_text("class Cells: ...")
    assert classes(tmp_path) == {"Cells": ["a.py", "b.py"]}


# Who may import what is ours inside a function: the command group, and what starts it.
LAZY = {"__main__.py"}


def hidden_imports(source: str) -> list[str]:
    """What is ours and imported inside functions."""
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return sorted(
        {
            node.module
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sfumato")
        }
    )


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_stand_at_the_top(path: Path) -> None:
    place = str(path.relative_to(SOURCE))
    if place in LAZY or place.startswith("cli/"):
        return
    assert hidden_imports(path.read_text(encoding="utf-8")) == []


def test_a_hidden_import_is_seen() -> None:
    assert hidden_imports("def f():\n    from sfumato.bits import Bits\n") == ["sfumato.bits"]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many lines a function's body takes, its docstring left out."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def functions() -> Iterator[tuple[str, int]]:
    """Every function of the sources with the lines of its body."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", body_lines(node)


def test_functions_are_short() -> None:
    found = dict(functions())
    assert {name: lines for name, lines in found.items() if lines > 40} == {}
    assert statistics.median(found.values()) <= 8  # most are small; a thought stays whole
