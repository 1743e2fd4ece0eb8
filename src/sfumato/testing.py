"""The contract that every mechanism keeps, as tests that pytest finds: derive a class from
`MechanismContract`, give it examples, and they are judged from outside.

    from sfumato.testing import Example, MechanismContract

    class TestNear(MechanismContract):
        examples = (Example("near", Near.promising(Guarantee(19), domain), promised=19),)

What leaves is compared with the channel (chi-square tests of fit and of independence, at one false
alarm in a million), what comes back with the truth and with its own standard error (by repeated
perturbation). The mechanism must be in the registry, so that a file can name it. Nothing here needs
pytest: whoever runs the tests has it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sfumato.api import query
from sfumato.audit import audit_release
from sfumato.bits import Bits
from sfumato.channels import Channel, Product, Retain
from sfumato.channels.channel import has_known_laws
from sfumato.domain import Cells, Columns, Domain, Items, Numeric, code_dtype
from sfumato.engines import open_source
from sfumato.errors import Unanswerable
from sfumato.mechanisms.base import Mechanism, axis_codes, channel_over, spec_of
from sfumato.mechanisms.registry import from_spec, mechanism_class
from sfumato.mine.bayes import NaiveBayes
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.plan.planning import candidate
from sfumato.plan.workload import PlanWorkload, predict
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import secure, seeded
from sfumato.release import Exact, Release
from sfumato.source import Source
from sfumato.table import Table, perturb_table

REJECT = 1e-6  # a true distribution is rejected for less than one seed in a million
USES = frozenset(
    ("one", "two", "all", "query", "itemsets", "plan", "audit", "likelihood", "classify")
)


@dataclass(frozen=True)
class Drawn:
    """One perturbation of an example's records, and what its channel predicts."""

    truths: NDArray[Any]  # the joint cell of each record
    reports: NDArray[Any]
    table: NDArray[Any]  # (reports, truths): how often each report came of each truth
    matrix: NDArray[Any]  # the channel, dense


@dataclass(frozen=True, eq=False)
class Example:
    """A mechanism to be judged, small enough for its channel to be written down as a matrix: at
    most some hundred cells.
    """

    name: str
    mechanism: Mechanism
    promised: Gamma | None = None  # the γ it was asked for; None where it was built otherwise
    rows: int = 400_000  # whose reports are compared with the channel
    oracle: Callable[[Mechanism], NDArray[Any]] | None = None  # P(report | truth) of the private
    # columns, where no channel is one of whole records
    answers: frozenset[str] = USES  # what it must answer; anything else may be Unanswerable
    bias: float = 0.0  # standard errors that estimates may be off by in every run alike

    def __str__(self) -> str:
        return self.name

    def matrix(self, counts: NDArray[Any]) -> NDArray[Any]:
        """P(report | truth) over the joint cells of reports and records."""
        if self.oracle is not None:
            return beside_public(self.mechanism, self.oracle(self.mechanism))
        channel = channel_over(self.mechanism)
        return (channel if has_known_laws(channel) else channel.settle(counts)).to_dense()

    def records(self, rows: int) -> Columns:
        """Independent records, unevenly spread over the domain so that columns of the channel
        cannot be confused.
        """
        rng = np.random.default_rng(11)
        return tuple(
            Bits.from_dense(
                rng.random((rows, attribute.size)) < np.linspace(0.25, 0.6, attribute.size)
            )
            if isinstance(attribute, Items)
            else uneven(attribute.size, rows, rng)
            for attribute in self.mechanism.domain
        )

    @property
    def columns(self) -> list[str]:
        return [axis.name for axis in self.mechanism.domain.axes]

    @cached_property
    def drawn(self) -> Drawn:
        mechanism, records = self.mechanism, self.records(self.rows)
        truths = joint_codes(mechanism.domain, records)
        reports = joint_codes(mechanism.reports, mechanism.perturb(records, seeded(7)))
        counts = np.bincount(truths, minlength=mechanism.domain.cells)
        matrix = self.matrix(counts.reshape(mechanism.domain.shape))
        table = np.zeros(matrix.shape)
        np.add.at(table, (reports, truths), 1)
        return Drawn(truths, reports, table, matrix)

    @cached_property
    def truth(self) -> Table:
        """The records behind `release`."""
        return Table(self.mechanism.domain, self.records(20_000))

    @cached_property
    def release(self) -> Release:
        return Release.of(perturb_table(self.truth, self.mechanism, seeded(21)))

    def opened(self, engine: str, folder: Path) -> Source:
        """The release, counted by an engine."""
        if engine == "memory":
            return self.release
        self.release.save(folder / "release.parquet")
        return open_source(folder / "release.parquet", engine)


class MechanismContract:
    """What is true of every mechanism, written once; each of `examples` is put through it."""

    examples: ClassVar[Sequence[Example]] = ()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Each test for each example, and for each of what else it asks for."""
        cases: dict[str, Sequence[Any]] = {
            "example": self.examples,
            "lag": (1, 2, 64),
            "rows": (0, 1, 3),
            "engine": ("memory", "duckdb"),
        }
        for name, values in cases.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, values, ids=str)

    # What leaves.

    def test_reports_follow_the_channel(self, example: Example) -> None:
        drawn = example.drawn
        assert fit(drawn.table, drawn.matrix * drawn.table.sum(axis=0)) > REJECT

    def test_a_channel_five_per_cent_off_is_rejected(self, example: Example) -> None:
        drawn = example.drawn
        average = drawn.matrix.mean(axis=1, keepdims=True)
        wrong = 0.95 * drawn.matrix + 0.05 * average  # of every column, five per cent
        assert fit(drawn.table, wrong * drawn.table.sum(axis=0)) < REJECT

    def test_neighbouring_rows_are_independent(self, example: Example, lag: int) -> None:
        drawn = example.drawn
        same_cells = drawn.matrix.shape[0] == drawn.matrix.shape[1]
        changed = drawn.reports != drawn.truths if same_cells else drawn.reports > 0
        assert lag_correlation(changed.astype(float), lag) > REJECT
        assert lag_correlation(drawn.reports.astype(float), lag) > REJECT
        rows = np.arange(len(drawn.reports) - lag)[:: 2 * lag]
        assert independence(drawn.reports[rows], drawn.reports[rows + lag]) > REJECT

    def test_where_a_row_stands_does_not_matter(self, example: Example) -> None:
        drawn = example.drawn
        first = np.arange(len(drawn.reports)) < len(drawn.reports) // 2
        for truth in np.argsort(-drawn.table.sum(axis=0))[:4]:
            here = drawn.truths == truth
            assert independence(drawn.reports[here], first[here].astype(np.int64)) > REJECT

    def test_the_guarantee_is_kept_and_the_channel_agrees(self, example: Example) -> None:
        gamma = example.mechanism.guarantee.gamma
        if example.promised is not None:
            assert gamma <= example.promised
        if example.oracle is None:
            assert amplification(example.mechanism.private_channel) <= float(gamma) * (1 + 1e-9)

    def test_no_report_is_more_telling_than_promised(self, example: Example) -> None:
        """The amplification of the dense channel over the private axes, the public ones being
        outside the promise.
        """
        mechanism = example.mechanism
        gamma = float(mechanism.guarantee.gamma)
        settled = example.oracle is not None or has_known_laws(mechanism.private_channel)
        if settled and gamma != math.inf:
            rows = private_matrix(example)
            assert (rows.max(axis=1) <= gamma * rows.min(axis=1) * (1 + 1e-9)).all()

    def test_no_report_is_likelier_than_its_highest_chance(self, example: Example) -> None:
        mechanism = example.mechanism
        found = mechanism.most_likely(every_report(mechanism.private_reports))
        if found is None:
            return
        rows = private_matrix(example)
        possible = rows.max(axis=1) > 0  # what no record gives, a server refuses
        rows, highest, total = rows[possible], found[0][possible], found[1]
        assert (highest >= rows.max(axis=1) * (1 - 1e-9)).all()
        gamma = float(mechanism.guarantee.gamma)
        assert (highest <= gamma * rows.max(axis=1) * (1 + 1e-9)).all()  # and it says something
        assert rows.max(axis=1).sum() * (1 - 1e-9) <= highest.sum() <= total * (1 + 1e-9)

    def test_the_spec_survives_json(self, example: Example) -> None:
        spec = json.loads(json.dumps(spec_of(example.mechanism)))
        again = from_spec(spec)
        assert again == example.mechanism
        assert spec_of(again) == spec_of(example.mechanism)
        assert again.guarantee == example.mechanism.guarantee
        assert mechanism_class(spec["mechanism"]) is type(example.mechanism)

    def test_a_seed_repeats_the_reports_and_a_secure_stream_does_not(
        self, example: Example
    ) -> None:
        perturb, records = example.mechanism.perturb, example.records(500)
        assert same(perturb(records, seeded(3)), perturb(records, seeded(3)))
        assert not same(perturb(records, seeded(3)), perturb(records, seeded(4)))
        assert not same(perturb(records, secure()), perturb(records, secure()))

    def test_records_are_left_alone_and_public_columns_pass_unchanged(
        self, example: Example
    ) -> None:
        records, untouched = example.records(5000), example.records(5000)
        mechanism = example.mechanism
        reports = mechanism.perturb(records, seeded(5))
        assert same(records, untouched)
        for name in (attribute.name for attribute in mechanism.domain if attribute.public):
            before, after = mechanism.domain.index(name), mechanism.reports.index(name)
            assert same((records[before],), (reports[after],))

    def test_few_rows_are_no_special_case(self, example: Example, rows: int) -> None:
        reports = example.mechanism.perturb(example.records(rows), seeded(5))
        assert [len(column) for column in reports] == [rows] * len(reports)

    def test_reports_lie_in_their_domain(self, example: Example) -> None:
        reports = example.mechanism.perturb(example.records(5000), seeded(5))
        for column, attribute in zip(reports, example.mechanism.reports, strict=True):
            if isinstance(column, Bits):
                assert column.items == attribute.size
            else:
                assert int(column.max()) < attribute.size

    def test_what_it_does_not_protect_is_said(self, example: Example) -> None:
        if example.mechanism.guarantee.gamma == math.inf:
            assert example.mechanism.caveats, "what promises nothing must say so in words"

    # What comes back: within the error it states, or a refusal that says why.

    def test_marginals_are_the_truth_within_their_errors(
        self, example: Example, engine: str, tmp_path: Path
    ) -> None:
        names = example.columns
        check = partial(check_marginal, example, example.opened(engine, tmp_path))
        for name in names:
            must(example, "one", partial(check, [name]))
        for pair in pairwise(names):
            must(example, "two", partial(check, [*pair][::-1]))
        must(example, "all", partial(check, names))

    def test_a_query_is_answered_within_its_error(
        self, example: Example, engine: str, tmp_path: Path
    ) -> None:
        source, name = example.opened(engine, tmp_path), example.columns[0]
        sql = f'SELECT "{name}", COUNT(*) AS n FROM t GROUP BY "{name}"'

        def ask() -> None:
            true = {str(row[name]): row["n"].value for row in query(Exact(example.truth), sql)}
            rows = list(query(source, sql))
            assert rows
            for row in rows:
                off = row["n"].value - true.get(str(row[name]), 0)
                assert abs(off) <= 5.5 * row["n"].stderr + 1e-6

        must(example, "query", ask)

    def test_itemsets_are_found_within_their_errors(
        self, example: Example, engine: str, tmp_path: Path
    ) -> None:
        source = example.opened(engine, tmp_path)

        def ask() -> None:
            truth = frequent_itemsets(Exact(example.truth), 0.001, max_length=2)
            true = dict(zip(map(frozenset, truth.items), truth.support, strict=True))
            found = frequent_itemsets(source, 0.05, max_length=2)
            assert len(found) > 2
            for itemset in found:
                off = itemset.support - true.get(frozenset(itemset.items), 0.0)
                assert abs(off) <= 5.5 * itemset.stderr + 1e-9, itemset

        must(example, "itemsets", ask)

    def test_the_errors_are_those_of_repeated_perturbation(self, example: Example) -> None:
        """Of single cells, of a sum over cells, and of a pair of columns, with one and three
        copies.
        """
        repeats, rows = 120, 600
        truth = Table(example.mechanism.domain, example.records(rows))
        names = example.columns[: 2 if "two" in example.answers else 1]
        for copies in (1, 3):
            values, stated = [], []
            rng = seeded(5)
            for _ in range(repeats):
                table = perturb_table(truth, example.mechanism, rng, copies=copies)
                found = Release.of(table).marginal(names)
                weights = np.arange(found.value.size, dtype=float).reshape(found.value.shape)
                whole = found.dot(weights)
                values.append([*found.value.ravel(), whole.value])
                stated.append([*(found.stderr.ravel() ** 2), whole.stderr**2])
            spread, expected = np.std(values, axis=0), np.sqrt(np.mean(stated, axis=0))
            kept = expected > 0.02 * rows / 100  # a permuted column's own counts have no error
            assert np.all(spread[~kept] < 0.02 * rows)
            ratios = spread[kept] / expected[kept]
            # 5.5 deviations of 120 draws; what is supposed is open beyond what chance spreads, and
            # an estimate that says what it supposes may be off by as much as its own error.
            assuming = found.evidence.assumes is not None
            assert np.all((ratios > (0.4 if assuming else 0.62)) & (ratios < 1.42)), ratios
            exact = Exact(truth).marginal(list(found.cells)).value.ravel()
            off = np.mean(values, axis=0)[:-1] - exact
            slack = max(example.bias, float(assuming)) * expected[:-1]
            assert np.all(np.abs(off) <= 5.5 * spread[:-1] / np.sqrt(repeats) + slack + 1e-6)

    def test_likelihoods_are_those_of_the_matrix(self, example: Example) -> None:
        """Differences of log P(report | cell) between cells, for whole records, against the
        matrix.
        """
        mechanism = example.mechanism
        if any(attribute.public for attribute in mechanism.domain):
            return  # a public column stands beside
        records = example.records(300)
        truths = joint_codes(mechanism.domain, records)
        counts = np.bincount(truths, minlength=mechanism.domain.cells)

        def ask() -> None:
            reports = mechanism.perturb(records, seeded(3))
            cells = [mechanism.domain.cells_of(name) for name in example.columns]
            logs = mechanism.likelihood(reports, cells, shares=counts / counts.sum())
            if example.oracle is None and not has_known_laws(mechanism.private_channel):
                return  # its channel is known from the sample only
            matrix = example.matrix(counts.reshape(mechanism.domain.shape))
            codes = joint_codes(mechanism.reports, reports)
            expected = np.log(np.maximum(matrix[codes], 1e-300))
            for each in (logs, expected):
                each -= each.max(axis=1, keepdims=True)
            assert np.allclose(np.maximum(logs, -50), np.maximum(expected, -50), atol=1e-6)

        must(example, "likelihood", ask)

    def test_the_plan_predicts_the_error(self, example: Example) -> None:
        mechanism, rows = example.mechanism, 20_000

        def ask() -> None:
            workload = PlanWorkload(mechanism.domain.private, 0.1, length=1)
            predicted = predict(mechanism, workload.supports(mechanism, 1, rows), rows)
            assert 0 <= predicted < np.inf
            option = candidate(workload, mechanism.name, mechanism, rows, 0.05)
            assert math.isclose(option.error, predicted / 0.1, rel_tol=1e-6)

        must(example, "plan", ask)

    def test_the_audit_finds_nothing_against_it(self, example: Example) -> None:
        def ask() -> None:
            truth = example.truth.slice(0, 4000)
            table = perturb_table(truth, example.mechanism, seeded(6), keep_order=True)
            found = audit_release(table, truth, rng=seeded(9))
            assert found.clean, found.violations
            assert found.checks and (found.attacks or found.left_out)
            for attack in found.attacks:
                if attack.prior == "true":
                    assert attack.right >= attack.baseline - 0.03  # a guess is no worse than none

        must(example, "audit", ask)

    def test_a_classifier_is_learned_and_asked(self, example: Example) -> None:
        domain, columns = example.mechanism.domain, example.columns
        targets = [axis.name for axis in domain.axes if not isinstance(axis.attribute, Numeric)]
        if len(columns) < 2 or not targets:
            return

        def ask() -> None:
            features = [name for name in columns if name != targets[-1]][:1]
            model = NaiveBayes(targets[-1], features=features).fit(example.release)
            chances = model.predict_proba(example.truth.slice(0, 50))
            assert chances.shape[0] == 50 and np.allclose(chances.sum(axis=1), 1)

        must(example, "classify", ask)


def must(example: Example, use: str, ask: Callable[[], None]) -> None:
    """Ask; only a use that the example does not list may be refused, and then in one way."""
    try:
        ask()
    except Unanswerable as refusal:
        assert use not in example.answers, refusal
        assert refusal.hint or any(map(str.isdigit, str(refusal))), "name the limit"


def check_marginal(example: Example, source: Source, names: list[str]) -> None:
    """A marginal is the true one within its errors, and so is its sum."""
    found = source.marginal(names)
    true = Exact(example.truth).marginal(list(found.cells))
    assert found.value.shape == true.value.shape
    off = found.value - true.value
    assert np.all(np.abs(off) <= 5.5 * found.stderr + 1e-6), (names, off / found.stderr)
    answer, rows = found.dot(np.ones(found.value.shape)), example.truth.rows
    assert abs(answer.value - rows) <= 5.5 * answer.stderr + 1e-6 * rows


def amplification(channel: Channel) -> float:
    """γ, the largest ratio of one report's probabilities under two truths (Evfimievski, Gehrke and
    Srikant 2003).
    """
    if isinstance(channel, Product):
        return math.prod(map(amplification, channel.factors))
    if isinstance(channel, Retain):
        return _retained_ratio(channel)
    return largest_ratio(channel.to_dense())


def largest_ratio(matrix: NDArray[Any]) -> float:
    """The largest ratio between two entries of one row; rows that never occur do not count."""
    rows = matrix[matrix.max(axis=1) > 0]
    least = rows.min(axis=1)
    return math.inf if (least <= 0).any() else float((rows.max(axis=1) / least).max())


def _retained_ratio(channel: Retain) -> float:
    """(keep + (1-keep)·b) / ((1-keep)·b) at the least b; its inverse where keep is negative."""
    keep = channel.keep
    if math.prod(channel.inputs) == 1:
        return 1.0
    if keep < 0:
        rest = keep / (1 - keep) + channel.replacement
        return math.inf if rest.min() <= 0 else float((channel.replacement / rest).max())
    off = (1 - keep) * math.prod(law.least for law in channel.drawn)
    return math.inf if off == 0 else 1 + keep / off


def private_matrix(example: Example) -> NDArray[Any]:
    """P(report | truth) of the private columns."""
    if example.oracle is not None:
        return example.oracle(example.mechanism)
    return example.mechanism.private_channel.to_dense()


def beside_public(mechanism: Mechanism, private: NDArray[Any]) -> NDArray[Any]:
    """P(report | truth) of all columns, the public ones reported as they are."""
    shown = [attribute.name for attribute in mechanism.domain if attribute.public]
    if not shown:
        return private
    truths, reports = mechanism.domain, mechanism.reports
    whole = np.zeros((reports.cells, truths.cells))
    for row, report in enumerate(np.ndindex(*reports.shape)):
        here, inside = _split(reports, report, shown)
        for column, truth in enumerate(np.ndindex(*truths.shape)):
            there, hidden = _split(truths, truth, shown)
            if here == there:
                place = np.ravel_multi_index(inside, mechanism.private_reports.shape)
                whole[row, column] = private[
                    place, np.ravel_multi_index(hidden, truths.private.shape)
                ]
    return whole


def _split(
    domain: Domain, cell: tuple[int, ...], shown: list[str]
) -> tuple[list[int], tuple[int, ...]]:
    """The public values of a cell in the order of their names, and its private ones."""
    names = [axis.attribute.name for axis in domain.axes]
    public = [cell[names.index(name)] for name in shown]
    return public, tuple(v for v, name in zip(cell, names, strict=True) if name not in shown)


def uneven(size: int, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    """Codes with masses falling by half from the first to the last."""
    masses = np.linspace(2, 1, size)
    return rng.choice(size, rows, p=masses / masses.sum()).astype(code_dtype(size))


def joint_codes(domain: Domain, columns: Columns) -> NDArray[Any]:
    """The cell of each row in the table over every axis."""
    return np.ravel_multi_index(tuple(axis_codes(columns)), domain.shape)


def every_report(reports: Domain) -> Columns:
    """Each report of a domain once, as columns, in the order of their joint cells."""
    codes = np.unravel_index(np.arange(reports.cells), reports.shape)
    found: list[Any] = []
    for attribute in reports:
        pairs = zip(codes, reports.axes, strict=True)
        own = [code for code, axis in pairs if axis.attribute is attribute]
        basket = isinstance(attribute, Items)
        found.append(Bits.from_dense(np.stack(own, axis=1).astype(bool)) if basket else own[0])
    return tuple(found)


def same(left: Columns, right: Columns) -> bool:
    """Whether two batches hold the same values."""
    pairs: Any = zip(left, right, strict=True)
    return all(a.equals(b) if isinstance(a, Bits) else np.array_equal(a, b) for a, b in pairs)


def unbalanced(release: Release, cells: Sequence[Cells]) -> NDArray[np.float64]:
    """What the tally alone says of cells, before it is fitted to the number of people."""
    observation = release.observe(cells)
    (counts,) = release.tallied([observation.tally])
    return np.asarray(observation.channel.settle(counts).solve(counts))


# The statistical judges: each returns the probability of a deviation this large by chance.


def fit(observed: NDArray[Any], expected: NDArray[Any], least: float = 10.0) -> float:
    """Chi-square p-value of counts against expected counts, column by column; cells of a column
    that expect fewer than `least` are pooled, and judged by Poisson's law where that is not enough.

    Both have shape (reports, truths), and each column of `expected` sums to that of `observed`. A
    report that cannot occur and did gives 0.
    """
    if observed[expected <= 0].any():
        return 0.0
    statistic, freedom, rare = 0.0, 0, []
    for counts, means in zip(observed.T, expected.T, strict=True):
        small = means < least
        pool, mean = counts[small].sum(), means[small].sum()
        counts, means = counts[~small], means[~small]
        if mean >= least:
            counts, means = np.append(counts, pool), np.append(means, mean)
        elif mean and len(means):
            tails = stats.poisson.cdf(pool, mean), stats.poisson.sf(pool - 1, mean)
            rare.append(2 * min(1 / 2, *tails))
        if len(means) > 1:
            statistic += float(((counts - means) ** 2 / means).sum())
            freedom += len(means) - 1
    found = [*rare, *([stats.chi2.sf(statistic, freedom)] if freedom else [])]
    return float(min(1.0, len(found) * min(found))) if found else 1.0


def independence(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Chi-square p-value of "these two columns of codes are independent"."""
    table = np.zeros((int(left.max()) + 1, int(right.max()) + 1))
    np.add.at(table, (left, right), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 1.0
    return float(stats.chi2_contingency(table, correction=False).pvalue)


def lag_correlation(values: NDArray[Any], lag: int) -> float:
    """Two-sided p-value of "values `lag` rows apart are uncorrelated"."""
    centred = values - values.mean()
    spread = float(centred @ centred)
    if spread == 0:
        return 1.0
    correlation = float(centred[:-lag] @ centred[lag:]) / spread
    return float(2 * stats.norm.sf(abs(correlation) * np.sqrt(len(values) - lag)))
