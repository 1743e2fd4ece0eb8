"""Every answer to a random statement about true records is DuckDB's, or the statement
is refused.
"""

import operator
import sys
from collections import Counter
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.mine.statements import Statement, Writer, database, random_table

from sfumato.domain import Category, Domain
from sfumato.errors import QueryError, SfumatoError
from sfumato.estimation.answer import Answer
from sfumato.estimation.quantiles import Wanted
from sfumato.mine.cube import cuts, numbers, query
from sfumato.mine.cube.sheet import Sheet, Sums
from sfumato.release import Exact
from sfumato.table import Table

ROUNDING = 1e-11  # beside the numbers that were added up


@dataclass
class Verdict:
    """How many statements were answered alike or refused, and every one that was not."""

    alike: int = 0
    refused: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def plain(value):
    """A value as both sides have it: NULL for what has none, and the number of a label that is
    one.
    """
    if isinstance(value, Answer):
        value = value.value
    if value is None or value != value:
        return None
    if value in ("true", "false"):
        return value == "true"
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value if isinstance(value, bool) else float(value)


def order_of(row, keys: int):
    return [(value is not None, str(value)) for value in row[:keys]] + [
        (value is not None, round(value, 6) if isinstance(value, float) else 0.0)
        for value in row[keys:]
    ]


def same(mine, theirs, scale) -> bool:
    if not isinstance(mine, float) or not isinstance(theirs, float):
        return mine == theirs and type(mine) is type(theirs)
    scale = 0.0 if scale is None or not np.isfinite(scale) else abs(scale)
    return abs(mine - theirs) <= ROUNDING * scale + 1e-12 * abs(theirs)


def compared(statement: Statement, exact: Exact, judge: duckdb.DuckDBPyConnection) -> str | None:
    """What is wrong with our answer; None if nothing is."""
    found = query(exact, statement.sql)
    mine = [tuple(map(plain, row.values())) for row in found]
    keys, outputs = len(statement.keys), len(statement.keys) + len(statement.outputs)
    try:
        rows = [tuple(map(plain, row)) for row in judge.execute(statement.judged).fetchall()]
    except duckdb.Error as error:
        return f"we answer {mine[:3]}, DuckDB says {str(error).splitlines()[0]}"
    theirs, scales = [row[:outputs] for row in rows], [row[outputs:] for row in rows]
    if len(mine) != len(theirs):
        return f"{len(mine)} rows for {len(theirs)}"
    if not statement.ordered:
        mine = sorted(mine, key=lambda row: order_of(row, keys))
        order = sorted(range(len(theirs)), key=lambda place: order_of(theirs[place], keys))
        theirs, scales = [theirs[place] for place in order], [scales[place] for place in order]
    for left, right, scale in zip(mine, theirs, scales, strict=True):
        sizes = (*(None,) * keys, *scale)
        if not all(same(*each) for each in zip(left, right, sizes, strict=True)):
            return f"{left} for {right}"
    answers = [value for row in found for value in row.values() if isinstance(value, Answer)]
    if any(answer.stderr != 0 for answer in answers if plain(answer) is not None):
        return "an exact answer has an error"
    return None


def judged(tables: int, statements: int, seed: int = 0, *, all_of_them: bool = True) -> Verdict:
    """Random statements about random tables, ours beside DuckDB's; all of them, or up to the first
    that is answered otherwise.
    """
    verdict, rng = Verdict(), np.random.default_rng(seed)
    for number in range(tables):
        table = random_table(rng)
        exact, judge, writer = Exact(table), database(table), Writer(table, 1000 * seed + number)
        for _ in range(statements):
            statement = writer.statement()
            try:
                fault = compared(statement, exact, judge)
            except SfumatoError as error:
                verdict.refused[str(error)] += 1
                continue
            if fault is None:
                verdict.alike += 1
                continue
            verdict.wrong.append(f"{statement.sql}\n    {fault}")
            if not all_of_them:
                return verdict
        judge.close()
    return verdict


@pytest.mark.parametrize("seed", range(3))
def test_random_statements_are_answered_as_duckdb_answers_them_or_refused(seed):
    verdict = judged(tables=10, statements=75, seed=seed)
    assert not verdict.wrong, "\n".join(verdict.wrong)
    assert verdict.alike > 650, verdict.refused.most_common(20)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 15))
def test_many_more_random_statements(seed):
    verdict = judged(tables=60, statements=75, seed=seed)
    assert not verdict.wrong, "\n".join(verdict.wrong)
    assert verdict.alike > 3900, verdict.refused.most_common(20)


def lower_rank(wanted, records):
    first, _, part = RANKS(wanted, records)
    return first, first, part


def to_even(terms, digits):
    return terms.mapped(lambda values: np.round(values, int(digits)), terms.kind)


RANKS = Wanted.ranks
module = sys.modules["sfumato.mine.cube.query"]
PLANTED = {
    "<= for <": (cuts, "HOLDS", {**cuts.HOLDS, "<": operator.le}),
    "sums about 0": (Sums, "_centres", property(lambda self: [0.0, 0.0])),
    "the lower of two middle records": (Wanted, "ranks", lower_rank),
    "empty groups are listed": (Sheet, "is_nobody", lambda *_: False),
    "a sum over nothing is 0": (Sums, "nobody", False),
    "unknown is true": (module, "_negated", lambda truth: not truth),
    "halves are rounded to even": (numbers, "_rounded", to_even),
    "casts are dropped": (numbers, "keeps", lambda *_: True),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_differential_test_finds_a_planted_bug(name, monkeypatch):
    """It can fail: each of these small changes is seen within a few hundred statements."""
    monkeypatch.setattr(*PLANTED[name])
    seeds = (
        judged(tables=4, statements=40, seed=seed, all_of_them=False) for seed in range(90, 96)
    )
    assert any(verdict.wrong for verdict in seeds)


CODES = ("1", "01", "2", "3", "02", "-1")


@pytest.mark.parametrize(
    "where",
    [
        *("code = 3", "code = '1'", "code = '01'", "code <> 3", "code = 3.0", "code = 03"),
        *("code IN (3, -1)", "code IN ('1', '02')", "code NOT IN (3)", "code = -1"),
        *("3 = code", "NOT code = 3"),
    ],
)
def test_codes_are_compared_as_duckdb_compares_words_with_numbers(where):
    """A number takes the value that is written so, or in another way; a quoted word itself."""
    values = [code for place, code in enumerate(CODES, 1) for _ in range(place)]
    exact = Exact(Table.from_arrow(pa.table({"code": values}), Domain((Category("code", CODES),))))
    judge = duckdb.connect()
    judge.register("t", pa.table({"code": pa.array(values, pa.string())}))
    sql = f"SELECT COUNT(*) AS n FROM t WHERE {where}"
    ((wanted,),) = judge.execute(sql).fetchall()
    assert query(exact, sql).rows[0]["n"].value == wanted


@pytest.mark.parametrize("where", ["code = 1", "code <> 1", "code IN (1, 2)", "NOT code = 2"])
def test_a_number_that_is_written_in_two_ways_is_refused(where):
    exact = Exact(Table.from_arrow(pa.table({"code": CODES}), Domain((Category("code", CODES),))))
    with pytest.raises(QueryError, match=r"may be '\d' or '0\d'"):
        query(exact, f"SELECT COUNT(*) AS n FROM t WHERE {where}")
