"""Files: what is written is read back, and what cannot be read or written is one clear error."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato import files
from sfumato.bits import Bits
from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.errors import DataError, FileError, ParameterError, SchemaError
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.randomness import seeded
from sfumato.table import Table, formats, perturb_table, read, read_perturbed, save

PEOPLE = Domain((Numeric("age", 0, 99, cuts=(20, 60)), Category("sex", ("F", "M"))))
BASKETS = Domain((Items("items", ("3", "5", "40")),))


def people(rows: int = 100) -> Table:
    rng = seeded(1)
    return Table(
        PEOPLE, (rng.below(100, rows).astype(np.uint8), rng.below(2, rows).astype(np.uint8))
    )


def baskets(rows: int = 100) -> Table:
    return Table(
        BASKETS, (Bits.from_dense(seeded(2).below(2, 3 * rows).reshape(rows, 3).astype(bool)),)
    )


def same(one: Table, other: Table) -> bool:
    return one.domain == other.domain and one.to_arrow().equals(other.to_arrow())


# What is written is read back.


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet", "P.CSV"])
def test_records_come_back(tmp_path, name):
    save(people(), tmp_path / name)
    assert same(read(tmp_path / name, PEOPLE), people())


@pytest.mark.parametrize("name", ["b.dat", "b.dat.gz", "b.parquet", "b.csv"])
def test_baskets_come_back(tmp_path, name):
    save(baskets(), tmp_path / name)
    assert same(read(tmp_path / name, BASKETS), baskets())


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
def test_a_perturbed_file_describes_itself(tmp_path, name):
    mechanism = GammaDiagonal(PEOPLE.binned(), 19)
    release = perturb_table(people(), mechanism, copies=3)
    save(release, tmp_path / name)
    for again in (read(tmp_path / name), read_perturbed(tmp_path / name)):
        assert same(again, release)
        assert again.provenance == release.provenance and again.secure and again.copies == 3


@pytest.mark.parametrize("name", ["b.dat", "b.dat.gz", "b.parquet", "b.csv"])
def test_perturbed_baskets_describe_themselves(tmp_path, name):
    from sfumato.mechanisms.bitflip import BitFlip

    release = perturb_table(baskets(), BitFlip(BASKETS, 0.9, 0.8), seeded(5))
    save(release, tmp_path / name)
    again = read_perturbed(tmp_path / name)
    assert same(again, release) and again.mechanism == release.mechanism and not again.secure


def test_records_reported_as_baskets(tmp_path):
    from sfumato.mechanisms.bitflip import BitFlip

    release = perturb_table(people(), BitFlip(PEOPLE, 0.9, 0.9), seeded(5))
    for name in ("m.csv", "m.parquet"):
        save(release, tmp_path / name)
        assert same(read_perturbed(tmp_path / name), release)
    assert (tmp_path / "m.csv").read_text().splitlines()[
        0
    ] == '"age=[0,20)","age=[20,60)","age=[60,99]",sex=F,sex=M'
    with pytest.raises(SchemaError, match="whole-number"):
        save(release, tmp_path / "m.dat")
    assert sorted(os.listdir(tmp_path)) == ["m.csv", "m.csv.sfumato.json", "m.parquet"]


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


@given(
    st.lists(words, min_size=1, max_size=6, unique=True),
    st.lists(words.filter(bool), min_size=2, max_size=3, unique=True),
)
@settings(max_examples=100)
def test_any_words_survive_csv(values, names):
    import tempfile
    from pathlib import Path

    domain = Domain(tuple(Category(name, tuple(values)) for name in names))
    codes = np.arange(len(values), dtype=np.uint8)
    table = Table(domain, tuple(np.roll(codes, place) for place in range(len(names))))
    with tempfile.TemporaryDirectory() as folder:
        save(table, Path(folder) / "w.csv")
        assert same(read(Path(folder) / "w.csv", domain), table)


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=40, unique=True),
    st.sampled_from([1, 0.5, 0.01]),
)
def test_any_numbers_survive_csv(numbers, step):
    import tempfile
    from pathlib import Path

    values = np.round(np.array(numbers) * step, 2)
    domain = Domain((Numeric("x", float(values.min()), float(values.max()), step=step),))
    table = Table.from_arrow(pa.table({"x": values}), domain)
    with tempfile.TemporaryDirectory() as folder:
        save(table, Path(folder) / "n.csv")
        assert same(read(Path(folder) / "n.csv", domain), table)


# How text is read.


def csv(tmp_path, text: str | bytes, name: str = "d.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_nulls_blanks_and_quotes(tmp_path):
    domain = Domain(
        (Category("a", ("", "x,y", "NA", "gone"), missing="gone"), Numeric("b", 0, 9, missing=9))
    )
    found = read(csv(tmp_path, 'a,b\n"", 1 \n"x,y",NA\nNA,3\n\n,\n'), domain)
    assert [column.tolist() for column in found.columns] == [[0, 1, 2, 3], [1, 9, 3, 9]]


def test_bins_are_read_from_numbers_and_from_labels(tmp_path):
    bins = Domain((Bins("age", (0, 20, 99)),))
    assert read(csv(tmp_path, "age\n3\n20\n"), bins).column("age").tolist() == [0, 1]
    assert read(csv(tmp_path, 'age\n"[0,20)"\n"[20,99]"\n'), bins).column("age").tolist() == [0, 1]


def test_a_byte_order_mark_is_no_part_of_the_name(tmp_path):
    assert (
        read(csv(tmp_path, b"\xef\xbb\xbfsex\nF\n"), Domain((Category("sex", ("F",)),))).rows == 1
    )


def test_gzip_is_known_by_its_bytes(tmp_path):
    path = csv(tmp_path, gzip.compress(b"sex\nF\n"))
    assert read(path, Domain((Category("sex", ("F",)),))).rows == 1


def test_rows_are_counted_over_blocks(tmp_path, monkeypatch):
    from sfumato.table import delimited

    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    path = csv(tmp_path, "sex\n" + "F\n" * 200 + "X\n")
    with pytest.raises(DataError, match="row 201, column 'sex': 'X'"):
        read(path, Domain((Category("sex", ("F", "M")),)))
    path = csv(tmp_path, "a,b\n" + "1,2\n" * 200 + "1,2,3\n")
    with pytest.raises(FileError, match=r"line 202 of .* has 3 fields where the header has 2"):
        read(path, Domain((Numeric("a", 0, 9),)))


def test_standard_input_is_known_by_its_beginning(monkeypatch):
    def given_bytes(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    buffer = io.BytesIO()
    pq.write_table(people().to_arrow(), buffer)
    for data in (b"age,sex\n3,F\n", gzip.compress(b"age,sex\n3,F\n"), buffer.getvalue()):
        given_bytes(data)
        assert read("-", PEOPLE).rows >= 1
    given_bytes(b"3 40\n\n5\n")
    assert read("-").domain == BASKETS
    given_bytes(b"")
    with pytest.raises(FileError, match="standard input is empty"):
        read("-")


def test_a_schema_may_be_given_as_its_file(tmp_path):
    schema, data = tmp_path / "s.toml", tmp_path / "d.csv"
    PEOPLE.save(schema)
    data.write_text("age,sex\n3,F\n")
    assert read(data, str(schema)).domain == read(data, schema=schema).domain == PEOPLE
    with pytest.raises(SchemaError, match="read from a file, not from a int") as refused:
        read(data, schema=3)
    assert refused.value.__cause__ is None and refused.value.__context__ is None


# What cannot be read.

BAD_FILES = {
    "empty": ("d.csv", b"", "is empty"),
    "blank": ("d.csv", b"\n\n", "is empty"),
    "no rows": ("d.csv", b"age,sex\n", "has no rows"),
    "ragged": (
        "d.csv",
        b"age,sex\n1,F\n2,F,x\n",
        "line 3 of .* has 3 fields where the header has 2",
    ),
    "short": ("d.csv", b"age,sex\n1\n", "line 2 of .* has 1 fields"),
    "latin": ("d.csv", "age,sex\n1,é\n".encode("latin1"), "is not UTF-8 text; convert it"),
    "latin header": ("d.csv", "âge,sex\n1,F\n".encode("latin1"), "is not UTF-8"),
    "twice": ("d.csv", b"age,age,sex\n1,1,F\n", "more than one column 'age' in its header"),
    "not gzip": ("d.csv.gz", b"\x1f\x8bnonsense", "gzip"),
    "cut gzip": ("d.csv.gz", gzip.compress(b"age,sex\n" + b"1,F\n" * 1000)[:-12], "gzip"),
    "not parquet": ("d.parquet", b"age,sex\n1,F\n", "not a readable Parquet file"),
    "empty parquet": ("d.parquet", b"", "is empty"),
    "word in baskets": ("d.dat", b"1 2\n3 x\n", "line 2 of .*'x' is not an item id"),
    "empty baskets": ("d.dat", b"", "is empty"),
    "unknown kind": ("d.xlsx", b"PK", "unknown kind; Sfumato reads and writes .csv"),
    "model": ("d.model.json", b"{}", "unknown kind; .*; a model is opened by open_model"),
}


@pytest.mark.parametrize("name, content, words", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files(tmp_path, name, content, words):
    path = csv(tmp_path, content, name)
    with pytest.raises((FileError, DataError), match=words) as caught:
        read(path, None if name.endswith(".dat") else PEOPLE)
    assert "\n" not in str(caught.value)


def test_truncated_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    save(people(50_000), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=r"not a readable Parquet file.*truncated"):
        read(path, PEOPLE)
    path.write_bytes(whole[:10] + bytes(len(whole) // 2) + whole[10 + len(whole) // 2 :])
    with pytest.raises(FileError, match="not a readable Parquet file"):
        read(path, PEOPLE)


def test_missing_files_and_folders(tmp_path):
    csv(tmp_path, "sex\nF\n", "census.csv")
    with pytest.raises(FileError, match=r"no file .*cencus.csv'; did you mean 'census.csv'"):
        read(tmp_path / "cencus.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read(tmp_path / "folder.csv")


def test_a_truth_is_not_taken_for_a_release(tmp_path):
    save(people(), tmp_path / "p.csv")
    with pytest.raises(FileError, match="carries no mechanism"):
        read_perturbed(tmp_path / "p.csv")


def test_a_release_is_not_taken_for_the_truth(tmp_path):
    save(perturb_table(people(), GammaDiagonal(PEOPLE.binned(), 19)), tmp_path / "p.parquet")
    with pytest.raises(ParameterError, match="was perturbed and carries its own domain"):
        read(tmp_path / "p.parquet", PEOPLE)


def test_a_changed_release_is_noticed(tmp_path):
    path = tmp_path / "p.csv"
    save(perturb_table(people(), GammaDiagonal(PEOPLE.binned(), 19)), path)
    path.write_text("\n".join(path.read_text().splitlines()[:-3]) + "\n")
    with pytest.raises(FileError, match="are not those that its description speaks of"):
        read(path)
    side = tmp_path / "p.csv.sfumato.json"
    of_first_version(side)
    with pytest.raises(FileError, match="has 97 rows, but its description speaks of 100"):
        read(path)
    side.write_text(side.read_text()[:50])
    with pytest.raises(FileError, match="changed or cut short"):
        read(path)


def of_first_version(side: Path) -> None:
    """Make a side file one of version 0.1.0, which noted neither a digest nor a release."""
    description = json.loads(side.read_text())
    newer = ("digest", "release", "shuffled")
    old = {name: value for name, value in description.items() if name not in newer}
    side.write_text(json.dumps({**old, "format": 1}))


# How files are written.


@pytest.mark.parametrize(
    ("name", "line"), [("p.csv", "4711,F"), ("b.csv", "0,4711,1"), ("b.dat", "5 4711")]
)
def test_what_is_no_report_is_not_told(tmp_path, name, line):
    """A value that the mechanism never reports may be someone's true one; on the collector's side
    it is not repeated.
    """
    table = people() if name == "p.csv" else baskets()
    mechanism = (
        GammaDiagonal(table.domain.binned(), 19)
        if name == "p.csv"
        else BitFlip(table.domain, 0.9, 0.9)
    )
    save(perturb_table(table, mechanism, seeded(1)), tmp_path / name)
    lines = (tmp_path / name).read_text().splitlines()
    lines[5] = line
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    with pytest.raises(FileError, match="are not those that its description speaks of"):
        read_perturbed(tmp_path / name)
    of_first_version(tmp_path / f"{name}.sfumato.json")
    with pytest.raises(FileError, match=r"row \d of .* is no report of") as told:
        read_perturbed(tmp_path / name)
    assert "4711" not in str(told.value)


def test_nothing_is_overwritten_unless_forced(tmp_path):
    path = tmp_path / "p.csv"
    save(people(3), path)
    before = path.read_bytes()
    with pytest.raises(FileError, match="exists already; use --force"):
        save(people(5), path)
    assert path.read_bytes() == before
    save(people(5), path, force=True)
    assert read(path, PEOPLE).rows == 5


def test_a_stale_description_goes(tmp_path):
    path = tmp_path / "p.csv"
    save(perturb_table(people(), GammaDiagonal(PEOPLE.binned(), 19)), path)
    save(people(), path, force=True)
    assert os.listdir(tmp_path) == ["p.csv"]
    assert read(path, PEOPLE).provenance is None


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.parquet"])
def test_a_full_disk_leaves_everything_as_it_was(tmp_path, monkeypatch, name):
    path = tmp_path / name
    old = perturb_table(people(10), GammaDiagonal(PEOPLE.binned(), 3))
    save(old, path)
    before = {entry: (tmp_path / entry).read_bytes() for entry in os.listdir(tmp_path)}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(
        FileError, match=r"cannot write .*No space left on device; nothing was changed"
    ):
        save(perturb_table(people(20), GammaDiagonal(PEOPLE.binned(), 3)), path, force=True)
    assert {entry: (tmp_path / entry).read_bytes() for entry in os.listdir(tmp_path)} == before


FILL = """
import resource, sys
from sfumato.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.argv = ["sfumato", "generate", "survey", "--rows", "20000", "-o", sys.argv[1], "--force"]
main()
"""


@pytest.mark.parametrize("name", ["s.csv", "s.parquet", "s.csv.gz"])
def test_a_write_that_fails_half_way(tmp_path, name):
    path = tmp_path / name
    path.write_text("what was there before")
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("sfumato: cannot write") and done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == [name] and path.read_text() == "what was there before"


def test_an_interrupted_write_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), formats.writer_to(tmp_path / "p.csv", PEOPLE) as writer:
        writer.write(people().columns)
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(FileError, match="no folder"):
        save(people(), tmp_path / "none" / "p.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        save(people(), tmp_path / "d.csv")
    with pytest.raises(FileError, match="unknown kind"):
        save(people(), tmp_path / "p.txt")


def test_the_side_file_holds_the_whole_description(tmp_path):
    save(perturb_table(people(), GammaDiagonal(PEOPLE.binned(), 19), seeded(1)), tmp_path / "p.csv")
    description = json.loads((tmp_path / "p.csv.sfumato.json").read_text())
    assert (
        description["rows"] == 100 and description["secure"] is False and description["copies"] == 1
    )
    assert (
        description["parameters"] == {"gamma": "19"}
        and description["mechanism"] == "gamma-diagonal"
    )
    assert description["format"] == 2 and description["version"]
    assert description["shuffled"] is True and len(description["release"]) == 32
    digest = hashlib.sha256((tmp_path / "p.csv").read_bytes()).hexdigest()
    assert description["digest"] == f"sha256:{digest}" and "previous" not in description


def test_a_file_that_is_not_there_is_answered_with_one_that_is_called_alike(tmp_path):
    for name in ("head.csv", "survey.csv", "survey.toml"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(FileError, match=r"did you mean 'survey\.csv'"):
        sf.read(tmp_path / "survy.csv")
    for far in ("data.csv", "health.csv", "heat-of-may.csv"):
        with pytest.raises(FileError) as error:
            sf.read(tmp_path / far)
        assert "did you mean" not in str(error.value)


def test_a_schema_where_records_are_wanted_is_told_as_one(tmp_path):
    (tmp_path / "six.toml").write_text('[[attribute]]\nname = "a"\ntype = "category"\nvalues=["x"]')
    with pytest.raises(FileError, match=r"like a schema .*reads and writes \.csv.*--schema"):
        sf.query(tmp_path / "six.toml", "SELECT COUNT(*) FROM t")
