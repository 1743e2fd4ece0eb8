"""Interpreter: a Python that runs block after block for one page and shows as a notebook would."""

from __future__ import annotations

import ast
import json
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any


def show(code: str, names: dict[str, Any]) -> None:
    """Run the code; the value of a last expression is printed, as a notebook does."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<page>", "exec", dont_inherit=True), names)  # not our own __future__
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
        if value is not None:
            print(repr(value))


def run(code: str, names: dict[str, Any]) -> dict[str, Any]:
    """What the code printed, and 1 where it failed."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            show(code, names)
            status = 0
        except Exception:
            traceback.print_exc(file=printed)
            status = 1
    return {"output": printed.getvalue(), "status": status}


def main() -> None:
    """Read a block a line, as JSON; answer each with a line."""
    answers, names = sys.stdout, {"__name__": "__page__"}
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), names)), file=answers, flush=True)


if __name__ == "__main__":
    main()
