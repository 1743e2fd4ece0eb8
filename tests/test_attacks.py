"""Attacks and breaches on tiny domains, against the exact posterior: what must be found is found,
and no guess is worse than none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sfumato.audit import Audit, audit_release
from sfumato.audit.breaches import breaches
from sfumato.audit.paired import Paired
from sfumato.bits import Bits
from sfumato.domain import Category, Domain, Items, Numeric
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.mechanisms.retention import Retention
from sfumato.mechanisms.square_wave import SquareWave
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import seeded
from sfumato.table import Table, perturb_table

ROWS = 20_000
ILL = Category("ill", ("no", "yes"))
TOWN = Category("town", ("a", "b", "c"))
PEOPLE = Domain((ILL, TOWN))
# Rates that differ for every truth, so that no two can be exchanged unnoticed.
RATES = (0.12, 0.64, 0.08, 0.05, 0.07, 0.04)  # of the truth itself, the next cell, and so on
UNEVEN = np.stack([np.roll(RATES, cell) for cell in range(6)], axis=1)
UNEVEN[:, 0] = (0.10, 0.55, 0.05, 0.10, 0.15, 0.05)


def people(masses: np.ndarray, rows: int = ROWS) -> Table:
    """Records in just these proportions."""
    cells = np.repeat(np.arange(masses.size), np.round(masses.ravel() * rows).astype(int))
    cells = np.random.default_rng(1).permutation(cells)
    codes = np.unravel_index(cells, masses.shape)
    return Table(PEOPLE, tuple(code.astype(np.uint8) for code in codes))


MASSES = np.array([[0.40, 0.20, 0.15], [0.04, 0.06, 0.15]])


def audited(truth: Table, mechanism: Mechanism, copies: int = 1) -> Audit:
    release = perturb_table(truth, mechanism, seeded(3), copies=copies, keep_order=True)
    return audit_release(release, truth, rng=seeded(4))


def best_guess(channel: np.ndarray, prior: np.ndarray, groups: np.ndarray, reports: int) -> float:
    """How often the likeliest group is the true one, over every combination of reports: the sum of
    the largest joint probability.
    """
    right = 0.0
    for seen in product(range(len(channel)), repeat=reports):
        joint = prior * np.prod([channel[report] for report in seen], axis=0)
        right += np.bincount(groups, joint).max()
    return right


def as_records(mechanism: BitFlip) -> np.ndarray:
    """P(every pattern of bits | record), bit by bit."""
    ones, zeros = (
        np.broadcast_to(np.asarray(k, dtype=float), 5)
        for k in (mechanism.keep_ones, mechanism.keep_zeros)
    )
    columns = []
    for ill, town in product(range(2), range(3)):
        own = np.zeros(5, dtype=bool)
        own[[ill, 2 + town]] = True
        chance = np.where(own, ones, 1 - zeros)
        patterns = np.array(list(product([0, 1], repeat=5)))
        columns.append(np.where(patterns == 1, chance, 1 - chance).prod(axis=1))
    return np.stack(columns, axis=1)


CASES = {
    "matrix": (UserMatrix(PEOPLE, UNEVEN), UNEVEN),
    "retention": (
        Retention(PEOPLE, {"ill": 0.7, "town": 0.2}, {"ill": [3, 1]}),
        np.kron(
            0.7 * np.eye(2) + 0.3 * np.array([[0.75], [0.25]]),
            0.2 * np.eye(3) + 0.8 / 3,
        ),
    ),
    "gamma-diagonal": (GammaDiagonal(PEOPLE, 4), (np.ones((6, 6)) + 3 * np.eye(6)) / 9),
    "mask": (BitFlip(PEOPLE, 0.9, 0.6), as_records(BitFlip(PEOPLE, 0.9, 0.6))),
}


@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_guesses_are_as_good_as_the_exact_posterior(name: str, reports: int) -> None:
    mechanism, channel = CASES[name]
    assert np.allclose(channel.sum(axis=0), 1)
    audit = audited(people(MASSES), mechanism, copies=reports)
    prior = MASSES.ravel()
    groups = {"record": np.arange(6), "ill": np.repeat([0, 1], 3), "town": np.tile([0, 1, 2], 2)}
    seen = {attack.target: attack for attack in audit.attacks if attack.prior == "true"}
    assert set(seen) == set(groups)
    for target, group in groups.items():
        attack = seen[target]
        one = best_guess(channel, prior, group, 1)
        error = 5 * np.sqrt(one * (1 - one) / attack.people)
        base = np.bincount(group, prior).max()
        spread = 5 * np.sqrt(base * (1 - base) / attack.people)
        assert attack.baseline == pytest.approx(base, abs=spread)
        assert attack.right == pytest.approx(one, abs=error)
        assert attack.right >= attack.baseline - error
        if reports == 2:
            assert attack.siblings is not None
            two = best_guess(channel, prior, group, 2)
            error = 5 * np.sqrt(two * (1 - two) / attack.people)
            assert attack.siblings == pytest.approx(two, abs=error)


@pytest.mark.parametrize("name", CASES)
def test_a_reconstructed_prior_guesses_nearly_as_well(name: str) -> None:
    mechanism, _ = CASES[name]
    audit = audited(people(MASSES), mechanism)
    by = {(attack.target, attack.prior): attack for attack in audit.attacks}
    for (target, prior), attack in by.items():
        if prior == "reconstructed":
            known = by[target, "true"]
            assert known.right - 0.05 < attack.right <= known.right + 0.02
            assert attack.right >= attack.baseline - 0.02


def test_a_transposed_matrix_would_be_noticed() -> None:
    """The judge can fail: whoever weighs with truth and report exchanged guesses worse by far."""
    prior = MASSES.ravel()
    right = best_guess(UNEVEN, prior, np.arange(6), 1)
    guessed = (prior * UNEVEN.T).argmax(axis=1)  # of every report
    wrong = (prior * UNEVEN)[np.arange(6), guessed].sum()
    assert right - wrong > 10 * np.sqrt(right * (1 - right) / ROWS)


def test_items_are_guessed_as_well_as_their_posterior() -> None:
    shop = Domain((Items("items", ("rare", "common", "even")),))
    shares, ones, zeros = np.array([0.03, 0.9, 0.5]), [0.9, 0.6, 0.7], [0.8, 0.9, 0.55]
    dense = np.random.default_rng(2).random((ROWS, 3)) < shares
    audit = audited(Table(shop, (Bits.from_dense(dense),)), BitFlip(shop, ones, zeros))
    found = {attack.target: attack for attack in audit.attacks if attack.prior == "true"}
    rights, bases = [], []
    for item, name in enumerate(("rare", "common", "even")):
        share, one, zero = dense[:, item].mean(), ones[item], zeros[item]
        right = max(share * one, (1 - share) * (1 - zero)) + max(
            share * (1 - one), (1 - share) * zero
        )
        rights.append(right)
        bases.append(max(share, 1 - share))
        attack = found[f"item '{name}'"]
        assert attack.right == pytest.approx(right, abs=0.02)
        assert attack.baseline == pytest.approx(bases[-1])
        assert attack.right >= attack.baseline - 0.02
    average = found["items on average"]
    assert average.right == pytest.approx(np.mean(rights), abs=0.015)
    assert average.baseline == pytest.approx(np.mean(bases))
    assert found["item 'rare'"].right == pytest.approx(bases[0]), "nothing beats saying no"


def test_a_breach_of_records_is_found_and_named() -> None:
    """Town b is held by 4 % of the people, and 85 % of those whose report says it."""
    masses = np.array([[0.70, 0.03, 0.20], [0.04, 0.01, 0.02]])
    mechanism = Retention(PEOPLE, {"ill": 0.3, "town": 0.95}, {"town": [10, 1, 10]})
    audit = audited(people(masses), mechanism)
    assert audit.clean, audit.violations
    assert not audit.breaches.ruled_out and not audit.breaches.violated
    found = {(each.value, each.report): each for each in audit.breaches.examples}
    whole = {pair: each for pair, each in found.items() if "," in each.value}
    assert audit.breaches.found == len(found) and len(found) - len(whole) == 1
    assert all("town=b" in value and "town=b" in report for value, report in found)
    breach = found["town=b", "town=b"]
    shown = 0.95 * 0.04 + 0.05 / 21
    exact = 0.04 * (0.95 + 0.05 / 21) / shown
    assert breach.prior == pytest.approx(0.04) and breach.posterior == pytest.approx(
        exact, abs=0.03
    )
    told = f"{len(found)} beliefs of at most 5 % became 50 % or more"
    assert told in " ".join(audit.sentences())
    examples = json.loads(json.dumps(audit.breaches.to_dict()))["examples"]
    assert "town=b" in {example["value"] for example in examples}


@pytest.mark.parametrize(("rho1", "rho2"), [(0.02, 0.5), (0.05, 0.999)])
def test_a_breach_is_counted_only_between_its_bounds(rho1: float, rho2: float) -> None:
    masses = np.array([[0.70, 0.03, 0.20], [0.04, 0.01, 0.02]])
    mechanism = Retention(PEOPLE, {"ill": 0.3, "town": 0.95}, {"town": [10, 1, 10]})
    truth = people(masses)
    release = perturb_table(truth, mechanism, seeded(3), keep_order=True)
    audit = audit_release(release, truth, rho1=rho1, rho2=rho2, rng=seeded(4))
    assert audit.breaches is not None and audit.breaches.found == 0


@dataclass(frozen=True)
class Boastful(GammaDiagonal):
    """Promises a tenth of the gamma it draws with."""

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(Fraction(self.gamma) / 10)


def test_beliefs_beyond_the_promise_are_a_violation() -> None:
    """Under the promised gamma of 6 a belief of 4 % becomes at most 20 %; it becomes 71 %."""
    masses = np.array([[0.40, 0.04, 0.26], [0.10, 0.05, 0.15]])
    truth = people(masses)
    audit = audited(truth, Boastful(PEOPLE, Fraction(60)))
    assert audit.breaches is not None and audit.breaches.violated
    assert any("beliefs are raised further than the promise allows" in v for v in audit.violations)
    honest = audited(truth, GammaDiagonal(PEOPLE, 60))
    assert honest.clean and honest.breaches is not None and honest.breaches.beyond == 0
    assert honest.breaches.found > 0 and not honest.breaches.ruled_out


def test_breaches_raise_no_false_alarm_at_their_own_bound() -> None:
    """The worst belief that the promise allows, in 60 releases: never beyond, since each bound
    holds with its share of a false alarm of 1 in 4,000.
    """
    masses = np.array([[0.05, 0.30, 0.25], [0.10, 0.15, 0.15]])
    truth = people(masses, 2000)
    mechanism = GammaDiagonal(PEOPLE, 5)
    beyond = 0
    for seed in range(60):
        release = perturb_table(truth, mechanism, seeded(seed), keep_order=True)
        beyond += breaches(Paired.of(release, truth), 0.05, 0.5, false_alarm=0.05).violated
    assert beyond <= stats.binom.ppf(1 - 1e-6, 60, 0.05)


def test_a_number_of_half_a_million_values_is_audited_without_a_table_of_them() -> None:
    numbers = np.random.default_rng(0).integers(0, 500_001, 400).astype(np.uint32)
    truth = Table(Domain((Numeric("cost", 0, 500_000),)), (numbers,))
    mechanism = SquareWave.promising(Guarantee(19), truth.domain)
    release = perturb_table(truth, mechanism, seeded(2), keep_order=True)
    found = audit_release(release, truth, rng=seeded(4)).amplification
    assert found is not None and not found.violated
    assert 2 < found.lower_bound <= 19
