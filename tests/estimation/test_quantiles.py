"""Quantiles: on true records those of DuckDB to the last digit, on perturbed ones covered by their
intervals.
"""

from fractions import Fraction

import duckdb
import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Cells, Domain, Numeric
from sfumato.estimation.answer import Answer
from sfumato.estimation.quantiles import NumberCounts, Wanted, quantiles
from sfumato.estimation.uneven import UnevenAnswer, root
from sfumato.mine.cube import query
from sfumato.randomness import seeded
from sfumato.release import Exact
from sfumato.table import Table

RNG = np.random.default_rng(11)
ROWS = 20_000
AGE = np.clip(RNG.normal(41, 10, ROWS), 18, 95).astype(int)
BALANCE = np.clip(np.round(RNG.lognormal(6, 1.6, ROWS) - 400), -8019, 102_127).astype(int)
COLUMNS = {
    "bank balances": (BALANCE, -8019, 102_127),
    "0, 1, 2 of a thousand million": (RNG.integers(0, 3, ROWS), 0, 10**9),
    "a negative range": (-(RNG.lognormal(8, 3, ROWS)).clip(0, 10**9).astype(int), -(10**9), 0),
    "the widest": (RNG.integers(-2, 2, ROWS) * 10**9, -2 * 10**9, 2 * 10**9),
    "ages": (AGE, 18, 95),
}
GROUP = (RNG.random(ROWS) < 0.12).astype(np.uint8)
SHARES = (0.5, 0.25, 0.9, 0.1, 0.999, 1 / 3)


def table(name: str, rows: int = ROWS) -> Table:
    numbers, low, high = COLUMNS[name]
    domain = Domain((Numeric("x", low, high), Category("y", ("no", "yes"))))
    return Table(domain, ((numbers[:rows] - low).astype(np.uint32), GROUP[:rows]))


def asked(source, sql: str):
    (row,) = query(source, sql)
    return list(row.values())


@pytest.mark.parametrize("rows", [ROWS, 999, 2, 1])
@pytest.mark.parametrize("name", COLUMNS)
def test_quantiles_of_true_records_are_those_of_duckdb_to_the_last_digit(name, rows):
    records = table(name, rows)
    relation = duckdb.from_arrow(records.to_arrow())
    outputs = ["MEDIAN(x)"]
    for share in SHARES:
        for kind in ("CONT", "DISC"):
            for order in ("", " DESC"):
                outputs.append(f"PERCENTILE_{kind}({share}) WITHIN GROUP (ORDER BY x{order})")
    sql = f"SELECT {', '.join(outputs)} FROM t"
    (theirs,) = relation.query("t", sql).fetchall()
    mine = asked(Exact(records), sql)
    assert [answer.value for answer in mine] == [float(value) for value in theirs]
    assert all(answer.stderr == 0 for answer in mine)
    occurring = set(COLUMNS[name][0][:rows].tolist())
    assert {mine[place].value for place in range(3, len(mine), 4)} <= occurring


@pytest.mark.parametrize("name", COLUMNS)
def test_spreads_of_true_records_are_exact_whatever_the_range(name):
    records = table(name, 3000)
    for group in (0, 1):
        numbers = [int(v) for v in COLUMNS[name][0][:3000][GROUP[:3000] == group]]
        n, total = len(numbers), sum(numbers)
        spread = sum((v - Fraction(total, n)) ** 2 for v in numbers)
        found = asked(
            Exact(records),
            "SELECT SUM(x), AVG(x), VAR_POP(x), VAR_SAMP(x), STDDEV_SAMP(x) FROM t "
            f"WHERE y = '{('no', 'yes')[group]}'",
        )
        true = [total, total / n, float(spread / n), float(spread / (n - 1))]
        true.append(true[-1] ** 0.5)
        assert [answer.value for answer in found] == pytest.approx(true, rel=1e-13, abs=0)
        assert found[0].value == total


def released(name: str, keep: float, law: str = "uniform"):
    records = table(name)
    mechanism = sf.Retention(records.domain, keep, replace=law)
    return (sf.perturb(records, mechanism, seeded(seed)) for seed in range(10**6))


def coverage(name: str, keep: float, share: float, within: str, times: int, law: str = "uniform"):
    """How often the 95 % interval holds the truth, the one the answer gives and the even one that
    its standard error would give.
    """
    sql = f"SELECT QUANTILE_CONT(x, {share}) FROM t{within}"
    (truth,) = asked(Exact(table(name)), sql)
    found = [
        asked(release, sql)[0]
        for _, release in zip(range(times), released(name, keep, law), strict=False)
    ]
    inside = [low <= truth.value <= high for low, high in (each.interval() for each in found)]
    even = [abs(each.value - truth.value) <= 1.96 * each.stderr for each in found]
    assert all(each.stderr > 0 for each in found)
    return np.mean(inside), np.mean(even)


QUICK = [
    ("bank balances", 0.5, 0.5, ""),
    ("bank balances", 0.1, 0.25, ""),
    ("bank balances", 0.3, 0.5, " WHERE y = 'yes'"),
    ("ages", 0.1, 0.25, " WHERE y = 'yes'"),
]


@pytest.mark.parametrize(("name", "keep", "share", "within"), QUICK)
def test_the_interval_of_a_perturbed_quantile_covers_the_truth(name, keep, share, within):
    """Version 0.1.0 covered 0 of 60 here, and 77 % at strong noise."""
    inside, even = coverage(name, keep, share, within, 150)
    assert 0.90 <= inside <= 1 and even >= inside - 0.001
    if name != "ages":  # whole years are covered whole
        assert inside <= 0.99


@pytest.mark.soak
@pytest.mark.parametrize("law", ["uniform", "identity"])
@pytest.mark.parametrize("within", ["", " WHERE y = 'yes'"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("keep", [0.05, 0.1, 0.3, 0.5, 0.8])
def test_intervals_cover_what_they_state(keep, share, within, law):
    inside, even = coverage("bank balances", keep, share, within, 400, law)
    assert 0.925 <= inside <= 0.99 and even >= inside


def test_half_an_interval_would_not_cover():
    """The judge can fail: at half its width the interval covers 67 %, not 95."""
    sql = "SELECT QUANTILE_CONT(x, 0.5) FROM t"
    (truth,) = asked(Exact(table("bank balances")), sql)
    found = [
        asked(release, sql)[0]
        for _, release in zip(range(150), released("bank balances", 0.3), strict=False)
    ]
    half = [abs(each.value - truth.value) <= 0.98 * each.stderr for each in found]
    assert np.mean(half) < 0.85


def test_a_quantile_about_which_nothing_is_known_is_anything():
    """It is answered in every draw, and says that it may be anything."""
    for _, release in zip(range(5), released("bank balances", 0.02), strict=False):
        (answer,) = asked(release, "SELECT MEDIAN(x) FROM t WHERE y = 'yes'")
        low, high = answer.interval()
        assert -8019 <= low <= answer.value <= high <= 102_127
        assert high - low > 20_000


def test_what_is_left_of_a_cell_goes_into_the_interval():
    """A perturbed quantile stands in a cell that is small beside its error, both ends included."""
    release = next(released("the widest", 0.3))
    (answer,) = asked(release, "SELECT QUANTILE_CONT(x, 0.6) FROM t")
    assert answer.stderr > 0
    low, high = answer.interval()
    assert low < answer.value < high


def test_a_column_that_is_sent_as_it_is_has_exact_quantiles():
    domain = Domain((Numeric("x", 0, 10**6, public=True), Category("y", ("no", "yes"))))
    x = np.random.default_rng(4).lognormal(6, 2, 3000).clip(0, 10**6).astype(np.uint32)
    records = Table(domain, (x, GROUP[:3000]))
    release = sf.perturb(records, sf.Retention(domain, 0.3), seeded(1))
    (answer,) = asked(release, "SELECT MEDIAN(x) FROM t")
    assert (answer.value, answer.stderr) == (np.median(x), 0)
    (answer,) = asked(release, "SELECT MEDIAN(x) FROM t WHERE y = 'no'")
    assert answer.stderr > 0
    (answer,) = asked(
        sf.perturb(records, sf.Permuting(domain, 0.5), seeded(1)), "SELECT MEDIAN(x) FROM t"
    )
    assert (answer.value, answer.stderr) == (np.median(x), 0)


def test_many_groups_are_cut_together():
    """Every group has its own cells, and all of them stay few."""
    domain = Domain((Numeric("x", 0, 10**6), Category("g", tuple(f"g{i}" for i in range(40)))))
    rng = np.random.default_rng(6)
    g = rng.integers(0, 40, 4000)
    x = (rng.integers(0, 1000, 4000) * (g + 1) * 20).astype(np.uint32)
    source, cells = Exact(Table(domain, (x, g.astype(np.uint8)))), []

    def count(starts, chosen):
        cells.append(len(starts))
        part = Cells(domain["x"], tuple(map(str, starts)), np.arange(len(starts)), starts)
        estimate = source.marginal([part, domain["g"].cells()])
        weights = [np.zeros(estimate.value.shape) for _ in chosen]
        for weight, group in zip(weights, chosen, strict=True):
            weight[:, group] = 1
        return NumberCounts(estimate, 0, np.arange(len(starts)), weights)

    found = quantiles(domain["x"], Wanted(0.5), 40, 40, count)
    assert [answer.value for answer in found] == [np.median(x[g == i]) for i in range(40)]
    assert max(cells) < 6000 and len(cells) < 12


def test_levels_between_the_computed_ones_lie_between_their_ends():
    answer = UnevenAnswer.between(5.0, [(4.0, 8.0), (3.0, 9.0), (1.0, 14.0)], (0.0, 20.0))
    assert answer.interval(0.95) == (3.0, 9.0)
    assert answer.stderr == pytest.approx(4 / 1.959964)
    for level in (0.3, 0.92, 0.97):
        low, high = answer.interval(level)
        assert 1 < low < 5 < high < 14
    assert answer.interval(0.9999)[0] == 0.0 and answer.interval(0.9999)[1] > 14
    assert answer.scaled(-2).interval(0.95) == (-18.0, -6.0)


def test_the_root_of_what_may_be_negative_has_an_interval_from_0():
    answer = root(Answer(-4.0, 10.0))
    low, high = answer.interval()
    assert (answer.value, low) == (0.0, 0.0) and high == pytest.approx(19.6**0.5, rel=1e-3)
    assert root(Answer(-100.0, 10.0)).stderr > 0  # nothing here is exact
