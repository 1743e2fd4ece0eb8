"""A release answers the same wherever its rows are."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import duckdb
import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Cells, Domain, Items, Numeric
from sfumato.engines import open_source, save_release
from sfumato.engines.opening import DATABASES
from sfumato.errors import DataError, FileError, ParameterError, SfumatoError
from sfumato.mechanisms.base import Mechanism
from sfumato.randomness import seeded
from sfumato.release import Exact, Release
from sfumato.table import Table

ROWS = 4000
RECORDS = Domain(
    (
        Category("sex; DROP", ("F", "M", "it's")),
        Numeric("age", 20, 79, cuts=(40, 60)),
        Numeric("wage", 0.0, 50.0, step=0.25, cuts=(10, 30)),
        Category("smoker", ("no", "yes")),
        Category("région", ("north", "south", "west"), public=True),
    )
)
BASKETS = Domain((Items("items", ("tea", "o'milk", 'say "hi"', "a\\b", "salt", "{x,y}")),))
IDS = Domain((Items("items", ("1", "20", "300", "4000")),))
SMALL = RECORDS.project(["sex; DROP", "age", "smoker", "région"]).binned()
STOCHASTIC = 0.6 * np.eye(18) + 0.4 * np.random.default_rng(4).dirichlet(np.ones(18), 18).T


def records(domain: Domain, rows: int = ROWS) -> Table:
    rng = np.random.default_rng(1)
    return Table(
        domain,
        tuple(
            Bits.from_dense(
                rng.random((rows, attribute.size)) < np.linspace(0.1, 0.5, attribute.size)
            )
            if isinstance(attribute, Items)
            else rng.integers(0, attribute.size, rows)
            for attribute in domain
        ),
    )


MECHANISMS = {
    "retention": sf.Retention(RECORDS, (0.5, 0.4, 0.3, 0.6)),
    "retention, identity": sf.Retention(RECORDS, 0.5, replace="identity"),
    "permuting": sf.Permuting(RECORDS, 0.5),
    "gamma-diagonal": sf.GammaDiagonal(SMALL, 30),
    "matrix": sf.UserMatrix(SMALL, STOCHASTIC),
    "combined": sf.Combined.promising(sf.Guarantee(40), SMALL),
    "mask": sf.BitFlip(BASKETS, 0.9, 0.8),
    "mask, numbered items": sf.BitFlip(IDS, 0.9, 0.8),
}
PLACES = ("parquet", "csv", "csv.gz", "duckdb", "postgresql", "sqlite")


@pytest.fixture(scope="module")
def releases() -> dict[str, Release]:
    """One release for every mechanism, two copies a record for one of them."""
    return {
        name: sf.perturb(
            records(mechanism.domain), mechanism, seeded(3), copies=2 if name == "combined" else 1
        )
        for name, mechanism in MECHANISMS.items()
    }


@pytest.fixture(scope="module")
def opened(
    releases: dict[str, Release],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Callable[[str, str], Release]:
    folder, numbers = tmp_path_factory.mktemp("engines"), count()

    def source(name: str, place: str) -> Release:
        if place in DATABASES:
            base = f"{place}://{folder / f'{next(numbers)}.db'}"
            if place == "postgresql":
                base = request.getfixturevalue("postgres")
            url = f"{base}#re%20lease '{name}'"
            save_release(releases[name], url, force=True)
            found = open_source(url)
        else:
            path = folder / f"{name}.{place}"
            releases[name].save(path, force=True)
            found = open_source(path)
        assert isinstance(found, Release)
        return found

    return source


def questions(domain: Domain) -> list[list[str | Cells]]:
    """Default cells, cuts and lists of the columns that this domain has."""
    axes = [axis.name for axis in domain.axes]
    asked: list[list[str | Cells]] = [[axes[0]], axes[:2], axes[-1:] + axes[:1], axes[:3]]
    if "wage" in axes:
        age, wage = domain["age"], domain["wage"]
        assert isinstance(age, Numeric) and isinstance(wage, Numeric)
        asked.append([wage.cells_by_cuts([3.3, 20, 20.1]), age.cells_by_cuts([33.5]), "smoker"])
        asked.append(
            [domain["sex; DROP"].cells_by_values(["it's"]), "région", wage.cells_by_cuts([10])]
        )
    return asked


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_engine_gives_the_answers_of_the_memory(
    name: str, place: str, releases: dict[str, Release], opened: Callable[[str, str], Release]
) -> None:
    memory, engine = releases[name], opened(name, place)
    assert (engine.rows, engine.copies, engine.domain) == (
        memory.rows,
        memory.copies,
        memory.domain,
    )
    asked = questions(memory.domain)
    for true, found in zip(memory.marginals(asked), engine.marginals(asked), strict=True):
        assert np.allclose(found.value, true.value, rtol=1e-9) and np.allclose(
            found.stderr, true.stderr, rtol=1e-9
        )
    single = engine.marginal(asked[1])
    assert np.allclose(single.value, memory.marginal(asked[1]).value)
    if "wage" in memory.domain:
        cells = [memory.domain["wage"].cells_by_cuts([7]), memory.cells("smoker")]
        weights = np.random.default_rng(2).normal(size=(2, 2, 3, 4))
        found, true = engine.moments(cells, 0), memory.moments(cells, 0)
        assert np.allclose(found.about(9.0), true.about(9.0))
        assert np.allclose(
            found.covariance_matrix(weights, 9.0), true.covariance_matrix(weights, 9.0)
        )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["gamma-diagonal", "retention", "combined"])
def test_regressions_and_comparisons_have_the_same_digits(
    name: str, place: str, releases: dict[str, Release], opened: Callable[[str, str], Release]
) -> None:
    memory, engine = releases[name], opened(name, place)
    found, true = (sf.regress(each, "smoker ~ `sex; DROP` + région") for each in (engine, memory))
    assert found.to_dict() == true.to_dict() and found.origin == "reports"
    left, right = (sf.compare(each, "sex; DROP", "smoker") for each in (engine, memory))
    assert left.to_dict() == right.to_dict()


@pytest.mark.parametrize("place", ["parquet", "csv", "duckdb", "postgresql", "sqlite"])
@pytest.mark.parametrize("name", ["mask", "mask, numbered items", "gamma-diagonal"])
def test_mining_finds_the_same_itemsets(
    name: str, place: str, releases: dict[str, Release], opened: Callable[[str, str], Release]
) -> None:
    true = sf.frequent_itemsets(releases[name], min_support=0.05)
    found = sf.frequent_itemsets(opened(name, place), min_support=0.05)
    assert len(true) > 5 and found.items == true.items
    assert np.allclose(found.support, true.support) and np.allclose(found.stderr, true.stderr)


@pytest.mark.parametrize(
    "mechanism", [sf.BitFlip(SMALL, 0.9, 0.85), sf.CutAndPaste(SMALL, 3, 0.2)], ids=["mask", "cut"]
)
def test_reports_in_other_columns_are_counted_where_they_are(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    release = sf.perturb(records(SMALL), mechanism, seeded(5))
    release.save(tmp_path / "flipped.parquet")
    engine = open_source(tmp_path / "flipped.parquet", "duckdb")
    assert not engine.in_memory
    for names in (["smoker"], ["smoker", SMALL.names[0]], [SMALL.names[-1], "smoker"]):
        found, true = engine.marginal(names), release.marginal(names)
        assert np.allclose(found.value, true.value) and np.allclose(found.stderr, true.stderr)
    found, true = (
        sf.frequent_itemsets(engine, min_support=0.1),
        sf.frequent_itemsets(release, min_support=0.1),
    )
    assert found.items == true.items and np.allclose(found.stderr, true.stderr)


def test_cut_and_paste_is_mined_from_counts(tmp_path: Path) -> None:
    private = SMALL.project(["sex; DROP", "age", "smoker"])
    release = sf.perturb(records(private), sf.CutAndPaste(private, 3, 0.2), seeded(5))
    release.save(tmp_path / "pasted.parquet")
    found = sf.frequent_itemsets(
        open_source(tmp_path / "pasted.parquet", "duckdb"), min_support=0.1
    )
    true = sf.frequent_itemsets(release, min_support=0.1)
    assert found.items == true.items and np.allclose(found.stderr, true.stderr)


def test_the_engine_can_be_chosen(tmp_path: Path, releases: dict[str, Release]) -> None:
    path = tmp_path / "r.parquet"
    releases["retention"].save(path)
    assert open_source(path, "memory").in_memory
    assert not open_source(path, "duckdb").in_memory
    with pytest.raises(ParameterError, match=r"no engine 'duckdv'.*did you mean 'duckdb'"):
        open_source(path, "duckdv")


def test_true_records_are_counted_in_memory(tmp_path: Path) -> None:
    sf.table.save(records(SMALL), tmp_path / "truth.csv")
    assert isinstance(open_source(tmp_path / "truth.csv", schema=SMALL), Exact)
    with pytest.raises(FileError, match="no mechanism"):
        open_source(tmp_path / "truth.csv", "duckdb")


def test_a_file_cut_short_is_noticed(tmp_path: Path, releases: dict[str, Release]) -> None:
    path = tmp_path / "short.csv"
    releases["retention"].save(path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-10]))
    with pytest.raises(FileError, match="are not those that its description speaks of"):
        open_source(path)
    side = path.with_name("short.csv.sfumato.json")  # as version 0.1.0 wrote it, without a digest
    description = json.loads(side.read_text())
    del description["digest"]
    side.write_text(json.dumps({**description, "format": 1}))
    with pytest.raises(DataError, match="3,990 rows, but its description speaks of 4,000"):
        open_source(path).marginal(["smoker"])


def test_a_truncated_parquet_file_is_one_clear_error(
    tmp_path: Path, releases: dict[str, Release]
) -> None:
    path = tmp_path / "cut.parquet"
    releases["retention"].save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SfumatoError, match="Parquet"):
        open_source(path)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("mysql://host/db#t", "mysql"),
        ("postgresq://host/db#t", "did you mean 'postgresql'"),
        ("duckdb://nowhere.db", "names no table"),
        ("duckdb://nowhere.db#t", "no database file"),
    ],
)
def test_a_bad_address_is_refused(url: str, problem: str) -> None:
    with pytest.raises(SfumatoError, match=problem):
        open_source(url)


def test_a_duckdb_file_without_the_table_or_its_mechanism_is_refused(
    tmp_path: Path, releases: dict[str, Release]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    url = f"duckdb://{tmp_path / 'some.db'}"
    save_release(releases["retention"], f"{url}#census")
    with pytest.raises(SfumatoError, match="did you mean 'census'"):
        open_source(f"{url}#sensus")
    with pytest.raises(SfumatoError, match="already"):
        save_release(releases["retention"], f"{url}#census")
    with duckdb.connect(str(tmp_path / "some.db")) as connection:
        connection.execute("CREATE TABLE stranger AS SELECT 1 AS a")
    with pytest.raises(SfumatoError, match="carries no mechanism"):
        open_source(f"{url}#stranger")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello " * 1000)
    with pytest.raises(FileError, match=r"DuckDB cannot read .*text\.db"):
        open_source(f"duckdb://{tmp_path / 'text.db'}#t")


def test_numbers_have_32_bits_where_they_can_be_multiplied_so(tmp_path: Path) -> None:
    numbers = Domain(
        (Numeric("age", -5, 46_340), Numeric("wage", 0, 46_341), Numeric("debt", -46_341, 0))
    )
    table = Table(numbers, tuple(np.array([0, a.size - 1] * 200) for a in numbers))
    release = sf.perturb(table, sf.Retention(numbers, 1.0), rng=seeded(1))
    save_release(release, f"duckdb://{tmp_path / 'numbers.db'}#t")
    with duckdb.connect(str(tmp_path / "numbers.db"), read_only=True) as connection:
        found = connection.sql("DESCRIBE t").fetchall()
        assert [row[1] for row in found] == ["INTEGER", "BIGINT", "BIGINT"]
        largest = connection.sql("SELECT max(age * age), max(wage * wage) FROM t").fetchall()
        assert largest == [(46_340**2, 46_341**2)]
    source = open_source(f"duckdb://{tmp_path / 'numbers.db'}#t")
    cells = [numbers[name].cells_by_cuts([1000]) for name in numbers.names]
    assert np.array_equal(source.counter.count(cells), release.counter.count(cells))
