"""Whatever opens or parses a file does so through `received.py`, or is listed here with why not."""

from __future__ import annotations

import ast
from pathlib import Path

import sfumato

PACKAGE = Path(sfumato.__file__).parent
CALLS = {
    ("json", "loads"),
    ("json", "load"),
    ("tomllib", "loads"),
    ("tomllib", "load"),
    ("np", "load"),
    ("sqlite3", "connect"),
    ("os", "open"),
    ("pa", "OSFile"),
    ("pq", "read_table"),
    ("pq", "ParquetFile"),
    ("pc", "read_csv"),
}
METHODS = {"read_text", "read_bytes", "open"}  # of a path; `open` where it is told a mode
OURS = "of the package itself, which nobody else writes"
WRITTEN = "a file, folder or lock that is made here, and not read"
ELSEWHERE = {
    "untrusted.py": "it is the reader",
    "files.py": WRITTEN,
    "cli/errors.py": WRITTEN,
    "cli/completion.py": OURS,
    "collect/form.py": OURS,
    "collect/one_file.py": OURS,
    "collect/play.py": OURS,
    "collect/language.py": OURS,
    "collect/assets.py": OURS,
    "engines/spark/session.py": "the release note of Java; what our own worker raised",
    "collect/canonical.py": "what was written as JSON a line before",
    "privacy/ledger.py": "what this ledger wrote, or a line before, as JSON",
    "collect/campaign_file.py": "after check_toml, since the line of an error is wanted",
    "collect/lines.py": "one key of a text that was parsed before",
    "engines/spark/storage.py": "through Hadoop; what comes is bounded by parsed_json",
    "testing.py": "what a mechanism said of itself a line before",
    "model/format.py": "64 bytes, after check_file",
    "mechanisms/matrix.py": "mapped by NumPy, after check_file",
    "table/shuffling.py": "mapped by NumPy, after check_file",
    "table/delimited.py": "data, which has no bound but is a file by formats.py",
    "table/parquet.py": "data, which has no bound but is a file by check_file",
    "table/describing.py": "a digest of data that was opened, and a side file to be put back",
    "engines/duckdb.py": "two bytes of data that was opened",
    "engines/sqlite.py": "SQLite, after is_file",
    "collect/people.py": "one column of data that reader_of has opened",
    "publish/dossier.py": "a digest, after is_file",
    "collect/server/owner_routes.py": "an export that was written a line before",
    "collect/store/store.py": "figures that this server kept, by refuse_malformed",
    "collect/store/sqlite_store.py": "SQLite, after check_file",
    "privacy/ledger_file.py": "SQLite, after is_file; reports in it by refuse_malformed",
    "counting/sql/kept.py": "counts in the cache folder of whoever runs this, known by a digest",
}


def openings(tree: ast.Module) -> set[str]:
    """What a module calls that opens or parses a file."""
    found = set()
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        name = call.func
        if isinstance(name, ast.Name) and name.id == "open":
            found.add("open")
        if not isinstance(name, ast.Attribute):
            continue
        of = name.value.id if isinstance(name.value, ast.Name) else ""
        modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
        if (of, name.attr) in CALLS or (
            name.attr in METHODS and (name.attr != "open" or modes[:1] in (["rb"], ["r"], ["a+"]))
        ):
            found.add(f"{of}.{name.attr}")
    return found


def test_every_opening_is_through_the_reader_or_says_why_not() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if openings(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == ELSEWHERE.keys()


def test_an_opening_would_be_seen() -> None:
    text = 'json.loads(t)\nopen("f")\nPath(p).open("rb")\nplace.read_text()\nsf.open("release")'
    assert len(openings(ast.parse(text))) == 4
