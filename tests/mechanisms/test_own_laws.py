"""Columns perturbed by their own distribution beside reports that are counted several times."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import Unanswerable
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.questionnaire import Questionnaire
from sfumato.randomness import seeded
from sfumato.table import Table

SEX = sf.Domain((sf.Category("sex", ("f", "m")),))
PET = sf.Domain((sf.Category("pet", ("cat", "dog", "eel")),))
TWO = sf.Domain((sf.Category("sex", ("f", "m")), sf.Category("ill", ("no", "yes"))))
ROWS, RUNS = 3_000, 120


def people(domain: sf.Domain) -> Table:
    """Columns that depend on each other, so that a wrong margin shows."""
    rng = np.random.default_rng(4)
    hidden = rng.random(ROWS)
    columns = [
        np.minimum(hidden * size + rng.normal(0, 0.3, ROWS), size - 1).clip(0).astype(np.uint8)
        for size in domain.shape
    ]
    return Table(domain, tuple(columns))


def beside_identity(part: Mechanism) -> Mechanism:
    return sf.Combined.of(part, sf.Retention(PET, 0.4, replace="identity"))


CASES = {
    "unequal bits": (beside_identity(sf.BitFlip(SEX, [0.95, 0.7], [0.95, 0.7])), ["sex", "pet"]),
    "equal bits": (beside_identity(sf.BitFlip(SEX, 0.9, 0.8)), ["sex", "pet"]),
    "questions": (
        beside_identity(Questionnaire.promising(sf.Guarantee(9), TWO)),
        ["sex", "ill", "pet"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_estimates_are_unbiased_with_the_errors_they_state(name: str) -> None:
    mechanism, columns = CASES[name]
    truth = people(mechanism.domain)
    exact = sf.Exact(truth).marginal(columns).value
    runs = [sf.perturb(truth, mechanism, seeded(seed)).marginal(columns) for seed in range(RUNS)]
    values = np.array([run.value for run in runs])
    spread = values.std(axis=0, ddof=1)
    stated = np.sqrt(np.mean([run.stderr**2 for run in runs], axis=0))
    assert np.abs((values.mean(axis=0) - exact) / (spread / np.sqrt(RUNS))).max() < 4.5
    assert np.abs(stated / spread - 1).max() < 0.3  # of a spread over 120 runs: 6.5 % a deviation


def test_a_permuted_column_beside_bits_is_refused() -> None:
    mechanism = sf.Combined.of(sf.BitFlip(SEX, 0.9, 0.8), sf.Permuting(PET, 0.5))
    release = sf.perturb(people(mechanism.domain), mechanism, seeded(1))
    with pytest.raises(Unanswerable, match="ask about them apart"):
        _ = release.marginal(["sex", "pet"]).stderr
    assert np.all(release.marginal(["pet"]).stderr == 0)
