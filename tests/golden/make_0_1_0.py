"""Makes the golden files: releases of every mechanism in every store, and what was answered then.

Run with the code of version 0.1.0 first on the path and its tests importable, from its folder:

    PYTHONPATH=src:. python FOLDER/tests/golden/make_0_1_0.py FOLDER/tests/golden/0.1.0

Never run it with later code: what the files are for is that they do not change.
"""

# ruff: noqa: I001  (the modules of 0.1.0 are not those of today)
from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.privacy.ledger import Ledger
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table, save
from tests.mechanisms.examples import EXAMPLES

ROWS = 240
PEOPLE = Domain(
    (
        Category("sex", ("F", "M", "it's")),
        Numeric("age", 20, 79, cuts=(40, 60)),
        Numeric("wage", 0.0, 50.0, step=0.25, cuts=(10, 30)),
        Category("région", ("north", "south"), public=True),
    )
)
IDS = Domain((Items("items", ("1", "20", "300", "4000")),))
QUERY = "SELECT sex, COUNT(*), AVG(age) FROM t WHERE wage < 30 GROUP BY sex"


def answers(release: Release) -> dict[str, object]:
    """What a release says of its columns, of pairs of them and of itemsets."""
    axes = [axis.name for axis in release.domain.axes]
    asked = [[axis] for axis in axes] + [axes[:2]] * (len(axes) > 1)
    marginals = []
    for columns in asked:
        found = release.marginal(columns)
        value, error = np.ravel(found.value).tolist(), np.ravel(found.stderr).tolist()
        marginals.append({"columns": columns, "value": value, "stderr": error})
    itemsets = sf.frequent_itemsets(release, min_support=0.2, max_length=2)
    listed = zip(itemsets.items, itemsets.support, itemsets.stderr, strict=True)
    told = {
        "rows": release.rows,
        "copies": release.copies,
        "secure": release.provenance.secure,
        "gamma": str(release.provenance.guarantee.gamma),
        "marginals": marginals,
        "itemsets": [[list(items), float(s), float(e)] for items, s, e in listed],
    }
    if "wage" in release.domain:
        lines = sf.query(release, QUERY).rows
        told["query"] = [
            [
                line["sex"],
                *(x for n in ("count", "avg_age") for x in (line[n].value, line[n].stderr)),
            ]
            for line in lines
        ]
    return told


def mechanisms(folder: Path) -> dict[str, object]:
    """One Parquet file a mechanism, and one of three reports a record."""
    told: dict[str, object] = {}
    for example in EXAMPLES:
        table = Table(example.mechanism.domain, example.records(ROWS))
        copies = 3 if example.name == "gamma-diagonal" else 1
        release = sf.perturb(table, example.mechanism, seeded(3), copies=copies)
        name = example.name.replace(", ", "-").replace(" ", "-") + ".parquet"
        release.save(folder / name)
        told[name] = answers(release)
    return told


def people() -> Release:
    rng = np.random.default_rng(5)
    columns = tuple(rng.integers(0, attribute.size, ROWS) for attribute in PEOPLE)
    return sf.perturb(Table(PEOPLE, columns), sf.Retention(PEOPLE, 0.6), seeded(4))


def baskets() -> Release:
    rng = np.random.default_rng(6)
    bits = Bits.from_dense(rng.random((ROWS, 4)) < np.linspace(0.2, 0.7, 4))
    return sf.perturb(Table(IDS, (bits,)), sf.BitFlip(IDS, 0.9, 0.8), seeded(5))


def stores(folder: Path) -> dict[str, object]:
    """The same two releases in every store."""
    from sfumato.engine import save_release

    told: dict[str, object] = {"people": answers(people()), "baskets": answers(baskets())}
    for name in ("people.csv", "people.csv.gz", "people.parquet"):
        people().save(folder / name)
    for name in ("baskets.dat", "baskets.dat.gz", "baskets.csv", "baskets.parquet"):
        baskets().save(folder / name)
    with tempfile.TemporaryDirectory() as temporary:
        database, plain = Path(temporary, "releases.db"), Path(temporary, "plain.db")
        for name, release in (("people", people()), ("baskets", baskets())):
            save_release(release, f"duckdb://{database}#{name}")
        with duckdb.connect() as connection:  # in a form that every DuckDB since 1.0 reads
            connection.execute(f"ATTACH '{database}' AS new (READ_ONLY)")
            connection.execute(f"ATTACH '{plain}' AS old (STORAGE_VERSION 'v1.0.0')")
            connection.execute("COPY FROM DATABASE new TO old")
        with (
            plain.open("rb") as raw,
            gzip.GzipFile(folder / "releases.db.gz", "wb", 9, mtime=0) as out,
        ):
            shutil.copyfileobj(raw, out)
    (folder / "releases.sql").write_text(postgres_script(), encoding="utf-8")
    return told


def postgres_script() -> str:
    """The statements that make a PostgreSQL database as 0.1.0 left it."""
    import pgserver
    import psycopg
    from psycopg import sql

    from sfumato.engine import save_release

    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        server = pgserver.get_server(temporary, cleanup_mode="stop")
        for name, release in (("people", people()), ("baskets", baskets())):
            save_release(release, f"{server.get_uri()}#{name}")
        with psycopg.connect(server.get_uri()) as connection:
            for table in ("people", "baskets", "sfumato_release"):
                columns = connection.execute(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                    " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
                    [table],
                ).fetchall()
                kinds = ", ".join(f'"{name}" {kind}' for name, kind in columns)
                lines.append(f'CREATE TABLE "{table}" ({kinds});')
                for row in connection.execute(f'SELECT * FROM "{table}"').fetchall():
                    values = ", ".join(sql.Literal(value).as_string(connection) for value in row)
                    lines.append(f'INSERT INTO "{table}" VALUES ({values});')
        server.cleanup()
    return "\n".join(lines) + "\n"


def spark_folder(folder: Path) -> dict[str, object]:
    """A folder of parts, as Spark wrote it."""
    from sfumato.release import open as open_release
    from sfumato.spark import perturb_with_spark, spark_session

    session = spark_session("local[2]", {"spark.driver.memory": "1g"})
    with tempfile.TemporaryDirectory() as temporary:
        rng = np.random.default_rng(5)
        table = Table(PEOPLE, tuple(rng.integers(0, attribute.size, ROWS) for attribute in PEOPLE))
        truth = Path(temporary, "truth")
        truth.mkdir()
        for place in range(2):
            save(
                table.slice(place * ROWS // 2, (place + 1) * ROWS // 2),
                truth / f"part-{place}.parquet",
            )
        target = folder / "people-by-spark.parquet"
        perturb_with_spark(session, str(truth), str(target), sf.Retention(PEOPLE, 0.6), seeded(4))
    session.stop()
    for path in target.glob(".*.crc"):
        path.unlink()
    return {"people-by-spark.parquet": answers(open_release(target))}


def ledger(folder: Path) -> dict[str, object]:
    """A ledger with a budget and three entries, one of which has its report."""
    kept = Ledger(folder / "ledger.json", sf.Guarantee(19))
    kept.charge("ann", "spring", sf.Guarantee(3), ["age", "sex"])
    kept.charge("bob", "spring", sf.Guarantee(2))
    kept.answer("ann", "autumn", sf.Guarantee(2), lambda: {"sex": "F"}, ["sex"])
    (folder / "ledger.json.lock").unlink(missing_ok=True)
    account = kept.account
    return {
        "budget": account.budget,
        "spent": {key: account.spent(key) for key in ("ann", "bob")},
        "left": {key: account.left(key) for key in ("ann", "bob")},
        "report": {"sex": "F"},
    }


if __name__ == "__main__":
    assert sf.__version__ == "0.1.0", sf.__version__
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    found = {
        "mechanisms": mechanisms(target),
        "stores": stores(target),
        "folders": spark_folder(target),
        "ledger": ledger(target),
    }
    (target / "answers.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
