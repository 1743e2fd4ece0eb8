"""Random replacement that keeps expected counts: the promise exact, the counts by repetition."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.publish.invariant import InvariantMatrix
from sfumato.publish.pram import pram
from sfumato.randomness import seeded

COUNTS = np.array([600, 250, 100, 50])


@pytest.mark.parametrize("gamma", [Fraction(3, 2), 3, 19, 100])
@pytest.mark.parametrize("counts", [COUNTS, np.array([9_999, 1]), np.full(12, 7)], ids=str)
def test_the_matrix_is_invariant_and_keeps_its_promise(gamma: Fraction, counts: np.ndarray) -> None:
    matrix = InvariantMatrix.promising(counts, gamma)
    assert (matrix.weights.sum(axis=0) == 1 << 32).all()
    assert np.abs(matrix.chances @ counts - counts).max() < 1e-4 * counts.sum() / 10_000
    rows = matrix.weights.tolist()
    worst = max(Fraction(max(row), min(row)) for row in rows)
    assert worst <= gamma and matrix.guarantee.gamma == worst
    assert worst > Fraction(gamma) - Fraction(1, 50) * gamma  # and no more privacy than asked


def test_no_invariant_matrix_with_the_promise_keeps_more() -> None:
    """Against random invariant matrices, made by detailed balance, that keep the promise."""
    rng = np.random.default_rng(1)
    best = InvariantMatrix.promising(COUNTS, 5)
    tried = 0
    for _ in range(4_000):
        near = np.triu(1 + rng.uniform(-0.3, 0.3, (4, 4)), 1)
        flow = np.outer(COUNTS, COUNTS) / COUNTS.sum() * (near + near.T) * rng.uniform(0.5, 1)
        law = flow / COUNTS
        if law.sum(axis=0).max() >= 1:
            continue
        law += np.diag(1 - law.sum(axis=0))
        if (law.max(axis=1) / law.min(axis=1)).max() <= 5:
            tried += 1
            kept = float(np.diag(law) @ COUNTS / COUNTS.sum())
            assert kept <= best.kept + 1e-6
    assert tried >= 20
    own = (5 - 1) * COUNTS.min() / COUNTS.sum()
    keep = own / (1 + own)
    assert best.kept > keep + (1 - keep) * float(((COUNTS / COUNTS.sum()) ** 2).sum()) + 0.05


def people(rows: int = 1000) -> pa.Table:
    rng = np.random.default_rng(2)
    ill = np.repeat(["no", "flu", "gout", "other"], COUNTS)
    rng.shuffle(ill)
    return pa.table(
        {"sex": rng.choice(["f", "m"], rows), "ill": ill, "old": rng.random(rows) < 0.3}
    )


def test_counts_stay_in_the_mean_and_their_error_is_told() -> None:
    table = people()
    report = pram(table, "ill", gamma=6, rng=seeded(1)).reports[0]
    true, stderr = (
        np.array([getattr(c, name) for c in report.counts]) for name in ("true", "stderr")
    )
    assert tuple(count.value for count in report.counts) == ("flu", "gout", "no", "other")
    matrix = InvariantMatrix.promising(true, 6)
    codes = np.repeat(np.arange(4), true)
    shown = [np.bincount(matrix.draw(codes, seeded(seed)), minlength=4) for seed in range(400)]
    allowed = 5 * stderr / np.sqrt(400)
    assert (np.abs(np.mean(shown, axis=0) - true) < allowed).all()
    assert (np.abs(np.std(shown, axis=0, ddof=1) / stderr - 1) < 0.2).all()
    # A matrix that is not invariant would be seen: the plain one pulls every count to the mean,
    # where only flu is already.
    plain = 5 / 9 * true + 4 / 9 * 250
    assert (np.abs(plain - true) > allowed).tolist() == [False, True, True, True]


def test_within_other_columns_their_combinations_stay_too() -> None:
    table = people()
    release = pram(table, "ill", gamma=19, within=["sex", "old"], rng=seeded(1))
    report = release.reports[0]
    assert report.strata == 4 and report.within == ("sex", "old")
    means: Counter[tuple[object, ...]] = Counter()
    for seed in range(40):
        drawn = pram(table, "ill", gamma=19, within=["sex", "old"], rng=seeded(seed)).table
        means.update(zip(*(drawn[name].to_pylist() for name in ("sex", "old", "ill")), strict=True))
    true = Counter(zip(*(table[name].to_pylist() for name in ("sex", "old", "ill")), strict=True))
    for cell, count in true.items():
        assert means[cell] / 40 == pytest.approx(count, abs=5 * np.sqrt(count / 40) + 1e-9)


def test_several_columns_on_their_own_multiply_and_as_one_keep_their_table() -> None:
    table = people()
    alone = pram(table, ["sex", "ill"], gamma=4, rng=seeded(1))
    assert [report.column for report in alone.reports] == ["sex", "ill"]
    assert 15.5 < alone.guarantee.gamma <= 16
    joint = pram(table, ["sex", "ill"], gamma=4, jointly=True, rng=seeded(1))
    assert joint.guarantee.gamma <= 4
    assert joint.table.schema.equals(table.schema)
    counts = joint.reports[0].counts
    assert sum(count.true for count in counts) == 1000 == sum(count.shown for count in counts)


def test_keep_says_what_gamma_it_comes_to() -> None:
    release = pram(people(), "ill", keep=0.8, rng=seeded(1))
    least = COUNTS.min() / COUNTS.sum()
    assert release.reports[0].gamma == pytest.approx((0.8 + 0.2 * least) / (0.2 * least), rel=1e-6)


def test_the_intruder_is_right_as_often_as_repetition_says() -> None:
    table = people()
    report = pram(table, "ill", gamma=6, rng=seeded(1)).reports[0]
    true = np.array(table["ill"].to_pylist())
    best: Counter[str] = Counter()
    joint: dict[str, Counter[str]] = {}
    for seed in range(60):
        shown = pram(table, "ill", gamma=6, rng=seeded(seed)).table["ill"].to_pylist()
        for value, truth in zip(shown, true, strict=True):
            joint.setdefault(value, Counter())[truth] += 1
    for value, counted in joint.items():
        best[value] = max(counted.values())
    assert report.informed == pytest.approx(sum(best.values()) / 60_000, abs=0.01)
    assert report.baseline == 0.6
    top = max(max(counted.values()) / counted.total() for counted in joint.values())
    assert report.worst.posterior == pytest.approx(top, abs=0.03)
    kept = sum(counted[value] for value, counted in joint.items()) / 60_000
    assert report.kept == pytest.approx(kept, abs=0.01)


def test_a_stratum_with_one_value_tells_it_and_says_so() -> None:
    table = pa.table({"town": ["a"] * 50 + ["b"] * 50, "ill": ["no"] * 50 + ["no", "yes"] * 25})
    report = pram(table, "ill", gamma=3, within="town").reports[0]
    assert report.fixed == 50 and "hold one value only" in report.notes[0]
    assert report.worst.posterior == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "say how much is replaced, one way"),
        ({"gamma": 3, "keep": 0.5}, "say how much is replaced, one way"),
        ({"gamma": 1}, "gamma=1 leaves no information"),
        ({"gamma": 1e300}, r"gamma=1e\+300 promises nothing"),
        ({"gamma": float("nan")}, "gamma=nan promises nothing"),
        ({"keep": 1.5}, r"keep=1\.5 lies outside"),
        ({"gamma": 3, "within": "ill"}, "cannot be replaced within itself"),
        ({"gamma": 3, "within": "town"}, "no column 'town'"),
        ({"gamma": 3, "columns": "il"}, "did you mean 'ill'"),
    ],
)
def test_bad_wishes_are_refused_in_the_callers_words(how: dict[str, object], words: str) -> None:
    with pytest.raises((ParameterError, sf.SfumatoError), match=words):
        pram(people(), **{"columns": "ill", **how})


def test_adult_keeps_its_counts(data_dir: Path) -> None:
    from pyarrow import csv

    table = csv.read_csv(data_dir / "adult.csv.gz").select(["sex", "marital_status", "income"])
    release = pram(table, "marital_status", gamma=19, within="sex", rng=seeded(1))
    report = release.reports[0]
    assert report.gamma <= 19 and report.moved < 0.01
    assert 0.5 < report.kept < 0.95
    for count in report.counts:
        assert abs(count.shown - count.true) < 6 * count.stderr


def test_of_many_values_the_best_matrix_is_not_looked_for_and_it_says_so() -> None:
    table = pa.table({"age": [*range(61), *range(61), 0]})
    assert "far more would show the truth" in pram(table, "age", gamma=19).reports[0].notes[0]
    assert not pram(table, "age", keep=0.5).reports[0].notes
    assert not pram(table, "age", gamma=19, bins={"age": "width:9"}).reports[0].notes


def test_many_values_are_refused_before_their_matrix_is_made() -> None:
    """28,523 of them took minutes and gigabytes."""
    people = pa.table({"pay": list(range(2_001)), "name": [f"person {n}" for n in range(2_001)]})
    with pytest.raises(ParameterError, match=r"'pay' has 2,001 values.*--bin pay=frequency:20"):
        pram(people, "pay", gamma=19)
    with pytest.raises(ParameterError, match=r"'name' has 2,001 values.*merge rare values"):
        pram(people, "name", keep=0.5)
    with pytest.raises(ParameterError, match="not jointly"):
        pram(people, ["pay", "name"], keep=0.5, jointly=True)
    release = pram(people, "pay", gamma=19, bins={"pay": "frequency:20"}, rng=seeded(1))
    assert len(release.reports[0].counts) == 20
    strata = {"pay": [*range(900)] * 20, "group": np.repeat(np.arange(20), 900)}
    with pytest.raises(ParameterError, match="20 strata of 'pay' have 16,200,000 entries"):
        pram(pa.table(strata), "pay", keep=0.5, within="group")
