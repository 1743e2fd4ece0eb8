"""The aggregates that are answered, each by its formula in sums over the records of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sfumato.mine.cube.sheet import NOTHING, Quantity, Sums

ONE = Quantity(1.0)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate: how SQL calls it, the arguments that its node may have, how many numbers it
    takes, and its formula.
    """

    word: str
    arguments: tuple[str, ...]
    numbers: int = 0
    formula: Callable[[Sums], Quantity] | None = None  # None for quantiles
    adds: bool = False  # whether that of two groups together is the sum of both


def _count(sums: Sums) -> Quantity:
    return sums.count


def _sum(sums: Sums) -> Quantity:
    return NOTHING if sums.nobody else sums.total()


def _average(sums: Sums) -> Quantity:
    return sums.total() / sums.records


def _covariance(sums: Sums, first: int = 0, second: int = 1) -> Quantity:
    """Free of the centres; the products of what they leave over are next to nothing."""
    left, right = sums.centred(first) / sums.records, sums.centred(second) / sums.records
    return sums.centred(first, second) / sums.records - left * right


def _variance(sums: Sums, number: int = 0) -> Quantity:
    """Not below 0 by rounding alone; by noise it may be."""
    size = sums.centred(number, number) / sums.records
    return _covariance(sums, number, number).not_by_rounding_below_zero(size)


def _deviation(sums: Sums) -> Quantity:
    return _of_sample(_variance)(sums).sqrt()


def _of_sample(formula: Callable[[Sums], Quantity]) -> Callable[[Sums], Quantity]:
    return lambda sums: formula(sums) * (sums.records / (sums.records - ONE))


def _correlation(sums: Sums) -> Quantity:
    first, second = (_variance(sums, number).sqrt() for number in (0, 1))
    return (_covariance(sums) / (first * second)).between(-1.0, 1.0)


ONE_NUMBER, PAIR = ("this",), ("this", "expression")
AGGREGATES: dict[type[exp.Expression], Aggregate] = {
    exp.Count: Aggregate("COUNT", ("this", "big_int"), 0, _count, adds=True),
    exp.CountIf: Aggregate("COUNT_IF", ONE_NUMBER, 0, _sum, adds=True),  # a sum of ones and zeros
    exp.Sum: Aggregate("SUM", ONE_NUMBER, 1, _sum, adds=True),
    exp.Avg: Aggregate("AVG", ONE_NUMBER, 1, _average),
    exp.Variance: Aggregate("VAR_SAMP", ONE_NUMBER, 1, _of_sample(_variance)),
    exp.VariancePop: Aggregate("VAR_POP", ONE_NUMBER, 1, _variance),
    exp.Stddev: Aggregate("STDDEV", ONE_NUMBER, 1, _deviation),
    exp.StddevSamp: Aggregate("STDDEV_SAMP", ONE_NUMBER, 1, _deviation),
    exp.StddevPop: Aggregate("STDDEV_POP", ONE_NUMBER, 1, lambda sums: _variance(sums).sqrt()),
    exp.CovarSamp: Aggregate("COVAR_SAMP", PAIR, 2, _of_sample(_covariance)),
    exp.CovarPop: Aggregate("COVAR_POP", PAIR, 2, _covariance),
    exp.Corr: Aggregate("CORR", PAIR, 2, _correlation),
    exp.Median: Aggregate("MEDIAN", ONE_NUMBER, 1),
    exp.PercentileCont: Aggregate("PERCENTILE_CONT", PAIR, 1),
    exp.PercentileDisc: Aggregate("PERCENTILE_DISC", PAIR, 1),
    exp.Quantile: Aggregate("QUANTILE", ("this", "quantile"), 1),
}
KINDS = tuple(AGGREGATES)
QUANTILES = tuple(kind for kind, aggregate in AGGREGATES.items() if aggregate.formula is None)
CENTRED = tuple(
    kind
    for kind, aggregate in AGGREGATES.items()
    if aggregate.formula not in (None, _count, _sum, _average)
)
WORDS = ", ".join(aggregate.word for aggregate in AGGREGATES.values())


def is_aggregate(expression: exp.Expression) -> bool:
    """Whether an expression holds an aggregate."""
    return expression.find(*KINDS) is not None
