"""What of SQL is understood is a list: every other node and argument is refused by name."""

import inspect

import duckdb
import numpy as np
import pytest
import sqlglot
from sqlglot import exp

from sfumato.domain import Category, Domain, Numeric
from sfumato.errors import QueryError, SfumatoError
from sfumato.estimation.answer import Answer
from sfumato.mine.cube import query
from sfumato.mine.cube.aggregates import AGGREGATES
from sfumato.mine.cube.statement import ACCEPTED, check, parse
from sfumato.release import Exact
from sfumato.table import Table

BASE = getattr(exp, "Expr", exp.Expression)  # whatever sqlglot calls it
KINDS = sorted(
    {kind for kind in vars(exp).values() if inspect.isclass(kind) and issubclass(kind, BASE)},
    key=lambda kind: kind.__name__,
)
OLD_AND_NEW = {"from", "from_", "with", "with_", "negate"}  # as some versions call them


def holding(node):
    """A statement that is understood but for this node."""
    select = sqlglot.parse_one("SELECT COUNT(*) FROM t WHERE x > 3", read="duckdb")
    select.args["where"].set("this", node)
    return select


def test_the_walk_visits_every_node_that_the_parser_can_make():
    assert len(KINDS) > 900 and set(ACCEPTED) <= set(KINDS)
    check(holding(sqlglot.parse_one("x > 3")).walk())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ACCEPTED])
def test_a_node_that_is_not_listed_is_refused(kind):
    try:
        node = kind()
    except TypeError:
        pytest.skip("a trait, of which there are no nodes")
    with pytest.raises(QueryError) as refused:
        check(holding(node).walk())
    assert "cannot be answered" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ACCEPTED, ids=lambda kind: kind.__name__)
def test_an_argument_that_is_not_listed_is_refused(kind):
    """Whatever a later parser may put there."""
    listed = set(ACCEPTED[kind])
    assert listed - OLD_AND_NEW <= set(kind.arg_types), "an argument that the parser does not know"
    for argument in {*kind.arg_types, "some_new_argument"} - listed:
        node = kind(**{argument: exp.Literal.number(1)})
        with pytest.raises(QueryError, match="cannot be answered"):
            check(holding(node).walk())
        node = kind(**{argument: True})
        with pytest.raises(QueryError, match="cannot be answered"):
            check(holding(node).walk())
    for argument in kind.arg_types:
        for empty in (None, False, []):
            if kind is not exp.Anonymous:
                check(holding(kind(**{argument: empty})).walk())


def test_every_aggregate_is_accepted_and_answered():
    source = Exact(TABLE)
    for kind, aggregate in AGGREGATES.items():
        assert kind in ACCEPTED
        arguments = {0: "n > 1" if kind is exp.CountIf else "*", 1: "n", 2: "n, x"}
        inner = arguments[aggregate.numbers]
        if aggregate.word.startswith(("PERCENTILE", "QUANTILE")):
            inner = "n, 0.3"
        word = aggregate.word.replace("PERCENTILE", "QUANTILE")
        ((value,),) = (row.values() for row in query(source, f"SELECT {word}({inner}) FROM t"))
        ((true,),) = CONNECTION.execute(f"SELECT {word}({inner}) FROM t").fetchall()
        assert value.value == pytest.approx(true, rel=1e-12) and value.stderr == 0, aggregate.word


DOMAIN = Domain(
    (
        Numeric("n", 0, 4),
        Numeric("x", 0, 1, step=0.1),
        Numeric("big", 0, 1_000_000),
        Category("sex", ("F", "M")),
        Category("a", ("u", "v", "w")),
    )
)
RNG = np.random.default_rng(0)
TABLE = Table(DOMAIN, tuple(RNG.integers(0, a.size, 400).astype(np.uint32) for a in DOMAIN))
CONNECTION = duckdb.connect()
CONNECTION.register("rows", TABLE.to_arrow())
CONNECTION.execute(
    "CREATE TABLE t AS SELECT n, x, big, sex::VARCHAR AS sex, a::VARCHAR AS a FROM rows"
)

# What version 0.1.0 misread in silence: it must be DuckDB's answer now, or refused.
ANSWERED = [
    "SELECT COUNT(*) FROM t WHERE CAST(x AS DECIMAL(3,1)) = 0.3",
    "SELECT COUNT(*) FROM t WHERE n = 1.0000000000001",
    "SELECT COUNT(*) FROM t WHERE n <> 1.0000000000001",
    "SELECT COUNT(*) FROM t WHERE n < 2.0000000000000000001",
    "SELECT a, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (a))",
    "SELECT a, COUNT(*) FROM t GROUP BY ROLLUP(a), ROLLUP(a)",
    "SELECT a, sex, COUNT(*) FROM t GROUP BY CUBE (a, sex), ROLLUP (a)",
    "SELECT SUM(n), AVG(n), VAR_POP(n), MEDIAN(n), COUNT(*), COUNT(n) FROM t WHERE n > 1 AND n < 1",
    "SELECT SUM(CASE WHEN n > 4 THEN 1 END), COUNT(CASE WHEN n > 4 THEN 1 END) FROM t",
    "SELECT sex, SUM(n) FROM t WHERE n > 1 AND n < 1 GROUP BY sex",
    "SELECT n, a, COUNT(*) FROM t WHERE big < 20000 GROUP BY n, a HAVING NOT SUM(big) > 5000",
    "SELECT a, COUNT(*) AS c FROM t WHERE n <= 0 AND big < 9000 GROUP BY a ORDER BY c, a LIMIT 1",
    "SELECT COUNT(*) FROM t WHERE (n > 2) IS NOT TRUE",
    "FROM t SELECT COUNT(*)",
    "WITH s AS (SELECT * FROM t WHERE n > 1) SELECT sex, COUNT(*) FROM s GROUP BY sex",
    "WITH s AS (SELECT n, sex FROM t WHERE a = 'u'), r AS (SELECT * FROM s WHERE n < 3) "
    "SELECT r.sex, AVG(r.n) FROM r WHERE n <> 1 GROUP BY r.sex",
    "SELECT sex, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY sex",
    "SELECT sex, a, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) FROM t GROUP BY sex, a",
    "SELECT a, SUM(n) / SUM(SUM(n)) OVER () FROM t GROUP BY a HAVING COUNT(*) > 100 ORDER BY a",
    "SELECT COUNT(*) FROM t WHERE a LIKE 'u' OR a NOT LIKE '%w%' OR a ILIKE 'V'",
    "SELECT AVG(n + big), SUM(n * x), VAR_SAMP(big - n), AVG(2 * big + x) FROM t",
    "SELECT CORR(n, big), COVAR_POP(x, big), COVAR_SAMP(n, n) FROM t",
    "SELECT sex, CORR(big + n, n) FROM t GROUP BY sex",
]


def plain(value):
    value = value.value if isinstance(value, Answer) else value
    return None if value is None or value != value else value


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_was_misread_is_answered_as_duckdb_answers_it(sql):
    mine = [tuple(map(plain, row.values())) for row in query(Exact(TABLE), sql)]
    theirs = [tuple(map(plain, row)) for row in CONNECTION.execute(sql).fetchall()]
    if "ORDER BY" not in sql:
        mine, theirs = sorted(mine, key=repr), sorted(theirs, key=repr)
    assert len(mine) == len(theirs)
    for left, right in zip(mine, theirs, strict=True):
        for a, b in zip(left, right, strict=True):
            same = (
                a == b
                if isinstance(b, str) or b is None
                else a == pytest.approx(float(b), rel=1e-11)
            )
            assert same, (left, right)


REFUSED = [
    ("SELECT COUNT(*) FROM t WHERE n > CAST(1.5 AS INT)", "changes 1.5"),
    ("SELECT COUNT(*) FROM t WHERE n = CAST(2.7 AS INTEGER)", "changes 2.7"),
    ("SELECT COUNT(*) FROM t WHERE n = CAST('2' AS INTEGER)", "changes '2'"),
    ("SELECT COUNT(*) FROM t WHERE CAST(x AS INT) = 1", "changes the values"),
    ("SELECT COUNT(*) FROM t WHERE CAST(x AS DECIMAL(3, 0)) = 1", "changes the values"),
    ("SELECT COUNT(*) FROM t WHERE CAST(x AS FLOAT) = 0.3", "changes the values"),
    ("SELECT COUNT(*) FROM t WHERE big::TINYINT = 1", "changes the values"),
    ("SELECT COUNT(*) FROM t WHERE CAST(n / 2 AS INT) = 1", "changes the values"),
    ("SELECT AVG(CAST(x AS INT)) FROM t", "changes the values"),
    ("SELECT MEDIAN(CAST(x AS INT)) FROM t", "changes the values"),
    ("SELECT COUNT(*) FROM t WHERE TRY_CAST(n AS INT) = 1", "TRY_CAST"),
    ("SELECT sex, COUNT(*) FROM t GROUP BY sex WITH ROLLUP", "WITH ROLLUP"),
    ("SELECT COUNT(*) FROM range(10)", "GENERATE_SERIES"),
    ("SELECT COUNT(*) FROM (VALUES (1), (2)) t", "VALUES"),
    ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "READ_CSV"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", "names a file"),
    ("SELECT COUNT(*) FROM 'people.parquet'", "names a file"),
    ("SELECT COUNT(*) FROM information_schema.tables", "names a file or a schema"),
    ("SELECT COUNT(*) FROM t PIVOT (COUNT(*) FOR sex IN ('M'))", "PIVOT"),
    ("SELECT COUNT(*) FROM t UNPIVOT (v FOR k IN (n, x))", "PIVOT"),
    ("SELECT COUNT(*)", "reads no table"),
    ("SELECT COUNT(*) FROM t, s", "a join"),
    ("SELECT COUNT(*) FROM t AS u(p, q)", "COLUMNS in TABLEALIAS"),
    ("SELECT COUNT(*) FROM t AS OF TIMESTAMP '2020-01-01'", "parse|cannot be answered"),
    ("SELECT COUNT(*) FROM t WHERE s.n > 1", "s.n is of no table here"),
    ("SELECT COUNT(*) FROM t u WHERE t.n > 1", "t.n is of no table here"),
    ("SELECT COUNT(*) FROM t WHERE n BETWEEN SYMMETRIC 3 AND 1", "SYMMETRIC"),
    ("SELECT COUNT(n, x) FROM t", "EXPRESSIONS in COUNT"),
    ("SELECT COUNT(DISTINCT n) FROM t", "DISTINCT"),
    ("SELECT SUM(n ORDER BY x) FROM t", "THIS in ORDER|not an aggregate|ORDER"),
    ("SELECT SUM(n) OVER (ORDER BY x) FROM t", "a window function"),
    ("SELECT SUM(n) OVER () FROM t", "a window function"),
    ("SELECT RANK() OVER (ORDER BY COUNT(*)) FROM t GROUP BY a", "a window function|RANK"),
    ("SELECT SUM(AVG(n)) OVER () FROM t GROUP BY a", "a window function"),
    ("SELECT COUNT(*) FROM t WHERE SUM(COUNT(*)) OVER () > 3", "window function"),
    ("SELECT COUNT(*) FROM t WHERE COUNT(*) > 3", "use HAVING"),
    ("SELECT AVG(SUM(n)) FROM t", "an aggregate within an aggregate"),
    ("SELECT CORR(n) FROM t", "CORR|parse"),
    ("SELECT REGR_SLOPE(n, x) FROM t", "REGR_SLOPE"),
    ("SELECT SKEWNESS(n) FROM t", "SKEWNESS"),
    ("SELECT MODE(n) FROM t", "MODE"),
    ("SELECT APPROX_QUANTILE(n, 0.5) FROM t", "APPROX_QUANTILE"),
    ("SELECT QUANTILE_CONT(n, [0.1, 0.5]) FROM t", "ARRAY"),
    ("SELECT STRING_AGG(a) FROM t", "STRING_AGG|GROUP_CONCAT"),
    ("SELECT MAD(n) FROM t", "MAD"),
    ("SELECT MEAN(n, x) FROM t", "MEAN"),
    ("SELECT COUNT(*) FROM t WHERE n IS NOT DISTINCT FROM 1", "cannot be answered"),
    ("SELECT COUNT(*) FROM t WHERE n IN (SELECT 1)", "QUERY in IN|query within a query|cannot"),
    ("SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1)", "EXISTS"),
    ("SELECT COUNT(*) FROM t WHERE a SIMILAR TO 'u'", "SIMILAR"),
    ("SELECT COUNT(*) FROM t WHERE regexp_matches(a, 'u')", "REGEXP"),
    ("SELECT COUNT(*) FROM t WHERE n LIKE '1%'", "holds none"),
    ("SELECT COUNT(*) FROM t WHERE a LIKE sex", "compared with another column"),
    ("SELECT COUNT(*) FROM t WHERE x // 2 = 0", "whole numbers only"),
    ("SELECT COUNT(*) FROM t WHERE x * 3 = 0.3", "how fractions are rounded"),
    ("SELECT COUNT(x / 0) FROM t", "neither rows, a column, nor a CASE"),
    ("SELECT COUNT(n > 1) FROM t", "COUNT_IF"),
    ("SELECT COUNT(CASE WHEN n > 1 THEN big END) FROM t", "too many values to count each"),
    ("SELECT SUM(x / 0) FROM t", "has no value"),
    ("SELECT COUNT(*) FROM t WHERE (n, a) = (1, 'u')", "not a c"),
    ("SELECT a, COUNT(*) FROM t GROUP BY a HAVING a = 1", "a word with a number"),
    ("SELECT a, COUNT(*) FROM t GROUP BY a QUALIFY COUNT(*) > 1", "QUALIFY"),
    ("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY a COLLATE nocase", "COLLATE"),
    (
        "SELECT CASE WHEN n > 1 THEN 1 ELSE 'x' END AS g, COUNT(*) FROM t GROUP BY g",
        "different types",
    ),
    ("SELECT SUM(CASE WHEN n > 1 THEN 'a' END) FROM t", "not a number"),
    ("SELECT CASE WHEN n > 1 THEN a END AS g, COUNT(*) FROM t GROUP BY g", "constants name the "
                                                                           "groups"),
    ("SELECT COUNT(*) FROM t LIMIT 1 WITH TIES", "parse|LIMIT"),
    ("SELECT TOP 3 COUNT(*) FROM t", "parse|LIMIT|column"),
    ("SELECT COUNT(*) FROM t FETCH FIRST 3 ROWS ONLY", "FETCH"),
    ("SELECT COUNT(*) FROM t FOR UPDATE", "LOCKS|LOCK"),
    ("SELECT COUNT(*) INTO s FROM t", "INTO"),
    ("SELECT /*+ HINT */ COUNT(*) FROM t WINDOW w AS (ORDER BY n)", "WINDOW"),
    (
        "WITH s AS (SELECT n, COUNT(*) AS c FROM t GROUP BY n) SELECT COUNT(*) FROM s",
        "not a filter",
    ),
    ("WITH s AS (SELECT * FROM t LIMIT 3) SELECT COUNT(*) FROM s", "not a filter"),
    ("WITH s AS (SELECT * FROM t) SELECT COUNT(*) FROM t", "not read"),
    ("WITH s AS (SELECT n FROM t) SELECT AVG(x) FROM s", "not selected by WITH"),
    (
        "WITH s AS (SELECT n FROM t), r AS (SELECT * FROM s WHERE x > 0) SELECT COUNT(*) FROM r",
        "not selected",
    ),
    ("WITH RECURSIVE s AS (SELECT * FROM t) SELECT COUNT(*) FROM s", "RECURSIVE"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "words"), REFUSED)
def test_what_is_not_understood_is_refused_by_name(sql, words):
    with pytest.raises(SfumatoError, match=words) as refused:
        query(Exact(TABLE), sql)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("columns", [12, 13])
def test_so_many_columns_may_be_cubed(columns):
    """Twelve make 4,096 groupings."""
    names = [f"c{place}" for place in range(columns)]
    sql = f"SELECT COUNT(*) FROM t GROUP BY CUBE ({', '.join(names)})"
    if columns == 12:
        assert len(parse(sql, names).sets) == 1 << 12
        return
    with pytest.raises(QueryError, match=r"CUBE of 13 columns .* at most 12"):
        parse(sql, names)
