"""A three-way interaction that pairs of columns do not show: who asks triples finds it, and who
asks pairs alone is told that it cannot be known.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from papers.accuracy import support_accuracy
from sfumato.domain import Bins, Category, Domain
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.mechanisms.registry import mechanism_class
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.rules import association_rules
from sfumato.model.fitted import fit_release
from sfumato.model.misfit import CONTRADICTED, misfit
from sfumato.model.model import Model
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.release import Exact, perturb
from sfumato.table import Table

PROMISE = Guarantee(19)
DOMAIN = Domain(
    (
        Bins("age", (15, 35, 55, 75, 95)),
        Bins("hours", (0, 20, 40, 60)),
        Category("sex", ("female", "male")),
        Category("race", ("white", "other")),
    )
)
NAMES = ("age", "hours", "sex")


@pytest.fixture(scope="module")
def table() -> Table:
    """`sex` is age ≥ 35 xor hours ≥ 40, with 15 % noise."""
    rng = np.random.default_rng(7)
    age = rng.choice(4, 60_000, p=(0.45, 0.3, 0.15, 0.1))
    hours = rng.choice(3, 60_000, p=(0.2, 0.35, 0.45))
    sex = (age >= 1) ^ (hours >= 2) ^ (rng.random(60_000) < 0.15)
    race = rng.random(60_000) < 0.2 + 0.1 * sex
    return Table(DOMAIN, tuple(column.astype(np.uint8) for column in (age, hours, sex, race)))


def fitted(table: Table, questions: str | None, order: int, seed: int) -> Model:
    mechanism = Questionnaire.promising(PROMISE, table.domain, questions=questions)
    return fit_release(perturb(table, mechanism, seeded(seed)), order)


def figures(models: list[Model], table: Table, length: int) -> tuple[float, float]:
    """The mean relative error in per cent of supports of a length, and the intervals that cover."""
    sets = list(combinations(DOMAIN.names, length))
    found = [support_accuracy(model, Exact(table), sets, 0.02)[0] for model in models]
    errors, covered = [each.error for each in found], [each.covered for each in found]
    return float(np.mean(errors)), float(np.mean(covered))


def test_questions_about_triples_find_it(table: Table) -> None:
    models = [fitted(table, None, 3, seed) for seed in range(1, 5)]
    for length in (3, 4):
        error, covered = figures(models, table, length)
        assert error < 10 and covered >= 90
    assert models[0].marginal(NAMES).dot(1.0).assumes is None


@pytest.mark.parametrize("order", [2, 3])
def test_pairs_alone_cannot_know_and_say_so(table: Table, order: int) -> None:
    model = fitted(table, "pairs:1", order, 1)
    error, _ = figures([model], table, 3)
    assert error > 12  # so the test above can fail
    answer = model.marginal(NAMES).dot(1.0)
    assert answer.assumes == "no interaction of more than 2 columns"


@pytest.mark.parametrize("name", ["hadamard", "gamma-diagonal", "questionnaire"])
def test_a_law_that_reports_contradict_says_so_in_every_answer(table: Table, name: str) -> None:
    mechanism = mechanism_class(name).promising(PROMISE, table.domain)
    release = perturb(table, mechanism, seeded(1))
    without, with_it = fit_release(release, 2), fit_release(release, 3)
    assert without.contradicted and not with_it.contradicted
    said = str(without.marginal(["race"]).evidence.assumes)
    assert said == "no interaction of more than 2 columns, which the reports contradict"
    found = frequent_itemsets(without, 0.1)
    assert set(found.assumes) == {said} and found.to_dicts()[0]["assumes"] == said
    rules = association_rules(found, min_confidence=0.5)
    assert len(rules) and {each["assumes"] for each in rules.to_dicts()} == {said}
    assert with_it.marginal(["race"]).evidence.assumes is None


def test_a_law_that_holds_is_not_contradicted() -> None:
    rng = np.random.default_rng(3)
    columns = tuple(rng.integers(0, each.size, 20_000).astype(np.uint8) for each in DOMAIN)
    mechanism = mechanism_class("gamma-diagonal").promising(PROMISE, DOMAIN)
    off = [
        misfit(fit_release(perturb(Table(DOMAIN, columns), mechanism, seeded(seed)), 2).law.fit)
        for seed in range(20)
    ]
    assert max(off) < CONTRADICTED and abs(np.mean(off)) < 1.5  # figures of a normal law, about
