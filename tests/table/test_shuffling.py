"""Shuffling: every order is equally likely, whatever fits in memory; records move whole; and a
release says nothing of the order that its records had.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.errors import FileError, ParameterError
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Permuting
from sfumato.randomness import Keystream, seeded
from sfumato.table import Table, perturb_file, perturb_table, read_perturbed, save, shuffling
from sfumato.table.perturbing import shuffled
from sfumato.table.shuffling import (
    RowForm,
    Shuffle,
    bits_of,
    octets_of,
    permutation,
    read_order,
)

ILL = Domain((Category("ill", ("no", "yes")), Numeric("age", 0, 299, cuts=(100,))))
DRAWS = 24 * 400


def hold(monkeypatch: pytest.MonkeyPatch, octets: int) -> None:
    """Let a shuffle hold so many bytes in memory."""
    monkeypatch.setattr(shuffling, "HELD_BYTES", octets)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so small that a few rows are thrown into buckets, and those into buckets again."""
    monkeypatch.setattr(shuffling, "SORTED_ROWS", 2)
    hold(monkeypatch, 1)


def through_shuffle(rng: Keystream, count: int) -> tuple[int, ...]:
    """The order in which numbers come out of a shuffle."""
    shuffle = Shuffle(rng, np.dtype([("number", np.int64)]))
    for number in range(count):
        shuffle.add(np.array([(number,)], dtype=shuffle.dtype))
    return tuple(int(rows["number"][0]) for rows in shuffle.batches(1))


def p_value(orders: Counter[tuple[int, ...]]) -> float:
    """How likely counts as uneven as these are among equally likely orders of four rows."""
    return float(chisquare([orders[order] for order in permutations(range(4))]).pvalue)


def test_every_order_is_equally_likely() -> None:
    rng = seeded(1)
    assert p_value(Counter(tuple(permutation(rng, 4).tolist()) for _ in range(DRAWS))) > 1e-6


@pytest.mark.usefixtures("tiny")
def test_every_order_is_equally_likely_among_buckets() -> None:
    rng = seeded(2)
    assert p_value(Counter(tuple(permutation(rng, 4).tolist()) for _ in range(DRAWS))) > 1e-6


@pytest.mark.usefixtures("tiny")
def test_every_order_is_equally_likely_through_a_file() -> None:
    rng = seeded(3)
    assert p_value(Counter(through_shuffle(rng, 4) for _ in range(DRAWS // 3))) > 1e-6


def test_an_order_that_favours_a_row_is_told() -> None:
    """A row that stays first a quarter of the time beyond its share is seen by this very test."""
    rng = seeded(4)

    def biased() -> tuple[int, ...]:
        order = permutation(rng, 4).tolist()
        if rng.chance(1 << 14, 16, 1)[0]:  # a quarter of the time, the first stays first
            order.remove(0)
            order.insert(0, 0)
        return tuple(order)

    assert p_value(Counter(biased() for _ in range(DRAWS))) < 1e-6


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, (1 << 20) + 5])
def test_an_order_holds_every_row_once(count: int) -> None:
    order = permutation(seeded(count), count)
    assert np.array_equal(np.sort(order), np.arange(count))


def test_equal_sort_keys_are_drawn_again() -> None:
    class Stuck(Keystream):
        """A stream whose first words are all alike, then as they should be."""

        spent = False

        def words(self, count: int) -> np.ndarray:
            found = super().words(count)
            if not self.spent:
                found[:] = found[0]
            self.spent = True
            return found

    rng = Stuck(bytes(32))
    assert permutation(rng, 64).tolist() != list(range(64)) and rng.spent


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("items", [1, 7, 8, 9, 64, 300])
def test_bits_are_turned_into_rows_and_back(rows: int, items: int) -> None:
    dense = np.random.default_rng(rows + items).random((rows, items)) < 0.3
    octets = octets_of(Bits.from_dense(dense))
    unpacked = np.unpackbits(octets, axis=1, count=items, bitorder="little")
    assert np.array_equal(unpacked.astype(bool), dense)
    assert bits_of(octets, items).equals(Bits.from_dense(dense))


@pytest.mark.parametrize("copies", [1, 3])
def test_records_move_whole(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column, every copy and the number of a record stay together, through buckets of
    buckets.
    """
    hold(monkeypatch, 9000)
    domain = Domain(
        (Category("a", ("x", "y")), Numeric("n", 0, 99_999), Items("i", tuple("bcdef")))
    )
    rng, rows = np.random.default_rng(1), 50_000 * copies
    columns = (
        rng.integers(0, 2, rows),
        np.arange(rows) // copies,
        Bits.from_dense(rng.random((rows, 5)) < 0.5),
    )
    form = RowForm(domain, copies, numbered=True)
    shuffle = Shuffle(seeded(1), form.dtype)
    whole = form.pack(columns, 0)
    for start in range(0, len(whole), 700):
        shuffle.add(whole[start : start + 700])
    out = np.concatenate(list(shuffle.batches(999)))
    found, numbers = form.unpack(out), form.numbers(out)
    places = numbers.reshape(-1, copies) * copies + np.arange(copies)
    assert np.array_equal(np.sort(numbers[::copies]), np.arange(50_000))
    assert abs(np.corrcoef(numbers, np.arange(rows))[0, 1]) < 0.03
    for column, before in zip(found, columns, strict=True):
        if isinstance(before, Bits):
            assert column.equals(before.take(places.ravel()))
        else:
            assert np.array_equal(column, before[places.ravel()])


# What a release says of the order.


def sorted_truth(rows: int = 20_000) -> Table:
    ill = np.arange(rows) >= 0.9 * rows  # an export sorted by the private column
    return Table(ILL, (ill.astype(np.uint8), (np.arange(rows) * 300 // rows).astype(np.uint16)))


def recovered(release: Table, truth: Table) -> float:
    """The share of the records that the change point of the reports gives away."""
    surplus = np.cumsum(release.column("ill") - np.mean(release.column("ill")))
    guess = np.arange(release.rows) > np.argmin(surplus)
    return float(np.mean(guess == (truth.column("ill") == 1)))


MECHANISM = GammaDiagonal(ILL.binned(), 3)


def test_a_sorted_file_gives_itself_away_where_its_order_is_kept() -> None:
    truth = sorted_truth()
    kept = perturb_table(truth, MECHANISM, seeded(5), keep_order=True)
    assert recovered(kept, truth) > 0.999
    assert recovered(perturb_table(truth, MECHANISM, seeded(5)), truth) < 0.9


@pytest.mark.parametrize("held", [shuffling.HELD_BYTES, 20_000])
def test_no_test_tells_a_sorted_file_from_its_shuffle(
    tmp_path: Path, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Correlations with the place, with the neighbours and between halves, and the longest climb:
    of a release of the sorted file as of one of the shuffled file, at every seed.
    """
    hold(monkeypatch, held)
    truth = sorted_truth(4000)
    mixed = truth.take(np.random.default_rng(0).permutation(truth.rows))
    figures: dict[str, list[list[float]]] = {"sorted": [], "mixed": []}
    for name, table in (("sorted", truth), ("mixed", mixed)):
        save(table, tmp_path / f"{name}.parquet")
        for seed in range(25):
            target = tmp_path / "out.parquet"
            perturb_file(
                tmp_path / f"{name}.parquet",
                target,
                MECHANISM,
                seeded(seed),
                schema=ILL,
                batch_rows=500,
                force=True,
            )
            figures[name].append(order_figures(read_perturbed(target)))
    one, other = np.array(figures["sorted"]), np.array(figures["mixed"])
    pooled = np.sqrt((one.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / 25)
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 6 * pooled).all()
    kept = order_figures(perturb_table(truth, MECHANISM, seeded(1), keep_order=True))
    assert (np.abs(kept - other.mean(axis=0))[:2] > 6 * other.std(axis=0)[:2]).all()


def order_figures(release: Table) -> np.ndarray:
    values = release.column("ill") - np.mean(release.column("ill"))
    place = np.linspace(-1, 1, release.rows)
    return np.array(
        [
            np.mean(values * place),
            np.ptp(np.cumsum(values)),
            np.mean(values[1:] * values[:-1]),
            np.mean(values[: release.rows // 2]),
        ]
    )


# The file, its order and its owner.


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    save(sorted_truth(5000), tmp_path / "truth.csv")
    return tmp_path / "truth.csv"


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("held", [shuffling.HELD_BYTES, 20_000])
def test_the_secret_order_pairs_reports_with_records(
    truth: Path, copies: int, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(monkeypatch, held)
    order, target = truth.with_name("order.npy"), truth.with_name("out.csv")
    sure = GammaDiagonal(ILL.binned(), 10**9)
    written = perturb_file(truth, target, sure, schema=ILL, copies=copies, order=order)
    assert written.provenance.shuffled
    found = read_order(order, written.rows, copies)
    paired = np.repeat(sorted_truth(5000).recode(ILL.binned()).column("age")[found], copies)
    release = read_perturbed(target)
    assert release.provenance == written.provenance
    assert np.mean(release.column("age") == paired) > 0.999
    assert stat.S_IMODE(order.stat().st_mode) == 0o600
    assert sorted(path.name for path in truth.parent.iterdir()) == [
        "order.npy",
        "out.csv",
        "out.csv.sfumato.json",
        "truth.csv",
    ]


def test_a_table_is_shuffled_with_its_order() -> None:
    sure = GammaDiagonal(ILL.binned(), 10**9)
    kept = perturb_table(sorted_truth(500), sure, seeded(1), copies=2, keep_order=True)
    release, order = shuffled(kept, seeded(2))
    assert release.provenance is not None and release.provenance.shuffled
    assert release.provenance.release == kept.provenance.release
    truth = sorted_truth(500).recode(ILL.binned())
    assert np.mean(release.column("age") == truth.column("age")[order]) > 0.99
    with pytest.raises(ParameterError, match="only a release is shuffled"):
        shuffled(sorted_truth(5), seeded(1))


def test_two_releases_of_one_stream_have_orders_of_their_own() -> None:
    rng = seeded(1)
    kept = perturb_table(sorted_truth(500), MECHANISM, rng, keep_order=True)
    assert shuffled(kept, rng)[1].tolist() != shuffled(kept, rng)[1].tolist()


def test_swapping_is_shuffled_too(truth: Path) -> None:
    order, target = truth.with_name("order.npy"), truth.with_name("out.parquet")
    perturb_file(truth, target, Permuting(ILL, 0.999), seeded(1), schema=ILL, order=order)
    paired = sorted_truth(5000).column("age")[read_order(order, 5000)]
    assert np.mean(read_perturbed(target).column("age") == paired) > 0.9


def test_baskets_are_shuffled_too(tmp_path: Path) -> None:
    domain = Domain((Items("items", tuple(map(str, range(100)))),))
    dense = np.arange(3000)[:, None] // 30 == np.arange(100)
    save(Table(domain, (Bits.from_dense(dense),)), tmp_path / "t.dat")
    mask, order = BitFlip(domain, 65535 / 65536, 65535 / 65536), tmp_path / "order.npy"
    perturb_file(tmp_path / "t.dat", tmp_path / "o.dat", mask, order=order)
    found = read_perturbed(tmp_path / "o.dat").columns[0].to_dense()
    assert np.mean(found == dense[read_order(order, 3000)]) > 0.999


def test_an_order_needs_a_place_of_its_own(truth: Path) -> None:
    target, order = truth.with_name("out.csv"), truth.with_name("order.npy")
    for words, how in (
        ("the order is kept", {"order": order, "keep_order": True}),
        ("need a file each", {"order": target}),
    ):
        with pytest.raises(ParameterError, match=words):
            perturb_file(truth, target, MECHANISM, schema=ILL, **how)
    order.write_text("mine")
    with pytest.raises(FileError, match=r"order\.npy' exists already; use --force"):
        perturb_file(truth, target, MECHANISM, schema=ILL, order=order)
    assert order.read_text() == "mine" and not target.exists()


def test_reports_that_wait_have_no_name(truth: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill leaves no reports in the order of the truth: what is written aside has no name."""
    hold(monkeypatch, 1000)
    seen: set[str] = set()

    def look(rows: int, fraction: float | None) -> None:
        seen.update(os.listdir(truth.parent))

    perturb_file(truth, truth.with_name("o.csv"), MECHANISM, schema=ILL, progress=look)
    left = {name for name in seen if not name.endswith(".part")}
    assert left == {"truth.csv"} and len(seen) == 2
