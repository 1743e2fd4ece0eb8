"""Makes the files of tests/golden/0.2.0, which the golden net reads: truths, schemas, releases of
every mechanism, rounds, models, campaigns and stores.

    PYTHONPATH=src:. python -m tests.golden.make FOLDER

It was run once, by version 0.2.0. Never run it for that folder with later code: what the files are
for is that they do not change, whatever a seed draws by then. (`make_0_1_0.py` made those of the
version before.)
"""

from __future__ import annotations

import gzip
import os
import shlex
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

import sfumato as sf
from sfumato.bits import Bits
from sfumato.cli import app
from sfumato.collect.client import Client
from sfumato.collect.server.running import ServerSettings, serving
from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.mechanisms.item_set import ItemSet
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table, save

PEOPLE = 1200
BASKETS = 800
FRUIT = ("apple", "bread", "cheese", "dates", "eggs", "fish", "grapes", "honey")

SEX = Category("sex", ("female", "male"))
REGION = Category("region", ("north", "east", "south", "west"), public=True)
INCOME = Category("income", ("low", "middle", "high"))
SMOKER = Category("smoker", ("no", "yes"))
DIABETES = Category("diabetes", ("no", "yes"))
AGE = Numeric("age", 18, 90, cuts=(30, 45, 60, 75))
BMI = Numeric("bmi", 15.0, 50.0, cuts=(18.5, 25.0, 30.0), step=0.1)
SYSTOLIC = Numeric("systolic", 80, 220, cuts=(120, 140, 160))
SCHEMAS = {
    "people": Domain((AGE, SEX, REGION, SMOKER, BMI, DIABETES)),  # numbers beside words
    "private": Domain((AGE, SEX, SMOKER, DIABETES)),  # nothing public
    "few": Domain((SEX, INCOME, SMOKER, REGION)),  # few cells, a public column
    "tiny": Domain((SEX, INCOME, SMOKER)),
    "binned": Domain((Bins("age", (18, 30, 45, 60, 91)), SEX, INCOME, SMOKER)),
    "numbers": Domain((AGE, BMI, SYSTOLIC)),
    "number": Domain((AGE, REGION)),
    "wide": Domain((AGE, SEX, REGION, INCOME, SMOKER, BMI, SYSTOLIC, DIABETES)),
}

# What each release is: its file, and the rest of `sfumato perturb` with its seed left out.
RELEASES = {
    # records
    "gamma-diagonal": "survey.csv --schema people.toml --mechanism gamma-diagonal --gamma 19",
    "gamma-diagonal-copies": "survey.csv --schema tiny.toml --mechanism gamma-diagonal"
    " --gamma 7.5 --copies 3",
    "gamma-diagonal-ordered": "survey.csv --schema private.toml --mechanism gamma-diagonal"
    " --rho1 0.05 --rho2 0.5 --keep-order",
    "randomized-gamma": "survey.csv --schema people.toml --mechanism randomized-gamma --gamma 19"
    " --spread 0.5",
    "retention-uniform": "survey.csv --schema people.toml --mechanism retention --keep 0.4",
    "retention-identity": "survey.csv --schema people.toml --mechanism retention"
    " --keep age=0.3,sex=0.6,smoker=0.7,bmi=0.4,diabetes=0.5 --replace identity",
    "retention-promising": "survey.csv --schema private.toml --mechanism retention --gamma 50"
    " --copies 2",
    "permuting": "survey.csv --schema people.toml --mechanism permuting --keep 0.5",
    "mask-records": "survey.csv --schema few.toml --mechanism mask --keep-ones 0.8"
    " --keep-zeros 0.7",
    "mask-records-promising": "survey.csv --schema tiny.toml --mechanism mask --gamma 30",
    "cut-and-paste-records": "survey.csv --schema few.toml --mechanism cut-and-paste"
    " --cutoff 2 --insert 0.25",
    "matrix": "survey.csv --schema few.toml --mechanism matrix --matrix matrix.csv",
    "combined": "survey.csv --schema people.toml --mechanism combined --gamma 100",
    "questionnaire": "survey.csv --schema private.toml --mechanism questionnaire --gamma 19",
    "questionnaire-public": "survey.csv --schema people.toml --mechanism questionnaire"
    " --gamma 19 --questions singles:0.3,pairs:0.7",
    "questionnaire-target": "survey.csv --schema wide.toml --mechanism questionnaire --gamma 19"
    " --target diabetes",
    "questionnaire-copies": "survey.csv --schema tiny.toml --mechanism questionnaire"
    " --gamma 9 --copies 2",
    "unary": "survey.csv --schema tiny.toml --mechanism unary --gamma 9",
    "unary-public": "survey.csv --schema few.toml --mechanism unary --gamma 9",
    "subset-selection": "survey.csv --schema few.toml --mechanism subset-selection --gamma 4",
    "hadamard": "survey.csv --schema few.toml --mechanism hadamard --gamma 9",
    "hadamard-copies": "survey.csv --schema binned.toml --mechanism hadamard --gamma 9 --copies 2",
    # numbers
    "piecewise": "survey.csv --schema numbers.toml --mechanism piecewise --gamma 19",
    "square-wave": "survey.csv --schema number.toml --mechanism square-wave --gamma 19",
    "square-wave-several": "survey.csv --schema people.toml --mechanism square-wave --gamma 19",
    "ranges": "survey.csv --schema numbers.toml --mechanism ranges --gamma 19",
    "ranges-mixed": "survey.csv --schema private.toml --mechanism ranges --gamma 19",
    # baskets
    "mask": "baskets.dat --mechanism mask --keep 0.9",
    "mask-promising": "named.csv --form lines --mechanism mask --gamma 200",
    "cut-and-paste": "baskets.dat --mechanism cut-and-paste --cutoff 3 --insert 0.2",
    "fp-nfp": "baskets.dat --mechanism fp-nfp --fp 0.9 --nfp 0.8 --min-support 0.4",
    "item-set": "baskets.dat --mechanism item-set --gamma 19",
    "item-set-candidates": "named.csv --form lines --mechanism item-set --gamma 19 --cap 3"
    " --candidates candidates.txt",
    "item-set-copies": "baskets.dat --mechanism item-set --gamma 9 --copies 2",
    # rounds
    "rounds-1": "baskets.dat --round 1 --gamma 19 --find 12",
    "rounds-2": "baskets.dat --round 2 --after rounds-1.parquet",
    "rounds-3": "baskets.dat --round 3 --after rounds-1.parquet --after rounds-2.parquet",
    "ranges-1": "survey.csv --schema numbers.toml --round 1 --mechanism ranges --gamma 19",
    "ranges-2": "survey.csv --schema numbers.toml --round 2 --after ranges-1.parquet",
}
# The same in other files, and two sites for `combine`.
STORED = {
    "people.csv": "survey.csv --schema people.toml --mechanism retention --keep 0.6",
    "people.csv.gz": "survey.csv --schema people.toml --mechanism retention --keep 0.6",
    "baskets-mask.dat": "baskets.dat --mechanism mask --keep 0.9",
    "baskets-mask.csv": "baskets.dat --mechanism mask --keep 0.9",
    "site-a.parquet": "survey.csv --schema people.toml --mechanism gamma-diagonal --gamma 19",
    "site-b.parquet": "survey.csv --schema people.toml --mechanism gamma-diagonal --gamma 9",
}
TABLES = {
    "survey": "survey.csv --schema people.toml --mechanism retention --keep 0.5",
    "asked": "survey.csv --schema private.toml --mechanism questionnaire --gamma 19",
    "baskets": "baskets.dat --mechanism mask --keep 0.9",
}
MODELS = {
    "questionnaire": "questionnaire.parquet",
    "questionnaire-public": "questionnaire-public.parquet --order 2",
    "gamma-diagonal": "gamma-diagonal.parquet",
    "retention-uniform": "retention-uniform.parquet",
    "ranges": "ranges-1.parquet ranges-2.parquet",
    "ranges-mixed": "ranges-mixed.parquet",
}
# Campaigns: how each is written, and how many people answer.
CAMPAIGNS = {
    "health": ("private.toml --gamma 19", 300),
    "wave": ("number.toml --gamma 19 --mechanism square-wave", 200),
    "shop": ("shop.toml --gamma 19", 200),
}


def run(line: str) -> None:
    """One command, as typed in the folder."""
    done = CliRunner().invoke(app, shlex.split(line))
    if done.exit_code:
        raise SystemExit(f"sfumato {line}\n{done.output}")


def truths() -> None:
    """True records and baskets, their schemas, and what stands beside them."""
    run(f"generate survey --rows {PEOPLE} --seed 7 -o survey.csv")
    run("generate survey --rows 400 --seed 8 -o test.csv")
    for name, domain in SCHEMAS.items():
        domain.save(Path(f"{name}.toml"))
    Domain((Items("items", FRUIT),)).save(Path("shop.toml"))
    rng = np.random.default_rng(6)
    often = rng.random((BASKETS, 1)) < 0.4  # whoever buys much of the first half
    chances = np.where(often, [0.8, 0.7, 0.6, 0.5, 0.3, 0.2, 0.1, 0.1], [0.3] * 4 + [0.2] * 4)
    held = rng.random((BASKETS, len(FRUIT))) < chances
    held[np.arange(BASKETS), rng.integers(0, len(FRUIT), BASKETS)] = True
    lines = [np.flatnonzero(row) for row in held]
    Path("baskets.dat").write_text(
        "".join(" ".join(str(10 + i) for i in row) + "\n" for row in lines)
    )
    Path("named.csv").write_text("".join(",".join(FRUIT[i] for i in row) + "\n" for row in lines))
    Path("names.csv").write_text("".join(f"{10 + i},{name}\n" for i, name in enumerate(FRUIT)))
    Path("candidates.txt").write_text("".join(f"{name}\n" for name in FRUIT) + "apple,bread\n")
    Path("secret.txt").write_text("10 11\n12 13\n10 -> 12\n")
    Path("long.csv").write_text(
        "basket,item\n" + "".join(f"{n},{FRUIT[i]}\n" for n, row in enumerate(lines) for i in row)
    )
    matrix = rng.dirichlet(np.full(12, 2.0), 12).T * 0.4 + 0.6 * np.eye(12)
    Path("matrix.csv").write_text(
        "".join(",".join(f"{value:.17g}" for value in row) + "\n" for row in matrix)
    )
    weights = rng.integers(1, 30, PEOPLE)
    survey = sf.read("survey.csv", schema="wide.toml").to_arrow()
    pq.write_table(survey.append_column("weight", pa.array(weights)), "weighted.parquet")


def mixed() -> Release:
    """Baskets beside records, with a public column."""
    domain = Domain((SEX, Items("items", FRUIT[:4]), REGION))
    rng = np.random.default_rng(9)
    columns = (
        rng.integers(0, 2, 600).astype(np.uint8),
        Bits.from_dense(rng.random((600, 4)) < [0.2, 0.4, 0.6, 0.7]),
        rng.integers(0, 4, 600).astype(np.uint8),
    )
    table = Table(domain, columns)
    save(table, Path("mixed-truth.parquet"))
    domain.save(Path("mixed.toml"))
    return sf.perturb(table, sf.Combined.promising(sf.Guarantee(100), domain), seeded(3))


def joined() -> None:
    """Two releases of the same people, known by a public number."""
    who = Category("id", tuple(f"p{number}" for number in range(300)), public=True)
    rng = np.random.default_rng(8)
    for name, column, size in (("left", SMOKER, 2), ("right", INCOME, 3)):
        domain = Domain((who, column))
        columns = (np.arange(300, dtype=np.uint16), rng.integers(0, size, 300).astype(np.uint8))
        release = sf.perturb(Table(domain, columns), sf.Retention(domain, 0.7), seeded(size))
        release.save(Path(f"join-{name}.parquet"))


def collisions(**more: int | str | tuple[int, ...]) -> Release:
    """Baskets that report a bucket of a hash."""
    table = sf.read("named.csv", schema="shop.toml")
    return sf.perturb(
        table, ItemSet(table.domain, 9, 3, buckets=13, seeds=64, pool="golden", **more), seeded(5)
    )


def collected() -> None:
    """Campaigns, each with a store of what people answered; and one in rounds, at its last."""
    for name, (how, people) in CAMPAIGNS.items():
        run(f"campaign init {how} -o {name}.campaign.toml")
        run(f"simulate {name}.campaign.toml --people {people} --seed 4 --store {name}.db")
    run("campaign init shop.toml --gamma 19 --rounds 400 -o visits.campaign.toml")
    baskets = sf.read("named.csv", schema="shop.toml")
    settings = ServerSettings(["visits.campaign.toml"], "visits.db", port=0, limited=False)
    with serving(settings) as address:
        for number, upto in ((1, 160), (2, 280), (3, 400)):
            while Client(f"{address}/visits-campaign").survey.document["round"] != number:
                time.sleep(0.1)
            people = baskets.slice({1: 0, 2: 160, 3: 280}[number], upto)
            Client(f"{address}/visits-campaign", at_once=1000, rng=seeded(number)).send(people)
    for lock in Path().glob("*.db-*"):
        lock.unlink()


def packed(source: str, target: str) -> None:
    """A DuckDB file in a form that every DuckDB since 1.0 reads, in few bytes."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{source}' AS new (READ_ONLY)")
        connection.execute("ATTACH 'plain.duckdb' AS old (STORAGE_VERSION 'v1.0.0')")
        connection.execute("COPY FROM DATABASE new TO old")
    plain = Path("plain.duckdb")
    Path(target).write_bytes(gzip.compress(plain.read_bytes(), 9, mtime=0))
    plain.unlink()
    Path(source).unlink()


def make() -> None:
    truths()
    for number, (name, how) in enumerate(RELEASES.items()):
        order = "" if "--round" in how or "keep-order" in how else f" --order {name}.npy"
        seed = 41 if "--round" in how else number + 1
        run(f"perturb {how} --seed {seed}{order} -o {name}.parquet")
    for number, (name, how) in enumerate(STORED.items()):
        run(f"perturb {how} --seed {number + 101} -o {name}")
    for name, how in TABLES.items():
        run(f"perturb {how} --seed 8 -o duckdb://releases.duckdb#{name}")
    packed("releases.duckdb", "releases.duckdb.gz")
    joined()
    mixed().save(Path("combined-mixed.parquet"))
    collisions().save(Path("item-set-collision.parquet"))
    collisions(tiers=(4,)).save(Path("item-set-collision-tiers.parquet"))
    for name, how in MODELS.items():
        run(f"fit {how} -o {name}.model.json")
    collected()


if __name__ == "__main__":
    assert sf.__version__ == "0.2.0", sf.__version__
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    os.chdir(target)
    make()
