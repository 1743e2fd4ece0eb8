"""A real local Spark: what it writes, what a killed task draws again, and that it counts as memory
does.
"""

from __future__ import annotations

import base64
import json
import os
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.engines.conftest import BATCH

from sfumato.bits import Bits
from sfumato.counting.bitmaps import itemset_counts
from sfumato.counting.in_memory import TableCounter
from sfumato.counting.sql import SqlCounter
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.engines import open_source
from sfumato.errors import DataError, FileError, ParameterError, ServerError, SfumatoError
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Permuting, Retention
from sfumato.mine.cube import query
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, secure, seeded
from sfumato.release import open as open_release
from sfumato.table import Table, perturb_table, reader_of, save

pytest.importorskip("pyspark")

from sfumato.engines.spark import Place, perturb_frame, perturb_with_spark, spark_session
from sfumato.engines.spark.spark_counter import PackedBaskets, SparkBaskets, open_with_spark
from sfumato.engines.spark.spark_perturb import PartitionReports, PartitionWork, plain_schema
from sfumato.engines.spark.spark_records import Form, SparkRecords, map_in_arrow

pytestmark = pytest.mark.xdist_group(
    "spark"
)  # one Spark for all of them, where tests run in several processes
ROWS, PARTS = 4000, 4
DOMAIN = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 15, 95, cuts=(35, 55, 75)),
        Category("pay.scale", ("low", "middle", "high")),
        Category("region", ("north", "south"), public=True),
    )
)
BASKETS = Domain((Items("items", tuple(map(str, range(1, 13)))),))


def opened(session, place):
    """The rows that Spark reads, and how they were made."""
    release = open_with_spark(session, place)
    return release.counter.relation, release.provenance


@pytest.fixture(scope="module")
def people() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], ROWS, p=[0.3, 0.7]),
            "age": rng.integers(15, 96, ROWS),
            "pay.scale": rng.choice(["low", "middle", "high"], ROWS, p=[0.5, 0.3, 0.2]),
            "region": rng.choice(["north", "south"], ROWS),
            "name": np.arange(ROWS),
        }
    )


@pytest.fixture(scope="module")
def frame(session, folder, people):
    """The people in four partitions of four Arrow batches each."""
    (folder / "people.parquet").mkdir()
    size = ROWS // PARTS
    for part in range(PARTS):
        pq.write_table(
            people.slice(part * size, size), folder / "people.parquet" / f"part-{part}.parquet"
        )
    read = session.read.parquet(str(folder / "people.parquet"))
    assert read.rdd.getNumPartitions() >= 2
    return read


@pytest.fixture(scope="module")
def mechanism():
    return GammaDiagonal.promising(Guarantee(19), DOMAIN)


@pytest.fixture(scope="module")
def release(frame, folder, mechanism):
    """The folder of a release of the people, from a known seed."""
    target = str(folder / "release.parquet")
    written = perturb_frame(frame, target, mechanism, seeded(7), schema=DOMAIN)
    assert written.rows == ROWS
    assert written.notes == ("column 'name' is not in the schema and was dropped",)
    return target


def codes(path: str) -> list[list[int]]:
    return [np.asarray(column).tolist() for column in open_release(path).table.columns]


def test_a_release_is_read_twice_and_by_others_alike(session, release, mechanism, people):
    first, second = (session.read.parquet(release).toArrow() for _ in range(2))
    assert first.equals(second)
    opened = open_release(release)
    assert opened.mechanism == mechanism and opened.rows == ROWS and not opened.provenance.secure
    in_duckdb = duckdb.sql(
        f"SELECT sex, count(*) FROM '{release}/*.parquet' GROUP BY sex ORDER BY sex"
    ).fetchall()
    assert [count for _, count in in_duckdb] == np.bincount(opened.table.column("sex")).tolist()
    answer = opened.marginal(["sex"]).where(sex="F")
    true = sum(sex == "F" for sex in people.column("sex").to_pylist())
    assert abs(answer.value - true) < 6 * answer.stderr
    assert open_release(release).table.column("region").sum() == sum(
        r == "south" for r in people.column("region").to_pylist()
    )


def test_the_folder_appears_whole(release):
    found = {path.name for path in Path(release).iterdir() if not path.name.startswith(".")}
    description = json.loads((Path(release) / "_sfumato.json").read_text())
    assert {"_SUCCESS", "_sfumato.json"} < found
    assert description["rows"] == ROWS and description["mechanism"] == "gamma-diagonal"
    assert not list(Path(release).parent.glob(".*.part"))


def test_a_lost_part_is_noticed(release, tmp_path):
    for path in Path(release).iterdir():
        os.link(path, tmp_path / path.name)
    next(tmp_path.glob("*.parquet")).unlink()
    with pytest.raises(FileError, match="but its description speaks of 4000"):
        open_release(tmp_path)


def stumbling(reports, notes: Path):
    """The same reports, noted batch by batch; the worker of part 1 dies in its first attempt after
    two batches.
    """

    def run(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        part, attempt = context.partitionId(), context.attemptNumber()
        for number, batch in enumerate(reports(batches)):
            pq.write_table(
                pa.Table.from_batches([batch]), notes / f"{part}-{attempt}-{number}.parquet"
            )
            if part == 1 and attempt == 0 and number == 1:
                os._exit(1)
            yield batch

    return run


def draws_of_attempts(frame, reports, notes: Path) -> tuple[pa.Table, pa.Table]:
    """What part 1 drew for its first batch in the attempt that was killed, and in the
    one after it.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    notes.mkdir()
    schema = from_arrow_schema(plain_schema(reports.work.value.mechanism.reports))
    map_in_arrow(SparkRecords(frame).selected(DOMAIN), stumbling(reports, notes), schema).toArrow()
    first, second = (pq.read_table(notes / f"1-{attempt}-0.parquet") for attempt in (0, 1))
    return first, second


def partition_reports(session, mechanism, key: bytes) -> PartitionReports:
    work = PartitionWork(mechanism, DOMAIN, Form.VALUES, DOMAIN.names, 1, keep_order=True)
    return PartitionReports(key, session.sparkContext.broadcast(work))


def test_a_killed_task_draws_the_same_again(session, frame, mechanism, tmp_path):
    reports = partition_reports(session, mechanism, secure().key)
    first, second = draws_of_attempts(frame, reports, tmp_path / "derived")
    assert first.num_rows == BATCH
    assert first.equals(second)


def test_without_derivation_it_would_not(session, frame, mechanism, tmp_path):
    fixed = partition_reports(session, mechanism, bytes(32))

    class Fresh:
        work = fixed.work

        def __call__(self, batches):
            yield from PartitionReports(secure().key, fixed.work)(batches)

    first, second = draws_of_attempts(frame, Fresh(), tmp_path / "fresh")
    assert not first.equals(second)
    # And two readings of such a lazy frame would differ, which is why none is handed out.


def test_a_release_is_the_same_whether_a_task_died_or_not(
    frame, release, mechanism, folder, tmp_path
):
    def dies_once(batches):
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            if (
                TaskContext.get().partitionId() == 1
                and TaskContext.get().attemptNumber() == 0
                and number == 1
            ):
                (tmp_path / "died").touch()
                os._exit(1)
            yield batch

    selected = SparkRecords(frame).selected(DOMAIN)
    stumbling_frame = map_in_arrow(selected, dies_once, selected.schema).toDF(*DOMAIN.names)
    perturb_frame(
        stumbling_frame, str(folder / "again.parquet"), mechanism, seeded(7), schema=DOMAIN
    )
    assert (tmp_path / "died").exists()
    assert codes(str(folder / "again.parquet")) == codes(release)


def test_parts_and_releases_do_not_share_their_noise(session, frame, mechanism, folder):
    stream = seeded(3)
    same = frame.filter("sex = 'F' AND age < 40")  # every partition holds some
    for name in ("one", "two"):
        perturb_frame(same, str(folder / f"{name}.parquet"), mechanism, stream, schema=DOMAIN)
    assert codes(str(folder / "one.parquet")) != codes(str(folder / "two.parquet"))


def traces(secret: bytes, folder: Path) -> list[Path]:
    """The files that hold a secret, raw or written out."""
    forms = (
        secret,
        secret.hex().encode(),
        base64.b64encode(secret)[:-2],
        repr(secret)[2:-1].encode(),
    )
    found = []
    for path in (Path(where, name) for where, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):  # Spark clears away what it no longer needs
            held = path.read_bytes()
            found += [path] if any(form in held for form in forms) else []
    return found


def test_the_key_is_in_no_plan_log_or_file(session, frame, mechanism, folder, capfd):
    rng = secure()
    key = Keystream(rng.key).words(4).tobytes()  # what the first words of the stream are
    perturb_frame(frame, str(folder / "secret.parquet"), mechanism, rng, schema=DOMAIN)
    reports = partition_reports(session, mechanism, key)
    lazy = map_in_arrow(SparkRecords(frame).selected(DOMAIN), reports, "sex string")
    plan = lazy._jdf.queryExecution().toString()
    assert "PartitionReports" in plan and key.hex() not in plan and str(key)[2:-1] not in plan
    assert key.hex() not in repr(reports) and str(key)[2:-1] not in repr(reports)
    assert not traces(key, folder) and not traces(rng.key, folder)
    printed = "".join(capfd.readouterr())
    assert key.hex() not in printed
    # A broadcast, the usual way to hand something to every task, is a file: the search finds it.
    marker = os.urandom(32)
    session.sparkContext.broadcast(marker)
    assert traces(marker, folder)


def test_what_cannot_be_perturbed_is_refused(session, frame, release, mechanism, folder):
    with pytest.raises(ParameterError, match="permuting must see all records at once"):
        perturb_frame(frame, str(folder / "no.parquet"), Permuting(DOMAIN, 0.5), schema=DOMAIN)
    with pytest.raises(ParameterError, match="drawn anew at every reading"):
        perturb_table(frame, mechanism)
    with pytest.raises(ParameterError, match="was perturbed already, by gamma-diagonal"):
        perturb_with_spark(session, release, str(folder / "no.parquet"), mechanism)
    with pytest.raises(FileError, match="exists already"):
        perturb_frame(frame, release, mechanism, schema=DOMAIN)
    with pytest.raises(FileError, match="a folder of Parquet parts"):
        perturb_frame(frame, str(folder / "no.csv"), mechanism, schema=DOMAIN)
    with pytest.raises(FileError, match="nothing is found at"):
        perturb_with_spark(
            session, str(folder / "nowhere.parquet"), str(folder / "no.parquet"), mechanism
        )
    with pytest.raises(SfumatoError, match="no column 'sex'"):
        perturb_frame(frame.drop("sex"), str(folder / "no.parquet"), mechanism, schema=DOMAIN)
    assert not (folder / "no.parquet").exists()


def test_masters_that_are_none_or_do_not_answer_are_refused():
    with pytest.raises(ParameterError, match="'lokal' is no Spark master"):
        spark_session("lokal")
    with pytest.raises(ServerError, match="no Spark master answers at"):
        spark_session("spark://127.0.0.1:9")


def test_a_bad_record_is_named_without_its_value(session, frame, mechanism, folder, capfd):
    bad = frame.selectExpr("sex", "IF(name = 1700, 987654, age) AS age", "`pay.scale`", "region")
    with pytest.raises(
        DataError, match=r"row \d+ of part \d of this frame, column 'age'"
    ) as caught:
        perturb_frame(bad, str(folder / "bad.parquet"), mechanism, schema=DOMAIN)
    assert "987654" not in str(caught.value)
    assert "987654" not in "".join(capfd.readouterr())
    assert not (folder / "bad.parquet").exists() and not list(folder.glob(".bad*"))


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_csv_file_is_read_as_without_spark(session, people, mechanism, folder, mark):
    words = people.set_column(
        2, "pay.scale", pa.array(['a, "b"', "", "high"] * (ROWS // 3) + ["high"])
    )
    options = pyarrow.csv.WriteOptions(delimiter=mark)
    pyarrow.csv.write_csv(words, folder / "people.csv", options)
    odd = Domain((DOMAIN["sex"], DOMAIN["age"], Category("pay.scale", ("", 'a, "b"', "high"))))
    kept = Retention(odd, 1.0)  # what is kept is read
    source, target = str(folder / "people.csv"), str(folder / "kept.parquet")
    perturb_with_spark(session, source, target, kept, keep_order=True, force=True)
    found = open_release(folder / "kept.parquet").table
    truth = Table.from_arrow(words, odd)
    assert all(np.array_equal(a, b) for a, b in zip(found.columns, truth.columns, strict=True))


@pytest.fixture(scope="module")
def baskets(session, folder):
    """A release of baskets, from a FIMI file whose items Spark finds."""
    rng = np.random.default_rng(2)
    dense = rng.random((ROWS, 12)) < np.linspace(0.1, 0.6, 12)
    dense[:, 1] |= dense[:, 0]
    lines = [" ".join(str(item + 1) for item in np.flatnonzero(row)) for row in dense]
    (folder / "baskets.dat").write_text("\n".join(lines) + "\n")
    assert SparkRecords.at(session, str(folder / "baskets.dat")).found_items() == BASKETS
    mask = BitFlip(BASKETS, 0.9, 0.8)
    target = str(folder / "masked.parquet")
    assert (
        perturb_with_spark(session, str(folder / "baskets.dat"), target, mask, seeded(5)).rows
        == ROWS
    )
    return target


def questions(domain: Domain):
    age = (
        domain["age"].cells_by_cuts((20, 50))
        if isinstance(domain["age"], Numeric)
        else domain["age"].cells()
    )
    sex, scale, region = (
        domain["sex"].cells(),
        domain["pay.scale"].cells(),
        domain["region"].cells(),
    )
    return [
        (sex,),
        (age, scale),
        (region, sex, age),
        (scale.attribute.cells_by_values(["low", "high"]), sex, age, region),
    ]


def test_cells_are_counted_as_in_memory(session, release):
    relation, provenance = opened(session, release)
    engine = SqlCounter(provenance.mechanism.reports, relation)
    memory = TableCounter(Table(provenance.mechanism.reports, open_release(release).table.columns))
    asked = questions(provenance.mechanism.reports)
    assert engine.rows == memory.rows
    assert all(np.array_equal(engine.count(cells), memory.count(cells)) for cells in asked)
    together = SqlCounter(provenance.mechanism.reports, relation).count_many(asked)
    assert all(
        np.array_equal(a, b) for a, b in zip(together, memory.count_many(asked), strict=True)
    )


def test_sums_of_powers_are_as_in_memory(session, frame, folder):
    target = str(folder / "numbers.parquet")
    perturb_frame(frame, target, Retention(DOMAIN, 0.6), seeded(9), schema=DOMAIN)
    relation, provenance = opened(session, target)
    reports = provenance.mechanism.reports
    cells = (reports["sex"].cells(), reports["age"].cells_by_cuts((40, 60)))
    engine = SqlCounter(reports, relation).power_sums(cells, 1, 55.0, 40.0)
    memory = TableCounter(Table(reports, open_release(target).table.columns)).power_sums(
        cells, 1, 55.0, 40.0
    )
    assert np.allclose(engine, memory, rtol=1e-12)


def test_itemsets_are_counted_as_in_memory(session, baskets):
    relation, provenance = opened(session, baskets)
    reports = provenance.mechanism.reports
    packing = PackedBaskets(reports, (reports.attributes[0],))
    counter = SparkBaskets(relation.frame.repartition(3), packing, ROWS)
    bits = open_release(baskets).table.columns[0]
    assert isinstance(bits, Bits)
    assert (counter.rows, counter.items) == (ROWS, 12)
    for length in (0, 1, 2, 3):
        chosen = list(combinations(range(12), length))
        itemsets = np.array(chosen, dtype=np.int32).reshape(len(chosen), length)
        assert np.array_equal(counter.counts(itemsets), itemset_counts(bits, itemsets))
    counter.release()


def test_records_are_packed_one_bit_a_cell(session, release):
    relation, provenance = opened(session, release)
    reports = provenance.mechanism.reports
    parts = tuple(reports[name].cells() for name in ("sex", "pay.scale"))
    counter = SparkBaskets(relation.frame, PackedBaskets(reports, parts), ROWS)
    table = open_release(release).table
    itemsets = np.array([[sex, 2 + pay] for sex in range(2) for pay in range(3)], dtype=np.int32)
    expected = np.histogram2d(table.column("sex"), table.column("pay.scale"), bins=(2, 3))[0]
    assert counter.counts(itemsets).tolist() == expected.ravel().tolist()
    counter.release()


def test_places_know_what_they_hold(session, release, folder, tmp_path):
    assert Place(session, release).provenance() is not None
    assert Place(session, str(folder / "people.parquet")).provenance() is None
    single = open_release(release)
    single.save(tmp_path / "single.parquet")
    single.save(tmp_path / "single.csv")
    for name in ("single.parquet", "single.csv"):
        relation, provenance = opened(session, str(tmp_path / name))
        assert provenance == single.provenance
        counter = SqlCounter(provenance.mechanism.reports, relation)
        cells = questions(provenance.mechanism.reports)[1]
        assert np.array_equal(counter.count(cells), single.counter.count(cells))


def test_a_release_in_spark_answers_as_one_in_memory(session, release, folder, frame):
    kept = str(folder / "numbers.parquet")
    if not Path(kept).exists():
        perturb_frame(frame, kept, Retention(DOMAIN, 0.6), seeded(9), schema=DOMAIN)
    asked = (
        "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM t WHERE age BETWEEN 30 AND 59 GROUP "
        "BY sex ORDER BY sex"
    )
    engine, memory = query(open_source(kept, "local[2]"), asked), query(open_release(kept), asked)
    assert len(engine.rows) == 2
    for ours, theirs in zip(engine.rows, memory.rows, strict=True):
        assert ours["sex"] == theirs["sex"]
        for name in ("n", "age"):
            assert ours[name].value == pytest.approx(theirs[name].value, rel=1e-9)
            assert ours[name].stderr == pytest.approx(theirs[name].stderr, rel=1e-9)
    found = [
        frequent_itemsets(source, 0.1)
        for source in (open_source(release, "local[2]"), open_release(release))
    ]
    assert_same_itemsets(*found)


def test_baskets_in_spark_are_mined_as_in_memory(session, baskets):
    engine = open_source(baskets, "local[2]")
    assert_same_itemsets(
        frequent_itemsets(engine, 0.1, max_length=3),
        frequent_itemsets(open_release(baskets), 0.1, max_length=3),
    )


def assert_same_itemsets(ours, theirs):
    assert len(ours) == len(theirs) > 10
    assert ours.to_arrow().equals(theirs.to_arrow())


def test_the_commands_run_with_spark(session, folder, baskets):
    from typer.testing import CliRunner

    from sfumato.cli import app

    def run(*words: str) -> dict:
        done = CliRunner().invoke(app, [*words, "--engine", "local[2]", "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    DOMAIN.save(folder / "people.toml")
    told = run(
        "perturb",
        str(folder / "people.parquet"),
        "-o",
        str(folder / "told.parquet"),
        "--schema",
        str(folder / "people.toml"),
        "--gamma",
        "19",
    )
    assert (told["rows"], told["gamma"], told["secure"]) == (ROWS, 19, True)
    found = run(
        "mine",
        baskets,
        "--min-support",
        "0.3",
        "--max-length",
        "2",
        "--truth",
        str(folder / "baskets.dat"),
    )
    assert found["rows"] == ROWS and found["itemsets"] and found["errors"]
    refused = CliRunner().invoke(
        app,
        [
            "perturb",
            str(folder / "people.parquet"),
            "-o",
            str(folder / "x.parquet"),
            "--gamma",
            "19",
            "--engine",
            "local[2]",
        ],
    )
    assert refused.exit_code == 2 and "Spark reads records by a schema" in refused.output


# The order of the reports, and where they came from.


def test_spark_shuffles_the_reports(session, frame, folder, people):
    """Sorted records come out in an order that tells nothing, in parts of a size that the bytes of
    the truth do not tell; kept, they come out as they went in.
    """
    ages = np.sort(np.asarray(people.column("age")))
    ordered = people.set_column(1, "age", pa.array(ages))
    (folder / "sorted.parquet").mkdir()
    for part, size in enumerate((100, 3000, 900)):
        start = (0, 100, 3100)[part]
        pq.write_table(
            ordered.slice(start, size), folder / "sorted.parquet" / f"part-{part}.parquet"
        )
    sure, found = Retention(DOMAIN, 0.99), {}
    for keep in (False, True):
        target = str(folder / f"order-{keep}.parquet")
        written = perturb_with_spark(
            session,
            str(folder / "sorted.parquet"),
            target,
            sure,
            seeded(1),
            schema=DOMAIN,
            copies=2,
            keep_order=keep,
        )
        opened = open_release(target)
        assert written.provenance == opened.provenance and opened.provenance.shuffled != keep
        column = opened.table.column("age").astype(float)
        pairs = column.reshape(-1, 2)
        assert np.mean(pairs[:, 0] == pairs[:, 1]) > 0.9  # the reports of one record
        steps = np.abs(np.diff(pairs[:, 0])).mean()
        sizes = [part.rows for part in reader_of(target).parts]
        found[keep] = steps, max(sizes) / min(sizes)
    assert found[True][0] < 3 and found[False][0] > 15
    assert found[True][1] > 5 and found[False][1] < 1.3
    with pytest.raises(ParameterError, match="they know no order"):
        perturb_with_spark(
            session, str(folder / "sorted.parquet"), str(folder / "o.parquet"), sure, order="o.npy"
        )


def test_parts_of_another_release_are_not_described(session, frame, mechanism, folder):
    names = ["mine", "other"]
    for seed, name in enumerate(names):
        target = str(folder / f"{name}-parts.parquet")
        perturb_frame(frame, target, mechanism, seeded(seed), schema=DOMAIN)
    ours, theirs = (sorted((folder / f"{n}-parts.parquet").glob("part-*.parquet")) for n in names)
    place = str(folder / "mine-parts.parquet")
    assert opened(session, place)[1].release == open_release(place).provenance.release
    kept = ours[0].read_bytes()
    ours[0].write_bytes(theirs[0].read_bytes())  # as many rows or nearly, under the same name
    with pytest.raises(FileError, match="its description speaks of"):
        open_release(place)
    ours[0].write_bytes(kept)
    (ours[0].parent / f".{ours[0].name}.crc").unlink(missing_ok=True)
    ours[0].rename(ours[0].with_name(theirs[0].name))
    with pytest.raises(FileError, match="are not those that its description speaks of"):
        open_with_spark(session, place)


def test_the_old_folder_stays_until_the_new_one_is_in_place(frame, mechanism, folder, monkeypatch):
    target = folder / "replaced.parquet"
    perturb_frame(frame, str(target), mechanism, seeded(1), schema=DOMAIN)
    before = open_release(target).provenance.release
    rename = Place.rename
    for broken in (1, 2):  # setting the old one aside, and giving the new one its name
        calls = []

        def failing(self, other, broken=broken, calls=calls):
            calls.append(other.url)
            if len(calls) == broken:
                raise FileError("the disk is gone")
            return rename(self, other)

        monkeypatch.setattr(Place, "rename", failing)
        with pytest.raises(FileError, match="the disk is gone"):
            perturb_frame(frame, str(target), mechanism, seeded(2), schema=DOMAIN, force=True)
        monkeypatch.setattr(Place, "rename", rename)
        assert open_release(target).provenance.release == before
    perturb_frame(frame, str(target), mechanism, seeded(2), schema=DOMAIN, force=True)
    assert open_release(target).provenance.release != before
    assert not [path for path in folder.iterdir() if path.name.startswith(".replaced")]


CANARY = "HIV-CANARY"


def test_no_true_value_is_told_by_spark(session, mechanism, folder, capfd):
    """Neither in an error, nor printed, nor in the log of events that others may read."""
    (folder / "bad.dat").write_text("1 2\n3 4711CANARY 5\n" * 3)
    with pytest.raises(SfumatoError, match="of part 0") as caught:
        SparkRecords.at(session, str(folder / "bad.dat")).found_items()
    told = [str(caught.value)]
    header = "sex,age,pay.scale,region\n"
    lines = {
        "value": f"F,20,{CANARY},north\n",
        "number": f"F,{CANARY},low,north\n",
        "short": f"F,{CANARY}\n",
        "long": f"F,20,low,north,{CANARY}\n",
        "quote": f'F,20,"low{CANARY},north\n',
    }
    for name, line in lines.items():
        path = folder / f"bad-{name}.csv"
        path.write_text(header + "F,20,low,north\n" * 5 + line + "M,30,high,south\n" * 5)
        with pytest.raises(SfumatoError) as caught:
            perturb_with_spark(session, str(path), str(folder / "no.parquet"), mechanism)
        told.append(str(caught.value))
        assert not (folder / "no.parquet").exists()
    assert "row 6 of part" in told[1] and "fewer fields than the header" in told[3]
    told += capfd.readouterr()
    assert CANARY not in "".join(told) and "4711CANARY" not in "".join(told)
    assert not traces(CANARY.encode(), folder / "events")
    assert not traces(b"4711CANARY", folder / "events")


@pytest.mark.parametrize("name", ["release.csv", "release.parquet"])
def test_spark_refuses_values_outside_the_domain(session, folder, people, name, capfd):
    numbers = Retention(DOMAIN, 0.6)
    truth = Table.from_arrow(people, DOMAIN)
    path = folder / f"strange-{name}"
    save(perturb_table(truth, numbers, seeded(1)), path)
    whole = open_source(str(path), "local[2]", cache=False)
    asked = [["sex"], [DOMAIN["age"].cells_by_cuts((50,))], ["pay.scale", "region"]]
    for columns in asked:
        assert whole.marginal(columns).value.sum() == pytest.approx(ROWS)
    for place, value in enumerate((CANARY, "4711", CANARY)):
        spoil(path, place, value)
        with pytest.raises(SfumatoError, match="not in its domain") as caught:
            open_source(str(path), "local[2]", cache=False).marginal(asked[place])
        assert CANARY not in str(caught.value) and "4711" not in str(caught.value)
        save(perturb_table(truth, numbers, seeded(1)), path, force=True)
    assert CANARY not in "".join(capfd.readouterr())


def spoil(path: Path, place: int, value: str) -> None:
    """Exchange one value of a release, and leave its description as it was."""
    if path.suffix == ".csv":
        lines = path.read_text().splitlines(keepends=True)
        words = lines[9].strip().split(",")
        words[place] = value
        path.write_text("".join([*lines[:9], ",".join(words) + "\n", *lines[10:]]))
        side = path.with_name(path.name + ".sfumato.json")
        description = json.loads(side.read_text())
        del description["digest"]
        side.write_text(json.dumps({**description, "format": 1}))
        return
    marks = pq.ParquetFile(path).metadata.metadata
    table = pq.read_table(path)
    values = [value if place != 1 else int(value), *table.column(place).to_pylist()[1:]]
    changed = table.set_column(place, table.schema.names[place], pa.array(values))
    changed = changed.replace_schema_metadata(table.schema.metadata)
    with pq.ParquetWriter(path, changed.schema) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata({b"sfumato.release": marks[b"sfumato.release"]})
