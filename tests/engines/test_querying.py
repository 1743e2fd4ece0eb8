"""The same SQL, the same answers, wherever the rows of a release are."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain, Numeric
from sfumato.engines import open_source, save_release
from sfumato.mine.cube import query
from sfumato.randomness import seeded
from sfumato.table import Table

DOMAIN = Domain(
    (
        Numeric("wide", -(10**6), 10**9, public=True),
        Numeric("balance", -8019, 102_127),
        Numeric("age", 18, 95),
        Category("sex", ("F", "M")),
        Category("town", ("Aachen", "Bonn", "Köln"), public=True),
    )
)
SQL = [
    "SELECT VAR_POP(wide) AS v, SUM(wide) AS s, MEDIAN(wide) AS m, STDDEV(wide) AS d FROM t",
    "SELECT town, VAR_SAMP(wide), AVG(wide), PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY wide) "
    "FROM t WHERE town LIKE '%n' GROUP BY town",
    "SELECT sex, MEDIAN(balance), AVG(balance), STDDEV(balance) FROM t GROUP BY sex",
    "SELECT CORR(age, balance), COVAR_POP(age, age), AVG(age + balance) FROM t WHERE sex = 'M'",
    "SELECT town, COUNT(*) / SUM(COUNT(*)) OVER () FROM t WHERE age > 30 GROUP BY town",
    "SELECT town, AVG(wide) FROM t WHERE sex = 'F' GROUP BY ROLLUP (town)",
]


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(2)
    rows = 3000
    town = rng.integers(0, 3, rows)
    wide = np.where(town == 2, 10**9 - rng.integers(0, 3, rows), rng.integers(0, 5, rows)) + 10**6
    balance = np.clip(rng.lognormal(7, 1.5, rows), 0, 110_146)
    columns = (np.minimum(wide, 10**9 + 10**6), balance, rng.integers(0, 78, rows))
    columns = (*columns, rng.integers(0, 2, rows), town)
    table = Table(DOMAIN, tuple(np.asarray(column).astype(np.uint32) for column in columns))
    return sf.perturb(table, sf.Retention(DOMAIN, 0.6), seeded(3))


@pytest.fixture(scope="module", params=["duckdb", "postgresql", "sqlite", "parquet"])
def engine(request, release, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cube")
    if request.param == "parquet":
        release.save(folder / "release.parquet")
        return open_source(folder / "release.parquet")
    base = f"{request.param}://{folder}/r.db"
    if request.param == "postgresql":
        base = request.getfixturevalue("postgres")
    save_release(release, f"{base}#cube", force=True)
    return open_source(f"{base}#cube")


@pytest.mark.parametrize("sql", SQL)
def test_every_engine_answers_as_the_memory_does(sql, release, engine):
    for mine, true in zip(query(engine, sql), query(release, sql), strict=True):
        for left, right in zip(mine.values(), true.values(), strict=True):
            if isinstance(right, str) or right is None:
                assert left == right
                continue
            assert left.value == pytest.approx(right.value, rel=1e-9)
            assert left.stderr == pytest.approx(right.stderr, rel=1e-6, abs=1e-9)
            assert left.interval() == pytest.approx(right.interval(), rel=1e-6)
