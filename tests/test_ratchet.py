"""A ratchet: the house may shrink unnoticed, and grow only by hand, with a reason in the commit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "sfumato"

# What was counted when the ratchet was last set; lower them whenever the house is smaller.
MOST_LINES, MOST_FILES, MOST_NUMBERS = 75_434, 342, 681
MOST_METHODS = {"Mechanism": 21, "Channel": 18, "Evidence": 11}
MOST_CHECKS = 0  # isinstance on a concrete mechanism outside mechanisms/


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def is_number(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    )


def numbers(tree: ast.Module) -> int:
    """Names in capitals that a module gives a number, or something made of numbers."""
    found = 0
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [
            name
            for target in targets
            for name in (target.elts if isinstance(target, ast.Tuple) else [target])
            if isinstance(name, ast.Name) and name.id.strip("_").isupper()
        ]
        found += len(names) * any(map(is_number, ast.walk(node.value)))
    return found


def test_lines_files_and_numbers_do_not_grow_unnoticed() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    assert sum(text.count("\n") for text in texts) <= MOST_LINES
    assert len(texts) <= MOST_FILES
    assert sum(numbers(tree) for _, tree in trees()) <= MOST_NUMBERS


def test_the_base_classes_do_not_grow_unnoticed() -> None:
    methods: dict[str, int] = {}
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in MOST_METHODS:
                own = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                count = sum(not each.name.startswith("__") for each in own)
                methods.setdefault(node.name, count)
    assert methods.keys() == MOST_METHODS.keys()
    assert {name: count for name, count in methods.items() if count > MOST_METHODS[name]} == {}


def test_few_ask_which_mechanism_it_is() -> None:
    mechanisms = {
        node.name
        for path, tree in trees()
        if path.parent.name == "mechanisms"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) for base in node.bases)
        and any(
            isinstance(each, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id == "name" for name in each.targets)
            for each in node.body
        )
    }
    assert {"GammaDiagonal", "ItemSet", "Questionnaire"} <= mechanisms
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in trees()
        if "mechanisms" not in path.parts
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        if len(node.args) > 1
        if {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)} & mechanisms
    ]
    assert len(found) <= MOST_CHECKS, found
