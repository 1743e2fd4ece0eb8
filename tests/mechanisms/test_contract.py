"""What is true of every mechanism, written once; each example of `examples.py` is put
through it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from tests.mechanisms.acceptance import REJECT, fit, independence, lag_correlation
from tests.mechanisms.examples import EXAMPLES, Example, example_ids, joint_codes

from sfumato.bits import Bits
from sfumato.channels.base import is_settled
from sfumato.channels.conditioning import amplification
from sfumato.domain import Category, Columns, Domain, Items
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.registry import MECHANISMS, from_spec, mechanism_class
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream, secure, seeded

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=example_ids(EXAMPLES))


@dataclass(frozen=True)
class Run:
    """One perturbation of an example's records, and what its channel foretells."""

    truths: np.ndarray  # the joint cell of each record
    reports: np.ndarray
    table: np.ndarray  # (reports, truths): how often each report came of each truth
    matrix: np.ndarray  # the channel, dense


@cache
def run(place: int) -> Run:
    example = EXAMPLES[place]
    mechanism, records = example.mechanism, example.records()
    truths = joint_codes(mechanism.domain, records)
    reports = joint_codes(mechanism.reports, mechanism.perturb(records, seeded(7)))
    counts = np.bincount(truths, minlength=mechanism.domain.cells).reshape(mechanism.domain.shape)
    matrix = example.matrix(counts)
    table = np.zeros(matrix.shape)
    np.add.at(table, (reports, truths), 1)
    return Run(truths, reports, table, matrix)


def of(example: Example) -> Run:
    return run(EXAMPLES.index(example))


def five_per_cent_off(matrix: np.ndarray) -> np.ndarray:
    """The channel with five per cent of every column drawn from the average column instead."""
    return 0.95 * matrix + 0.05 * matrix.mean(axis=1, keepdims=True)


@every_example
def test_reports_follow_the_channel(example: Example) -> None:
    found = of(example)
    assert fit(found.table, found.matrix * found.table.sum(axis=0)) > REJECT


@every_example
def test_a_channel_five_per_cent_off_is_rejected(example: Example) -> None:
    found = of(example)
    assert fit(found.table, five_per_cent_off(found.matrix) * found.table.sum(axis=0)) < REJECT


@every_example
@pytest.mark.parametrize("lag", [1, 2, 64])
def test_neighbouring_rows_are_independent(example: Example, lag: int) -> None:
    found = of(example)
    changed = (
        (found.reports != found.truths)
        if found.matrix.shape[0] == found.matrix.shape[1]
        else found.reports > 0
    )
    assert lag_correlation(changed.astype(float), lag) > REJECT
    assert lag_correlation(found.reports.astype(float), lag) > REJECT
    rows = np.arange(len(found.reports) - lag).reshape(-1)[:: 2 * lag]
    assert independence(found.reports[rows], found.reports[rows + lag]) > REJECT


@every_example
def test_where_a_row_stands_does_not_matter(example: Example) -> None:
    found = of(example)
    half = len(found.reports) // 2
    first = np.arange(len(found.reports)) < half
    for truth in np.argsort(-found.table.sum(axis=0))[:4]:
        here = found.truths == truth
        assert independence(found.reports[here], first[here].astype(np.int64)) > REJECT


@every_example
def test_the_guarantee_is_kept_and_the_channel_agrees(example: Example) -> None:
    gamma = example.mechanism.guarantee.gamma
    if example.promised is not None:
        assert gamma <= example.promised
    if example.oracle is None:
        assert amplification(example.mechanism.private_channel) <= float(gamma) * (1 + 1e-9)


@every_example
def test_no_report_is_more_telling_than_promised(example: Example) -> None:
    """The amplification of the dense channel over the private axes, the public ones being outside
    the promise.
    """
    gamma = example.mechanism.guarantee.gamma
    channel = None if example.oracle else example.mechanism.private_channel
    if (channel is None or is_settled(channel)) and gamma != float("inf"):
        rows = example.oracle(example.mechanism) if example.oracle else channel.to_dense()
        assert (
            rows.max(axis=1)
            <= float(example.mechanism.guarantee.gamma) * rows.min(axis=1) * (1 + 1e-9)
        ).all()


def every_report(reports: Domain) -> Columns:
    """Each report of a domain once, as columns, in the order of their joint cells."""
    codes = np.unravel_index(np.arange(reports.cells), reports.shape)
    found: list = []
    for place, attribute in enumerate(reports):
        own = [
            code for code, axis in zip(codes, reports.axes, strict=True) if axis.attribute == place
        ]
        basket = isinstance(attribute, Items)
        found.append(Bits.from_dense(np.stack(own, axis=1).astype(bool)) if basket else own[0])
    return tuple(found)


@every_example
def test_no_report_is_likelier_than_its_highest_chance(example: Example) -> None:
    mechanism = example.mechanism
    found = mechanism.most_likely(every_report(mechanism.private_reports))
    if found is None:
        return
    rows = example.oracle(mechanism) if example.oracle else mechanism.private_channel.to_dense()
    possible = rows.max(axis=1) > 0  # what no record gives, a server refuses
    rows, highest, total = rows[possible], found[0][possible], found[1]
    assert (highest >= rows.max(axis=1) * (1 - 1e-9)).all()
    gamma = float(mechanism.guarantee.gamma)
    assert (highest <= gamma * rows.max(axis=1) * (1 + 1e-9)).all()  # and it says something
    assert rows.max(axis=1).sum() * (1 - 1e-9) <= highest.sum() <= total * (1 + 1e-9)


@every_example
def test_the_spec_survives_json(example: Example) -> None:
    spec = json.loads(json.dumps(example.mechanism.spec()))
    again = from_spec(spec)
    assert again == example.mechanism
    assert again.spec() == example.mechanism.spec()
    assert again.guarantee == example.mechanism.guarantee
    assert mechanism_class(spec["mechanism"]) is type(example.mechanism)


@every_example
def test_a_seed_repeats_the_reports_and_a_secure_stream_does_not(example: Example) -> None:
    mechanism, records = example.mechanism, example.records(500)
    assert same(mechanism.perturb(records, seeded(3)), mechanism.perturb(records, seeded(3)))
    assert not same(mechanism.perturb(records, seeded(3)), mechanism.perturb(records, seeded(4)))
    assert not same(mechanism.perturb(records, secure()), mechanism.perturb(records, secure()))


@every_example
def test_records_are_left_alone_and_public_columns_pass_unchanged(example: Example) -> None:
    records, untouched = example.records(5000), example.records(5000)
    reports = example.mechanism.perturb(records, seeded(5))
    assert same(records, untouched)
    for name in (attribute.name for attribute in example.mechanism.domain if attribute.public):
        before, after = example.mechanism.domain.index(name), example.mechanism.reports.index(name)
        assert same((records[before],), (reports[after],))


@every_example
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_few_rows_are_no_special_case(example: Example, rows: int) -> None:
    reports = example.mechanism.perturb(example.records(rows), seeded(5))
    assert [len(column) for column in reports] == [rows] * len(reports)


@every_example
def test_reports_lie_in_their_domain(example: Example) -> None:
    reports = example.mechanism.perturb(example.records(5000), seeded(5))
    for column, attribute in zip(reports, example.mechanism.reports, strict=True):
        assert (
            column.items == attribute.size
            if isinstance(column, Bits)
            else int(column.max()) < attribute.size
        )


@every_example
def test_what_it_does_not_protect_is_said(example: Example) -> None:
    if example.mechanism.guarantee.gamma == float("inf"):
        assert example.mechanism.caveats, "a mechanism that promises nothing must say so in words"


def test_every_registered_mechanism_has_an_example() -> None:
    missing = set(MECHANISMS) - {example.mechanism.name for example in EXAMPLES}
    assert not missing, f"add an example of {sorted(missing)} to tests/mechanisms/examples.py"


# The judges themselves: what they must reject, they reject.


def same(left: Columns, right: Columns) -> bool:
    return all(
        a.equals(b) if isinstance(a, Bits) and isinstance(b, Bits) else np.array_equal(a, b)
        for a, b in zip(left, right, strict=True)
    )


@dataclass(frozen=True)
class Paired(GammaDiagonal):
    """A broken mechanism: two neighbours share one draw."""

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        kept = np.repeat(rng.chance(1 << 15, 16, (len(columns[0]) + 1) // 2), 2)[: len(columns[0])]
        return (np.where(kept, columns[0], rng.below(2, len(columns[0]))).astype(np.uint8),)


def test_rows_that_share_a_draw_are_found() -> None:
    coin = Domain((Category("coin", ("heads", "tails")),))
    truths = np.random.default_rng(1).integers(0, 2, 100_000).astype(np.uint8)
    (reports,) = Paired(coin, Fraction(3)).randomise((truths,), seeded(1))
    assert lag_correlation((reports != truths).astype(float), 1) < REJECT


def test_a_guarantee_above_the_promise_is_found() -> None:
    assert not Guarantee(19).allows(Guarantee(Fraction(19) + Fraction(1, 10**30)))
