"""Writes what the golden net expects anew, on purpose: for the cases whose line holds one of these
words, or those that a seed decides, or all.

    PYTHONPATH=src:. python -m tests.golden.freeze 'query ranges' 'plan few'
    PYTHONPATH=src:. python -m tests.golden.freeze --drawn
    PYTHONPATH=src:. python -m tests.golden.freeze --all
    PYTHONPATH=src:. python -m tests.golden.freeze --text @query   # the numbers in its text alone

Expectations of cases that are no longer stated go. Say in the commit why an answer changed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.golden.net import Case, Room, expected, keep, load


def chosen(case: Case, words: list[str]) -> bool:
    """Whether a case is to be frozen anew."""
    if "--all" in words or ("--drawn" in words and case.drawn):
        return True
    if "--new" in words and case.line not in expected(case.table):
        return True
    return any(word in case.line or word == f"@{case.table}" for word in words)


def main(words: list[str]) -> None:
    cases = load()
    wanted = [case for case in cases if chosen(case, words)]
    tables = {case.table: expected(case.table) for case in cases}
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["SFUMATO_CACHE"] = str(Path(temporary, "cache"))
        os.environ["SFUMATO_LEDGERS"] = str(Path(temporary, "ledgers"))
        room = Room(Path(temporary))
        for case in wanted:
            start = time.process_time()
            kept, found = tables[case.table].get(case.line, {}), room.run(case)
            if "--text" in words and kept:
                found = {**kept, **{part: found[part] for part in ("numbers",) if part in found}}
            tables[case.table][case.line] = found
            if "--time" in words:
                print(f"{time.process_time() - start:6.2f} {case.table} {case.line}")
    for table, answers in tables.items():
        stated = {case.line for case in cases if case.table == table}
        keep(table, {line: answer for line, answer in answers.items() if line in stated})
    print(f"{len(wanted)} of {len(cases)} cases frozen")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
