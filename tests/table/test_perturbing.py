"""Perturbing tables and files: the same draws either way, copies side by side, memory that does not
grow.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import DataError, ParameterError
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Permuting, Retention
from sfumato.randomness import seeded
from sfumato.table import Table, perturb_file, perturb_table, read_perturbed, save, writer_to

PEOPLE = Domain(
    (
        Numeric("age", 0, 99, cuts=(20, 60)),
        Category("sex", ("F", "M")),
        Category("town", ("A", "B", "C"), public=True),
    )
)


def people(rows: int = 1000) -> Table:
    rng = seeded(1)
    return Table(PEOPLE, tuple(rng.below(size, rows).astype(np.uint8) for size in (100, 2, 3)))


@pytest.fixture
def path(tmp_path):
    save(people(), tmp_path / "truth.parquet")
    return tmp_path / "truth.parquet"


def test_public_columns_stay(path, tmp_path):
    release = perturb_table(
        people(), GammaDiagonal(PEOPLE.binned(), 19), seeded(3), keep_order=True
    )
    assert release.column("town").tolist() == people().column("town").tolist()
    assert release.column("sex").tolist() != people().column("sex").tolist()


def test_numbers_stay_numbers_where_the_mechanism_takes_them():
    release = perturb_table(people(), Retention(PEOPLE, 0.5), seeded(3), keep_order=True)
    assert release.domain["age"] == PEOPLE["age"]
    kept = np.mean(release.column("age") == people().column("age"))
    assert 0.4 < kept < 0.62


def test_secure_unless_told_otherwise(path, tmp_path):
    mechanism = GammaDiagonal(PEOPLE.binned(), 19)
    assert perturb_table(people(), mechanism).secure
    assert not perturb_table(people(), mechanism, seeded(1)).secure
    assert perturb_file(path, tmp_path / "o.parquet", mechanism, schema=PEOPLE).provenance.secure
    assert read_perturbed(tmp_path / "o.parquet").secure


def test_noise_is_drawn_afresh_each_time_it_is_asked_for():
    mechanism = GammaDiagonal(PEOPLE.binned(), 2)
    one, other = (perturb_table(people(), mechanism).column("sex") for _ in range(2))
    assert (one != other).any()


@pytest.mark.parametrize("copies", [1, 3])
def test_a_file_and_a_table_draw_the_same(path, tmp_path, copies):
    mechanism = GammaDiagonal(PEOPLE.binned(), 19)
    written = perturb_file(
        path, tmp_path / "o.csv", mechanism, seeded(7), schema=PEOPLE, copies=copies
    )
    release = perturb_table(people(), mechanism, seeded(7), copies=copies)
    assert written.rows == release.rows == 1000 * copies
    assert read_perturbed(tmp_path / "o.csv").to_arrow().equals(release.to_arrow())


def test_copies_of_a_record_are_neighbours():
    almost_kept = GammaDiagonal(PEOPLE.binned(), 10**6)
    release = perturb_table(people(), almost_kept, seeded(1), copies=3, keep_order=True)
    truth = np.repeat(people().recode(PEOPLE.binned()).column("age"), 3)
    assert np.mean(release.column("age") == truth) > 0.99
    assert release.column("town").tolist() == np.repeat(people().column("town"), 3).tolist()


def test_copies_of_baskets_are_neighbours():
    domain = Domain((Items("items", tuple("abcde")),))
    table = Table(domain, (Bits.from_dense(np.eye(5, dtype=bool)),))
    release = perturb_table(
        table, BitFlip(domain, 65535 / 65536, 65535 / 65536), seeded(1), copies=2, keep_order=True
    )
    assert (
        release.column("items").to_dense().tolist()
        == np.repeat(np.eye(5, dtype=bool), 2, axis=0).tolist()
    )


def test_copies_are_independent_draws():
    release = perturb_table(people(4000), GammaDiagonal(PEOPLE.binned(), 3), seeded(1), copies=2)
    pairs = release.column("sex").reshape(-1, 2)
    assert (pairs[:, 0] != pairs[:, 1]).mean() > 0.2


def test_batches_do_not_change_what_swapping_sees(path, tmp_path):
    mechanism = Permuting(PEOPLE, 0.3)
    perturb_file(path, tmp_path / "o.parquet", mechanism, seeded(7), schema=PEOPLE, batch_rows=10)
    release = read_perturbed(tmp_path / "o.parquet")
    assert sorted(release.column("age").tolist()) == sorted(people().column("age").tolist())
    assert release.to_arrow().equals(perturb_table(people(), mechanism, seeded(7)).to_arrow())


def test_progress_reaches_the_end(path, tmp_path):
    seen = []
    mechanism = GammaDiagonal(PEOPLE.binned(), 19)
    perturb_file(
        path,
        tmp_path / "o.parquet",
        mechanism,
        seeded(1),
        schema=PEOPLE,
        batch_rows=300,
        progress=lambda *x: seen.append(x),
    )
    assert [rows for rows, _ in seen] == [300, 600, 900, 1000, 1000]
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0 and fractions[0] < 0.5


def test_nothing_is_perturbed_twice(tmp_path):
    mechanism = GammaDiagonal(PEOPLE.binned(), 19)
    release = perturb_table(people(), mechanism)
    with pytest.raises(ParameterError, match="perturbed already"):
        perturb_table(release, mechanism)
    save(release, tmp_path / "p.parquet")
    with pytest.raises(ParameterError, match="perturbed already, by gamma-diagonal"):
        perturb_file(tmp_path / "p.parquet", tmp_path / "q.parquet", mechanism)
    with pytest.raises(ParameterError, match="copies=0"):
        perturb_table(people(), mechanism, copies=0)


def test_only_the_columns_of_the_mechanism_are_read(tmp_path):
    (tmp_path / "t.csv").write_text("sex,age,town\nF,old,A\nM,young,B\n")
    mechanism = GammaDiagonal(PEOPLE.project(["sex"]), 19)
    written = perturb_file(tmp_path / "t.csv", tmp_path / "o.csv", mechanism, schema=PEOPLE)
    assert written.rows == 2 and "age, town" in written.notes[0]


def test_a_bad_record_leaves_no_output(tmp_path):
    (tmp_path / "t.csv").write_text("sex\n" + "F\n" * 100 + "X\n")
    mechanism = GammaDiagonal(PEOPLE.project(["sex"]), 19)
    with pytest.raises(DataError, match="row 101, column 'sex': 'X'"):
        perturb_file(tmp_path / "t.csv", tmp_path / "o.csv", mechanism)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.csv"]


def test_a_bad_record_is_not_followed_by_complaints_of_the_writer(tmp_path, capfd):
    data = Domain((Category("sex", ("F", "M")),))
    (tmp_path / "d.csv").write_text("sex\nF\nX\n")
    for target in (tmp_path / "o.parquet", "-"):
        with pytest.raises(DataError, match="row 2, column 'sex'"):
            perturb_file(tmp_path / "d.csv", target, GammaDiagonal(data, 19))
    gc.collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_row_groups_tell_nothing_of_the_length_of_true_records(tmp_path, name):
    """A block of CSV text ends after fewer long records than short ones; the perturbed file must
    not.
    """
    domain = Domain((Category("sex", ("F", "M")),))
    for word in ("short", "a very long word that is dropped, and still must leave no trace" * 4):
        table = pa.table({"sex": ["F"] * 140_000, "note": [word] * 140_000})
        pq.write_table(table, tmp_path / name) if name.endswith("parquet") else write_csv(
            table, tmp_path / name
        )
        perturb_file(
            tmp_path / name,
            tmp_path / "o.parquet",
            GammaDiagonal(domain, 19),
            seeded(1),
            force=True,
        )
        metadata = pq.read_metadata(tmp_path / "o.parquet")
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        assert groups == [1 << 16, 1 << 16, 140_000 - (1 << 17)]


def test_a_data_frame_is_perturbed_into_a_file(tmp_path):
    frame = pa.table({"sex": ["F", "M"] * 50})
    mechanism = GammaDiagonal(PEOPLE.project(["sex"]), 19)
    assert perturb_file(frame, tmp_path / "o.parquet", mechanism).rows == 100


# What is freed goes back to the system at once, so that the peak is what was held and not how the
# allocator hoards.
GIVE_BACK = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
PEAKS = """
import re, sys
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Permuting
from sfumato.domain import Domain
from sfumato.table import delimited, perturb_file
# Small blocks, so that a small file already fills whatever holds them.
delimited.BLOCK_BYTES = 1 << 17
def peak():  # kB; getrusage would count what the parent held when it started this process
    return re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
domain = Domain.load(sys.argv[1])
mechanism = BitFlip(domain, 0.9, 0.9) if domain.baskets else GammaDiagonal(domain.binned(), 19)
for source in sys.argv[2:]:
    reports = source.replace("truth", "reports")
    perturb_file(source, reports, mechanism, schema=domain, batch_rows=1 << 13)
    print(peak())
if not domain.baskets:  # swapping must hold all rows: the measurement can tell
    perturb_file(source, source.replace("truth", "swapped"), Permuting(domain, 0.5), schema=domain)
    print(peak())
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, as Linux has it"
)
@pytest.mark.parametrize("kind", ["csv", "parquet", "dat"])
def test_peak_memory_does_not_grow_with_the_file(tmp_path, kind):
    domain = PEOPLE if kind != "dat" else Domain((Items("items", tuple(map(str, range(100)))),))
    domain.save(tmp_path / "schema.toml")
    sizes = (10, 50) if kind == "dat" else (4, 60)
    sources = [tmp_path / f"truth{batches}.{kind}" for batches in sizes]
    for source, batches in zip(sources, sizes, strict=True):
        _write(source, domain, batches)
    command = [sys.executable, "-c", PEAKS, str(tmp_path / "schema.toml"), *map(str, sources)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | GIVE_BACK
    )
    assert done.returncode == 0, done.stderr
    small, large, *held = map(int, done.stdout.split())
    assert large < small + 12_000, f"{small} kB for one file, {large} kB for one many times as long"
    assert all(peak > small + 24_000 for peak in held)


def _write(path, domain: Domain, batches: int) -> None:
    rng, rows = seeded(1), 1 << 16
    with writer_to(path, domain) as writer:
        for _ in range(batches):
            if domain.baskets:
                writer.write(
                    (Bits.from_dense(rng.below(20, rows // 4 * 100).reshape(-1, 100) == 0),)
                )
            else:
                writer.write(
                    tuple(rng.below(attribute.size, rows).astype(np.uint8) for attribute in domain)
                )
