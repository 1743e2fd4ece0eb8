"""Sources: the same question to the truth and to a release of it, by every kind of mechanism."""

from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.engines.several import _check_alike
from sfumato.errors import EstimationError, ParameterError, SchemaError
from sfumato.mechanisms.base import spec_of
from sfumato.randomness import seeded
from sfumato.release import Exact, Release, source_of
from sfumato.source import REMEMBERED, UNDONE
from sfumato.table import Table
from sfumato.testing import unbalanced

ROWS = 20_000
RECORDS = Domain(
    (
        Category("sex", ("F", "M")),
        Numeric("age", 20, 79, cuts=(40, 60)),
        Category("smoker", ("no", "yes")),
        Category("region", ("north", "south", "west"), public=True),
    )
)
BASKETS = Domain((Items("items", tuple("abcdef")),))


def records(rows: int = ROWS, seed: int = 1) -> Table:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, rows)
    age = np.minimum(rng.integers(0, 45, rows) + 15 * sex, 59)
    smoker = rng.random(rows) < 0.15 + 0.2 * sex + age / 200
    region = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    return Table(
        RECORDS,
        (
            sex.astype(np.uint8),
            age.astype(np.uint8),
            smoker.astype(np.uint8),
            region.astype(np.uint8),
        ),
    )


def baskets(rows: int = ROWS, seed: int = 2) -> Table:
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, 6)) < [0.5, 0.3, 0.2, 0.1, 0.4, 0.25]
    dense[:, 1] |= dense[:, 0] & (rng.random(rows) < 0.5)
    return Table(BASKETS, (Bits.from_dense(dense),))


def stochastic(size: int) -> np.ndarray:
    matrix = np.random.default_rng(4).dirichlet(np.ones(size), size).T
    return 0.6 * np.eye(size) + 0.4 * matrix


RECORD_MECHANISMS = {
    "gamma-diagonal": sf.GammaDiagonal(RECORDS.binned(), 30),
    "randomized-gamma": sf.RandomizedGamma(RECORDS.binned(), 30, 0.3),
    "retention": sf.Retention(RECORDS, (0.5, 0.4, 0.6)),
    "retention identity": sf.Retention(
        RECORDS, (0.5, 0.4, 0.6), replace=("identity", "uniform", "identity")
    ),
    "permuting": sf.Permuting(RECORDS, 0.5),
    "mask": sf.BitFlip(RECORDS, 0.9, 0.85),
    "cut-and-paste": sf.CutAndPaste(RECORDS, 3, 0.2),
    "matrix": sf.UserMatrix(RECORDS.binned(), stochastic(12)),
}


@pytest.mark.parametrize("name", RECORD_MECHANISMS)
def test_marginals_of_a_release_are_the_truth_within_their_errors(name):
    truth, mechanism = records(), RECORD_MECHANISMS[name]
    release = sf.perturb(truth, mechanism, seeded(11))
    exact = Exact(truth)
    every = []
    for columns in (["smoker"], ["age", "sex"], ["smoker", "region", "age"]):
        found, true = release.marginal(columns), exact.marginal(columns)
        assert found.value.shape == true.value.shape
        assert [part.labels for part in found.cells] == [part.labels for part in true.cells]
        assert np.all(true.stderr == 0) and np.isclose(found.value.sum(), ROWS, rtol=0.1)
        off = found.value - true.value
        assert np.all(np.abs(off) <= 5 * found.stderr + 1e-6), (columns, off / found.stderr)
        every.append(
            off.ravel()[found.stderr.ravel() > 1e-6]
            / found.stderr.ravel()[found.stderr.ravel() > 1e-6]
        )
    assert (
        0.4 < np.sqrt(np.mean(np.concatenate(every) ** 2)) < 2
    )  # the errors are of the size stated, no smaller either


@pytest.mark.parametrize("name", RECORD_MECHANISMS)
def test_standard_errors_hold_over_repeated_perturbation(name):
    truth, mechanism, rng = records(1500), RECORD_MECHANISMS[name], seeded(12)
    true = Exact(truth).marginal(["smoker", "sex"]).where(smoker="yes", sex="M").value
    answers = [
        sf.perturb(truth, mechanism, rng).marginal(["smoker", "sex"]).where(smoker="yes", sex="M")
        for _ in range(250)
    ]
    values = np.array([answer.value for answer in answers])
    stated = np.sqrt(np.mean([answer.stderr**2 for answer in answers]))
    assert abs(values.mean() - true) < 5 * values.std() / np.sqrt(len(values))
    assert 0.77 < values.std() / stated < 1.23  # five standard errors of a spread from 250 draws


@pytest.mark.parametrize(
    "mechanism",
    [sf.BitFlip(BASKETS, 0.9, 0.9), sf.BitFlip(BASKETS, [0.95] * 6, [0.7, 0.8, 0.9] * 2)],
)
def test_baskets_answer_for_their_items(mechanism):
    truth = baskets()
    release, exact = sf.perturb(truth, mechanism, seeded(3)), Exact(truth)
    found, true = release.marginal(["a", "b"]), exact.marginal(["a", "b"])
    assert np.abs((found.value - true.value) / found.stderr).max() < 5
    assert exact.marginal(["a"]).where(a=True).value == truth.columns[0].counts()[0]


def test_cut_and_paste_on_baskets_knows_absence_too():
    truth, mechanism = baskets(), sf.CutAndPaste(BASKETS, 4, 0.1)
    release, exact = sf.perturb(truth, mechanism, seeded(3)), Exact(truth)
    found, true = release.marginal(["a", "b"]), exact.marginal(["a", "b"])
    assert np.isclose(found.value.sum(), ROWS)
    assert np.abs((found.value - true.value) / found.stderr).max() < 5


@pytest.mark.parametrize("name", RECORD_MECHANISMS)
def test_the_miner_finds_in_a_release_what_the_marginals_say(name):
    release = sf.perturb(records(4000), RECORD_MECHANISMS[name], seeded(5))
    found = sf.frequent_itemsets(release, 0.1, max_length=2)
    assert len(found) > 5
    for itemset in found:
        values = dict(item.split("=", 1) for item in itemset.items)
        answer = release.marginal(list(values)).where(**values)
        if name == "mask":  # bits are mined item by item; marginals also know the number of people
            asked = release.observe([release.cells(each) for each in values]).cells
            marginal = release.marginal(asked)  # public columns first, as they are observed
            alone = (unbalanced(release, marginal.cells) * marginal.indicator(**values)).sum()
            assert np.isclose(itemset.support, alone / 4000, atol=1e-9)
            assert itemset.stderr >= 0.99 * answer.stderr / 4000
            continue
        assert np.isclose(itemset.support, answer.value / 4000, atol=1e-9)
        assert np.isclose(itemset.stderr, answer.stderr / 4000, rtol=1e-6, atol=1e-9)


def test_baskets_beside_other_columns_are_mined_together():
    truth = Table(
        Domain((RECORDS["sex"], BASKETS["items"], RECORDS["region"])),
        (records().column("sex"), baskets().columns[0], records().column("region")),
    )
    parts = sf.GammaDiagonal(Domain((RECORDS["sex"],)), 19), sf.BitFlip(BASKETS, 0.9, 0.85)
    release = sf.perturb(truth, sf.Combined(truth.domain, parts), seeded(3))
    exact = (
        sf.frequent_itemsets(Exact(truth), 0.1, max_length=3)
        .to_pandas()
        .set_index("itemsets")
        .support
    )
    assert frozenset({"sex=F", "a", "region=north"}) in exact and frozenset({"no a"}) not in exact
    found = sf.frequent_itemsets(release, 0.01, max_length=3).to_pandas().set_index("itemsets")
    errors = [
        (found.support[items] - support) / max(found.stderr[items], 1e-9)
        for items, support in exact.items()
    ]
    assert np.abs(errors).max() < 6 and np.abs(errors).max() > 0.5


def test_a_data_frame_is_perturbed_as_it_is():
    frame = records(50).to_arrow().to_pandas()
    release = sf.perturb(frame, RECORD_MECHANISMS["gamma-diagonal"], seeded(1))
    assert release.rows == 50 and release.domain == RECORDS.binned()
    with pytest.raises(
        ParameterError,
        match=r"a DataFrame cannot be mined as it is; give a release, or the truth as in sf\.Exact",
    ):
        sf.frequent_itemsets(frame, 0.1)


def test_copies_are_siblings_of_one_record():
    truth, mechanism = records(3000), RECORD_MECHANISMS["gamma-diagonal"]
    release = sf.perturb(truth, mechanism, seeded(6), copies=5)
    assert (release.rows, release.table.rows, release.copies) == (3000, 15_000, 5)
    single = sf.perturb(truth, mechanism, seeded(6))
    many, one = (
        release.marginal(["smoker"]).where(smoker="yes"),
        single.marginal(["smoker"]).where(smoker="yes"),
    )
    assert many.stderr == pytest.approx(one.stderr / np.sqrt(5), rel=0.05)
    assert (
        abs(many.value - Exact(truth).marginal(["smoker"]).where(smoker="yes").value)
        < 5 * many.stderr
    )


def test_a_release_is_saved_and_opened_again(tmp_path):
    release = sf.perturb(records(500), RECORD_MECHANISMS["retention"], seeded(7))
    release.save(tmp_path / "out.parquet")
    again = sf.open(tmp_path / "out.parquet")
    assert spec_of(again.mechanism) == spec_of(release.mechanism) and not again.provenance.secure
    assert np.array_equal(
        again.marginal(["age", "sex"]).value, release.marginal(["age", "sex"]).value
    )


def test_questions_that_make_no_sense_are_refused():
    exact = Exact(records(100))
    with pytest.raises(SchemaError, match="did you mean 'smoker'"):
        exact.marginal(["smokr"])
    with pytest.raises(ParameterError, match="different columns"):
        exact.marginal(["sex", "sex"])
    with pytest.raises(ParameterError, match=r"use \['sex'\]"):
        exact.marginal("sex")
    with pytest.raises(EstimationError, match="no mechanism"):
        Release.of(records(10))
    with pytest.warns(DeprecationWarning), pytest.raises(EstimationError, match="no mechanism"):
        Release(records(10))
    assert isinstance(source_of(records(10)), Exact)


def test_numbers_are_cut_where_the_question_cuts_them():
    truth = records()
    release = sf.perturb(truth, RECORD_MECHANISMS["retention"], seeded(8))
    cells = RECORDS["age"].cells_by_cuts([33, 48])
    found, true = release.marginal([cells]), Exact(truth).marginal([cells])
    assert (
        true.value.tolist() == np.histogram(truth.column("age") + 20, [20, 33, 48, 80])[0].tolist()
    )
    assert np.abs((found.value - true.value) / found.stderr).max() < 5


def test_cut_and_paste_is_mined_as_far_as_it_can_be():
    truth, mechanism = records(2000), RECORD_MECHANISMS["cut-and-paste"]
    found = sf.frequent_itemsets(
        sf.perturb(truth, mechanism, seeded(9), copies=3), 0.01, prune_errors=0
    )
    assert found.rows == 2000 and max(found.by_length()) == mechanism.cutoff
    whole = sf.CutAndPaste(RECORDS, 1, 0.1)
    assert max(sf.frequent_itemsets(sf.perturb(truth, whole, seeded(9)), 0.01).by_length()) == 1


@pytest.mark.parametrize("copies", [1, 3])
def test_a_notebook_says_how_many_reports_a_person_sent(copies):
    truth = records(50)
    release = sf.perturb(truth, sf.GammaDiagonal(truth.domain, 9), rng=seeded(1), copies=copies)
    assert ("reports per person" in release._repr_html_()) == (copies > 1)


def test_itemsets_of_the_truth_are_known_without_error():
    found = sf.frequent_itemsets(Exact(records(300)), min_support=0.05)
    assert len(found) > 10 and not np.asarray(found.stderr).any()
    assert np.isin(found.probability, [0.0, 1.0]).all()


def test_tallies_are_kept_up_to_a_size_and_the_oldest_give_way():
    source, size = Exact(records(10)), REMEMBERED // 16
    tallies = {key: np.zeros(size) for key in range(20)} | {"large": np.zeros(size + 1)}
    for key, table in tallies.items():
        count = lambda counter, table=table: table  # noqa: E731
        source.tallied([SimpleNamespace(key=key, count=count)])
    assert [key for key in tallies if source._counted.find(key) is not None] == [*range(4, 20)]


def test_what_answered_a_question_is_kept_and_the_oldest_gives_way():
    values = tuple(map(str, range(UNDONE + 9)))
    domain = Domain((Category("a", values),))
    truth = Table(domain, (np.arange(400) % len(values),))
    release = sf.perturb(truth, sf.GammaDiagonal(domain, 9), seeded(1))
    asked = [[domain["a"].cells_by_values([value])] for value in values]
    counts = [release.marginal(cells).value for cells in asked]
    assert len(release._evidence) == UNDONE
    again = [release.marginal(cells) for cells in asked[::-1]][::-1]
    assert all((one == other.value).all() for one, other in zip(counts, again, strict=True))
    named = release.marginal([domain["a"].cells_by_values(["0"], rest="any other")])
    assert named.cells[0].labels == ("0", "any other")  # the same cells by other names


def test_rounds_that_promised_different_things_are_refused() -> None:
    one, other = (Domain((Category("a", tuple(values)),)) for values in ("xy", "xyz"))
    truth = Table(one, (np.arange(40) % 2,))
    same = [sf.perturb(truth, sf.GammaDiagonal(one, 9), seeded(seed)) for seed in (1, 2)]
    _check_alike(same)
    weaker = sf.perturb(truth, sf.GammaDiagonal(one, 19), seeded(3))
    with pytest.raises(ParameterError, match=r"promised gamma 9 .*, another gamma 19 "):
        _check_alike([*same, weaker])
    strange = sf.perturb(Table(other, truth.columns), sf.GammaDiagonal(other, 9), seeded(4))
    with pytest.raises(SchemaError, match="different columns"):
        _check_alike([*same, strange])


def test_cut_baskets_of_several_sizes_are_put_together() -> None:
    """What a basket kept hangs on how many it held, so that each size is undone by itself."""
    rng = np.random.default_rng(3)
    dense = rng.random((40_000, 12)) < np.repeat([0.7, 0.4, 0.15], 4)
    shop = Domain((Items("items", tuple("abcdefghijkl")),))
    release = sf.perturb(
        Table(shop, (Bits.from_dense(dense),)), sf.CutAndPaste(shop, 3, 0.1), seeded(5)
    )
    found = sf.frequent_itemsets(release, min_support=0.02, max_length=2)
    assert len(found) > 30
    for itemset in found:
        held = dense[:, ["abcdefghijkl".index(item) for item in itemset.items]].all(axis=1).mean()
        assert abs(itemset.support - held) < 4.5 * itemset.stderr
