"""SQL over sources: exact answers judged by DuckDB on the same rows, perturbed ones by repeated
perturbation.
"""

from decimal import Decimal
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.errors import DataError, EstimationError, ParameterError, QueryError, SchemaError
from sfumato.estimation.answer import Answer
from sfumato.mine.cube import cuts, query
from sfumato.mine.cube.numbers import axis_numbers
from sfumato.mine.cube.query import is_outside
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.table import Table
from sfumato.view import ColumnView

ROWS = 4000
DOMAIN = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 18, 90, cuts=(40, 60)),
        Numeric("income", 0, 99_999),
        Category("smoker", ("no", "yes")),
        Category("region", ("north", "south", "west", "east")),
        Category("grade", ("1", "2", "3"), public=True),
    )
)


def people(rows: int = ROWS, seed: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, rows)
    age = np.minimum(rng.integers(0, 60, rows) + 10 * sex, 72)
    income = np.clip(rng.normal(30_000 + 300 * age, 9_000, rows), 0, 99_999).astype(int)
    smoker = (rng.random(rows) < 0.15 + 0.2 * sex).astype(int)
    columns = (
        sex,
        age,
        income,
        smoker,
        rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1]),
        rng.integers(0, 3, rows),
    )
    return Table(DOMAIN, tuple(column.astype(np.uint32) for column in columns))


@pytest.fixture(scope="module")
def truth() -> Table:
    return people()


@pytest.fixture(scope="module")
def database(truth):
    connection = duckdb.connect()
    connection.from_arrow(truth.to_arrow()).create("t")
    return connection


def answers(source, sql, **options) -> list[tuple]:
    found = query(source, sql, **options)
    return [
        tuple(value.value if isinstance(value, Answer) else value for value in row.values())
        for row in found
    ]


def assert_same(mine: list[tuple], theirs: list[tuple], *, ordered: bool = False) -> None:
    assert len(mine) == len(theirs)
    if not ordered:
        mine, theirs = sorted(mine, key=str), sorted(theirs, key=str)
    for left, right in zip(mine, theirs, strict=True):
        for a, b in zip(left, right, strict=True):
            same = (
                a == b
                if isinstance(b, str) or b is None
                else a == pytest.approx(b, rel=1e-9, abs=1e-6)
            )
            assert same, (left, right)


QUERIES = [
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE age > 30 AND (sex = 'M' OR NOT smoker = 'yes')",
    "SELECT COUNT(*) FROM t WHERE age BETWEEN 25 AND 44 AND income >= 40000 AND region IN "
    "('north', 'west')",
    "SELECT COUNT(*) FROM t WHERE age = 50 OR age IN (51, 52) OR age <> 70 AND income < 12345",
    "SELECT COUNT(*) FROM t WHERE 30 <= age AND 60 > age AND TRUE AND 1 = 1",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT region, sex, COUNT(*) AS n, SUM(age), AVG(age) FROM t WHERE smoker = 'yes' GROUP BY "
    "region, sex",
    "SELECT sex, SUM(income), AVG(income) FROM t WHERE income < 50000 GROUP BY 1",
    "SELECT VAR_SAMP(age), VAR_POP(age), STDDEV(age), STDDEV_POP(income), STDDEV_SAMP(income) "
    "FROM t WHERE sex = 'F'",
    "SELECT COUNT(*) FILTER (WHERE smoker = 'yes') * 100.0 / COUNT(*) AS share FROM t GROUP BY sex",
    "SELECT COUNT_IF(age >= 65), SUM(CASE WHEN age < 30 THEN 2 WHEN age < 40 THEN 1 ELSE 0 END) "
    "FROM t",
    "SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'middle' ELSE 'old' END AS g, "
    "COUNT(*) FROM t GROUP BY g",
    "SELECT age >= 40 AND sex = 'M' AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT grade, AVG(CASE WHEN smoker = 'yes' THEN 1 ELSE 0 END) FROM t GROUP BY grade",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY CUBE (sex, smoker)",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY ROLLUP (sex, smoker)",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY GROUPING SETS ((sex), (smoker), ())",
    "SELECT age, COUNT(*) FROM t WHERE age BETWEEN 30 AND 33 GROUP BY age",
    "SELECT SUM(age) / COUNT(*) - AVG(age) + 2 * (3 - 1) FROM t",
    "SELECT COUNT(*) FROM t WHERE sex = 'F' AND region <> 'east' AND age < 70 AND income > 2 AND "
    "grade = '2'",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_the_truth_is_answered_as_duckdb_answers_it(truth, database, sql):
    assert_same(answers(Exact(truth), sql), database.execute(sql).fetchall())
    assert all(
        value.stderr < 1e-6
        for row in query(Exact(truth), sql)
        for value in row.values()
        if isinstance(value, Answer)
    )


ODD_DOMAIN = Domain(
    (
        *DOMAIN.attributes,
        Numeric("temp", -20, 40),
        Numeric("score", 0, 10, step=0.1),
        Numeric("big", -5000, 5000, step=0.25),
        Category("Odd Name", ("a b", "it's", 'q"uote')),
        Category("flag", ("false", "true")),
        Category("unused", ("x", "y", "z")),
        Numeric("Delta", -3, 3),
    )
)
ODD_QUERIES = [
    'SELECT COUNT(*) AS "Total People" FROM t',
    "SELECT COUNT(*) n FROM t x WHERE x.age > 40",
    "SELECT t.sex, COUNT(*) FROM t GROUP BY t.sex",
    "SELECT sex AS s, COUNT(*) FROM t GROUP BY s",
    "SELECT sex AS s, COUNT(*) FROM t GROUP BY sex",
    "SELECT COUNT(*) FROM t WHERE NOT (NOT (age > 30)) AND NOT (sex = 'M' AND NOT smoker = 'yes')",
    "SELECT COUNT(*) FROM t WHERE age BETWEEN 60 AND 30",
    "SELECT COUNT(*) FROM t WHERE age NOT BETWEEN 30 AND 60",
    "SELECT COUNT(*) FROM t WHERE age NOT IN (30, 31, 32)",
    "SELECT COUNT(*) FROM t WHERE temp > -5",
    "SELECT COUNT(*) FROM t WHERE temp BETWEEN -10 AND -5 OR temp = -20",
    "SELECT COUNT(*) FROM t WHERE temp IN (-1, -2, 0)",
    "SELECT AVG(temp), SUM(temp), VAR_POP(temp) FROM t WHERE temp < 0",
    "SELECT COUNT(*) FROM t WHERE score = 0.3",
    "SELECT COUNT(*) FROM t WHERE score < 0.7 OR score >= 9.9",
    "SELECT COUNT(*) FROM t WHERE score BETWEEN 0.25 AND 0.75",
    "SELECT AVG(score), SUM(score), STDDEV(score) FROM t WHERE score > 2.35",
    "SELECT COUNT(*) FROM t WHERE score IN (0.1, 0.2, 0.3, 1e-1)",
    "SELECT COUNT(*) FROM t WHERE big > -0.3 AND big <= 12.25",
    "SELECT SUM(big), AVG(big), VAR_SAMP(big) FROM t WHERE big BETWEEN -1000.5 AND 1e3",
    'SELECT "Odd Name", COUNT(*) FROM t GROUP BY "Odd Name"',
    "SELECT COUNT(*) FROM t WHERE \"Odd Name\" = 'it''s'",
    'SELECT COUNT(*) FROM t WHERE "Odd Name" = \'q"uote\'',
    "SELECT COUNT(*) FROM t WHERE \"odd name\" = 'a b'",
    "SELECT SEX, COUNT(*) FROM T WHERE AGE > 30 GROUP BY SEX",
    "SELECT sex, count(*) FROM t GROUP BY SEX",
    "SELECT Sex, count(*) FROM t GROUP BY sEx ORDER BY SEX",
    "SELECT DELTA, COUNT(*) FROM t GROUP BY delta ORDER BY delta DESC",
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex ORDER BY N DESC",
    "SELECT region, COUNT(*) FROM t GROUP BY region ORDER BY COUNT(*) DESC",
    "SELECT region, COUNT(*) AS n, AVG(age) AS a FROM t GROUP BY region ORDER BY a * n",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region ORDER BY -n",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region ORDER BY 2 DESC, 1",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region ORDER BY AVG(income)",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region ORDER BY SUM(age) / COUNT(*) DESC LIMIT 2",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING n > 1000",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING N > 1000 AND region <> 'west'",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING COUNT(*) BETWEEN 900 AND 1010",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING region IN ('north', 'east')",
    "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING AVG(age) > 53 OR NOT region = "
    "'east'",
    "SELECT region FROM t GROUP BY region HAVING COUNT(*) > 990 + 5",
    "SELECT COUNT(*) FILTER (WHERE age > 30) / COUNT(*) FROM t",
    "SELECT 100 * COUNT(*) FILTER (WHERE age > 30 AND sex = 'M') / COUNT(*) FILTER (WHERE sex = "
    "'M') AS percent FROM t",
    "SELECT COUNT(*) - COUNT(*) FILTER (WHERE smoker = 'no') FROM t",
    "SELECT AVG(age) FILTER (WHERE sex = 'F') - AVG(age) FILTER (WHERE sex = 'M') FROM t",
    "SELECT SUM(income) FILTER (WHERE age < 30) FROM t",
    "SELECT sex, AVG(income) FILTER (WHERE region = 'north') AS a FROM t GROUP BY sex",
    "SELECT sex, COUNT(*) FROM t WHERE sex = 'F' GROUP BY sex",
    "SELECT sex, COUNT(*) FROM t WHERE age < 18 GROUP BY sex",
    "SELECT 1, COUNT(*) FROM t",
    "SELECT 'all' AS label, COUNT(*) FROM t",
    "SELECT 1 = 1 AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT 'x' AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT sex, 'x' AS g, COUNT(*) FROM t GROUP BY sex, g",
    "SELECT sex, 2 AS two, COUNT(*) FROM t GROUP BY sex",
    "SELECT CASE WHEN age < 30 THEN 'young' END AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT SUM(CASE WHEN age < 30 THEN 1 END) FROM t",
    "SELECT AVG(CASE WHEN age < 30 THEN 1 END) FROM t",
    "SELECT AVG(CASE WHEN sex = 'M' THEN 2 WHEN age < 30 THEN 1 END) FROM t",
    "SELECT COUNT(CASE WHEN age < 30 THEN 1 END) FROM t",
    "SELECT COUNT(CASE WHEN age < 30 THEN 1 ELSE 0 END) FROM t",
    "SELECT SUM(CASE WHEN sex = 'M' THEN age ELSE 0 END) FROM t",
    "SELECT AVG(CASE WHEN sex = 'M' THEN income END) FROM t",
    "SELECT CASE sex WHEN 'M' THEN 'man' ELSE 'woman' END AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT CASE WHEN age < 30 THEN 1 WHEN age < 50 THEN 2 ELSE 3 END AS g, COUNT(*) FROM t "
    "GROUP BY g ORDER BY g",
    "SELECT flag, COUNT(*) FROM t GROUP BY flag",
    "SELECT COUNT(*) FROM t WHERE flag",
    "SELECT COUNT(*) FROM t WHERE NOT flag",
    "SELECT COUNT(*) FROM t WHERE flag = TRUE AND smoker = 'yes'",
    "SELECT COUNT(*), COUNT(*) FROM t",
    "SELECT COUNT(*) AS n, AVG(age) AS n FROM t",
    "SELECT sex, sex, COUNT(*) FROM t GROUP BY sex",
    "SELECT sex, age >= 40, COUNT(*) FROM t GROUP BY sex, age >= 40",
    "SELECT COUNT(*) FROM t -- how many",
    "SELECT /* all */ COUNT(*) FROM t WHERE age > 30 /* adults */;",
    "SELECT COUNT(*) FROM t;",
    "SELECT COUNT(*) FROM t;;",
    "select count(*) from t where age>30 and age<40",
    "SELECT COUNT(age) FROM t WHERE sex = 'M'",
    "SELECT COUNT(1) FROM t",
    "SELECT COUNT() FROM t",
    "SELECT SUM(1), AVG(2), SUM(0.5) FROM t",
    "SELECT SUM(age + 1) FROM t",
    "SELECT AVG(age * 2) FROM t",
    "SELECT AVG(income / 1000.0) FROM t WHERE sex = 'M'",
    "SELECT SUM(age) * 1.5 - 3 FROM t",
    "SELECT -COUNT(*) FROM t",
    "SELECT SUM(CAST(smoker = 'yes' AS INT)) FROM t",
    "SELECT AVG((smoker = 'yes')::INT) FROM t",
    "SELECT AVG(CAST(age AS DOUBLE)) FROM t",
    "SELECT COUNT(*) FROM t WHERE CAST(age AS INTEGER) > 40",
    "SELECT COUNT(*) FROM t WHERE age + 5 > 40",
    "SELECT COUNT(*) FROM t WHERE age > 30 + 10",
    "SELECT COUNT(*) FROM t WHERE age > 2 * 20",
    "SELECT COUNT(*) FROM t WHERE age != 40",
    "SELECT COUNT(*) FROM t WHERE sex == 'M'",
    "SELECT COUNT(*) FROM t WHERE sex IN ('M') AND sex NOT IN ('F')",
    "SELECT COUNT(*) FROM t WHERE age > 30.5 AND age < 31.5",
    "SELECT COUNT(*) FROM t WHERE age = 30.5",
    "SELECT COUNT(*) FROM t WHERE age IN (30.5, 31)",
    "SELECT COUNT(*) FROM t WHERE age <> 30.5",
    "SELECT COUNT(*) FROM t WHERE sex = 'M' OR sex = 'F'",
    "SELECT COUNT(*) FROM t WHERE sex = 'M' AND sex = 'F'",
    "SELECT COUNT(*) FROM t WHERE FALSE",
    "SELECT COUNT(*) FROM t WHERE grade = 2",
    "SELECT AVG(CAST(grade AS INT)) FROM t",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY ALL",
    "SELECT sex, COUNT(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex ORDER BY sex DESC NULLS FIRST",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY ROLLUP (sex, smoker) ORDER BY sex, smoker",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY ROLLUP (sex, smoker) ORDER BY sex DESC, smoker "
    "DESC",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY sex, ROLLUP (smoker)",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex LIMIT 0",
    "SELECT COUNT(*) FROM t HAVING COUNT(*) > 10",
    "SELECT COUNT(*) FROM t HAVING COUNT(*) < 10",
    "SELECT MEDIAN(age), QUANTILE_CONT(age, 0.25), PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY "
    "age) FROM t",
    "SELECT sex, MEDIAN(temp) FROM t GROUP BY sex",
    "SELECT MEDIAN(age) FILTER (WHERE sex = 'M') FROM t",
    "SELECT QUANTILE_DISC(age, 0.5), PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY age) FROM t",
    "SELECT PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY age DESC) FROM t",
    "SELECT age // 10 AS decade, COUNT(*) FROM t GROUP BY decade",
    "SELECT FLOOR(age / 10) * 10 AS d, COUNT(*) FROM t GROUP BY d",
    "SELECT sex, AVG(score) AS m FROM t GROUP BY sex HAVING m > 4.9 ORDER BY m",
    "SELECT score, COUNT(*) FROM t WHERE score < 0.5 GROUP BY score ORDER BY score",
    "SELECT temp < 0 AS cold, AVG(temp) FROM t GROUP BY cold ORDER BY cold",
    "SELECT NOT flag AS nf, COUNT(*) FROM t GROUP BY nf",
    "SELECT region, sex, COUNT(*) FROM t WHERE region IN ('north','south') GROUP BY 2, 1 ORDER "
    "BY 1, 2",
    "SELECT COUNT_IF(sex = 'M'), COUNT_IF(NOT sex = 'M') FROM t",
    "SELECT SUM(age) / NULLIF(COUNT(*), 0) FROM t",
    "SELECT COUNT(*) FROM main.t",
    "SELECT VARIANCE(age), STDDEV_SAMP(age) FROM t WHERE age = 30",
    "SELECT MEAN(age) FROM t",
    "SELECT COUNT(*) FROM t WHERE age ^ 2 > 4",
    "SELECT COUNT(*) FROM t WHERE 30 < age",
    "SELECT COUNT(*) FROM t WHERE 30 BETWEEN age AND 40",
    "SELECT COUNT(*) FROM t WHERE -5 <= temp",
    "SELECT IF(age < 30, 'y', 'o') AS g, COUNT(*) FROM t GROUP BY g",
    "SELECT SUM(IF(age < 30, 1, 0)) FROM t",
    "SELECT age FROM t GROUP BY age HAVING COUNT(*) > 65 ORDER BY age",
    "SELECT sex, COUNT(*) FROM t GROUP BY sex HAVING COUNT(*) > (900)",
    "SELECT sex, COUNT(*) AS c FROM t GROUP BY sex HAVING c * 2 > 3000",
    "SELECT sum(age) FROM t WHERE age >= 18 AND age <= 90",
    "SELECT sex, smoker, COUNT(*) FROM t GROUP BY CUBE (sex, smoker) HAVING COUNT(*) > 1000",
    "SELECT COUNT(CASE WHEN age < 30 THEN 'a' ELSE NULL END) FROM t",
    "SELECT SUM(CASE WHEN sex = 'M' THEN income WHEN age > 40 THEN -1 END) FROM t WHERE temp > 0",
    "SELECT AVG(CASE WHEN sex = 'M' THEN income WHEN age > 40 THEN -1 END) FROM t WHERE temp > 0",
    "SELECT AVG(CASE WHEN sex = 'M' THEN CASE WHEN age < 30 THEN 1 END ELSE 2 END) FROM t",
    "SELECT age % 3 AS r, COUNT(*) FROM t GROUP BY r",
    "SELECT ROUND(age, -1) AS r, COUNT(*) FROM t GROUP BY ALL ORDER BY r DESC",
    "SELECT FLOOR(score) AS r, AVG(score) FROM t GROUP BY FLOOR(score) ORDER BY FLOOR(score)",
    "SELECT COUNT(*) FROM t WHERE score * 10 = 7",
    "SELECT COUNT(*) FROM t WHERE 2 * (age - 10) BETWEEN 40 AND 60.5",
    "SELECT COUNT(*) FROM t WHERE temp * temp < 25",
    "SELECT AVG(temp * temp), SUM(age % 2) FROM t",
    "SELECT SUM((income - 50000) / 1000), STDDEV(income / 1000) FROM t WHERE sex = 'F'",
    "SELECT COUNT(*) FROM t WHERE (age > 40) = TRUE AND (sex = 'M') IS NOT TRUE",
    'SELECT sex AS "select", COUNT(*) FROM t GROUP BY "select" HAVING "select" <> \'M\'',
    "SELECT age, COUNT(*) FROM t WHERE age < 25 GROUP BY ROLLUP (age) HAVING age > 20 ORDER BY age",
    "SELECT age, COUNT(*) FROM t WHERE age < 25 GROUP BY ROLLUP (age) ORDER BY age DESC NULLS "
    "FIRST",
    "SELECT region AS sex, COUNT(*) FROM t GROUP BY region ORDER BY sex",
    "SELECT sex, COUNT(*) AS age FROM t GROUP BY sex ORDER BY age DESC",
    "SELECT sex, age > 40 AS old, AVG(income) FROM t GROUP BY 1, 2 HAVING old ORDER BY 3",
    "SELECT COUNT(*) FROM t GROUP BY sex ORDER BY sex",
    "SELECT COUNT(*) FROM t WHERE sex = 'M' LIMIT 1 OFFSET 0",
    "SELECT SUM(CASE WHEN flag = 'true' THEN 1.5 ELSE -2 END) / 2 FROM t",
    'SELECT "t"."age" AS a, COUNT(*) FROM "t" WHERE "t"."age" < 22 GROUP BY t.age ORDER BY a',
    "SELECT SUM(CAST(sex = 'M' AS INT)) / COUNT(*) FROM t",
    "SELECT region, COUNT(*) * 100.0 / 4000 AS pct FROM t GROUP BY region ORDER BY pct DESC "
    "LIMIT 3",
    "SELECT VAR_POP(CASE WHEN age < 30 THEN age END) FROM t",
    "SELECT STDDEV(age) / AVG(age) AS cv, sex FROM t GROUP BY sex ORDER BY sex",
]


@pytest.fixture(scope="module")
def odd() -> Table:
    rng = np.random.default_rng(1)
    sizes = [attribute.size - (attribute.name == "unused") for attribute in ODD_DOMAIN]
    return Table(ODD_DOMAIN, tuple(rng.integers(0, size, ROWS).astype(np.uint32) for size in sizes))


@pytest.fixture(scope="module")
def odd_database(odd):
    connection = duckdb.connect()
    connection.from_arrow(odd.to_arrow()).create("t")
    connection.execute("ALTER TABLE t ALTER score TYPE DECIMAL(6, 1)")
    return connection


@pytest.mark.parametrize("sql", ODD_QUERIES)
def test_odd_but_legal_questions_are_answered_as_duckdb_answers_them(odd, odd_database, sql):
    mine, theirs = answers(Exact(odd), sql), odd_database.execute(sql).fetchall()
    plain = [
        tuple(float(value) if isinstance(value, Decimal) else value for value in row)
        for row in theirs
    ]
    mine = [tuple(None if value != value else value for value in row) for row in mine]
    assert_same(mine, plain, ordered="ORDER BY" in sql and "WITHIN" not in sql)


def test_buckets_quantiles_order_and_limits(truth, database):
    sql = (
        "SELECT WIDTH_BUCKET(age, 20, 80, 3) AS b, COUNT(*) AS n FROM t GROUP BY b HAVING n > "
        "100 ORDER BY n DESC LIMIT 2"
    )
    age = DOMAIN["age"].numbers(truth.column("age"))
    bucket = np.where(age < 20, 0, np.where(age >= 80, 4, (age - 20) // 20 + 1))
    expected = sorted(
        ((int(b), int(n)) for b, n in zip(*np.unique(bucket, return_counts=True), strict=True)),
        key=lambda p: -p[1],
    )
    assert answers(Exact(truth), sql) == [(b, n) for b, n in expected if n > 100][:2]
    ordered = answers(
        Exact(truth),
        "SELECT region, COUNT(*) FROM t GROUP BY region ORDER BY region DESC LIMIT 2 OFFSET 1",
    )
    assert [row[0] for row in ordered] == ["south", "north"]
    ((median, ninth),) = answers(
        Exact(truth),
        "SELECT MEDIAN(age), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY income) FROM t",
    )
    assert median == np.median(age)
    assert ninth == pytest.approx(np.quantile(truth.column("income"), 0.9), rel=0.01)


comparisons = st.one_of(
    st.builds(
        lambda op, value: f"age {op} {value}",
        st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]),
        st.integers(18, 90),
    ),
    st.builds(
        lambda a, b: f"age BETWEEN {min(a, b)} AND {max(a, b)}",
        st.integers(18, 90),
        st.integers(18, 90),
    ),
    st.builds(lambda value: f"income >= {value}", st.integers(0, 99_999)),
    st.builds(
        lambda values: f"region IN ({', '.join(map(repr, values))})",
        st.sets(st.sampled_from(["north", "south", "west"]), min_size=1),
    ),
    st.sampled_from(["sex = 'M'", "smoker <> 'yes'", "grade = '1'"]),
)
predicates = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a} AND {b})", inner, inner),
        st.builds(lambda a, b: f"({a} OR {b})", inner, inner),
        st.builds(lambda a: f"NOT ({a})", inner),
    ),
    max_leaves=6,
)


@given(predicates)
def test_any_boolean_combination_is_counted_as_duckdb_counts_it(predicate):
    truth = people(500, seed=7)
    rows = duckdb.from_arrow(truth.to_arrow())
    sql = f"SELECT COUNT(*) FROM t WHERE {predicate}"
    assert_same(answers(Exact(truth), sql), rows.query("t", sql).fetchall())


RELEASES = {
    "retention": sf.Retention(DOMAIN, 0.6),
    "keep per column": sf.Retention(DOMAIN, (0.7, 0.5, 0.5, 0.8, 0.4)),
    "identity": sf.Retention(DOMAIN, 0.6, replace="identity"),
    "stated law": sf.Retention(DOMAIN, 0.6, replace={"sex": (3, 1), "region": (4, 3, 2, 1)}),
    "permuting": sf.Permuting(DOMAIN, 0.6),
    "combined": sf.Combined.of(
        sf.Retention(DOMAIN.project(["sex", "age", "income"]), 0.6),
        sf.GammaDiagonal(DOMAIN.project(["smoker", "region"]), 20),
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_perturbed_answers_are_the_truth_within_their_errors(truth, name):
    mechanism = RELEASES[name]
    records = people(40_000)
    release = sf.perturb(records.recode(mechanism.domain), mechanism, seeded(3))
    errors = []
    for sql in (
        "SELECT sex, COUNT(*), AVG(age), SUM(income) FROM t WHERE smoker = 'no' GROUP BY sex",
        "SELECT COUNT(*), AVG(income) FROM t WHERE age BETWEEN 30 AND 60 AND region = 'north'",
        "SELECT region, COUNT(*) FROM t WHERE income > 40000 OR age < 30 GROUP BY region",
        "SELECT STDDEV(age), MEDIAN(age) FROM t WHERE sex = 'M'",
    ):
        for mine, true in zip(query(release, sql), query(Exact(records), sql), strict=True):
            for answer, right in zip(mine.values(), true.values(), strict=True):
                if isinstance(answer, Answer):
                    assert abs(answer.value - right.value) <= 5 * answer.stderr + 0.51, (
                        sql,
                        answer,
                        right,
                    )
                    errors.append(abs(answer.value - right.value) / max(answer.stderr, 1e-9))
    assert len(errors) == 14 and np.mean(errors) < 2


def test_numbers_computed_from_perturbed_columns_are_the_truth_within_their_errors():
    records = people(40_000)
    release = sf.perturb(records, RELEASES["retention"], seeded(4))
    errors = []
    for sql in (
        "SELECT AVG(CASE WHEN sex = 'M' THEN income END), COUNT(CASE WHEN age < 40 THEN 1 END) "
        "FROM t",
        "SELECT SUM(income / 1000 - 5), AVG(CASE WHEN smoker = 'yes' THEN income WHEN age > 50 "
        "THEN 2 END) FROM t",
        "SELECT age // 20 AS g, AVG(age * 2), COUNT(*) FROM t GROUP BY g",
        "SELECT MEDIAN(age) FILTER (WHERE sex = 'F'), SQRT(VAR_POP(income)) FROM t",
    ):
        for mine, true in zip(query(release, sql), query(Exact(records), sql), strict=True):
            pairs = [
                pair
                for pair in zip(mine.values(), true.values(), strict=True)
                if isinstance(pair[0], Answer)
            ]
            errors += [(mine.value - true.value) / mine.stderr for mine, true in pairs]
    assert len(errors) == 16 and max(map(abs, errors)) < 5, errors
    assert 0.3 < np.std(errors) < 2


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(income) FROM t WHERE sex = 'M' AND age > 40",
        "SELECT STDDEV(age) FROM t",
        "SELECT MEDIAN(income) FROM t",
        "SELECT CORR(age, income) FROM t",
        "SELECT COVAR_POP(income, grade) FROM t WHERE smoker = 'no'",
        "SELECT COVAR_SAMP(age, grade) FROM t",
        "SELECT AVG(age + income) FROM t WHERE sex = 'M'",
        "SELECT SUM(age * grade) FROM t",
        "SELECT COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () FROM t GROUP BY region",
        "SELECT COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) FROM t GROUP BY sex, smoker",
        "SELECT COUNT(*) FROM t WHERE region LIKE '%o%th'",
        "WITH s AS (SELECT * FROM t WHERE smoker = 'no') SELECT AVG(age) FROM s WHERE sex = 'F'",
    ],
)
def test_errors_are_the_spread_of_repeated_perturbation(sql):
    """And the estimates lie about the truth."""
    records, rng, times = people(6000), seeded(5), 160
    (truth, *_), *_ = answers(Exact(records), sql)
    found = [
        next(iter(next(iter(query(sf.perturb(records, RELEASES["retention"], rng), sql))).values()))
        for _ in range(times)
    ]
    values = np.array([answer.value for answer in found])
    stated = np.sqrt(np.median([answer.stderr**2 for answer in found]))
    assert 0.75 < values.std() / stated < 1.25, (values.std(), stated)
    assert abs(values.mean() - truth) < 5 * values.std() / np.sqrt(times) + 0.02 * values.std()


def test_a_share_of_the_total_has_less_error_than_its_parts_would_make(truth):
    """The total of all groups is known here, and the delta method must see it."""
    release = sf.perturb(truth, RELEASES["retention"], seeded(1))
    sql = "SELECT sex, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY sex"
    for row in query(release, sql):
        assert row["s"].stderr == pytest.approx(row["n"].stderr / ROWS, rel=1e-9)
        assert row["s"].value == pytest.approx(row["n"].value / ROWS, rel=1e-9)


@pytest.mark.parametrize("output", ["STDDEV(age)", "VAR_POP(age)", "STDDEV(age) / AVG(age)"])
def test_a_spread_is_answered_in_every_draw_and_covered(output):
    """Version 0.1.0 refused STDDEV where the variance happened to be estimated below 0."""
    records, mechanism = people(8000), sf.Retention(DOMAIN, 0.08)
    sql = f"SELECT {output} AS s FROM t WHERE sex = 'M'"
    true = next(iter(query(Exact(records), sql)))["s"].value
    found = [
        next(iter(query(sf.perturb(records, mechanism, seeded(seed)), sql)))["s"]
        for seed in range(60)
    ]
    values = np.array([answer.value for answer in found])
    assert np.isfinite(values).all() and all(answer.stderr > 0 for answer in found)
    if output == "VAR_POP(age)":
        assert (values < 0).sum() > 5, "a variance is estimated below 0, and stays so"
    else:
        assert (values == 0).sum() > 5, "a deviation is not"
    inside = [low <= true <= high for low, high in (answer.interval() for answer in found)]
    assert np.mean(inside) >= 0.85


def test_em_answers_inside_the_simplex_and_says_so():
    records = people(300)
    release = sf.perturb(records, sf.Retention(DOMAIN, 0.3), seeded(2))
    sql = "SELECT sex, smoker, region, COUNT(*) FROM t GROUP BY sex, smoker, region"
    inverted, likely = query(release, sql), query(release, sql, method="em")
    assert (
        min(row["count"].value for row in inverted) < 0 <= min(row["count"].value for row in likely)
    )
    assert (inverted.method, likely.method) == ("invert", "em")
    assert sum(row["count"].value for row in likely) == pytest.approx(300)
    assert any("maximum likelihood" in note for note in inverted.notes)


def test_the_most_likely_counts_have_errors_only_where_they_are_the_inversion():
    records = people(300)
    release = sf.perturb(records, sf.Retention(DOMAIN, 0.3), seeded(2))
    sql = "SELECT sex, smoker, region, COUNT(*) FROM t GROUP BY sex, smoker, region"
    likely = query(release, sql, method="em")
    assert all(np.isnan(row["count"].stderr) for row in likely)
    assert any("no standard error" in note for note in likely.notes)
    row = likely.to_dict()["rows"][0]["count"]
    assert row["value"] >= 0 and row["stderr"] is row["low"] is row["high"] is None
    assert likely.to_arrow()["count_stderr"].null_count == len(likely)
    assert likely.rows_needed(0.1) is None
    page = likely._repr_html_()  # rounded for people only
    assert all(f">{round(row['count'].value):,}<" in page for row in likely)
    assert any(row["count"].value % 1 for row in likely)
    sql = "SELECT sex, COUNT(*), AVG(age) FROM t GROUP BY sex"
    inside, inverted = query(release, sql, method="em"), query(release, sql)
    assert min(row["count"].value for row in inverted) > 0
    for left, right in zip(inside, inverted, strict=True):
        assert left["count"] == right["count"]
    assert any("no standard error" in note for note in inside.notes)  # of the averages by age


def test_em_leaves_quantiles_to_the_inversion_and_says_so():
    release = sf.perturb(people(2000), sf.Retention(DOMAIN, 0.5), seeded(2))
    sql = "SELECT MEDIAN(income) FROM t"
    likely, inverted = query(release, sql, method="em"), query(release, sql)
    assert likely.rows == inverted.rows and any("inversion" in note for note in likely.notes)
    with pytest.raises(QueryError, match="em needs counts"):
        query(release, "SELECT AVG(income) FROM t", method="em")


def test_bins_are_asked_on_their_cuts():
    mechanism = sf.GammaDiagonal(DOMAIN.project(["sex", "age"]).binned(), 20)
    records = people(20_000)
    release = sf.perturb(records, mechanism, seeded(1))
    for sql in (
        "SELECT COUNT(*) FROM t WHERE age >= 40",
        "SELECT COUNT(*) FROM t WHERE age > 39 AND age <= 59",
    ):
        mine, true = (
            next(iter(next(iter(query(source, sql))).values()))
            for source in (release, Exact(records))
        )
        assert abs(mine.value - true.value) < 5 * mine.stderr
    with pytest.raises(DataError, match="its cuts are 40, 60"):
        query(release, "SELECT COUNT(*) FROM t WHERE age > 45")
    with pytest.raises(QueryError, match="known in bins"):
        query(release, "SELECT AVG(age) FROM t")
    assert [row["age"] for row in query(release, "SELECT age, COUNT(*) FROM t GROUP BY age")] == [
        "[18,40)",
        "[40,60)",
        "[60,90]",
    ]


@pytest.mark.parametrize("condition", ["< 90", "<= 89", "BETWEEN 18 AND 89", ">= 90", "> 89"])
def test_the_largest_number_is_not_parted_from_its_bin(condition: str) -> None:
    release = sf.perturb(
        people(500), sf.GammaDiagonal(DOMAIN.project(["sex", "age"]).binned(), 20), seeded(1)
    )
    with pytest.raises(DataError, match="its cuts are 40, 60"):
        query(release, f"SELECT COUNT(*) FROM t WHERE age {condition}")
    for wholly in ("<= 90", "BETWEEN 18 AND 90", ">= 18"):
        (row,) = query(release, f"SELECT COUNT(*) FROM t WHERE age {wholly}")
        assert row["count"].value == 500


def test_items_are_columns():
    domain = Domain((Items("items", ("10", "20", "30")),))
    dense = np.random.default_rng(0).random((5000, 3)) < [0.5, 0.3, 0.2]
    truth = Table(domain, (Bits.from_dense(dense),))
    sql = 'SELECT "10", COUNT(*) FROM t WHERE "20" AND NOT "30" GROUP BY "10"'
    exact = answers(Exact(truth), sql)
    assert exact == [
        (flag, int((dense[:, 1] & ~dense[:, 2] & (dense[:, 0] == flag)).sum()))
        for flag in (False, True)
    ]
    for row, (_, count) in zip(
        query(sf.perturb(truth, sf.BitFlip(domain, 0.9, 0.8), seeded(1)), sql), exact, strict=True
    ):
        assert abs(row["count"].value - count) < 5 * row["count"].stderr


def test_twelve_columns_need_no_large_matrix():
    domain = Domain(tuple(Category(f"c{i}", ("0", "1", "2", "3", "4")) for i in range(12)))
    rng = np.random.default_rng(0)
    truth = Table(domain, tuple(rng.integers(0, 5, 50_000).astype(np.uint8) for _ in range(12)))
    release = sf.perturb(truth, sf.Retention(domain, 0.9), seeded(1))
    where = " AND ".join(f"c{i} <> '0'" for i in range(12))
    answer = next(iter(query(release, f"SELECT COUNT(*) FROM t WHERE {where}")))["count"]
    true = np.all([column != 0 for column in truth.columns], axis=0).sum()
    assert abs(answer.value - true) < 5 * answer.stderr


@pytest.mark.parametrize(
    ("sql", "kind", "words"),
    [
        ("SELECT COUNT(* FROM t", QueryError, "does not parse at line 1"),
        ("SELECT COUNT(*) FROM t WHERE agee > 30", SchemaError, "did you mean 'age'"),
        ("SELECT agee, COUNT(*) FROM t GROUP BY agee", SchemaError, "did you mean 'age'"),
        ("SELECT COUNT(*) FROM t WHERE age > 200", DataError, "outside its domain"),
        ("SELECT COUNT(*) FROM t WHERE sex = 'X'", SchemaError, "no value 'X'"),
        ("SELECT COUNT(*) FROM t WHERE sex > 'F'", QueryError, "no order"),
        ("SELECT * FROM t", QueryError, "none to show"),
        ("SELECT age FROM t", QueryError, "none to show"),
        ("SELECT a.age FROM t a JOIN s ON a.x = s.x", QueryError, "a join"),
        ("SELECT COUNT(*) FROM (SELECT * FROM t)", QueryError, "a subquery"),
        ("WITH s AS (SELECT 1) SELECT COUNT(*) FROM s", QueryError, "WITH"),
        ("SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t", QueryError, "UNION"),
        ("SELECT MAX(age) FROM t", QueryError, "MAX"),
        ("SELECT COUNT(DISTINCT age) FROM t", QueryError, "DISTINCT"),
        ("SELECT SUM(age) OVER () FROM t", QueryError, "window"),
        ("DELETE FROM t", QueryError, "only SELECT"),
        ("SELECT sex, COUNT(*) FROM t", QueryError, "neither grouped nor aggregated"),
        ("SELECT AVG(region) FROM t", QueryError, "words"),
        ("SELECT COUNT(*) FROM t WHERE age = income", QueryError, "compared with another column"),
        ("SELECT COUNT(*) FROM t WHERE age LIKE '3%'", QueryError, "LIKE"),
        ("SELECT ROUND(AVG(age), 1) FROM t", QueryError, "rounding is for display"),
        ("SELECT CAST(AVG(age) AS INT) FROM t", QueryError, "rounding is for display"),
        ("SELECT MEDIAN(age) - AVG(age) FROM t", QueryError, "on its own"),
        ("SELECT COUNT(*) FROM t TABLESAMPLE 10%", QueryError, "a sample"),
        ("SELECT COUNT(*) FROM t QUALIFY 1", QueryError, "QUALIFY"),
        ("SELECT COUNT(*) FROM t LIMIT 10%", QueryError, "whole number"),
        ("SELECT COUNT(*) FROM t ORDER BY 7", QueryError, "names no output"),
        ("SELECT COUNT(*) FROM t GROUP BY 1.5", QueryError, "names no output"),
        ("SELECT COUNT(*) FROM t WHERE 'a' < 1", QueryError, "a word with a number"),
        ("SELECT COUNT(*) FROM t WHERE age > -'x'", QueryError, "not a number"),
        ("SELECT COUNT(*) FROM t WHERE age IS NOT NULL", QueryError, "no nulls"),
        ("SELECT COUNT(*) FROM t WHERE age = 17", DataError, "age = 17 lies outside"),
        ("SELECT SUM(income * income) FROM t", QueryError, "too many values"),
        ("SELECT COUNT(*) FROM t WHERE age + income > 3", QueryError, "not a column"),
        ("SELECT 10 / (COUNT(*) > 3) FROM t", QueryError, "not an aggregate"),
        (
            "SELECT income, COUNT(*) FROM t GROUP BY income",
            SchemaError,
            "too many for a group each",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(truth, sql, kind, words):
    with pytest.raises(kind, match=words):
        query(Exact(truth), sql)


def test_too_many_columns_for_the_rows_say_the_error(truth):
    release = sf.perturb(truth, sf.Retention(DOMAIN, 0.02), seeded(1))
    with pytest.raises(EstimationError, match="leave a standard error of"):
        query(
            release,
            "SELECT COUNT(*) FROM t WHERE sex = 'F' AND smoker = 'yes' AND region = 'north' AND "
            "age > 40 AND income > 3",
        )


def test_results_travel(truth):
    result = query(
        sf.perturb(truth, RELEASES["retention"], seeded(1)),
        "SELECT sex, COUNT(*) FROM t GROUP BY sex",
    )
    row = result.to_dict()["rows"][0]
    assert row["sex"] == "F" and row["count"]["low"] < row["count"]["value"] < row["count"]["high"]
    names = ["sex", "count", "count_stderr", "count_low", "count_high"]
    assert result.to_arrow().column_names == names
    assert list(result.to_pandas().columns) == names and len(result.to_pandas()) == 2
    assert result.to_polars().columns == names
    assert set(result.to_pandas().dtypes.astype(str)[1:]) == {"float64"}
    exact = query(Exact(truth), "SELECT sex, COUNT(*), AVG(age), SUM(age) FROM t GROUP BY sex")
    kinds = exact.to_pandas().dtypes.astype(str).to_dict()
    assert (kinds["count"], kinds["avg_age"]) == ("int64", "float64")
    html = result._repr_html_()
    assert "±" in html and "<td>F</td>" in html and html.count("<tr>") == 3
    needed = result.rows_needed(0.001)
    assert needed is not None and needed > ROWS
    with pytest.raises(ParameterError):
        result.rows_needed(2)
    with pytest.raises(ParameterError, match="did you mean 'em'"):
        query(Exact(truth), "SELECT COUNT(*) FROM t", method="emm")


def test_a_result_escapes_what_it_shows_and_keeps_every_column():
    domain = Domain((Category("<b>", ("<script>", "&")), Numeric("x", 0, 9)))
    table = Table(domain, (np.array([0, 1, 1]), np.array([1, 2, 3])))
    sql = 'SELECT "<b>", COUNT(*) AS n, AVG(x) AS n_low FROM t GROUP BY "<b>"'
    result = query(Exact(table), sql)
    assert "<script>" not in result._repr_html_() and "&lt;script&gt;" in result._repr_html_()
    names = result.to_arrow().column_names
    assert len(set(names)) == len(names) == 9 and {"n_low", "n_low_2"} <= set(names)


def test_what_is_undefined_is_null_everywhere(truth):
    sql = "SELECT SUM(income) AS s, AVG(age), STDDEV(age), CORR(age, income) FROM t WHERE FALSE"
    result = query(Exact(truth), sql)
    assert all(part is None for part in result.to_dict()["rows"][0]["s"].values())
    assert result.to_arrow()["s"].null_count == 1
    assert "–" in result._repr_html_()


def test_numbers_read_on_a_grid_that_no_one_stated_are_said_to_be():
    domain = Domain((Numeric("bmi", 12.0, 95.0), Category("sex", ("F", "M"))))
    table = Table(domain, (np.arange(500) * 100, np.zeros(500)))
    for output in ("AVG(bmi)", "MEDIAN(bmi)"):
        assert "steps of 0.001266" in query(Exact(table), f"SELECT {output} FROM t").notes[0]
    assert not query(Exact(table), "SELECT COUNT(*) FROM t WHERE bmi > 20").notes


def test_bins_and_words_that_are_numbers_are_sorted_as_numbers():
    domain = Domain((Numeric("age", 0, 200, cuts=(9, 18, 100)), Category("g", ("10", "9", "2"))))
    rng = np.random.default_rng(0)
    table = Table(domain.binned(), (rng.integers(0, 4, 900), rng.integers(0, 3, 900)))
    ages = [
        row[0]
        for row in answers(Exact(table), "SELECT age, COUNT(*) FROM t GROUP BY age ORDER BY age")
    ]
    assert ages == ["[0,9)", "[9,18)", "[18,100)", "[100,200]"]
    words = [
        row[0]
        for row in answers(Exact(table), "SELECT g, COUNT(*) FROM t GROUP BY g ORDER BY g DESC")
    ]
    assert words == ["10", "9", "2"]


def test_one_column_that_is_lost_is_called_by_its_name(truth):
    release = sf.perturb(truth, sf.Retention(DOMAIN, 1e-5), seeded(1))
    with pytest.raises(EstimationError, match="'region' alone leaves a standard error"):
        query(release, "SELECT region, COUNT(*) FROM t GROUP BY region")


@pytest.mark.parametrize(("cells", "reach"), [(1, 1.999), (64, 1.999), (128, 2.277), (6400, 3.506)])
def test_a_cell_is_outside_beyond_what_chance_explains(cells, reach):
    """Two standard errors for one cell, more for many: that of one in 64 cells beyond two."""
    for far, outside in ((reach * 0.999, False), (reach * 1.001, True)):
        value = np.full(cells, 5.0)
        value[0] = -3 * far
        evidence = SimpleNamespace(cell_variances=np.full(cells, 36.0))
        assert is_outside(SimpleNamespace(value=value, evidence=evidence, copies=2)) == outside


def test_a_group_is_called_by_its_keys_and_not_by_its_estimates():
    domain = Domain((Category("sex", ("f", "m")), Category("pet", ("cat", "dog"))))
    table = Table(domain, (np.array([0, 0, 1]), np.array([0, 1, 1])))
    sql = "SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP (sex) ORDER BY sex"
    found = query(Exact(table), sql)
    assert [found.labels_of(row) for row in found.rows] == [["f"], ["m"], ["all"]]


def test_a_text_that_was_read_is_not_read_again_and_asks_the_same(truth, monkeypatch):
    source = Exact(truth)
    first = [answers(source, sql) for sql in QUERIES]
    monkeypatch.setattr("sqlglot.parse", None)  # whoever reads a text again fails
    assert [answers(source, sql) for sql in QUERIES[-40:]] == first[-40:]


def test_a_number_grouped_by_value_says_how_a_release_groups_it(truth, database):
    found = query(Exact(truth), "SELECT age, COUNT(*) FROM t GROUP BY age")
    (note,) = found.notes
    asked = note.partition("GROUP BY ")[2]
    sql = f"SELECT {asked} AS bin, COUNT(*) FROM t GROUP BY bin"
    assert_same(answers(Exact(truth), sql), database.execute(sql).fetchall())
    assert {row[0] for row in answers(Exact(truth), sql)} == set(DOMAIN["age"].bins().labels)
    assert not query(Exact(truth), sql).notes


SECOND = ("SELECT x, COUNT(*) AS n FROM t WHERE {} GROUP BY x", ("y IN ('a', 'c')", "z <> 'q'"))


def second_questions() -> tuple[sf.Release, str, str]:
    """A release of three columns, a question, and the same with its conditions the other way
    round.
    """
    rng = np.random.default_rng(5)
    labels = {"x": "uv", "y": "abc", "z": "pqr"}
    domain = Domain(tuple(Category(name, tuple(values)) for name, values in labels.items()))
    rows = Table(domain, tuple(rng.integers(0, part.size, 3000) for part in domain))
    release = sf.perturb(rows, sf.Retention(domain, 0.6), seeded(2))
    text, parts = SECOND
    return release, text.format(" AND ".join(parts)), text.format(" AND ".join(parts[::-1]))


def test_a_second_question_in_another_order_works_nothing_out_anew(monkeypatch) -> None:
    release, first, second = second_questions()
    answer = query(release, first)
    fresh = query(second_questions()[0], second)

    def asked(*_) -> None:
        raise AssertionError("counted again")

    monkeypatch.setattr(type(release), "observe", asked)
    with pytest.raises(AssertionError, match="counted again"):
        query(release, "SELECT COUNT(*) FROM t WHERE z = 'p'")
    assert query(release, second).rows == answer.rows == fresh.rows


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4))
def test_few_codes_are_told_apart_as_many_are(seed: int, size: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.integers(0, 3, size) for _ in range(parts)]
    few = cuts._alike(tables)
    limit, cuts.FEW_CODES = cuts.FEW_CODES, 0
    try:
        many = cuts._alike(tables)
    finally:
        cuts.FEW_CODES = limit
    assert [each.tolist() for each in few] == [each.tolist() for each in many]


def test_who_asks_for_an_average_by_groups_is_sent_to_ranges():
    with pytest.raises(QueryError, match="by groups: ranges, then query --fit"):
        axis_numbers(SimpleNamespace(attribute=Bins("hours", (0, 20, 40))), [0])


def test_an_answer_is_called_by_the_share_it_is_the_quantile_of(truth):
    shares = (
        "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age)",
        "PERCENTILE_CONT(0.255) WITHIN GROUP (ORDER BY age) FILTER (WHERE sex = 'F')",
        "QUANTILE(age, 0.9)",
        "MEDIAN(age)",
        "AVG(age * 2)",
    )
    found = query(Exact(truth), f"SELECT {', '.join(shares)} FROM t")
    ends = ("cont_0.25_age", "cont_0.255_age")
    assert found.columns == (*(f"percentile_{end}" for end in ends), *found.columns[2:])
    assert found.columns[2:] == ("quantile_0.9_age", "median_age", "avg_age")


def test_only_sql_is_told_to_be_nested_too_deep(truth, monkeypatch):
    deep = f"SELECT COUNT(*) FROM t WHERE {'NOT (' * 3000}sex = 'F'{')' * 3000}"
    with pytest.raises(QueryError, match="nested too deep"):
        query(Exact(truth), deep)

    def endless(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(query.__globals__["CubeQuestion"], "result", endless)
    with pytest.raises(RecursionError):
        query(Exact(truth), "SELECT COUNT(*) FROM t")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_percentile_is_that_which_lies_between_two_numbers(share: float) -> None:
    """As other engines have it; the parser of DuckDB's SQL knows the longer name alone."""
    table = Table(Domain((Numeric("x", 0, 9),)), (np.array([1, 2, 6, 9]),))
    (row,) = query(Exact(table), f"SELECT percentile(x, {share}) AS p FROM t")
    assert row["p"].value == pytest.approx(np.quantile([1, 2, 6, 9], share))
    with pytest.raises(QueryError, match="PERCENTILE cannot be answered"):
        query(Exact(table), "SELECT PERCENTILE(x) FROM t")


def test_nobody_is_not_told_as_less_than_nobody() -> None:
    column = ColumnView("n", [-0.3], [421.0], level=0.95)
    assert (column.cells, column.interval_cells) == (["0 ± 421"], ["[-825, 825]"])


def test_a_name_that_is_given_is_kept():
    """Whatever has none gives way; a number behind a column's own name is not taken for a count of
    names: AVG(q1) twice was avg_q1 and avg_q_2.
    """
    table = Table(Domain((Numeric("q1", 0, 9),)), (np.array([1, 2, 6]),))
    result = query(Exact(table), "SELECT COUNT(*), AVG(q1), AVG(q1), SUM(q1) AS count FROM t")
    assert list(result.columns) == ["count_2", "avg_q1", "avg_q1_2", "count"]
    assert result.rows[0]["count"].value == 9 and result.rows[0]["count_2"].value == 3


def test_a_label_that_a_number_may_mean_twice_is_refused() -> None:
    domain = Domain((Category("code", ("1", "01", "2")),))
    table = Table(domain, (np.array([0, 1, 1, 2], np.uint8),))
    with pytest.raises(QueryError, match="may be '1' or '01'"):
        query(Exact(table), "SELECT COUNT(*) FROM t WHERE code = 1")
    found = query(Exact(table), "SELECT COUNT(*) AS n FROM t WHERE code = '01'")
    assert found.rows[0]["n"].value == 2


def test_a_quotient_whose_denominator_may_be_nothing_cannot_be_estimated() -> None:
    domain = Domain((Category("a", tuple("xyz")), Category("b", ("no", "yes"))))
    rng = np.random.default_rng(3)
    columns = (rng.choice(3, 400, p=[0.97, 0.02, 0.01]), rng.integers(0, 2, 400))
    table = Table(domain, tuple(column.astype(np.uint8) for column in columns))
    release = sf.perturb(table, "gamma-diagonal", gamma=9, rng=seeded(2))
    share = "COUNT(*) FILTER (WHERE b = 'yes') / COUNT(*)"
    found = query(
        release, f"SELECT a, {share} AS share, 2 * {share} - 1 AS twice FROM t GROUP BY a"
    )
    rows = {row["a"]: row for row in found.rows}
    assert np.isnan(rows["z"]["share"].value) and np.isnan(rows["z"]["twice"].value)
    low, high = rows["x"]["share"].interval()
    assert 0 <= low < rows["x"]["share"].value < high <= 1
    twice = rows["x"]["twice"].interval()
    assert twice == pytest.approx((2 * low - 1, 2 * high - 1))
    assert any("cannot be estimated: share" in note for note in found.notes)
    assert found.to_dict()["rows"][-1]["share"]["value"] is None
