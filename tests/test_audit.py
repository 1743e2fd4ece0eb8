"""Audits: sound mechanisms pass, broken ones are named, attackers do as well as theory says, a
stranger's truth is refused.
"""

import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.examples import EXAMPLES, Example
from tests.mutants import MUTANTS, PEOPLE, SEX, SHOP, Mutant, records

from sfumato.audit import audit_release
from sfumato.audit.auditing import _checks
from sfumato.audit.check import counted, fit
from sfumato.audit.paired import Paired
from sfumato.bits import Bits
from sfumato.domain import Category, Columns, Domain, Items, Numeric
from sfumato.errors import DataError, ParameterError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.fp_nfp import FrequencyFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.retention import Retention
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, seeded
from sfumato.table import Provenance, Table, perturb_table

ROWS = 20_000
COIN = Domain((Category("coin", ("heads", "tails")),))


def table(domain: Domain, rows: int = ROWS, seed: int = 3) -> Table:
    return Table(domain, records(domain, rows, seed))


def released(truth: Table, mechanism: Mechanism, seed: int = 5, copies: int = 1) -> Table:
    return perturb_table(truth, mechanism, seeded(seed), copies=copies)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_a_sound_mechanism_is_not_flagged(example: Example) -> None:
    truth = Table(example.mechanism.domain, replace(example, rows=ROWS).records())
    audit = audit_release(released(truth, example.mechanism), truth, rng=seeded(7))
    assert audit.clean, audit.violations
    assert audit.checks and audit.attacks


def same_words(words: str, violations: tuple[str, ...]) -> bool:
    return any(re.search(words, line) for line in violations)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_broken_mechanism_is_caught_and_named(mutant: Mutant) -> None:
    truth = table(mutant.broken.domain)
    audit = audit_release(released(truth, mutant.broken), truth, rng=seeded(9))
    assert not audit.clean
    assert same_words(mutant.words, audit.violations), audit.violations
    assert "does not keep its promise" in audit.sentences()[0]


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.seen_in_release], ids=lambda mutant: mutant.name
)
def test_a_file_that_a_broken_mechanism_wrote_is_caught(mutant: Mutant) -> None:
    """The file names the sound mechanism, and only its reports can give the mistake away."""
    truth = table(mutant.broken.domain)
    reports = released(truth, mutant.broken)
    claimed = Table(reports.domain, reports.columns, Provenance(mutant.sound, secure=False))
    audit = audit_release(claimed, truth, rng=seeded(9))
    assert same_words(mutant.words, audit.violations), audit.violations


@dataclass(frozen=True)
class FivePerCentOff(GammaDiagonal):
    """Draws with a gamma 5 % above the one it promises."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        return GammaDiagonal(self.domain, Fraction(self.gamma) * Fraction(21, 20)).randomise(
            columns, rng
        )


def test_a_gamma_five_per_cent_off_is_caught_in_enough_rows() -> None:
    truth = table(PEOPLE, 400_000)
    audit = audit_release(
        released(truth, FivePerCentOff(PEOPLE, Fraction(19))), truth, rng=seeded(9)
    )
    assert same_words("whole records are kept", audit.violations)


@pytest.mark.parametrize(
    "mechanism", [GammaDiagonal(PEOPLE, 9), BitFlip(SHOP, 0.7, 0.8)], ids=lambda m: m.name
)
def test_checks_raise_no_more_false_alarms_than_stated(mechanism: Mechanism) -> None:
    """Of 120 sound releases, 5 % may fail at a rate of 5 %: a binomial count that exceeds 20 once
    in a million.
    """
    truth = table(mechanism.domain, 2000)
    failed = 0
    for seed in range(120):
        checks, _ = _checks(
            Paired.of(released(truth, mechanism, seed), truth),
            seeded(seed),
            lambda stage, share: None,
        )
        failed += any(check.p_value < 0.05 / len(checks) for check in checks)
    assert failed <= int(stats.binom.ppf(1 - 1e-6, 120, 0.05))


def test_copies_with_one_noise_are_caught() -> None:
    truth = table(PEOPLE, 5000)
    single = released(truth, GammaDiagonal(PEOPLE, 19))
    columns = tuple(np.repeat(column, 2) for column in single.columns)
    copied = Table(single.domain, columns, Provenance(single.mechanism, secure=False, copies=2))
    assert same_words("rows 1 apart", audit_release(copied, truth, rng=seeded(1)).violations)


def test_the_best_guess_at_a_coin_is_right_as_often_as_theory_says() -> None:
    truth = Table(COIN, (np.arange(ROWS) % 2,))
    audit = audit_release(released(truth, GammaDiagonal(COIN, 3), copies=5), truth, rng=seeded(2))
    for attack in audit.attacks:
        assert attack.baseline == pytest.approx(0.5, abs=0.04)
        assert attack.right == pytest.approx(0.75, abs=0.04)
        assert attack.siblings == pytest.approx(stats.binom.sf(2, 5, 0.75), abs=0.03)
    assert audit.siblings is not None and audit.siblings.guarantee.gamma == 3**5
    assert "from all 5 reports" in audit.sentences()[1]


@pytest.mark.parametrize(
    "mechanism", [Retention(PEOPLE, 0.6), BitFlip(PEOPLE, 0.8, 0.8), CutAndPaste(PEOPLE, 3, 0.2)]
)
def test_a_report_helps_and_more_reports_help_more(mechanism: Mechanism) -> None:
    truth = table(PEOPLE, 4000)
    audit = audit_release(released(truth, mechanism, copies=4), truth, rng=seeded(2))
    assert audit.clean, audit.violations
    for attack in audit.attacks:
        assert (
            attack.siblings is not None and attack.baseline - 0.02 < attack.right < attack.siblings
        ), attack


def test_many_columns_are_attacked_one_by_one() -> None:
    wide = Domain(
        (Numeric("age", 0, 500), *(Category(f"c{place}", ("a", "b", "c")) for place in range(11)))
    )
    truth = table(wide, 5000)
    audit = audit_release(released(truth, Retention(wide, 0.5), copies=2), truth, rng=seeded(2))
    assert audit.clean, audit.violations
    named = {attack.target: attack for attack in audit.attacks if attack.prior == "true"}
    assert set(named) == {"record", *wide.names}
    assert named["c0"].baseline < named["c0"].right < named["c0"].siblings


def test_records_kept_whole_are_guessed_whole_however_many_there_are() -> None:
    """Of 3^11 possible records a report is the truth with probability γ/(γ+n-1), and hardly any
    other record is likelier.
    """
    wide = Domain(tuple(Category(f"c{place}", ("a", "b", "c")) for place in range(11)))
    truth, cells = table(wide, 5000), 3**11
    audit = audit_release(
        released(truth, GammaDiagonal(wide, cells), copies=3), truth, rng=seeded(2)
    )
    record = next(
        attack for attack in audit.attacks if attack.target == "record" and attack.prior == "true"
    )
    assert record.right == pytest.approx(0.5, abs=0.05)
    # Two equal reports are the truth; of three different ones, one is with probability 3/8, and the
    # prior favours it.
    assert record.siblings is not None and 0.5 + 0.375 / 3 < record.siblings < 0.875


def test_baskets_of_any_size_are_audited() -> None:
    shop = Domain((Items("items", tuple(f"item {number}" for number in range(40))),))
    truth = Table(shop, (Bits.from_dense(np.random.default_rng(1).random((5000, 40)) < 0.1),))
    for mechanism in (CutAndPaste(shop, 3, 0.2), BitFlip(shop, 0.9, 0.9)):
        audit = audit_release(released(truth, mechanism), truth, rng=seeded(3))
        assert audit.clean, audit.violations


def test_measured_gamma_stays_below_a_promise_that_is_kept_and_near_it() -> None:
    truth = table(PEOPLE)
    found = audit_release(
        released(truth, GammaDiagonal(PEOPLE, 19)), truth, rng=seeded(4)
    ).amplification
    assert found is not None and not found.violated
    assert 0.7 * 19 < found.lower_bound <= 19


@dataclass(frozen=True)
class TwiceTheGamma(GammaDiagonal):
    """Promises half of the gamma it draws with."""

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(Fraction(self.gamma) / 2)


def test_a_promise_of_half_the_gamma_is_found_out() -> None:
    truth = table(PEOPLE)
    audit = audit_release(
        released(truth, TwiceTheGamma(PEOPLE, Fraction(19))), truth, rng=seeded(4)
    )
    assert audit.amplification is not None and audit.amplification.violated
    assert same_words("above the promised 9.5", audit.violations)


def test_certain_ones_are_found_as_breaches_that_were_never_ruled_out() -> None:
    truth = Table(SHOP, (Bits.from_dense(np.random.default_rng(1).random((ROWS, 6)) < 0.04),))
    audit = audit_release(
        released(truth, FrequencyFlip(SHOP, ("bread",), 0.9, 0.9)), truth, rng=seeded(4)
    )
    assert audit.clean and audit.amplification is None
    assert audit.breaches.found == 1 and not audit.breaches.ruled_out
    assert (
        audit.breaches.examples[0].value == "bread" and audit.breaches.examples[0].posterior == 1.0
    )


def test_public_columns_link_people() -> None:
    village = Domain((SEX, Numeric("birth", 0, 9999, public=True)))
    birth = np.concatenate([np.arange(900), np.repeat(np.arange(5000, 5050), 2)]).astype(np.uint16)
    truth = Table(village, (records(Domain((SEX,)), 1000, 1)[0], birth))
    found = audit_release(
        released(truth, GammaDiagonal(village, 19), copies=2), truth, rng=seeded(4)
    ).linkage
    assert (found.columns, found.unique, found.groups, found.found) == (("birth",), 900, 950, 0.95)


def test_a_truth_in_another_order_does_not_pass() -> None:
    truth = table(PEOPLE)
    shuffled = truth.take(np.random.default_rng(1).permutation(truth.rows))
    assert not audit_release(
        released(truth, GammaDiagonal(PEOPLE, 19)), shuffled, rng=seeded(4)
    ).clean


def test_a_truth_that_does_not_belong_is_refused() -> None:
    mixed = Domain((SEX, Category("income", ("low", "high"), public=True)))
    truth = table(mixed, 1000)
    release = released(truth, GammaDiagonal(mixed, 19))
    strangers = [
        (truth.slice(0, 999), "it holds 999 records, and the release was made from 1,000"),
        (table(PEOPLE, 1000), "it has no column 'income'"),
        (table(mixed, 1000, seed=8), r"public column 'income' differs in \d+ of 1,000 rows"),
        (
            table(Domain((Category("sex", ("f", "m")), mixed["income"])), 1000),
            "row 1, column 'sex'",
        ),
        (release, "the truth was itself perturbed"),
    ]
    for stranger, words in strangers:
        with pytest.raises(DataError, match=words):
            audit_release(release, stranger)
    with pytest.raises(DataError, match="carries no mechanism"):
        audit_release(truth, truth)
    with pytest.raises(ParameterError, match=r"rho2=0\.04 is not above rho1"):
        audit_release(release, truth, rho2=0.04)


def test_an_audit_can_be_read_by_people_and_machines() -> None:
    truth, told = table(PEOPLE, 2000), []
    audit = audit_release(
        released(truth, GammaDiagonal(PEOPLE, 19), copies=2),
        truth,
        rng=seeded(1),
        progress=lambda stage, share: told.append((stage, share)),
    )
    shown = json.loads(json.dumps(audit.to_dict(), allow_nan=False))
    assert shown["clean"] and shown["rows"] == 2000 and shown["siblings"]["copies"] == 2
    assert {len(row) for row in audit.table()} == {len(audit.header())}
    assert "such breaches are ruled out" in " ".join(audit.sentences())
    shares = [share for _, share in told]
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_the_judges_accept_chance_and_reject_five_per_cent() -> None:
    rng = np.random.default_rng(1)
    law = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.3], [0.1, 0.2, 0.6]])
    found = np.stack([rng.multinomial(20_000, column) for column in law.T], axis=1)
    assert fit(found, law * 20_000) > 1e-6
    assert fit(found, (0.95 * law + 0.05 / 3) * 20_000) < 1e-6
    assert counted(rng.binomial(100_000, 0.1), 100_000, 10_000, 9000) > 1e-6
    assert counted(10_500, 100_000, 10_000, 9000) < 1e-6
    assert counted(3, 1000, 0.001, 0.001) < 1e-6 < counted(0, 1000, 0.001, 0.001)
    assert counted(997, 1000, 999.999, 0.001) < 1e-6 < counted(1000, 1000, 999.999, 0.001)
