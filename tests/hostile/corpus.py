"""A corpus of hostile files: each is small, built by code, and meant to hang, fill or crash
whoever opens it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COUNT = "SELECT COUNT(*) FROM t"
RECORD = {"name": "c", "type": "category", "values": ["a", "b", "x"]}
ITEMS = {"name": "items", "type": "items", "values": ["1", "2", "3"]}
LONG = "9" * 1_000_000
HUGE = int("9" * 400)


@dataclass(frozen=True)
class Hostile:
    """A file or a few, and the command that opens it; FILE stands for the file's path."""

    name: str
    command: tuple[str, ...]
    make: Callable[[Path], Any]  # writes into a folder and gives the path, or what to open
    heavy: bool = False  # whether it goes for time or memory, and so is run as a process


def described(**changes: Any) -> dict[str, Any]:
    """The description of an honest release of retention, with changes."""
    return {
        "format": 1,
        "version": "0.1.0",
        "mechanism": "retention",
        "domain": {"attribute": [RECORD]},
        "parameters": {"keep": {"c": "1/2"}, "replace": {"c": "uniform"}},
        "secure": True,
        "copies": 1,
        **changes,
    }


def baskets(items: list[str], mechanism: str = "mask", **parameters: Any) -> dict[str, Any]:
    """The description of a release of baskets."""
    domain = {"attribute": [{**ITEMS, "values": items}]}
    given = parameters or {"keep_ones": 0.9, "keep_zeros": 0.9}
    return described(mechanism=mechanism, domain=domain, parameters=given)


def domain_of(*attributes: Any, **parameters: Any) -> dict[str, Any]:
    """A description over these attributes, by gamma-diagonal unless its parameters say more."""
    return described(
        mechanism="gamma-diagonal",
        domain={"attribute": list(attributes)},
        parameters=parameters or {"gamma": "19"},
    )


def numeric(**fields: Any) -> dict[str, Any]:
    """A description with one number."""
    entry = {"name": "c", "type": "numeric", "min": 0, "max": 9, **fields}
    keep = {"keep": {"c": "1/2"}, "replace": {"c": "uniform"}}
    return described(domain={"attribute": [entry]}, parameters=keep)


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def parquet(text: str | bytes | dict[str, Any], column: Any = None) -> Callable[[Path], Path]:
    """A Parquet file of four rows with this description."""
    metadata = json.dumps(text) if isinstance(text, dict) else text
    rows = {"c": ["a", "b", "x", "a"]} if column is None else column

    def make(folder: Path) -> Path:
        table = pa.table(rows).replace_schema_metadata({b"sfumato": metadata})
        pq.write_table(table, folder / "f.parquet")
        return folder / "f.parquet"

    return make


BASKETS = {"items": pa.array([[1], [2, 3], [], [1, 2]])}
NUMBERS = {"c": pa.array([0, 1, 2, 9])}


def text(name: str, *parts: str | bytes, side: str | bytes | None = None) -> Callable[[Path], Path]:
    """A file of this text, and its side file."""

    def make(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(b"".join(p.encode() if isinstance(p, str) else p for p in parts))
        if side is not None:
            octets = side.encode() if isinstance(side, str) else side
            (folder / f"{name}.sfumato.json").write_bytes(octets)
        return path

    return make


def zipped(name: str, block: bytes, times: int, last: bytes = b"") -> Callable[[Path], Path]:
    """A gzip file that unfolds to a block many times over: members one after the other."""
    member = gzip.compress(block, 9)
    return text(name, member * times, gzip.compress(last))


def database(*statements: str, description: str | None = None) -> Callable[[Path], str]:
    """A DuckDB file with a table `survey` that was tampered with."""

    def make(folder: Path) -> str:
        import duckdb

        told = json.dumps({**described(), "rows": 4}) if description is None else description
        with duckdb.connect(str(folder / "f.db")) as connection:
            connection.execute("CREATE TABLE survey AS SELECT 'a' AS c FROM range(4)")
            connection.execute("CREATE TABLE sfumato_release (table_name TEXT, description TEXT)")
            connection.execute("INSERT INTO sfumato_release VALUES ('survey', ?)", [told])
            for statement in statements:
                connection.execute(statement)
        return f"duckdb://{folder / 'f.db'}#survey"

    return make


def instead(view: str) -> tuple[str, ...]:
    """A view in the place of the table."""
    return ("DROP TABLE survey", f"CREATE VIEW survey AS {view}")


def nested(depth: int) -> dict[str, Any]:
    """A combination inside a combination, and so on."""
    spec = described()
    for _ in range(depth):
        spec = described(mechanism="combined", parameters={"parts": [spec]})
    return spec


def repeated_rows(folder: Path) -> Path:
    """A Parquet file of few bytes that says and holds very many rows."""
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(1 << 20, dtype=np.int8)), pa.array(["a"])
    )
    table = pa.table({"c": column}).replace_schema_metadata({b"sfumato": json.dumps(described())})
    with pq.ParquetWriter(folder / "f.parquet", table.schema) as writer:
        for _ in range(64):
            writer.write_table(pa.concat_tables([table] * 16), row_group_size=1 << 24)
    return folder / "f.parquet"


def long_word(folder: Path) -> Path:
    """A Parquet file with one word of half a gigabyte, packed into few bytes."""
    table = pa.table({"c": pa.array(["a" * (1 << 29)], pa.large_string())})
    table = table.replace_schema_metadata({b"sfumato": json.dumps(described())})
    pq.write_table(table, folder / "f.parquet", compression="zstd", use_dictionary=False)
    return folder / "f.parquet"


def npy(header: str) -> Callable[[Path], Path]:
    """A NumPy file with this header and no data."""
    padded = header.encode() + b"\n"
    return text("f.npy", b"\x93NUMPY\x01\x00", len(padded).to_bytes(2, "little"), padded)


DESCRIBE, QUERY, MINE = (
    ("describe", "FILE"),
    ("query", "FILE", COUNT),
    (
        "mine",
        "FILE",
        "--min-support",
        "0.1",
    ),
)
PLAN = ("plan", "FILE", "--rows", "1000", "--gamma", "19")
SCHEMA = ("schema", "FILE")
IN_MEMORY = (*QUERY, "--engine", "memory")


def light(name: str, make: Callable[[Path], Any], *commands: tuple[str, ...]) -> list[Hostile]:
    """A file whose values are of the wrong kind, opened by these commands."""
    return [Hostile(f"{name}: {_called(command)}", command, make) for command in commands]


def heavy(name: str, make: Callable[[Path], Any], *commands: tuple[str, ...]) -> list[Hostile]:
    """A file that goes for time or memory, opened by these commands."""
    return [Hostile(f"{name}: {_called(command)}", command, make, True) for command in commands]


def _called(command: tuple[str, ...]) -> str:
    return f"{command[0]} in memory" if command == IN_MEMORY else command[0]


def toml(name: str, *lines: str | bytes, large: bool = False) -> Hostile:
    """A schema, given to `plan`."""
    parts = [line for given in lines for line in (given, "\n")]
    return Hostile(f"schema, {name}", PLAN, text("f.toml", *parts), large)


ATTRIBUTE = "[[attribute]]\nname = 'c'"


def _fractions() -> list[Hostile]:
    found = []
    for shown, gamma in (
        ("without end", "1e1000000000"),
        ("over zero", "1/0"),
        ("of a million digits", LONG),
        ("below zero", "-3"),
        ("a list", []),
        ("an object", {}),
        ("true", True),
        ("null", None),
        ("a number of 400 digits", HUGE),
        ("of 128 digits", "9" * 128),
    ):
        description = domain_of(RECORD, gamma=gamma)
        kind = heavy if isinstance(gamma, str | int) else light
        found += kind(f"gamma {shown}", parquet(description), DESCRIBE)
    keep = {"keep": {"c": "1e-1000000000"}, "replace": {"c": "uniform"}}
    return [
        *found,
        *heavy("keep without end", parquet(described(parameters=keep)), DESCRIBE, QUERY, MINE),
        *heavy("gamma without end", parquet(domain_of(RECORD, gamma="1e1000000000")), QUERY, MINE),
    ]


def _parameters() -> list[Hostile]:
    law = {"keep": {"c": "1/2"}}
    cases: dict[str, dict[str, Any]] = {
        "a billion copies": described(copies=10**9),
        "copies below one": described(copies=-1),
        "copies a fraction": described(copies=1.5),
        "copies true": described(copies=True),
        "secure a word": described(secure="yes"),
        "format a list": described(format=[[[]]]),
        "format to come": described(format=2),
        "no parameters": described(parameters={}),
        "parameters a list": described(parameters=[1]),
        "parameters of another column": described(parameters={"keep": {"z": "1/2"}, "replace": {}}),
        "keep a list": described(parameters={"keep": [1], "replace": {}}),
        "mechanism a list": described(mechanism=["retention"]),
        "mechanism unknown": described(mechanism="retentoin"),
        "mechanism a path": described(mechanism="../../etc"),
        "law below zero": described(parameters={**law, "replace": {"c": [-1, 2, 3]}}),
        "law without end": described(parameters={**law, "replace": {"c": [1e308, 1e308, 1e308]}}),
        "law too short": described(parameters={**law, "replace": {"c": [1]}}),
        "law of lists": described(parameters={**law, "replace": {"c": [[1], [2], [3]]}}),
        "law of words": described(parameters={**law, "replace": {"c": ["1", "2", "3"]}}),
        "combined in combined, 9 deep": nested(9),
        "combined in combined, 200 deep": nested(200),
        "parts a word": described(mechanism="combined", parameters={"parts": "abc"}),
    }
    return [
        hostile
        for name, case in cases.items()
        for hostile in (heavy if "deep" in name or "billion" in name else light)(
            name, parquet(case), DESCRIBE
        )
    ]


def _matrices() -> list[Hostile]:
    cases: dict[str, Any] = {
        "ragged": [[1], [1, 2]],
        "of words": [["1"] * 3] * 3,
        "one row of a million": [[1] * 1_000_000],
        "below zero": [[-1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "without rank": [[1431655765, 1431655765, 1431655766]] * 3,
        "nothing": [],
        "nothings": [[], [], []],
        "deep": [[[1]]],
    }
    found = []
    for name, weights in cases.items():
        case = described(mechanism="matrix", parameters={"weights": weights})
        found += light(f"matrix {name}", parquet(case), DESCRIBE)
    cells = [{**RECORD, "values": numbers(1024)}]
    identity = (np.eye(1024, dtype=np.int64) * (1 << 32)).tolist()
    largest = described(
        mechanism="matrix", domain={"attribute": cells}, parameters={"weights": identity}
    )
    return [*found, *heavy("matrix, the largest", parquet(largest), DESCRIBE)]


def _domains() -> list[Hostile]:
    many = [{**RECORD, "name": f"c{place}", "values": ["a", "b"]} for place in range(2000)]
    keeps = {f"c{place}": f"{place + 1}/2001" for place in range(2000)}
    laws = {"keep": keeps, "replace": dict.fromkeys(keeps, "uniform")}
    cases: dict[str, dict[str, Any]] = {
        "300,000 values": domain_of({**RECORD, "values": numbers(300_000)}),
        "100,000 values": domain_of({**RECORD, "values": numbers(100_000)}),
        "100,000 values, the last twice": domain_of(
            {**RECORD, "values": [*numbers(99_999), "99998"]}
        ),
        "200,000 attributes": domain_of(*({**RECORD, "name": n} for n in numbers(200_000))),
        "2,000 attributes": described(domain={"attribute": many}, parameters=laws),
        "attribute named twice": domain_of(*[RECORD] * 4000),
        "no attribute": domain_of(),
        "attribute a list": described(domain={"attribute": [[]]}),
        "attributes an object": described(domain={"attribute": {}}),
        "domain a word": described(domain="c"),
        "type a list": domain_of({**RECORD, "type": []}),
        "type an object": domain_of({**RECORD, "type": {}}),
        "type unknown": domain_of({**RECORD, "type": "x" * 100_000}),
        "name a number": domain_of({**RECORD, "name": 1}),
        "name of a megabyte": domain_of({**RECORD, "name": "c" * 1_000_000}),
        "values a word": domain_of({**RECORD, "values": "abc"}),
        "values of lists": domain_of({**RECORD, "values": [[], []]}),
        "values of a megabyte": domain_of({**RECORD, "values": ["a" * 1_000_000, "b"]}),
        "values without end": domain_of({**RECORD, "values": [HUGE, 1e308, True]}),
        "half a letter": domain_of({**RECORD, "values": ["a", "\ud800"]}),
        "half a letter in the name": domain_of({**RECORD, "name": "\udfff"}),
        "other unknown": domain_of({**RECORD, "other": "z"}),
        "public a word": domain_of({**RECORD, "public": "yes"}),
        "a key unknown": domain_of({**RECORD, "clip": True}),
        "title a list": described(domain={"title": [], "attribute": [RECORD]}),
        "edges that fall": domain_of({"name": "c", "type": "bins", "edges": [3, 2, 1]}),
        "edges without number": domain_of(
            {"name": "c", "type": "bins", "edges": list(range(100_000))}
        ),
        "edges without end": domain_of({"name": "c", "type": "bins", "edges": [-1e308, 0, HUGE]}),
    }
    found = []
    for name, case in cases.items():
        kind = heavy if len(json.dumps(case)) > 10_000 else light
        found += kind(name, parquet(case), DESCRIBE)
    for name in ("100,000 values", "2,000 attributes"):
        found += heavy(name, parquet(cases[name]), QUERY, MINE)
    return found


def _numbers() -> list[Hostile]:
    cases: dict[str, dict[str, Any]] = {
        "bounds of 1e308": numeric(min=-1e308, max=1e308),
        "bound of 400 digits": numeric(max=HUGE),
        "step of 5e-324": numeric(step=5e-324),
        "range of 5e-324": numeric(min=0.0, max=5e-324),
        "bounds too close": numeric(min=1e29, max=1.0000000000000001e29),
        "step below zero": numeric(step=-1),
        "bounds the wrong way round": numeric(min=9, max=0),
        "cuts of words": numeric(cuts=["1"]),
        "cuts without number": numeric(max=10**9, cuts=list(range(1, 100_000))),
        "missing a list": numeric(missing=[]),
        "a grid of 2^32": numeric(max=(1 << 32) - 1),
        "a grid of 2^53": numeric(max=1 << 53),
    }
    found = [
        hostile
        for name, case in cases.items()
        for hostile in light(name, parquet(case, NUMBERS), DESCRIBE)
    ]
    grid = parquet(cases["a grid of 2^32"], NUMBERS)
    return [*found, *heavy("a grid of 2^32", grid, QUERY, MINE, IN_MEMORY)]


def _baskets() -> list[Hostile]:
    many, most = numbers(40_000), numbers(100_000)
    rates = [(number % 32_000 + 33_000) / 65_536 for number in range(100_000)]
    cases: dict[str, dict[str, Any]] = {
        "200,000 items": baskets(numbers(200_000)),
        "100,000 items": baskets(most),
        "100,000 items, each its own rate": baskets(most, keep_ones=rates, keep_zeros=rates[::-1]),
        "100,000 items, 10,000 copies": {**baskets(most), "copies": 10_000},
        "a cutoff of a billion": baskets(many, "cut-and-paste", cutoff=10**9, insert=0.5),
        "a cutoff of 20,000": baskets(many, "cut-and-paste", cutoff=20_000, insert=0.5),
        "a cutoff of 64": baskets(many, "cut-and-paste", cutoff=64, insert=0.5),
        "a cutoff of one and a half": baskets(["1"], "cut-and-paste", cutoff=1.5, insert=0.5),
        "insert without end": baskets(["1"], "cut-and-paste", cutoff=1, insert=1e-308),
        "rates of words": baskets(["1", "2", "3"], keep_ones="0.9", keep_zeros=[]),
        "rates above one": baskets(["1", "2", "3"], keep_ones=[9, 9, 9], keep_zeros=0.9),
        "rates too few": baskets(["1", "2", "3"], keep_ones=[0.9], keep_zeros=0.9),
        "frequent unknown": baskets(["1"], "fp-nfp", frequent=["9"], fp=0.9, nfp=0.9),
        "frequent a word": baskets(["1"], "fp-nfp", frequent="1", fp=0.9, nfp=0.9),
    }
    found = []
    for name, case in cases.items():
        kind = heavy if len(json.dumps(case)) > 10_000 else light
        found += kind(name, parquet(case, BASKETS), DESCRIBE)
    for name in ("100,000 items", "a cutoff of 64", "a cutoff of 20,000"):
        found += heavy(name, parquet(cases[name], BASKETS), MINE)
    return found


def _texts() -> list[Hostile]:
    """Descriptions that are no JSON, or too much of it."""
    deep = "[" * 100_000 + "]" * 100_000
    cases: dict[str, str | bytes] = {
        "nothing": "",
        "half": json.dumps(described())[:100],
        "no UTF-8": b"\xff\xfe\x00",
        "deep": deep,
        "deep inside": json.dumps(described()).replace('"1/2"', deep),
        "deep and not closed": "[" * 1_000_000,
        "a list": "[1]",
        "NaN": json.dumps(described()).replace('"1/2"', "NaN"),
        "infinity": json.dumps(described()).replace('"1/2"', "1e999"),
        "five million lists": "[" + "[]," * 5_000_000 + "[]]",
        "a quote left open": '{"format": "' + '\\"' * 1_000_000,
        "a million keys": json.dumps(dict.fromkeys(numbers(400_000), 1)),
    }
    return [
        hostile
        for name, case in cases.items()
        for hostile in (heavy if len(case) > 10_000 else light)(
            f"description, {name}", parquet(case), DESCRIBE
        )
    ]


def _sides() -> list[Hostile]:
    csv = "c\na\nb\nx\na\n"
    good = {**described(), "rows": 4}
    cases: dict[str, str | bytes] = {
        "empty": "",
        "no UTF-8": b"\xff",
        "of 20 megabytes": " " * 20_000_000,
        "rows below zero": json.dumps({**good, "rows": -1}),
        "rows a word": json.dumps({**good, "rows": "4"}),
        "rows of 400 digits": json.dumps({**good, "rows": HUGE}),
        "no rows": json.dumps(described()),
        "gamma without end": json.dumps({**domain_of(RECORD, gamma="1e1000000000"), "rows": 4}),
    }
    found = []
    for name, side in cases.items():
        kind = heavy if len(side) > 10_000 or "without end" in name else light
        found += kind(f"side file {name}", text("f.csv", csv, side=side), DESCRIBE)
    sparse = text("f.csv", csv, side=json.dumps({**good, "rows": 10**15}))
    return [*found, *heavy("side file of rows without end", sparse, QUERY, MINE)]


def _schemas() -> list[Hostile]:
    return [
        toml("type a list", ATTRIBUTE, "type = []"),
        toml("type a table", ATTRIBUTE, "type = {}"),
        toml("deep", "x = " + "[" * 100_000, large=True),
        toml("deep and closed", "x = " + "[" * 5000 + "]" * 5000, large=True),
        toml("deep tables", "x = " + "{a = " * 5000 + "1" + "}" * 5000, large=True),
        toml("dotted", ".".join("a" * 200_000) + " = 1", large=True),
        toml("dotted table", "[" + ".".join("a" * 200_000) + "]", large=True),
        toml("dotted and quoted", " . ".join(['"a"'] * 100_000) + " = 1", large=True),
        toml("a word of two megabytes", "a" * 2_000_000 + " = 1", large=True),
        toml("quotes of two megabytes", '"' * 2_000_000, large=True),
        toml("200,000 tables", *(f"[a{place}]" for place in range(200_000)), large=True),
        toml("no UTF-8", b"\xff\xfe"),
        toml("of three megabytes", ATTRIBUTE, f"# {'x' * 3_000_000}", large=True),
        toml("number without end", ATTRIBUTE, "type = 'numeric'", f"min = 0\nmax = {HUGE}"),
        toml(
            "number of a million digits",
            ATTRIBUTE,
            "type = 'numeric'",
            f"min = 0\nmax = {LONG}",
            large=True,
        ),
        toml("infinite", ATTRIBUTE, "type = 'numeric'", "min = -inf\nmax = nan"),
        toml("a day", ATTRIBUTE, "type = 'numeric'", "min = 2024-01-01\nmax = 2025-01-01"),
        toml("title a number", "title = 3", ATTRIBUTE, "type = 'category'", "values = ['a', 'b']"),
        toml("a nul", "[[attribute]]\nname = 'c\\u0000'", "type = 'category'\nvalues = ['a', 'b']"),
        toml("attribute a word", "attribute = 'c'"),
        toml("100,000 attributes", "[[attribute]]\n" * 100_000, large=True),
        toml(
            "150,000 values",
            ATTRIBUTE,
            "type = 'category'",
            f"values = {numbers(150_000)}",
            large=True,
        ),
    ]


def _databases() -> list[Hostile]:
    cases: dict[str, Callable[[Path], str]] = {
        "view without end": database(*instead("SELECT 'a' AS c FROM range(100000000000)")),
        "view of another file": database(
            *instead("SELECT column0 AS c FROM read_csv('/etc/passwd', header = false)")
        ),
        "macro without end": database(
            "CREATE MACRO count(x) AS (SELECT sum(r) FROM range(100000000000) t(r))"
        ),
        "macro over the catalogue": database(
            "CREATE MACRO duckdb_functions() AS TABLE SELECT '' AS function_name, false AS internal"
        ),
        "generated column": database(
            "DROP TABLE survey",
            "CREATE TABLE survey (n INTEGER, c VARCHAR GENERATED ALWAYS AS (repeat('a', n)))",
        ),
        "description no text": database(
            "DROP TABLE sfumato_release",
            "CREATE TABLE sfumato_release AS SELECT 'survey' AS table_name, [1] AS description",
        ),
        "descriptions without number": database(
            "INSERT INTO sfumato_release SELECT 'survey', '{}' FROM range(1000000)"
        ),
        "description of 100 megabytes": database(
            "UPDATE sfumato_release SET description = repeat('x', 100000000)"
        ),
        "description deep": database(description="[" * 100_000),
        "rows a word": database(description=json.dumps({**described(), "rows": "4"})),
        "column of lists": database("DROP TABLE survey", "CREATE TABLE survey AS SELECT [1] AS c"),
        "no column": database("DROP TABLE survey", "CREATE TABLE survey AS SELECT 1 AS z"),
        "no database": text("f.db", b"DUCK" * 10_000),
    }
    return [
        hostile for name, case in cases.items() for hostile in heavy(f"DuckDB, {name}", case, QUERY)
    ]


def _data() -> list[Hostile]:
    """Records and baskets without a mechanism."""
    exact = ("mine", "FILE", "--min-support", "0.5")
    ids = " ".join(numbers(300_000))
    wide = ",".join(f"c{place}" for place in range(100_000))
    few = " ".join(numbers(100_000))
    return [
        *heavy("baskets, a line without end", text("f.dat", "1 " * 10_000_000), exact),
        *heavy("baskets, 300,000 ids", text("f.dat", ids, "\n"), exact),
        *heavy("baskets, ids times lines", text("f.dat", few, "\n" * 1_000_000), exact),
        *light("baskets, an id of 25 digits", text("f.dat", "1" * 25, "\n"), exact),
        *light("baskets, no ids", text("f.dat", b"\x00\xff\x1b"), exact),
        *heavy("baskets, a bomb", zipped("f.dat.gz", b"1\n" * 500_000, 2000), exact),
        *light("baskets, a bomb of one line", zipped("f.dat.gz", b"1 " * 500_000, 2000), exact),
        *light("baskets, half a gzip", text("f.dat.gz", gzip.compress(b"1 2\n" * 9)[:20]), exact),
        *heavy("CSV, a header without end", zipped("f.csv.gz", b"a" * 1_000_000, 1000), SCHEMA),
        *heavy("CSV, a bomb", zipped("f.csv.gz", b"a\n" * 500_000, 2000), SCHEMA),
        *heavy("CSV, a bomb of one row", zipped("f.csv.gz", b"a" * 1_000_000, 1000, b"\n"), SCHEMA),
        *heavy(
            "CSV, a row without end",
            text("f.csv.gz", gzip.compress(b"c\n"), gzip.compress(b"a" * 10**6) * 1000),
            SCHEMA,
        ),
        *heavy("CSV, 100,000 columns", text("f.csv", wide, "\n", "1," * 99_999, "1\n"), SCHEMA),
        *heavy("CSV, 10,000 columns", text("f.csv", wide[: 10_000 * 6], "\n"), SCHEMA),
        *heavy("CSV, one name 50,000 times", text("f.csv", "c," * 50_000, "c\n"), SCHEMA),
        *heavy("CSV, a quote left open", text("f.csv", 'c\n"', "a\n" * 1_000_000), SCHEMA),
        *heavy("CSV, a quote in the header", text("f.csv", '"c\n', "a\n" * 5_000_000), SCHEMA),
        *heavy("CSV, a field of ten megabytes", text("f.csv", "c\n", "a" * 10**7, "\n"), SCHEMA),
        *light("CSV, a number of 25 digits", text("f.csv", f"c\n{'9' * 25}\n1\n"), SCHEMA),
        *light("CSV, a number of 400 digits", text("f.csv", f"c\n{'9' * 400}\n1\n" * 9), SCHEMA),
        *light(
            "CSV, many numbers of 25 digits",
            text("f.csv", "c\n", *(f"{n}{'9' * 25}\n" for n in range(1, 60))),
            SCHEMA,
        ),
        *light("CSV, infinities", text("f.csv", "c\n", "inf\n-inf\nnan\n1e999\n" * 9), SCHEMA),
        *light("CSV, nuls", text("f.csv", b"c\x00,d\n\x00,\x00\n"), SCHEMA),
        *light("CSV, no UTF-8", text("f.csv", b"c\n\xff\n"), SCHEMA),
        *light("CSV, empty", text("f.csv", ""), SCHEMA),
        *light("Parquet, cut short", text("f.parquet", b"PAR1" + b"\x00" * 100), SCHEMA),
        *heavy(
            "Parquet, a footer of two gigabytes",
            text("f.parquet", b"PAR1", b"\x00" * 100, b"\xff\xff\xff\x7fPAR1"),
            SCHEMA,
        ),
        *heavy("Parquet, rows without number", repeated_rows, DESCRIBE, QUERY, MINE),
        *heavy("Parquet, a word without end", long_word, QUERY, MINE, SCHEMA),
        *light(
            "Parquet, lists of lists",
            parquet(described(), {"c": pa.array([[["a"]]])}),
            QUERY,
            IN_MEMORY,
        ),
        *light("Parquet, another column", parquet(described(), {"z": ["a"]}), QUERY, IN_MEMORY),
        *light("Parquet, nulls", parquet(described(), {"c": [None, "a"]}), QUERY, IN_MEMORY),
        *light(
            "Parquet, the column twice",
            parquet(described(), pa.table([["a"], ["b"]], names=["c", "c"])),
            QUERY,
            IN_MEMORY,
        ),
        *light("a name of 300 letters", lambda folder: folder / ("c" * 300 + ".csv"), SCHEMA),
        *light("a name with a nul", lambda folder: "a\x01b.csv", SCHEMA),
        *heavy("a device", _link("/dev/zero"), SCHEMA),
        *light("a folder", _folder, SCHEMA),
        *light("a link to itself", _link("f.csv"), SCHEMA),
    ]


def _link(target: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "f.csv").symlink_to(target)
        return folder / "f.csv"

    return make


def _folder(folder: Path) -> Path:
    (folder / "f.csv").mkdir()
    return folder / "f.csv"


def _beside() -> list[Hostile]:
    """Files that are given beside the data."""
    matrix = ("perturb", "truth.csv", "--schema", "s.toml", "--mechanism", "matrix", "-o", "o.csv")
    items = ("perturb", "b.dat", "--gamma", "19", "-o", "o.dat", "--items", "FILE")
    shapes = {
        "of a trillion numbers": "(1000000, 1000000)",
        "of shapes without end": f"({HUGE},)",
        "of shapes below zero": "(-1, 3)",
        "of no shape": "'abc'",
    }
    found = [
        hostile
        for name, shape in shapes.items()
        for hostile in heavy(
            f"matrix file {name}", npy(_npy_header(shape)), (*matrix, "--matrix", "FILE")
        )
    ]
    return [
        *found,
        *light(
            "matrix file, pickled",
            npy("{'descr': '|O', 'fortran_order': False, 'shape': (3, 3), }"),
            (*matrix, "--matrix", "FILE"),
        ),
        *heavy(
            "matrix file, deep",
            text("f.json", "[" * 100_000, "]" * 100_000),
            (*matrix, "--matrix", "FILE"),
        ),
        *light(
            "matrix file, numbers without end",
            text("f.json", f"[[{HUGE}, 0, 0], [0, 1, 0], [0, 0, 1]]"),
            (*matrix, "--matrix", "FILE"),
        ),
        *light("matrix file, ragged", text("f.csv", "1,0,0\n0,1\n"), (*matrix, "--matrix", "FILE")),
        *heavy("items file without end", text("f.txt", "1 " * 5_000_000), items),
        *heavy("items file, 150,000 ids", text("f.txt", " ".join(numbers(150_000))), items),
        *light("items file, no ids", text("f.txt", b"\xff\x00"), items),
    ]


def _npy_header(shape: str) -> str:
    return f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"


CORPUS = [
    *_fractions(),
    *_parameters(),
    *_matrices(),
    *_domains(),
    *_numbers(),
    *_baskets(),
    *_texts(),
    *_sides(),
    *_schemas(),
    *_databases(),
    *_data(),
    *_beside(),
]
