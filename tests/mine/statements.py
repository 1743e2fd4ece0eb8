"""Random SQL over random tables, for whoever wants to hold one engine against another.

Columns are narrow and wide, tied and skewed, numbers and number-valued categories; constants hit
values exactly more often than not. Each output comes with the SQL of its scale: how large the
numbers are that were added up on the way to it, beside which rounding is to be judged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import duckdb
import numpy as np

from sfumato.domain import Category, Domain, Numeric
from sfumato.table import Table

WORDS = ("north", "south", "no_rth", "it's", "So 100%", "São", "")
DOMAIN = Domain(
    (
        Numeric("n", -5, 20),
        Numeric("year", 1_000_000_000, 1_000_000_050),
        Numeric("wide", 0, 10**9),
        Numeric("widest", -2_000_000_000, 2_000_000_000),
        Numeric("middling", -700, 900),
        Numeric("score", 0, 10, step=0.1),
        Numeric("half", -50, 50, step=0.5),
        Category("word", WORDS),
        Category("sex", ("F", "M")),
        Category("grade", ("1", "2", "3", "10", "-4")),
        Category("flag", ("false", "true")),
        Category("unused", ("x", "y", "z")),
    )
)
NUMBERS = ("n", "year", "wide", "widest", "middling", "score", "half")
WHOLE = ("n", "year", "wide", "widest", "middling")
FEW = ("n", "year")  # numbers of few values, whose arithmetic is counted value by value
LABELS = ("word", "sex", "grade", "flag", "unused")


def random_table(rng: np.random.Generator) -> Table:
    """A few rows or none, or some hundred; numbers bunched at one end, tied, or spread."""
    rows = int(rng.choice([0, 1, 2, 3, 12, 60, 400], p=[0.03, 0.05, 0.05, 0.07, 0.2, 0.3, 0.3]))
    columns = []
    for attribute in DOMAIN:
        size = attribute.size
        shape = rng.integers(0, 5)
        if attribute.name == "unused":
            codes = rng.integers(0, 2, rows)
        elif shape == 0:  # the lowest values only
            codes = rng.integers(0, min(size, 3), rows)
        elif shape == 1:  # the highest only
            codes = size - 1 - rng.integers(0, min(size, 3), rows)
        elif shape == 2:  # far apart
            codes = np.where(rng.random(rows) < 0.5, 0, size - 1)
        elif shape == 3:  # skewed
            codes = np.minimum(rng.lognormal(2, 2.5, rows) / 1e4 * size, size - 1).astype(np.int64)
        else:
            codes = rng.integers(0, size, rows)
        columns.append(np.asarray(codes).astype(np.uint32))
    return Table(DOMAIN, tuple(columns))


def database(table: Table) -> duckdb.DuckDBPyConnection:
    """The same rows in DuckDB, categories as a CSV reader would take them: numbers where they are
    numbers, Booleans where they are true and false.
    """
    connection = duckdb.connect()
    rows = table.to_arrow()
    connection.register("rows", rows)
    words = ", ".join(
        f'CAST("{name}" AS VARCHAR) AS "{name}"' for name in ("word", "sex", "unused")
    )
    others = 'CAST(CAST("grade" AS VARCHAR) AS BIGINT) AS "grade"'
    flag = 'CAST(CAST("flag" AS VARCHAR) AS BOOLEAN) AS "flag"'
    numbers = ", ".join(NUMBERS)
    connection.execute(f"CREATE TABLE t AS SELECT {numbers}, {words}, {others}, {flag} FROM rows")
    connection.unregister("rows")
    return connection


@dataclass(frozen=True)
class Output:
    """An expression, and the SQL of the numbers beside which its rounding is judged."""

    sql: str
    scale: str = "0"


@dataclass(frozen=True)
class Statement:
    """A SELECT: its keys and outputs, and everything after them."""

    keys: tuple[str, ...]
    outputs: tuple[Output, ...]
    rest: str
    start: str = ""
    ordered: bool = False

    @property
    def sql(self) -> str:
        outputs = [*self.keys, *(output.sql for output in self.outputs)]
        return f"{self.start}SELECT {', '.join(outputs)} {self.rest}"

    @property
    def judged(self) -> str:
        """The same with the scales beside the outputs."""
        outputs = [*self.keys, *(output.sql for output in self.outputs)]
        scales = [output.scale for output in self.outputs]
        return f"{self.start}SELECT {', '.join([*outputs, *scales])} {self.rest}"


@dataclass
class Writer:
    """Writes statements about one table."""

    table: Table
    seed: int
    choice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.choice = random.Random(self.seed)

    def one(self, *options):
        return self.choice.choice(options)

    def chance(self, share: float) -> bool:
        return self.choice.random() < share

    # constants

    def value(self, name: str) -> str:
        """A number of a column: one that occurs, one of its grid, or one beside it."""
        attribute, codes = DOMAIN[name], self.table.column(name)
        code = self.choice.randrange(attribute.size)
        if len(codes) and self.chance(0.7):
            code = int(codes[self.choice.randrange(len(codes))])
        number = attribute.numbers(np.array([code]))[0].item()
        written = repr(number)
        if self.chance(0.1):
            written = repr(number + 0.5) if self.chance(0.5) else f"{number}.0000000000001"
            if "." in repr(number):
                written = repr(round(number + 0.05, 2))
        low, high = attribute.min, attribute.max
        return written if low <= float(written) <= high else repr(number)

    # conditions

    def condition(self, depth: int = 0) -> str:
        if depth < 3 and self.chance(0.35):
            left, right = self.condition(depth + 1), self.condition(depth + 1)
            return self.one(f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})")
        return self.one(self.number_test, self.number_test, self.label_test, self.derived_test)()

    def number_test(self) -> str:
        name = self.one(*NUMBERS)
        operator = self.one("=", "<>", "<", "<=", ">", ">=")
        kind = self.choice.randrange(6)
        if kind == 0:
            return f"{name} BETWEEN {self.value(name)} AND {self.value(name)}"
        if kind == 1:
            listed = ", ".join(self.value(name) for _ in range(self.choice.randint(1, 4)))
            return f"{name} {self.one('IN', 'NOT IN')} ({listed})"
        if kind == 2:
            return f"{self.value(name)} {operator} {name}"
        return f"{name} {operator} {self.value(name)}"

    def label_test(self) -> str:
        kind = self.choice.randrange(7)
        if kind == 0:
            return f"grade {self.one('=', '<>', '<', '<=', '>', '>=')} {self.one(1, 2, 3, 10, -4)}"
        if kind == 1:
            return f"grade {self.one('IN', 'NOT IN')} ({self.one(1, 2)}, {self.one(3, 10, -4)})"
        if kind == 2:
            return self.one("flag", "NOT flag", "flag = TRUE", "flag = 'true'", "flag <> 'true'")
        if kind == 3:
            pattern = self.one(
                "no%", "%th", "no_th", "_o%", "%", "", "n%h", "%100%", "S_o%", "it''s"
            )
            return f"word {self.one('LIKE', 'NOT LIKE', 'ILIKE')} '{pattern}'"
        if kind == 4:
            return self.one("word LIKE 'no#_%' ESCAPE '#'", "word LIKE '%100#%' ESCAPE '#'")
        if kind == 5:
            return f"grade BETWEEN {self.one(-4, 1, 2)} AND {self.one(1.5, 2, 3, 10)}"
        words = ", ".join("'" + w.replace("'", "''") + "'" for w in self.choice.sample(WORDS, 2))
        return self.one(
            f"word IN ({words})", f"word NOT IN ({words})", "sex = 'M'", "unused <> 'z'"
        )

    def derived_test(self) -> str:
        operator = self.one("=", "<>", "<", "<=", ">", ">=")
        if self.chance(0.15):
            return self.cast_test(operator)
        name = self.one("n", "year", "wide", "widest", "middling", "grade")
        number = self.one(0, 1, 2, 3, 7, 10, 0.5, 100, -3)
        factor = self.one(2, 3, 7, 10)
        expression = self.one(
            *(
                f"{name} + {factor}",
                f"{name} - {factor}",
                f"{name} * {factor}",
                f"{factor} - {name}",
            ),
            *(f"-{name}", f"{name} // {factor}", f"{name} / {factor}", f"ABS({name} - {factor})"),
            *(f"{name} % {factor}", f"FLOOR({name} / {factor})", f"CEIL({name} / {factor})"),
            *(f"ROUND({name} / {factor})", f"ROUND({name}, -1)", f"{name} * 0.1", f"{name} + 0.5"),
            *(f"score * {factor}", "score + 0.1", f"FLOOR(half * {factor})", f"half / {factor}"),
            *(f"CAST({name} AS BIGINT)", f"CAST({name} AS TINYINT)", "CAST(half AS DECIMAL(5,1))"),
            *("CAST(half AS DECIMAL(3,0))", f"CAST({name} AS DOUBLE) / {factor}"),
        )
        return f"{expression} {operator} {number}"

    def cast_test(self, operator: str) -> str:
        """Casts that change nothing are answered, those that round or overflow refused."""
        name, value = self.one("n", "middling", "grade"), self.one(1, 2, "1.5", "2.7", "-1.5", 300)
        return self.one(
            *(f"{name} {operator} CAST({value} AS INT)", f"{name} {operator} {value}::TINYINT"),
            *(f"CAST(score AS DECIMAL(3,1)) {operator} 0.3", f"CAST(half AS INT) {operator} 2"),
            *(
                f"CAST({name} AS DOUBLE) {operator} {value}",
                f"{name}::DECIMAL(5,1) {operator} {value}",
            ),
            *(f"{name} {operator} 1.0000000000001", f"{name} {operator} 2 * (3 - {value})"),
            *(f"{name} {operator} 7 // 2", f"{name} {operator} -7 % 4", f"{name} {operator} 9 / 2"),
        )

    # numbers of a record

    def number(self) -> str:
        kind = self.choice.randrange(8)
        name = self.one(*NUMBERS)
        few, other = self.one(*FEW), self.one("n", "year", "score", "half", "grade")
        if kind < 4:
            return name
        if kind == 4:
            return self.one(f"{name} + {other}", f"{name} - {other}", f"2 * {name} - 1", f"-{name}")
        if kind == 5:
            return self.one(
                f"{name} / 10", f"{few} * {other}", f"{few} // 3", f"ABS({few})", "grade"
            )
        if kind == 6:
            return (
                f"CASE WHEN {self.condition(2)} THEN {name} {self.one('', 'ELSE 0 ', 'ELSE n ')}END"
            )
        return f"CASE WHEN {self.condition(2)} THEN 1 WHEN {self.condition(2)} THEN 2.5 END"

    # aggregates

    def aggregate(self) -> Output:
        kind = self.choice.randrange(10)
        if kind == 0:
            return Output(self.one("COUNT(*)", f"COUNT({self.one(*NUMBERS)})", "COUNT(1)"))
        if kind == 1:
            return Output(f"COUNT_IF({self.condition(1)})")
        if kind == 2:
            return Output(f"COUNT({self.case()})")
        if kind == 3:
            x = self.number()
            return Output(f"SUM({x})", f"SUM(ABS({x}))")
        if kind == 4:
            x = self.number()
            return Output(f"AVG({x})", f"AVG(ABS({x}))")
        if kind in (5, 6):
            return self.spread()
        if kind == 7:
            return self.pair()
        return self.quantile()

    def case(self) -> str:
        return f"CASE WHEN {self.condition(2)} THEN {self.one('1', chr(39) + 'a' + chr(39))} END"

    def spread(self) -> Output:
        word, x = (
            self.one("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "STDDEV"),
            self.number(),
        )
        rounding = f"AVG(ABS({x})) * STDDEV_POP({x}) * 1e-3"
        if word.startswith("VAR"):
            return Output(f"{word}({x})", f"{word}({x}) + {rounding}")
        return Output(f"{word}({x})", f"{word}({x}) + AVG(ABS({x})) * 1e-3")

    def pair(self) -> Output:
        x, y = self.one(*NUMBERS), self.one("n", "year", "score", "half", "middling", "grade")
        word = self.one("COVAR_POP", "COVAR_SAMP", "CORR")
        spreads = f"STDDEV_POP({x}) * STDDEV_POP({y})"
        rounding = f"(AVG(ABS({x})) * STDDEV_POP({y}) + AVG(ABS({y})) * STDDEV_POP({x})) * 1e-3"
        if word == "CORR":
            return Output(f"CORR({x}, {y})", f"10 + {rounding} / ({spreads})")
        return Output(f"{word}({x}, {y})", f"{spreads} * 3 + {rounding}")

    def quantile(self) -> Output:
        x, share = self.one(*NUMBERS), self.one(0.5, 0.25, 0.1, 0.9, 0.99, 0.333, 1 / 3, 0.75)
        order = self.one("", " DESC")
        sql = self.one(
            *(f"MEDIAN({x})", f"QUANTILE_CONT({x}, {share})", f"QUANTILE_DISC({x}, {share})"),
            *(f"QUANTILE({x}, {share})",),
            f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {x}{order})",
            f"PERCENTILE_DISC({share}) WITHIN GROUP (ORDER BY {x}{order})",
        )
        return Output(sql, f"AVG(ABS({x}))")

    def output(self) -> Output:
        kind = self.choice.randrange(10)
        first = self.aggregate()
        if kind == 0 and "GROUP (" not in first.sql:
            where = self.condition(2)
            scale = "0" if first.scale == "0" else "SUM(ABS(n)) + SUM(ABS(wide)) + SUM(ABS(widest))"
            if "SUM(" in first.sql or "COUNT" in first.sql:
                return Output(f"{first.sql} FILTER (WHERE {where})", scale)
        if kind == 1:
            x = self.one(*FEW)
            return Output(
                f"SUM({x}) {self.one('+', '-')} {self.one(2, 0.5)} * COUNT(*)",
                f"SUM(ABS({x})) + COUNT(*)",
            )
        if kind == 2:
            x = self.one(*NUMBERS)
            return Output(f"SUM({x}) / NULLIF(COUNT(*), 0)", f"AVG(ABS({x}))")
        return first

    # statements

    def keys(self) -> tuple[str, ...]:
        options = (
            *LABELS, "n", "year", "n // 4", "n % 3", "n > 3", "sex = 'M' AND n > 0", "ROUND(n, -1)",
            "CASE WHEN n < 2 THEN 'low' WHEN n < 9 THEN 'mid' ELSE 'high' END",
            "CASE WHEN wide < 5 THEN 1 END", "CASE sex WHEN 'M' THEN 'man' ELSE 'woman' END",
            "wide // 100000000", "grade + 1", "FLOOR(middling / 500)",
        )  # fmt: skip
        return tuple(
            dict.fromkeys(self.choice.sample(options, self.choice.choice((1, 1, 1, 2, 2))))
        )

    def grouping(self, keys: tuple[str, ...]) -> str:
        listed = ", ".join(keys)
        if self.chance(0.7) or ">" in listed or "=" in listed:
            return f"GROUP BY {listed}"
        sets = ", ".join(f"({key})" for key in keys)
        return self.one(
            *(f"GROUP BY ROLLUP ({listed})", f"GROUP BY CUBE ({listed})"),
            f"GROUP BY GROUPING SETS ({sets}, ())",
            f"GROUP BY GROUPING SETS ({sets}, {sets})",
        )

    def statement(self) -> Statement:
        where = f" WHERE {self.condition()}" if self.chance(0.6) else ""
        source, start = f"FROM t{where}", ""
        if where and self.chance(0.1):
            source, start = "FROM s", f"WITH s AS (SELECT * FROM t{where}) "
        outputs = [self.output() for _ in range(self.choice.choice((1, 1, 2, 3)))]
        if self.chance(0.4):
            return Statement((), tuple(outputs), source, start)
        keys = self.keys()
        if self.chance(0.2):
            outputs.append(self.share(keys))
        rest = f"{source} {self.grouping(keys)}"
        if self.chance(0.25):
            rest += f" HAVING {self.having()}"
        ordered = "GROUP BY ROLLUP" not in rest and self.chance(0.2)
        if ordered and "CUBE" not in rest and "SETS" not in rest and "CASE" not in rest:
            order = ", ".join(f"{key} {self.one('', 'DESC')}" for key in keys)
            rest += f" ORDER BY {order} LIMIT {self.choice.randrange(6)}"
            return Statement(keys, tuple(outputs), rest, start, ordered=True)
        return Statement(keys, tuple(outputs), rest, start)

    def share(self, keys: tuple[str, ...]) -> Output:
        over = self.one("", f"PARTITION BY {keys[0]}")
        summed = self.one("COUNT(*)", "SUM(n + 6)", "COUNT(*) FILTER (WHERE n > 2)")
        return Output(f"{summed} * 100.0 / NULLIF(SUM({summed}) OVER ({over}), 0)", "100")

    def having(self) -> str:
        return self.one(
            f"COUNT(*) {self.one('>', '<=', '=', '<>')} {self.choice.randrange(9)}",
            f"NOT SUM(n) > {self.choice.randrange(40)}",
            f"AVG(n) BETWEEN {self.choice.randrange(-5, 8)} AND 9",
            "VAR_SAMP(n) > 3 OR COUNT(*) IN (1, 2)",
            f"MEDIAN(n) >= {self.choice.randrange(-5, 12)} AND COUNT(*) < 90",
            "NOT (SUM(n) > 3 AND SUM(CASE WHEN n < 0 THEN 1 END) > 2)",
        )
