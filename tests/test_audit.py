"""Audits: sound mechanisms pass, broken ones are named, attackers do as well as theory says, a
stranger's truth is refused.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.mechanisms.added.sampled_pairs import SampledPairs
from tests.mechanisms.added.unary_joint import UnaryJoint
from tests.mechanisms.examples import EXAMPLES
from tests.mutants import MUTANTS, PEOPLE, SEX, SHOP, Mutant, raw_where, records

from sfumato.audit import audit_release
from sfumato.audit.amplification import _record, chosen_records
from sfumato.audit.audit_result import CHECKS_SHARE, OTHER_SHARE
from sfumato.audit.auditing import _checks
from sfumato.audit.breaches import least_shares
from sfumato.audit.limits import FEW_CELLS
from sfumato.audit.paired import Paired
from sfumato.audit.places import (
    longest_run,
    modulo_check,
    permutation_check,
    run_check,
    run_log,
    stretches,
    total_check,
)
from sfumato.audit.reported_baskets import BasketFit
from sfumato.audit.reported_records import RecordFit
from sfumato.audit.resampled import sound
from sfumato.audit.score import Agreements, Check, log_tail
from sfumato.bits import Bits
from sfumato.domain import Category, Columns, Domain, Items, Numeric
from sfumato.errors import DataError, ParameterError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip, FrequencyFlip
from sfumato.mechanisms.cut_and_paste import CutAndPaste
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.item_set import ItemSet
from sfumato.mechanisms.retention import Retention
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, seeded
from sfumato.table import Provenance, Table, perturb_table
from sfumato.table.perturbing import shuffled
from sfumato.testing import Example

ROWS = 20_000
COIN = Domain((Category("coin", ("heads", "tails")),))


def table(domain: Domain, rows: int = ROWS, seed: int = 3) -> Table:
    return Table(domain, records(domain, rows, seed))


def released(truth: Table, mechanism: Mechanism, seed: int = 5, copies: int = 1) -> Table:
    return perturb_table(truth, mechanism, seeded(seed), copies=copies, keep_order=True)


def agreements(paired: Paired) -> Agreements | None:
    way = BasketFit if paired.in_baskets else RecordFit
    return way(paired, seeded(1)).agreements()


@pytest.mark.parametrize("rows", [8_000, pytest.param(60_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_sound_mechanism_is_not_flagged(example: Example, rows: int) -> None:
    truth = Table(example.mechanism.domain, example.records(rows))
    audit = audit_release(released(truth, example.mechanism), truth, rng=seeded(7))
    assert audit.clean, audit.violations
    assert audit.checks and (audit.attacks or audit.left_out)


def test_false_alarms_are_shared_among_all_that_can_raise_one() -> None:
    """The checks together, the empirical gamma and the breaches: at most the stated rate."""
    assert CHECKS_SHARE + 2 * OTHER_SHARE == 1
    truth = table(PEOPLE, 500)
    audit = audit_release(released(truth, GammaDiagonal(PEOPLE, 19)), truth, rng=seeded(1))
    assert audit.threshold == pytest.approx(1e-3 / 2 / len(audit.checks))
    assert audit.amplification is not None
    assert audit.amplification.false_alarm == pytest.approx(1e-3 / 4)


def same_words(words: str, violations: tuple[str, ...]) -> bool:
    return any(re.search(words, line) for line in violations)


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if not m.name.endswith("Raw")], ids=lambda mutant: mutant.name
)
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
    truth = table(mechanism.domain, 1000)
    failed = 0
    for seed in range(120):
        checks, _ = _checks(
            Paired.of(released(truth, mechanism, seed), truth),
            seeded(seed),
            lambda stage, share: None,
        )
        failed += any(check.p_value < 0.05 / len(checks) for check in checks)
    assert failed <= int(stats.binom.ppf(1 - 1e-6, 120, 0.05))


KINDS: list[Mechanism] = [
    GammaDiagonal(PEOPLE, 19),
    Retention(PEOPLE, 0.4, "identity"),
    BitFlip(SHOP, 0.75, 0.8),
    CutAndPaste(SHOP, 3, 0.2),
    SampledPairs(PEOPLE, 19),
    UnaryJoint.promising(Guarantee(19), PEOPLE),
]


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("mechanism", KINDS, ids=lambda mechanism: mechanism.name)
def test_a_shuffled_release_is_audited_with_its_order_and_without(
    mechanism: Mechanism, copies: int
) -> None:
    truth = table(mechanism.domain, 4000)
    release, order = shuffled(released(truth, mechanism, copies=copies), seeded(11))
    known = audit_release(release, truth, order=order, rng=seeded(3))
    assert known.clean, known.violations
    assert known.power is not None and known.breaches is not None
    unknown = audit_release(release, truth, rng=seeded(3))
    assert unknown.clean, unknown.violations
    assert unknown.attacks == () and unknown.breaches is None and unknown.power is None
    assert "--order" in unknown.left_out[0] and unknown.left_out[0] in unknown.sentences()
    assert len(unknown.checks) < len(known.checks)
    wrong = audit_release(release, truth, order=np.roll(order, copies), rng=seeded(3))
    assert not wrong.clean


UNPAIRED = [
    "OneColumnTooFew",
    "OneRetainedColumnTooFew",
    "LastValueNeverDrawn",
    "OneItemTooFew",
    "LengthTellsTruth",
]


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.name in UNPAIRED], ids=lambda mutant: mutant.name
)
def test_what_totals_show_needs_no_pairing(mutant: Mutant) -> None:
    truth = table(mutant.broken.domain)
    reports = released(truth, mutant.broken)
    claimed = Table(reports.domain, reports.columns, Provenance(mutant.sound, secure=False))
    audit = audit_release(shuffled(claimed, seeded(11))[0], truth, rng=seeded(9))
    assert same_words("as the counts of the truth say|as often as the counts", audit.violations)


def test_an_order_is_of_every_person_or_of_every_report_and_nothing_else() -> None:
    truth = table(PEOPLE, 500)
    release, order = shuffled(released(truth, GammaDiagonal(PEOPLE, 19), copies=2), seeded(1))
    assert len(order) == 1000
    each = [audit_release(release, truth, order=o, rng=seeded(1)) for o in (order, order[::2])]
    assert each[0] == each[1] and each[0].clean
    for wrong in (order[:-1], order[::2][:-1], np.zeros(500, dtype=np.int64)):
        with pytest.raises(DataError, match="is no order of 500 records"):
            audit_release(release, truth, order=wrong)


def test_copies_with_one_noise_are_caught_without_their_order() -> None:
    truth = table(PEOPLE, 5000)
    single = released(truth, Retention(PEOPLE, 0.4))
    columns = tuple(np.repeat(column, 2) for column in single.columns)
    copied = Table(single.domain, columns, Provenance(single.mechanism, secure=False, copies=2))
    audit = audit_release(shuffled(copied, seeded(11))[0], truth, rng=seeded(1))
    assert same_words("equal no more often than by chance", audit.violations)


@pytest.mark.parametrize("mechanism", KINDS, ids=lambda mechanism: mechanism.name)
def test_a_sorted_truth_published_in_its_order_is_seen_and_its_shuffle_is_not(
    mechanism: Mechanism,
) -> None:
    truth = table(mechanism.domain, 6000)
    first = truth.columns[0]
    key = first.column(0) if isinstance(first, Bits) else np.asarray(first)
    ordered = truth.take(np.argsort(key, kind="stable"))
    release = released(ordered, mechanism)
    audit = audit_release(release, ordered, rng=seeded(3))
    assert same_words("the order of the reports says nothing", audit.violations)
    hidden, order = shuffled(release, seeded(11))
    assert audit_release(hidden, ordered, rng=seeded(3)).clean
    assert audit_release(hidden, ordered, order=order, rng=seeded(3)).clean


def test_neighbours_of_one_household_are_seen() -> None:
    """Not sorted, but people who live together stand together and are alike."""
    truth = table(PEOPLE, 10_000)
    together = truth.take(np.repeat(np.arange(5000), 2))
    audit = audit_release(released(together, GammaDiagonal(PEOPLE, 19)), together, rng=seeded(3))
    assert same_words("reports 1 apart", audit.violations)


def test_an_order_that_chance_did_not_draw_is_seen() -> None:
    rng = np.random.default_rng(2)
    rows = 20_000
    drawn = rng.permutation(rows)
    batches = np.concatenate([start + rng.permutation(1000) for start in range(0, rows, 1000)])
    tail_left = np.concatenate([rng.permutation(rows - 200), np.arange(rows - 200, rows)])
    blocks = rng.permutation(rows // 100)[:, None] * 100 + np.arange(100)
    assert permutation_check(drawn).p_value > 1e-3
    assert permutation_check(np.arange(10)).detail == "too few rows to tell"
    for order, words in [
        (np.arange(rows), "neighbours still"),
        (np.arange(rows)[::-1], "neighbours still"),
        (batches, "come from one part|near their old place"),
        (tail_left, "neighbours still|come from one part"),
        (blocks.ravel(), "neighbours still"),
    ]:
        check = permutation_check(order)
        assert check.p_value < 1e-6 and re.search(words, check.detail), check
    values = [permutation_check(rng.permutation(2000)).p_value for _ in range(400)]
    assert sum(value < 0.1 for value in values) <= stats.binom.ppf(1 - 1e-6, 400, 0.1)


def test_the_stretch_that_came_from_one_part_is_named() -> None:
    """Also where it is the first of all stretches."""
    rows = 20_000
    order = np.random.default_rng(4).permutation(rows)
    first = stretches(rows)[1][0]
    order = np.concatenate([order[order >= rows - first], order[order < rows - first]])
    check = permutation_check(order)
    assert check.detail.startswith(f"rows 1 to {first:,} come from one part"), check.detail


@pytest.mark.parametrize("level", [1e-3, 1e-7])
def test_the_least_share_is_clopper_and_pearsons(level: float) -> None:
    reported = np.repeat([1, 2, 7, 100], 3)
    held = np.array([0, 1, 1, 0, 1, 2, 1, 3, 7, 0, 1, 100])
    exact = [
        stats.binomtest(int(k), int(n), alternative="greater").proportion_ci(1 - level).low
        for k, n in zip(held, reported, strict=True)
    ]
    assert least_shares(held, reported, level) == pytest.approx(exact, rel=1e-9)


def test_the_first_twelve_columns_are_judged_three_by_three() -> None:
    many = Domain(tuple(Category(f"c{place}", ("a", "b")) for place in range(14)))
    truth = Table(many, tuple(np.arange(40) % 2 for _ in many))
    paired = Paired.of(released(truth, Retention(many, 0.5)), truth)
    found = [[column.name for column in three] for three in RecordFit(paired, seeded(1)).triples()]
    assert len(found) == 220 and found[-1] == ["c9", "c10", "c11"]


def test_the_empty_basket_is_empty_and_the_far_one_is_far() -> None:
    shop = Domain((Items("items", tuple(map(str, range(200)))),))
    empty, far = (_record(shop, far=far)[0] for far in (False, True))
    assert empty.to_dense().sum() == 0 and far.to_dense().sum() == FEW_CELLS
    single = _record(Domain((Items("items", ("bread",)),)), far=True)[0]
    assert single.to_dense().sum() == 1


@pytest.mark.parametrize(
    "mechanism", [GammaDiagonal(PEOPLE, 19), BitFlip(SHOP, 0.75, 0.75)], ids=lambda m: m.name
)
def test_the_smallest_leaks_that_are_stated_are_found(mechanism: Mechanism) -> None:
    """A little more than stated is found in at least four of five releases, half of it in one at
    most.
    """
    truth = table(mechanism.domain)
    audit = audit_release(released(truth, mechanism), truth, rng=seeded(3))
    seen = audit.power
    assert seen is not None and seen.in_a_row and seen.scattered and seen.every

    level = 1e-3 / 2 / len(audit.checks)
    arguments = (PEOPLE, 19) if isinstance(mechanism, GammaDiagonal) else (SHOP, 0.75, 0.75)

    def found(places: Any, size: int, check: Callable[[Agreements], Check]) -> int:
        """In how many of five releases a leak of this size fails the check."""
        broken = raw_where(type(mechanism), "Planted", lambda rows: places(rows, size))
        hits = 0
        for seed in range(5):
            release = released(truth, broken(*arguments), seed)
            series = agreements(Paired.of(release, truth))
            assert series is not None
            hits += check(series).p_value < level
        return hits

    def run(rows: int, size: int) -> slice:
        return slice(777, 777 + size)

    def anywhere(rows: int, size: int) -> np.ndarray:
        return np.random.default_rng(size).choice(rows, size, replace=False)

    def every(rows: int, size: int) -> slice:
        return slice(3, rows, size)

    def whole(series: Agreements) -> Check:
        return total_check(series.scores)

    def modulo(series: Agreements) -> Check:
        return modulo_check(series.scores)

    assert found(run, seen.in_a_row, run_check) == 5
    assert found(run, seen.in_a_row // 2, run_check) == 0
    assert found(anywhere, round(1.1 * seen.scattered), whole) >= 4
    assert found(anywhere, seen.scattered // 2, whole) <= 1
    assert found(every, round(seen.every / 1.1), modulo) >= 4
    assert found(every, seen.every * 3, modulo) <= 1


def test_the_smallest_leaks_are_told_and_not_overstated() -> None:
    truth = table(PEOPLE, 2000)
    audit = audit_release(released(truth, GammaDiagonal(PEOPLE, 19)), truth, rng=seeded(1))
    assert audit.power is not None
    words = " ".join(audit.sentences())
    assert f"{audit.power.in_a_row} or more records unchanged in a row" in words
    assert f"one in {audit.power.every} or more unchanged at even steps" in words
    few = table(PEOPLE, 12)
    tiny = audit_release(released(few, GammaDiagonal(PEOPLE, 19)), few, rng=seeded(1))
    assert tiny.power is not None and tiny.power.every is None and tiny.power.scattered is None
    assert "too small to see any" in " ".join(tiny.sentences())


def test_every_thousandth_row_is_too_little_to_see_and_the_audit_says_so() -> None:
    """20 of 20,000 rows: among 8 million classes of rows chance makes such a one."""
    truth = table(PEOPLE)
    broken = raw_where(GammaDiagonal, "Every1000th", lambda rows: slice(999, rows, 1000))
    audit = audit_release(released(truth, broken(PEOPLE, 19)), truth, rng=seeded(5))
    assert audit.clean and audit.power is not None and audit.power.every is not None
    assert audit.power.every < 1000


def test_tails_of_sums_hold_and_are_close() -> None:
    """Against the exact binomial tail, doubled for both sides, where p is below 0.001: never below
    it, and never a mere 1 where that is tiny; close where events are rare.
    """
    for trials, chance in [(64, 0.45), (1000, 0.01), (20_000, 0.3), (400, 0.9), (50, 0.001)]:
        spread, count = trials * chance * (1 - chance), np.arange(trials + 1)
        deviation = count - trials * chance
        tail = np.log(2) + np.where(
            deviation > 0,
            stats.binom.logsf(count - 1, trials, chance),
            stats.binom.logcdf(count, trials, chance),
        )
        judged, far = tail < -7, (tail > -70) & (tail < -14)
        for ends in ((), (1 - chance, chance)):
            log = log_tail(deviation, spread, *ends)
            assert (log[judged] >= tail[judged]).all()
            assert (log[far] < 0.4 * tail[far]).all()
    rare = stats.poisson.logsf(np.arange(2, 9) - 1, 0.5) + np.log(2)
    assert np.allclose(log_tail(np.arange(2, 9) - 0.5, 0.5), rare, atol=0.03)
    assert np.allclose(log_tail([4.0, -6.0], 4.0, 0, 0), np.log(2 * stats.norm.sf([2, 3])))
    assert log_tail(0.5, 0.0) == -np.inf and log_tail(1e-9, 0.0) == 0


# Of 20 releases, how many failed some check when sums had Bennett's bound, counts the normal
# distribution or Poisson's, and tables χ².
FOUND_BEFORE = {
    "OneItemTooFew": (70, 0),
    "ThresholdTooLow": (6000, 11),
    "LastValueNeverDrawn": (60, 2),
    "ColumnsShareKeystream": (120, 6),
    "LengthHintsTruth": (2000, 15),
    "GammaDiagonalEvery50thRaw": (2500, 0),
    "BitFlipEvery50thRaw": (1600, 0),
    "OneColumnCounted": (160, 12),
    "CoinOfPreviousTruth": (2000, 6),
    "TwoItemsOneCoin": (60, 6),
    "ThirdCoinOfTwo": (1100, 9),
}


@pytest.mark.parametrize("name", FOUND_BEFORE)
def test_one_score_test_finds_what_four_kinds_of_test_found(name: str) -> None:
    rows, before = FOUND_BEFORE[name]
    (mutant,) = (each for each in MUTANTS if each.name == name)
    found = 0
    for seed in range(20):
        truth = table(mutant.broken.domain, rows, seed)
        reports = released(truth, mutant.broken, seed + 100)
        claimed = Table(reports.domain, reports.columns, Provenance(mutant.sound, secure=False))
        checks, _ = _checks(Paired.of(claimed, truth), seeded(seed + 7), lambda stage, share: None)
        found += min(check.p_value for check in checks) < 1e-3 / 2 / len(checks)
    assert found >= before


def test_runs_are_bounded_by_their_probabilities() -> None:
    assert longest_run(np.array([1, 1, 0, 1, 1, 1, 0], dtype=bool)) == (3, 3)
    assert longest_run(np.zeros(4, dtype=bool)) == (0, 0)
    assert longest_run(np.ones(4, dtype=bool)) == (0, 4)
    assert np.exp(run_log(np.full(100, 0.5), 10)) == pytest.approx(91 * 2**-10)
    assert np.exp(run_log(np.array([0.5, 0.25, 1.0, 0.5]), 2)) == pytest.approx(0.125 + 0.25 + 0.5)


def test_stretches_cover_every_place_and_both_ends() -> None:
    for rows in (32, 33, 100, 4099):
        starts, stops = stretches(rows)
        assert starts.min() == 0 and stops.max() == rows and (starts >= 0).all()
        for length in set((stops - starts).tolist()):
            mine = stops - starts == length
            covered = np.zeros(rows, dtype=bool)
            for start, stop in zip(starts[mine], stops[mine], strict=True):
                covered[start:stop] = True
            assert covered.all() and stops[mine].max() == rows
    assert len(stretches(31)[0]) == 0


def test_rows_are_folded_as_modulo_says() -> None:
    """The classes of every modulus, the small ones merged from large ones, against plain sums."""
    from sfumato.audit.places import _classes

    truth = table(PEOPLE, 503)
    found = agreements(Paired.of(released(truth, Retention(PEOPLE, 0.4)), truth))
    assert found is not None
    moduli = range(2, 126)
    for modulus, left, variance in _classes(found.scores, 503, moduli):
        for place, one in enumerate(found.scores):
            rows = np.arange(503) % modulus
            assert np.allclose(left[:, place], np.bincount(rows, one.left))
            assert np.allclose(variance[:, place], np.bincount(rows, one.variance))
    assert modulo_check(found.scores).p_value > 1e-3


def test_agreement_is_what_enumeration_says() -> None:
    """The probability that a report is the record, and how many items it has right: against the
    mean of many perturbations of a few records.
    """
    for mechanism in (BitFlip(SHOP, 0.9, 0.7), CutAndPaste(SHOP, 3, 0.2)):
        few = table(SHOP, 7)
        truth = few.take(np.repeat(np.arange(7), 40_000))
        found = agreements(Paired.of(released(truth, mechanism), truth))
        assert found is not None
        whole, each = found.whole, (7, 40_000)
        assert np.allclose(
            whole.found.reshape(each).mean(1), whole.mean.reshape(each)[:, 0], atol=0.04
        )
        assert np.allclose(
            whole.found.reshape(each).var(1), whole.variance.reshape(each)[:, 0], rtol=0.05
        )
        unchanged = found.unchanged.reshape(each).mean(1)
        assert (unchanged <= found.staying.reshape(each)[:, 0] + 0.01).all()
        if isinstance(mechanism, BitFlip):
            assert np.allclose(unchanged, found.staying.reshape(each)[:, 0], atol=0.01)
        for part in found.parts:
            assert np.allclose(
                part.found.reshape(each).mean(1), part.mean.reshape(each)[:, 0], atol=0.02
            )


@dataclass(frozen=True)
class SampledPairsKept(SampledPairs):
    """Answers truly twice as often as it should."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        return SampledPairs(self.domain, 2 * self.gamma).randomise(columns, rng)


@dataclass(frozen=True)
class SampledPairsAgain(SampledPairs):
    """Draws the same noise for every 500 rows."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        parts = [
            super(SampledPairsAgain, self).randomise(
                tuple(column[start : start + 500] for column in columns), seeded(1)
            )
            for start in range(0, len(columns[0]), 500)
        ]
        return tuple(np.concatenate(pieces) for pieces in zip(*parts, strict=True))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (SampledPairsKept, "follow their channel"),
        (SampledPairsAgain, "rows 500 apart|rows [0-9,]*[05]00 apart"),
        (raw_where(SampledPairs, "Some", lambda rows: slice(0, 0)), ""),
    ],
)
def test_reports_that_live_elsewhere_are_judged_beside_their_twins(
    broken: type[SampledPairs], words: str
) -> None:
    truth, mechanism = table(PEOPLE), SampledPairs(PEOPLE, 19)
    reports = released(truth, broken(PEOPLE, 19)) if words else released(truth, mechanism)
    claimed = Table(reports.domain, reports.columns, Provenance(mechanism, secure=False))
    audit = audit_release(claimed, truth, rng=seeded(3))
    assert audit.clean if not words else same_words(words, audit.violations), audit.violations


def test_the_twin_of_a_broken_mechanism_is_the_sound_one_of_its_name() -> None:
    broken = next(mutant for mutant in MUTANTS if mutant.name == "OneColumnTooFew")
    assert type(sound(broken.broken)) is GammaDiagonal and sound(broken.broken) == broken.sound
    strange = SampledPairs(PEOPLE, 19)
    assert sound(strange) is strange


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


BREAD = Domain((Items("items", ("bread",)),))
GOODS = Domain((Items("items", tuple(f"item {number}" for number in range(40))),))
ONE_SYMBOL = [
    (ItemSet(BREAD, Fraction(19), 1, ((0,),)), 0.85),
    (ItemSet(GOODS, Fraction(19), 8, tuple((item,) for item in range(40)), tiers=(9, 20)), 0.7),
    (ItemSet(GOODS, Fraction(19), 2, tuple((item,) for item in range(40)), 44), 0.25),
]


@dataclass(frozen=True)
class SixTimesTheGamma(ItemSet):
    """Promises a sixth of the gamma it draws with."""

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(Fraction(self.gamma) / 6)


@pytest.mark.parametrize(("mechanism", "part"), ONE_SYMBOL)
def test_the_gamma_of_baskets_told_by_one_symbol_is_measured(
    mechanism: ItemSet, part: float
) -> None:
    """It was 1 for every one of them, whatever they did."""
    items = mechanism.domain.attributes[0].size
    truth = Table(
        mechanism.domain, (Bits.from_dense(np.random.default_rng(1).random((500, items)) < 0.1),)
    )
    found = audit_release(released(truth, mechanism), truth, rng=seeded(4)).amplification
    assert found is not None and not found.violated
    assert part * 19 < found.lower_bound <= 19
    values = {each.name: getattr(mechanism, each.name) for each in fields(mechanism)}
    broken = audit_release(released(truth, SixTimesTheGamma(**values)), truth, rng=seeded(4))
    assert broken.amplification is not None and broken.amplification.violated


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
    for view in (audit.view(), audit.brief()):
        (guesses,) = view.tables
        assert {column.head for column in guesses.columns} >= {"with report", "with 2 reports"}
        assert guesses.columns[0].values[0] == "record"
    assert "such breaches are ruled out" in " ".join(audit.sentences())
    shares = [share for _, share in told]
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_the_judge_accepts_chance_and_rejects_five_per_cent() -> None:
    rng = np.random.default_rng(1)
    for chance, trials in ((0.1, 100_000), (0.001, 10_000_000), (0.9, 20_000)):
        spread = trials * chance * (1 - chance)
        drawn = rng.binomial(trials, chance, 200) - trials * chance
        assert (log_tail(drawn, spread) > np.log(1e-6)).all()
        assert log_tail(0.05 * trials * chance, spread) < np.log(1e-6)
    assert log_tail(2.999, 0.001) < np.log(1e-6) < log_tail(-0.001, 0.001)


def test_the_far_record_has_the_last_value_of_every_column() -> None:
    truth = table(PEOPLE)
    paired = Paired.of(released(truth, GammaDiagonal(PEOPLE, 19)), truth)
    first, far = chosen_records(paired, seeded(1))[:2]
    assert [int(column[0]) for column in first] == [0] * len(PEOPLE)
    assert [int(column[0]) for column in far] == [attribute.size - 1 for attribute in PEOPLE]
