"""A model asked like any source: of a questionnaire's release, of other releases, from its file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import sfumato as sf
from sfumato.domain import Category, Domain, Items, Numeric, code_dtype
from sfumato.engines import open_source
from sfumato.errors import FileError, ParameterError, SchemaError, SfumatoError, Unanswerable
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.joint import HadamardResponse, SubsetSelection, UnaryEncoding
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.retention import Retention
from sfumato.model.fitted import fit_release
from sfumato.model.format import describe_model, is_model
from sfumato.model.model import Model, is_dense
from sfumato.model.model_evidence import RARE, SHRUNK, ModelSupports
from sfumato.model.model_file import model_to_dict, open_model, save_model
from sfumato.model.sampling import sample, smoothest
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Exact, Release, perturb
from sfumato.table import Table

PROMISE = Guarantee(19)
DOMAIN = Domain(
    (
        Category("smoker", ("no", "yes")),
        Category("town", ("north", "south"), public=True),
        Category("pet", ("cat", "dog", "eel")),
        Numeric("age", 0, 99, cuts=(25, 50, 75)),
        Category("ill", ("no", "yes")),
    )
)


def people(
    rows: int = 30_000, domain: Domain = DOMAIN, pulls: tuple[float, float] = (0.4, 0.7)
) -> Table:
    """Columns that depend on one another, the odd ones by the second of the pulls."""
    rng = np.random.default_rng(4)
    hidden = rng.random(rows)
    columns = []
    for place, attribute in enumerate(domain.binned()):
        pull = pulls[place % 2]
        mixed = pull * hidden + (1 - pull) * rng.random(rows)
        columns.append(np.minimum(mixed * attribute.size, attribute.size - 1).astype(np.uint8))
    return Table(domain.binned(), tuple(columns))


@pytest.fixture(scope="module")
def table() -> Table:
    return people()


@pytest.fixture(scope="module")
def model(table: Table) -> Model:
    return fit_release(perturb(table, Questionnaire.promising(PROMISE, DOMAIN), seeded(3)))


def near(model: Model, truth: Exact, names: tuple[str, ...], most: float = 4.0) -> None:
    found, true = model.marginal(names), truth.marginal(names)
    assert found.value.min() >= 0
    assert found.value.sum() == pytest.approx(truth.rows)
    error = np.sqrt(found.stderr**2 + 30.0**2)  # a cell of a few people is a few people off
    assert (np.abs(found.value - true.value) / error).max() < most


def test_every_set_of_columns_is_answered(model: Model, table: Table) -> None:
    truth = Exact(table)
    for length in range(1, 6):
        for names in combinations(DOMAIN.names, length):
            near(model, truth, names)


def test_what_a_law_has_drawn_together_is_not_drawn_together_again(model: Model) -> None:
    """The probability of a pair is that of its estimate and error; a prior of the pairs would take
    a second time what the law took already.
    """
    goal = 0.15
    found = sf.frequent_itemsets(model, goal, level=0.02, max_length=2)
    pairs = np.array([len(items) == 2 for items in found.items])
    z = (found.support[pairs] - goal) / found.stderr[pairs]
    unsure = np.abs(z) < 2
    assert unsure.sum() > 2
    np.testing.assert_allclose(found.probability[pairs][unsure], ndtr(z[unsure]), atol=0.01)


def test_the_public_column_is_known(model: Model, table: Table) -> None:
    found = model.marginal(["town"])
    assert found.value.tolist() == pytest.approx(Exact(table).marginal(["town"]).value.tolist())
    assert found.stderr.max() < 1e-6


def test_parts_add_up_to_everyone(model: Model) -> None:
    for names in (n for k in (1, 2, 3) for n in combinations(DOMAIN.names, k)):
        found = model.marginal(names)
        assert found.value.min() >= 0 and found.value.sum() == pytest.approx(model.rows)


def test_by_model_marginals_agree_with_one_another(model: Model) -> None:
    model = replace(model, by_model=True)
    whole = model.marginal(DOMAIN.names)
    for names in combinations(DOMAIN.names, 2):
        part = whole.coarsen([model.cells(name) for name in names])
        np.testing.assert_allclose(part.value, model.marginal(names).value, rtol=1e-9)
        # Folded questions of more columns bound the errors of rare cells only where all are asked.
        np.testing.assert_allclose(part.stderr, model.marginal(names).stderr, rtol=0.01, atol=1e-6)


def test_answers_say_what_they_assume(model: Model) -> None:
    short = model.marginal(["smoker", "pet", "ill"]).where(smoker="yes")
    long = model.marginal(["smoker", "pet", "ill", "age"]).where(smoker="yes")
    assert short.assumes == SHRUNK and not short.sampling
    alone = replace(model, by_model=True).marginal(["smoker", "pet", "ill"]).where(smoker="yes")
    assert alone.assumes is None and alone.sampling
    assert long.assumes == "no interaction of more than 3 columns"
    result = sf.query(
        model, "SELECT COUNT(*) FROM t WHERE smoker='yes' AND pet='cat' AND ill='no' AND age < 50"
    ).to_dict()
    assert result["rows"][0][result["columns"][0]]["assumes"] == long.assumes
    assert any("it assumes" in note for note in result["notes"])


def test_what_reports_hardly_see_says_that_it_rests_on_the_law() -> None:
    """Two rare values that nearly always go together: in some releases nobody is seen there, and
    the law takes them for apart.
    """
    rng, rows = np.random.default_rng(5), 500_000
    rare = rng.random(rows) < 0.001
    joined = np.where(rare, rng.random(rows) < 0.9, rng.random(rows) < 0.01)
    usual = rare | (rng.random(rows) < 0.3)
    domain = Domain(tuple(Category(name, ("no", "yes")) for name in ("rare", "usual", "joined")))
    columns = tuple(column.astype(np.uint8) for column in (rare, usual, joined))
    mechanism, off = Questionnaire.promising(PROMISE, domain), 0
    for seed in (1, 7, 10):
        release = perturb(Table(domain, columns), mechanism, seeded(seed))
        fitted = replace(fit_release(release), by_model=True)
        found = fitted.marginal(["rare", "joined"]).where(rare="yes", joined="yes")
        if abs(found.value - (rare & joined).sum()) > 4 * found.stderr:
            off += 1
            assert found.assumes == RARE
        assert fitted.marginal(["usual"]).where(usual="yes").assumes is None
    assert off == 2  # else the example shows nothing


def test_query_mining_rules_trees_and_bayes_work_on_it(model: Model, table: Table) -> None:
    rows = sf.query(model, "SELECT pet, COUNT(*) AS n FROM t WHERE age < 50 GROUP BY pet").rows
    truth = sf.query(Exact(table), "SELECT pet, COUNT(*) AS n FROM t WHERE age < 50 GROUP BY pet")
    for found, true in zip(rows, truth.rows, strict=True):
        assert abs(found["n"].value - true["n"].value) < 4.5 * found["n"].stderr
    found = sf.frequent_itemsets(model, 0.05)
    supports = dict(zip(found.items, found.support.tolist(), strict=True))
    assert max(map(len, supports)) >= 4
    for items, support in supports.items():
        for shorter in combinations(items, len(items) - 1):
            if shorter in supports:
                assert support <= supports[shorter] + 1e-12
    assert len(sf.association_rules(found, min_confidence=0.5)) > 0
    assert sf.NaiveBayes("ill").fit(model).score(table) > 0.5
    assert sf.DecisionTree("ill").fit(model).tree_.root.split is not None


def test_synthetic_records_are_those_of_the_law(model: Model) -> None:
    drawn = Exact(sample(model, 200_000, seeded(5)))
    assert drawn.domain.names == DOMAIN.names
    for names in combinations(DOMAIN.names, 2):
        expected = model.marginal(names).value / model.rows * 200_000
        found = drawn.marginal(names).value
        assert (np.abs(found - expected) / np.sqrt(expected + 9)).max() < 5
    with pytest.raises(ParameterError, match="at least one record"):
        sample(model, 0)


def test_more_records_than_memory_holds_are_refused(model: Model) -> None:
    with pytest.raises(ParameterError, match=r"1,000,000,000,000 records take .* GB"):
        sample(model, 10**12, seeded(1))


def test_a_model_survives_its_file(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "people.model.json"
    save_model(model, path)
    assert is_model(path)
    again = open_model(path)
    assert np.array_equal(again.law.fit.theta, model.law.fit.theta)
    for names in (["pet", "ill"], ["smoker", "town", "pet", "age", "ill"]):
        np.testing.assert_allclose(again.marginal(names).value, model.marginal(names).value)
        np.testing.assert_allclose(
            again.marginal(names).stderr, model.marginal(names).stderr, rtol=1e-6
        )
    described = describe_model(path)
    assert described["fitted_to"]["mechanism"] == "questionnaire"
    assert described["fitted_to"]["rows"] == 30_000 and described["order"] == 3
    with pytest.raises(FileError, match="already there"):
        save_model(model, path)


NUMBERED = Domain(
    (
        Numeric("age", 0, 39, cuts=(10, 20, 30), public=True),
        Category("smoker", ("no", "yes")),
        Category("pet", ("cat", "dog", "eel")),
    )
)


def aged(rows: int = 20_000) -> Table:
    """People whose age is public, a number, and tells whether they smoke."""
    rng = np.random.default_rng(8)
    age = rng.integers(0, 40, rows)
    smokes = (rng.random(rows) < age / 50).astype(np.uint8)
    return Table(NUMBERED, (age.astype(np.uint8), smokes, rng.integers(0, 3, rows).astype("u1")))


@pytest.mark.parametrize("named", [HadamardResponse, UnaryEncoding, SubsetSelection, BitFlip])
def test_a_model_of_reports_in_other_columns_survives_its_file(
    named: type[Mechanism], tmp_path: Path
) -> None:
    """A symbol, or bits, stand for all private columns; a public number is beside them."""
    model = fit_release(perturb(aged(), named.promising(PROMISE, NUMBERED), seeded(3)))
    save_model(model, tmp_path / "m.json")
    again = open_model(tmp_path / "m.json")
    truth = Exact(aged())
    for names in (["age"], ["smoker"], ["age", "smoker"], ["smoker", "pet", "age"]):
        found, kept = model.marginal(names), again.marginal(names)
        np.testing.assert_allclose(kept.value, found.value)
        np.testing.assert_allclose(kept.stderr, found.stderr, rtol=1e-6, atol=1e-6)
        away = np.abs(found.value - truth.marginal(names).value)
        assert (away <= 5 * found.stderr + 1e-6).all()


def test_a_number_is_known_in_the_bins_of_the_law() -> None:
    """A range inside of a bin was once answered as the whole bin."""
    mechanism = Questionnaire.promising(PROMISE, NUMBERED)
    model = fit_release(perturb(aged(), mechanism, seeded(3)))
    with pytest.raises(SfumatoError, match="10, 20, 30"):
        sf.query(model, "SELECT COUNT(*) FROM t WHERE age BETWEEN 10 AND 14 AND smoker = 'yes'")
    with pytest.raises(SfumatoError, match="sum or average"):
        sf.query(model, "SELECT AVG(age) FROM t")
    bins = sf.query(model, "SELECT age, COUNT(*) AS n FROM t GROUP BY age").to_dict()["rows"]
    assert [row["age"] for row in bins] == ["[0,10)", "[10,20)", "[20,30)", "[30,39]"]
    assert sf.NaiveBayes("smoker").fit(model).score(Exact(aged())) > 0.6
    split = sf.DecisionTree("smoker").fit(model).tree_.root.split
    assert split is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(version=9),
        lambda d: d["counts"].pop(),
        lambda d: d["counts"].__setitem__(0, -1),
        lambda d: d["law"]["coefficients"].pop(),
        lambda d: d["law"]["variances"].__setitem__(0, 0.0),
        lambda d: d.update(order=7),
        lambda d: d["release"].update(mechanism="nothing"),
        lambda d: d.pop("counts"),
    ],
)
def test_a_damaged_file_is_refused(model: Model, tmp_path: Path, change: object) -> None:
    data = json.loads(json.dumps(model_to_dict(model)))
    change(data)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(data))
    with pytest.raises((FileError, ParameterError)):
        open_model(path)


def test_columns_it_was_not_fitted_to_are_refused(model: Model) -> None:
    with pytest.raises(SchemaError, match="'smokr'"):
        model.marginal(["smokr"])
    many = Domain(
        (
            Category("smoker", ("no", "yes")),
            Category("place", tuple(map(str, range(5000))), public=True),
            Category("ill", ("no", "yes")),
        )
    )
    rng = np.random.default_rng(1)
    table = Table(
        many,
        (
            rng.integers(0, 2, 3000).astype(np.uint8),
            rng.integers(0, 5000, 3000).astype(np.uint16),
            rng.integers(0, 2, 3000).astype(np.uint8),
        ),
    )
    fitted = fit_release(perturb(table, Questionnaire.promising(PROMISE, many), seeded(1)))
    assert fitted.describe()["fitted_to"]["left_out"] == ["place"]
    with pytest.raises(Unanswerable, match="not fitted to 'place'"):
        fitted.marginal(["place"])


@pytest.mark.parametrize(
    "mechanism",
    [
        GammaDiagonal.promising(Guarantee(200), DOMAIN),
        Retention(DOMAIN.binned(), keep=0.6),
        Combined.promising(Guarantee(100), DOMAIN),
        BitFlip(DOMAIN.binned(), 0.9, 0.9),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_any_release_can_be_fitted(mechanism: Mechanism, table: Table) -> None:
    release = perturb(table, mechanism, seeded(6))
    model, truth = fit_release(release), Exact(table)
    for names in (("pet",), ("smoker", "ill"), ("pet", "age", "ill")):
        near(model, truth, names, 5.0)
    wide = ("smoker", "pet", "age", "ill")
    true = truth.marginal(wide).value
    raw = np.abs(release.marginal(wide).value - true).mean()
    assert np.abs(model.marginal(wide).value - true).mean() < 1.05 * raw


@pytest.mark.parametrize("named", [BitFlip, CutAndPaste])
def test_a_model_knows_a_column_of_bits_as_well_as_its_release(named: type[Mechanism]) -> None:
    """Errors were once three times as large: single columns were summed from reconstructed cells
    of all, each with the noise of its own bit.
    """
    domain = Domain(tuple(Category(f"c{k}", tuple(map(str, range(k)))) for k in (3, 5, 7)))
    table = people(4_000, domain, (0.3, 0.4))
    release = perturb(table, named.promising(Guarantee(100), domain), seeded(4))
    model, truth = fit_release(release), Exact(table)
    for names in (["c3"], ["c5"], ["c7"], ["c3", "c7"]):
        found, unbiased = model.marginal(names), release.marginal(names)
        every = np.arange(unbiased.value.size)
        sampled = np.diag(unbiased.cell_covariance(every, sampling=True)).reshape(found.value.shape)
        assert (found.stderr <= 1.05 * np.sqrt(sampled)).all()
        assert (np.abs(found.value - truth.marginal(names).value) <= 4.5 * found.stderr).all()


def test_baskets_of_few_items_can_be_fitted_and_of_many_not() -> None:
    rng = np.random.default_rng(2)
    for items, fits in ((8, True), (21, False)):
        domain = Domain((Items("items", tuple(f"i{place}" for place in range(items))),))
        held = rng.random((20_000, 1)) < np.linspace(0.2, 0.6, items)
        bits = (held & (rng.random((20_000, items)) < 0.8)) | (rng.random((20_000, items)) < 0.1)
        from sfumato.bits import Bits

        table = Table(domain, (Bits.from_dense(bits),))
        release = perturb(table, BitFlip(domain, 0.8, 0.8), seeded(1))
        if not fits:
            with pytest.raises(Unanswerable, match="at most 20 items, and these have 21"):
                fit_release(release)
            continue
        near(fit_release(release), Exact(table), ("i0", "i1", "i2"), 5.0)


def test_what_cannot_be_fitted_is_said(table: Table) -> None:
    mechanism = Questionnaire.promising(PROMISE, DOMAIN)
    few = perturb(table.slice(0, 5), mechanism, seeded(1))
    with pytest.raises(Unanswerable, match=r"release of 5 reports is too small to fit"):
        fit_release(few)
    with pytest.raises(Unanswerable, match="counts each person once"):
        fit_release(perturb(table, mechanism, seeded(1), copies=2))
    with pytest.raises(ParameterError, match="use 2 or 3"):
        fit_release(perturb(table, mechanism, seeded(1)), 5)


def test_of_few_people_single_columns_are_fitted_as_independent(
    table: Table, tmp_path: Path
) -> None:
    """1,000 people of 21 columns got no model at all; a file keeps that it is one of single
    columns.
    """
    mechanism = Questionnaire.promising(PROMISE, DOMAIN)
    model = fit_release(perturb(table.slice(0, 100), mechanism, seeded(1)))
    assert model.fitted_order == 1
    for axes in (0, 1), (1, 2), (0, 1, 2, 3, 4):
        assert "independent" in str(model.supposed(axes))
    assert model.supposed((1,)) is None
    save_model(model, tmp_path / "few.model.json")
    again = open_model(tmp_path / "few.model.json")
    pair = list(DOMAIN.names[:2])
    assert again.fitted_order == 1
    assert again.marginal(pair).value == pytest.approx(model.marginal(pair).value)


def test_many_columns_are_fitted_set_by_set() -> None:
    domain = Domain(
        tuple(Category(f"c{place}", tuple("abcde"[: 2 + place % 4])) for place in range(14))
    )
    table = people(60_000, domain, (0.3, 0.4))  # no cell that is empty for want of a law
    mechanism = Questionnaire.promising(PROMISE, domain)
    model = fit_release(perturb(table, mechanism, seeded(2)))
    assert not model.dense
    truth = Exact(table)
    for names in (("c0",), ("c1", "c2"), ("c3", "c7", "c11"), ("c0", "c5", "c9", "c13")):
        near(model, truth, names, most=6.0)  # the errors of small cells have long tails
    found, true = (source.marginal(["c3", "c7", "c11"]) for source in (model, truth))
    assert (np.abs(found.value - true.value) < 1.96 * found.stderr).mean() > 0.9
    four = model.marginal(["c0", "c5", "c9", "c13"]).dot(1.0)
    assert four.assumes == "no interaction of more than 2 columns"
    with pytest.raises(Unanswerable, match=r"cells; a model of 14 columns is fitted to 4,096"):
        model.marginal(["c3", "c7", "c11", "c2", "c6", "c10", "c1"])
    drawn = Exact(sample(model, 20_000, seeded(1)))
    shares = drawn.marginal(["c3", "c7"]).value / 20_000
    assert np.abs(shares - model.marginal(["c3", "c7"]).value / 60_000).max() < 0.02


def test_folded_questions_tell_a_model_of_single_columns_and_pairs() -> None:
    """Laws of a few columns once left out all that folded questions say of them beside others:
    errors of single columns were twice those of the release itself.
    """
    domain = Domain(tuple(Category(f"c{k}", tuple(map(str, range(k)))) for k in (3, 4, 5, 6, 7, 8)))
    table = people(20_000, domain, (0.3, 0.4))
    release = perturb(table, Questionnaire.promising(Guarantee(3), domain), seeded(5))
    model, truth = fit_release(release), Exact(table)
    assert not model.dense
    for names in (["c3"], ["c5"], ["c8"], ["c4", "c7"]):
        found, unbiased = model.marginal(names), release.marginal(names)
        every = np.arange(unbiased.value.size)
        sampled = np.diag(unbiased.cell_covariance(every, sampling=True)).reshape(found.value.shape)
        assert (found.stderr <= 1.05 * np.sqrt(sampled)).all()
        assert (np.abs(found.value - truth.marginal(names).value) <= 4.5 * found.stderr).all()


def test_pairs_that_were_learned_are_kept_with_a_model(tmp_path: Path) -> None:
    """Every question to a model of many columns once learned all its pairs anew: minutes."""
    domain = Domain(tuple(Category(f"c{place}", tuple("abcdef")) for place in range(8)))
    mechanism = Questionnaire.promising(PROMISE, domain)
    model = fit_release(perturb(people(8_000, domain), mechanism, seeded(2)))
    assert not model.dense
    save_model(model, tmp_path / "m.json")
    again = open_model(tmp_path / "m.json")
    assert again.joined is not None and set(again.pairs) == set(model.pairs)
    for names in (["c0"], ["c1", "c2"], ["c3", "c5", "c7"]):
        found, kept = model.marginal(names), again.marginal(names)
        np.testing.assert_allclose(kept.value, found.value, rtol=1e-4)
        np.testing.assert_allclose(kept.stderr, found.stderr, rtol=1e-4)
    for spoil in ({"columns": [1, 0]}, {"variance": -1}, {"coefficients": [1.0]}, {"columns": [1]}):
        data = json.loads((tmp_path / "m.json").read_text())
        data["pairs"][0] |= spoil
        (tmp_path / "spoiled.json").write_text(json.dumps(data, separators=(",", ":")))
        with pytest.raises(FileError):
            open_model(tmp_path / "spoiled.json")


@pytest.mark.parametrize("more", [0, 4])
def test_a_public_cell_that_nobody_is_in_is_empty_and_nothing_else_suffers(more: int) -> None:
    """In one law of all columns, and where laws are fitted set by set (`more`)."""
    rest = tuple(Category(f"c{place}", tuple("abcdef")) for place in range(more))
    town = Category("town", ("north", "south", "sunk"), public=True)
    domain = Domain((DOMAIN.attributes[0], town, *DOMAIN.attributes[2:], *rest)).binned()
    table = people(4000, domain)
    lived = tuple(np.minimum(c, 1) if i == 1 else c for i, c in enumerate(table.columns))
    table = Table(domain, lived)
    model = fit_release(perturb(table, Questionnaire.promising(PROMISE, domain), seeded(3)))
    assert model.dense == (not more)
    assert replace(model, order=3).fitted_order == (2 if more else 3)
    np.testing.assert_allclose(
        model.marginal(["town"]).value, Exact(table).marginal(["town"]).value, atol=1e-6
    )
    found = model.marginal(["smoker", "town"])
    assert np.abs(found.value[:, 2]).max() < 1e-6 and np.isfinite(found.stderr).all()
    near(model, Exact(table), ("smoker", "town"))


def test_a_questionnaire_is_counted_once(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By DuckDB, from a file: the answers alone and beside the public column; what is asked later,
    of the release or its model, reads no row.
    """
    monkeypatch.setenv("SFUMATO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "release.parquet"
    perturb(table, Questionnaire.promising(PROMISE, DOMAIN), seeded(3)).save(path)
    release = open_source(str(path), "duckdb", cache=False)
    assert isinstance(release, Release)
    asked: list[tuple[str, ...]] = []
    count = type(release.counter).count_many

    def counted(counter: Any, questions: Any) -> Any:
        asked.extend(tuple(part.name for part in cells) for cells in questions)
        return count(counter, questions)

    monkeypatch.setattr(type(release.counter), "count_many", counted)
    for names in combinations(("smoker", "pet", "age", "ill"), 2):
        assert release.marginal(names).stderr.min() > 0
    sf.query(release, "SELECT pet, COUNT(*) FROM t WHERE ill = 'yes' GROUP BY pet")
    sf.frequent_itemsets(release, 0.05)
    answers = ("question", "answer")
    assert sorted(asked) == sorted([answers, ("town",), ("town", *answers)])
    model = fit_release(release)
    scans = len(asked)
    sf.query(model, "SELECT pet, COUNT(*) FROM t WHERE ill = 'yes' AND age < 50 GROUP BY pet")
    sf.frequent_itemsets(model, 0.05)
    assert len(asked) == scans <= 4


def test_one_law_is_fitted_up_to_a_size_and_a_work() -> None:
    assert is_dense((4,) * 6, 3) and is_dense((4,) * 7, 2)
    assert not is_dense((4,) * 7, 3) and not is_dense((4,) * 13, 2)


def test_records_are_drawn_by_laws_that_can_be_fitted() -> None:
    domain = Domain(tuple(Category(f"c{place}", tuple("abcdefghijkl")) for place in range(4)))
    asking = Questionnaire.promising(PROMISE, domain)
    release = perturb(people(5_000, domain, (0.3, 0.4)), asking, seeded(1))
    model = fit_release(release)
    assert not model.dense and not model.reaches((0, 1, 2))  # so that 12³ cells are too many
    assert sample(model, 500, seeded(1)).rows == 500


def test_flipped_bits_of_many_cells_are_fitted_set_by_set() -> None:
    """4,096 cells, whose errors no reconstruction writes down together: `fit` refused them all."""
    domain = Domain(tuple(Category(f"c{k}", ("a", "b", "c", "d")) for k in range(6)))
    rng = np.random.default_rng(5)
    first = rng.choice(4, 20_000, p=(0.6, 0.2, 0.15, 0.05))
    rest = [(first + rng.integers(0, 2, 20_000)) % 4 for _ in range(5)]
    table = Table(domain, tuple(column.astype(np.uint8) for column in (first, *rest)))
    mechanism = BitFlip.promising(Guarantee(100), domain)
    model = fit_release(perturb(table, mechanism, seeded(1)))
    assert not model.dense
    found, true = model.marginal(["c0", "c1"]), Exact(table).marginal(["c0", "c1"])
    assert (np.abs(found.value - true.value) / found.stderr).max() < 4.5


@pytest.mark.parametrize(
    "number",
    [
        Numeric("x", 0, 9, cuts=(4, 9)),  # the last bin is the largest number alone
        Numeric("x", 15.0, 20.0, cuts=(16.5, 18.0), step=0.25),
        Numeric("x", 0.0, 1.0, cuts=(0.3,)),
        Numeric("x", -5, 5, cuts=(0,)),
    ],
)
def test_synthetic_numbers_are_read_by_the_schema_of_the_true_ones(number: Numeric) -> None:
    domain = Domain((number, Category("sex", ("f", "m"))))
    codes = np.random.default_rng(1).integers(0, number.size, 3000).astype(code_dtype(number.size))
    truth = Table(domain, (codes, (codes % 2).astype(np.uint8)))
    model = sf.fit(sf.perturb(truth, sf.Retention(domain.binned(), 0.8), seeded(1)))
    drawn = sample(model, 2000, seeded(2))
    again = sf.read(drawn.to_arrow(), domain)
    np.testing.assert_array_equal(again.column("x"), drawn.column("x"))
    held = np.unique(number.cells_by_cuts(number.cuts).assign(again.column("x")))
    assert len(held) == len(number.cuts) + 1
    assert len(np.unique(drawn.column("x"))) > 0.9 * min(number.size, 1000)


def test_itemsets_of_columns_too_wide_for_a_law_are_joined_from_shorter_ones() -> None:
    rng = np.random.default_rng(4)
    sizes, people = (2, 3, 2, 4), 4000
    words = tuple(Category(f"c{p}", tuple(f"v{v}" for v in range(s))) for p, s in enumerate(sizes))
    columns = tuple(rng.integers(0, size, people).astype(np.uint8) for size in sizes)
    exact = Exact(Table(Domain(words), columns))

    def marginal(cells: Any) -> Any:
        if len(cells) > 3:
            raise Unanswerable("this question has too many cells")
        return exact.marginal(cells)

    def share(*places: int) -> float:
        return float(np.all([columns[place] == 1 for place in places], axis=0).mean())

    cells = tuple(map(exact.cells, ("c0", "c1", "c2", "c3")))
    supports = ModelSupports(cells, people, marginal, False)
    items = np.array([[supports.names.index(f"c{place}=v1") for place in range(4)]], dtype=np.int32)
    count, stderr = supports._measured(np.arange(4), items)
    wanted = []
    for a, b in combinations(range(4), 2):
        rest = [place for place in range(4) if place not in (a, b)]
        wanted.append(share(a, *rest) * share(b, *rest) / share(*rest))
    assert count[0] == pytest.approx(people * math.exp(np.mean(np.log(wanted))))
    assert stderr[0] == 0
    with_whole, with_rest = supports.covariances(items, count, count)
    assert not with_whole.any() and not with_rest.any()


@pytest.mark.parametrize(
    ("law", "edges"),
    [
        (lambda rng: np.clip(rng.normal(7.1, 1.4, 40_000), 1, 24), [1, 6, 7, 8, 24]),
        (lambda rng: np.minimum(rng.exponential(10, 40_000), 200), [0, 5, 10, 20, 200]),
        (lambda rng: rng.uniform(18, 80, 40_000), [18, 25, 40, 60, 80]),
    ],
    ids=["sleep", "exponential", "even"],
)
def test_numbers_of_wide_bins_are_drawn_where_the_others_say(law: Any, edges: list[int]) -> None:
    """Drawn evenly, hours of sleep had a mean of 9.85 for 7.10."""
    numbers = law(np.random.default_rng(1))
    ends = np.array(edges, dtype=float)
    share = np.histogram(numbers, ends)[0] / len(numbers)
    rise = np.where((found := smoothest(ends, share)) == 0, 1e-9, found)
    inside = 1 / (1 - np.exp(-rise)) - 1 / rise  # the mean place within each bin
    mean = float(share @ (ends[:-1] + np.diff(ends) * inside))
    assert mean == pytest.approx(numbers.mean(), rel=0.04)
