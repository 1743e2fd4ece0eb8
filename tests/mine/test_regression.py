"""Regressions judged from outside: by another solver on the rows, and by repeated perturbation of
people drawn anew from a known population.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from sfumato.domain import Bins, Category, Domain, Numeric
from sfumato.errors import EstimationError, ParameterError, SchemaError, SfumatoError
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mine.crosstab import cells_of, scores, tail_mean
from sfumato.mine.formula import Factor, Formula, term_name
from sfumato.mine.regression import Regression, regress
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table

Floats = NDArray[Any]
Y, S, T, U = (Category(name, ("no", "yes")) for name in "ystu")
FOUR = Category("c", ("a", "b", "d", "e"))
X, N = Bins("x", (0, 10, 20, 30, 40, 50)), Bins("n", (0, 10, 20, 30, 40, 50))
K = Category("k", ("0", "1", "2", "3"))


def expit(eta: Floats) -> Floats:
    return 1 / (1 + np.exp(-eta))


def yes(share: Floats, y: Floats) -> Floats:
    return np.where(y, share, 1 - share)


def binary(y: Floats, s: Floats, t: Floats) -> Floats:
    return np.where(s * t, 0.2, 0.25) * yes(expit(-1 + 0.8 * s - 0.5 * t), y)


def four(y: Floats, c: Floats) -> Floats:
    return np.array([0.4, 0.3, 0.2, 0.1])[c] * yes(expit(np.array([-1, -0.5, 0, 0.6])[c]), y)


def line(n: Floats, s: Floats, t: Floats) -> Floats:
    return (0.2 + 0.1 * s + 0.05 * t) * np.exp(-0.5 * (n - 1.5 - s + 0.5 * t) ** 2)


def few(k: Floats, s: Floats, t: Floats) -> Floats:
    return (0.3 - 0.1 * s) * np.array([1, 1, 1 / 2, 1 / 6])[k] * np.exp((0.5 * s - 0.2 * t) * k)


def crossed(y: Floats, s: Floats, x: Floats) -> Floats:
    eta = -1 + 0.3 * s + (0.02 + 0.03 * s) * (10 * x - 20)
    return (0.25 - 0.05 * s) * np.array([0.15, 0.25, 0.25, 0.2, 0.15])[x] * yes(expit(eta), y)


def many(y: Floats, s: Floats, t: Floats, u: Floats, c: Floats) -> Floats:
    eta = -1 + 0.6 * s - 0.4 * t + 0.3 * u + np.array([0, 0.3, -0.3, 0.5])[c]
    others = (0.5 + 0.1 * s * t) * np.where(u, 0.3 + 0.1 * s, 0.7 - 0.1 * s)
    return np.array([0.4, 0.3, 0.2, 0.1])[c] * others * yes(expit(eta), y)


class Design(NamedTuple):
    domain: Domain
    formula: str
    family: str
    law: Callable[..., Floats]


DESIGNS = {
    "yes/no by two yes/no": Design(Domain((Y, S, T)), "y ~ s + t", "logit", binary),
    "yes/no by four values": Design(Domain((Y, FOUR)), "y ~ c", "logit", four),
    "a number": Design(Domain((N, S, T)), "n ~ s + t", "linear", line),
    "a count": Design(Domain((K, S, T)), "k ~ s + t", "poisson", few),
    "an interaction": Design(Domain((Y, S, X)), "y ~ s*x", "logit", crossed),
}
BY_MODEL = Design(Domain((Y, S, T, U, FOUR)), "y ~ s + t + u + c", "logit", many)


def people(design: Design) -> tuple[NDArray[np.intp], Floats]:
    """Every kind of people, and how many of all they are."""
    kinds = np.stack([p.ravel() for p in np.indices([a.size for a in design.domain])], axis=1)
    law = design.law(*kinds.T)
    return kinds, law / law.sum()


def weighted(design: Design, kinds: NDArray[np.intp], law: Floats) -> Floats:
    """The coefficients over these people, by the solver below."""
    columns = [np.ones(len(kinds))]
    places = {a.name: place for place, a in enumerate(design.domain)}
    coded: dict[str, list[Floats]] = {}
    for attribute, codes in zip(design.domain, kinds.T, strict=True):
        number = isinstance(attribute, Bins)
        coded[attribute.name] = (
            [codes * 10.0 + 5] if number else [(codes == v) * 1.0 for v in range(1, attribute.size)]
        )
    response, right = design.formula.split(" ~ ")
    names = right.replace("*", " + ").split(" + ")
    columns += [column for name in names for column in coded[name]]
    if "*" in right:
        columns += [a * b for a in coded[names[0]] for b in coded[names[1]]]
    y = kinds[:, places[response]] * (10.0 if response == "n" else 1.0) + 5 * (response == "n")
    return irls(np.stack(columns, axis=1), y, law, design.family)


LINKS: dict[str, tuple[Callable[[Floats], Floats], ...]] = {
    "logit": (lambda mu: np.log(mu / (1 - mu)), expit, lambda mu: mu * (1 - mu)),
    "poisson": (np.log, np.exp, lambda mu: mu),
    "linear": (lambda mu: mu, lambda eta: eta, np.ones_like),
}


def irls(design: Floats, y: Floats, weights: Floats, family: str) -> Floats:
    """Iteratively reweighted least squares as textbooks have it, written apart: a weighted least
    squares fit of the working response, by QR.
    """
    link, mean, slope = LINKS[family]
    mu = {"logit": (y + 0.5) / 2, "poisson": y + 0.5, "linear": y}[family]
    for _ in range(200):
        root = np.sqrt(weights * slope(mu))
        working = link(mu) + (y - mu) / slope(mu)
        beta = np.linalg.lstsq(root[:, None] * design, root * working, rcond=None)[0]
        mu = mean(design @ beta)
    return beta


class Judged(NamedTuple):
    error: Floats  # (perturbations, coefficients)
    stated: Floats
    held: NDArray[np.bool_]

    @property
    def ratio(self) -> Floats:
        return np.sqrt((self.stated**2).mean(axis=0) / (self.error**2).mean(axis=0))


def judged(
    design: Design, rows: int, times: int, mechanism: Any = None, *, rows_fixed: bool = False
) -> Judged:
    """What regressions say of people drawn anew each time, or of the same ones."""
    kinds, law = people(design)
    truth, rng = weighted(design, kinds, law), np.random.default_rng(7)
    made = (mechanism or partial(sf.GammaDiagonal, gamma=19))(design.domain)
    error, stated, held = [], [], []
    same = rng.choice(len(law), rows, p=law)
    for seed in range(times):
        chosen = kinds[same if rows_fixed else rng.choice(len(law), rows, p=law)]
        table = Table(design.domain, tuple(column.astype(np.uint8) for column in chosen.T))
        if rows_fixed:
            counts = np.bincount(same, minlength=len(law)) + 0.0
            truth = weighted(design, kinds[counts > 0], counts[counts > 0])
        release = perturb(table, made, seeded(seed))
        found = regress(release, design.formula, family=design.family, rows_fixed=rows_fixed)
        low, high = found.interval().T
        error.append(found.value - truth)
        stated.append(found.stderr)
        held.append((low <= truth) & (truth <= high))
    return Judged(np.array(error), np.array(stated), np.array(held))


@pytest.mark.parametrize("name", DESIGNS)
def test_intervals_hold_the_coefficients_of_the_population(name: str) -> None:
    found = judged(DESIGNS[name], 4000, 200)
    assert 0.92 < found.held.mean() < 0.98
    assert ((found.ratio > 0.85) & (found.ratio < 1.2)).all()


@pytest.mark.soak
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("rows_fixed", [False, True])
def test_intervals_hold_in_many_campaigns(name: str, rows_fixed: bool) -> None:
    found = judged(DESIGNS[name], 10_000, 1000, rows_fixed=rows_fixed)
    assert 0.93 < found.held.mean() < 0.97
    assert ((found.ratio > 0.9) & (found.ratio < 1.15)).all()


def questions(domain: Domain) -> Questionnaire:
    return Questionnaire.promising(sf.Guarantee(19), domain)


@pytest.mark.parametrize("times", [40, pytest.param(300, marks=pytest.mark.soak)])
def test_a_model_without_shrinkage_holds_them_where_no_question_does(times: int) -> None:
    found = judged(BY_MODEL, 20_000, times, questions)
    bias = found.error.mean(axis=0) / found.error.std(axis=0)
    assert 0.92 < found.held.mean() < 0.99
    assert (np.abs(bias) < 0.3 + 2 / math.sqrt(times)).all()


def test_what_the_model_assumes_to_be_0_is_not_given_as_exact() -> None:
    kinds, law = people(BY_MODEL)
    drawn = kinds[np.random.default_rng(5).choice(len(kinds), 60_000, p=law)].astype(np.uint8)
    table = Table(BY_MODEL.domain, tuple(drawn.T))
    release = perturb(table, questions(BY_MODEL.domain), seeded(1))
    with pytest.raises(EstimationError, match="cannot be estimated: the model assumes"):
        regress(release, "y ~ s * t * u * c")


def test_errors_of_reconstructed_counts_alone_would_not_do() -> None:
    """The judge can tell: a logit that takes reconstructed counts for people is far too sure."""
    design, rows = DESIGNS["yes/no by two yes/no"], 4000
    kinds, law = people(design)
    found = judged(design, rows, 60)
    x = np.c_[np.ones(len(kinds)), kinds[:, 1:]]
    mu = expit(x @ weighted(design, kinds, law))
    naive = np.sqrt(np.diag(np.linalg.inv((x.T * (rows * law * mu * (1 - mu))) @ x)))
    assert (naive < 0.7 * found.stated.mean(axis=0)).all()


SCHEMA = Domain(
    (
        Y,
        Category("s", ("f", "m")),
        FOUR,
        Numeric("age", 18, 80, cuts=(30, 50)),
        Numeric("visits", 0, 9, cuts=(1, 2)),
        Numeric("wage", 0, 9000, cuts=(3000,)),
    )
)


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Any]]:
    rng, n = np.random.default_rng(1), 3000
    s, c, age = rng.integers(0, 2, n), rng.integers(0, 4, n), rng.integers(18, 80, n)
    eta = -2 + 0.5 * s + np.array([0, 0.3, -0.4, 0.8])[c] + 0.03 * age - 0.01 * s * age
    visits = np.minimum(rng.poisson(np.exp(-1 + 0.02 * age + 0.3 * s)), 9)
    wage = 2000 + 30 * age + 500 * s + rng.integers(-900, 900, n)
    ill = np.where(rng.random(n) < expit(eta), "yes", "no")
    words = {"y": ill.tolist(), "s": np.array(["f", "m"])[s].tolist()}
    words |= {"c": np.array(["a", "b", "d", "e"])[c].tolist()}
    return words | {"age": age.tolist(), "visits": visits.tolist(), "wage": wage.tolist()}


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ s + c + age + s:age", "logit"),
        ("wage ~ s + age + c", "linear"),
        ("visits ~ s + age", "poisson"),
    ],
)
def test_true_rows_give_what_another_solver_gives(
    rows: dict[str, list[Any]], formula: str, family: str
) -> None:
    found = sf.regress(rows, formula, family=family, schema=SCHEMA, rows_fixed=True)
    s, age = np.array(rows["s"]) == "m", np.array(rows["age"])
    contrasts = [np.array(rows["c"]) == each for each in "bde"]
    columns = {
        "logit": [s, *contrasts, age, s * age],
        "linear": [s, age, *contrasts],
        "poisson": [s, age],
    }[family]
    x = np.stack([np.ones(len(s)), *columns], axis=1).astype(float)
    y = np.array(rows[formula.split()[0]])
    y = (y == "yes") * 1.0 if family == "logit" else y.astype(float)
    assert found.value == pytest.approx(irls(x, y, np.ones(len(y)), family), rel=1e-6, abs=1e-6)
    assert not found.stderr.any() and found.origin == "true records"
    # With sampling: the sandwich of Huber and White (HC0), row by row.
    sampled = sf.regress(rows, formula, family=family, schema=SCHEMA)
    _, mean, slope = LINKS[family]
    mu = mean(x @ found.value)
    bread = np.linalg.inv((x.T * slope(mu)) @ x)
    meat = (x.T * (y - mu) ** 2) @ x
    assert sampled.stderr == pytest.approx(np.sqrt(np.diag(bread @ meat @ bread)), rel=1e-6)


def test_codings_references_and_events(rows: dict[str, list[Any]]) -> None:
    found = sf.regress(rows, "y ~ C(age) + score(c)", schema=SCHEMA, reference={"y": "yes"})
    assert found.names == ("intercept", "age=[30,50)", "age=[50,80]", "score(c)")
    assert found.event == "no" and found.design.references == {"age": "[18,30)"}
    other = sf.regress(rows, "y ~ c", schema=SCHEMA, reference={"c": "e"})
    plain = sf.regress(rows, "y ~ c", schema=SCHEMA)
    assert other.coefficient("c=a").value == pytest.approx(-plain.coefficient("c=e").value)
    assert [each["chi2"] for each in other.tests()] == pytest.approx(
        [each["chi2"] for each in plain.tests()]
    )
    one = sf.regress(rows, 'c="d" ~ s', schema=SCHEMA)
    assert (one.family, one.event) == ("logit", "d")


def test_it_is_text_frames_json_pages_and_a_picture(rows: dict[str, list[Any]]) -> None:
    release = sf.perturb(rows, schema=SCHEMA.project(["y", "s"]), gamma=19, rng=sf.seeded(1))
    found = sf.regress(release, "y ~ s")
    assert isinstance(found, Regression) and found.origin == "reports"
    said = found.to_dict()
    assert said["from"] == "reports" and said["sampling"] is True
    first = said["coefficients"][1]
    assert first["term"] == "s=m" and first["odds_ratio"] == pytest.approx(math.exp(first["value"]))
    assert first["low"] < first["value"] < first["high"]
    frame = found.to_arrow().to_pydict()
    assert frame["term"] == ["intercept", "s=m"] and frame["odds_ratio_low"][1] > 0
    assert "odds ratio" in repr(found) and "<svg" in found._repr_html_()
    assert found.plot() is not None


REFUSED = {
    "y ~ agee": "did you mean 'age'",
    "c ~ age": "no yes/no and no number",
    "y age": "one ~ separates",
    "y ~ ": "a name is missing",
    "y ~ s + y": "both sides",
    "y ~ C(s": "is no name",
    "y ~ `s": "quote",
    "y=no=yes ~ s": "two values",
    'y="maybe" ~ s': "no cell",
}


@pytest.mark.parametrize("formula", REFUSED)
def test_what_is_no_regression_is_refused_in_one_line(
    rows: dict[str, list[Any]], formula: str
) -> None:
    with pytest.raises((ParameterError, SchemaError), match=REFUSED[formula]):
        sf.regress(rows, formula, schema=SCHEMA)


def test_families_and_references_that_there_are_not(rows: dict[str, list[Any]]) -> None:
    ask = partial(sf.regress, rows, schema=SCHEMA)
    with pytest.raises(ParameterError, match="did you mean 'logit'"):
        ask("y ~ s", family="logitt")
    with pytest.raises(SchemaError, match="no cell"):
        ask("y ~ s", reference={"s": "x"})
    with pytest.raises(ParameterError, match=r"C\(age\)"):
        ask("y ~ age", reference={"age": "3"})
    with pytest.raises(ParameterError, match="is no yes/no"):
        ask("wage ~ s", family="logit")


def test_what_cannot_be_estimated_is_said_so() -> None:
    separated = {"y": ["no", "yes"] * 50, "s": ["f", "m"] * 50}
    with pytest.raises(EstimationError, match="cannot be estimated"):
        sf.regress(separated, "y ~ s")
    constant = {"y": ["no", "yes"] * 50, "s": ["f"] * 100}
    with pytest.raises(EstimationError, match="one value only"):
        sf.regress(constant, "y ~ s")
    twice = {"y": ["no", "yes", "yes"] * 50, "s": ["f", "m"] * 75, "t": ["f", "m"] * 75}
    with pytest.raises(EstimationError, match="cannot be estimated"):
        sf.regress(twice, "y ~ s + t")
    alike = {"y": ["yes"] * 100, "s": ["f", "m"] * 50}
    with pytest.raises(SfumatoError):
        sf.regress(alike, "y ~ s")


def test_reports_that_leave_a_coefficient_open_are_refused() -> None:
    """Of 40 people in 2,000 nothing is known at γ = 3: no interval would hold."""
    rng = np.random.default_rng(3)
    domain = Domain((Y, Category("s", ("f", "m"))))
    chosen = (rng.integers(0, 2, 2000), (rng.random(2000) < 0.02) * 1)
    table = Table(domain, tuple(column.astype(np.uint8) for column in chosen))
    refused = 0
    for seed in range(20):
        try:
            regress(perturb(table, sf.GammaDiagonal(domain, 3), seeded(seed)), "y ~ s")
        except EstimationError as error:
            refused += "s=m" in str(error) or "cannot be estimated" in str(error)
    assert refused >= 15
    regress(Exact(table), "y ~ s")


def test_a_formula_is_read() -> None:
    found = Formula.read('`a+b` ~ "x y" * C(z) + w:v + 1 + w:v')
    assert found.response == "a+b"
    names = [term_name(term) for term in found.terms]
    assert names == ["x y", "C(z)", "x y:C(z)", "w:v"]
    assert found.terms[1] == (Factor("z", "C"),)
    assert Formula.read("y ~ capital-gain + marital status").names[1:] == (
        "capital-gain",
        "marital status",
    )


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("income=<=50K ~ sex", 'income="<=50K" ~'),
        ("income=~ ~ sex", 'income="<=50K" ~'),
        ("income ~ log(age)", r"score\(x\) as a number"),
        ("income", "quote names with signs"),
    ],
)
def test_what_is_no_formula_is_told_what_would_do(text: str, does: str) -> None:
    with pytest.raises(ParameterError, match=does):
        Formula.read(text)
    assert Formula.read('income="<=50K" ~ sex').event == "<=50K"


@pytest.mark.parametrize("formula", ["y ~ x", 'y="one" ~ x'])
def test_a_column_of_one_value_cannot_be_explained(formula: str) -> None:
    names = Domain((Category("y", ("one",)), Category("x", ("a", "b"))))
    table = Table(names, (np.zeros(40, np.uint8), np.arange(40, dtype=np.uint8) % 2))
    with pytest.raises(EstimationError, match="'y' has one value only"):
        regress(Exact(table), formula)


def test_open_ended_bins_stand_nearer_than_their_middle() -> None:
    """Beside the true means of four laws, cut at their quintiles: never further off than the
    middle, and at long tails far nearer.
    """
    rng = np.random.default_rng(1)
    for law in ("normal", "exponential", "lognormal", "uniform"):
        drawn = np.rint(50 * getattr(rng, law)(size=200_000))
        drawn = np.clip(drawn, *np.quantile(drawn, [1e-5, 1 - 1e-5]).round())
        edges = np.unique(
            [drawn.min(), *np.quantile(drawn, [0.2, 0.4, 0.6, 0.8]).round(), drawn.max()]
        )
        bins = Bins("x", tuple(map(float, edges)), 1.0)
        place = np.searchsorted(edges[1:-1], drawn, side="right")
        truth = np.array([drawn[place == cell].mean() for cell in range(bins.size)])
        counts = np.bincount(place, minlength=bins.size) + 0.0
        found, middle = scores(bins.cells(), counts), scores(bins.cells(), np.zeros(bins.size))
        for end in (0, -1):
            off, before = abs(found[end] - truth[end]), abs(middle[end] - truth[end])
            assert off <= before + 0.5
            assert off < 0.35 * before or before < 8
    assert tail_mean(1.0, 1e9) == pytest.approx(1.0)


def test_zero_is_a_cell_of_its_own_where_it_has_a_report_of_its_own() -> None:
    domain = Domain((Numeric("gain", 0, 99, cuts=(50,), zero=True),))
    table = sf.read({"gain": [0] * 900 + [10, 20, 60, 90] * 25}, domain)
    release = perturb(table, sf.Retention(domain, 0.9), seeded(1))
    part = cells_of(release, "gain")
    assert part.size == 3 and scores(part, np.array([900.0, 50, 50]))[0] == 0
