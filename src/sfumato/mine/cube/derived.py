"""Derived: a number computed from one column, such as age // 10 or income / 1000, as a condition or
a group: known at every value the column can take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Domain, Numeric
from sfumato.errors import QueryError
from sfumato.mine.cube.columns import KEYED_VALUES, AskedColumn, Codes, Cut, Mask
from sfumato.mine.cube.constants import bare, is_constant, is_number, plain
from sfumato.mine.cube.numbers import (
    NEAR,
    Kind,
    Terms,
    axis_numbers,
    check_casts,
    check_clear,
    evaluated,
    is_arithmetic,
)

EVALUATED = 1 << 20  # a column of at most so many values is computed with value by value
RISING_OR_FALLING = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Cast, exp.Paren, exp.Column, exp.Literal),
)

Classify = Callable[[Codes], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Derived:
    """A number computed from one column and constants."""

    axis: AskedColumn
    expression: exp.Expression

    @classmethod
    def of(cls, expression: exp.Expression, domain: Domain) -> Derived | None:
        """The number that an expression is; None where it is something else."""
        names = {column.name for column in expression.find_all(exp.Column)}
        if len(names) != 1 or not is_arithmetic(expression):
            return None
        check_casts(expression, domain)
        return cls(AskedColumn.of(domain, names.pop()), expression)

    def at(self, codes: Codes) -> Terms:
        """The number at some codes of the column."""
        found = evaluated(self.expression, {self.axis.name: axis_numbers(self.axis, codes)})
        if not np.isfinite(found.start).all():
            raise QueryError(f"{self.expression.sql()} has no value for some {self.axis.name}")
        return found

    def condition(self, operator: str, constants: Sequence[Any]) -> Cut:
        """The cut of a comparison with constants."""
        if not all(is_number(value) for value in constants):
            raise QueryError(
                f"a number computed from '{self.axis.name}' is compared with "
                f"{', '.join(repr(plain(value)) for value in constants)}"
            )
        marks = np.unique([float(value) for value in constants])

        def place(codes: Codes) -> NDArray[Any]:  # twice the marks below, and one if on a mark
            terms = self.at(codes)
            for mark in marks:
                check_clear(terms, mark)
            below, upto = (np.searchsorted(marks, terms.start, side) for side in ("left", "right"))
            return below + upto

        wanted = _wanted(operator, marks, [float(value) for value in constants])
        return Cut(self.axis, lambda codes: wanted[place(codes)], self._starts(place))

    def groups(self) -> tuple[tuple[Any, ...], Cut]:
        """The different values, and the cut that tells of a code which of them it has."""
        starts = self._starts(lambda codes: self.at(codes).start)
        every = (
            np.arange(self.axis.size) if not isinstance(self.axis.attribute, Numeric) else starts
        )
        terms = self.at(np.asarray(every))
        found = np.unique(terms.start)
        if len(found) > KEYED_VALUES:
            raise QueryError(
                f"{len(found):,} groups are too many", hint="group by a coarser number"
            )
        gaps = np.diff(found)
        if terms.kind is Kind.STEPPED and (gaps < NEAR * np.maximum(1, np.abs(found[1:]))).any():
            raise QueryError(f"{self.expression.sql()} has groups that differ by rounding alone")
        whole = (found == np.rint(found)).all()
        labels = tuple((found.astype(np.int64) if whole else found).tolist())
        return labels, Cut(
            self.axis, lambda codes: np.searchsorted(found, self.at(codes).start), starts
        )

    def _starts(self, classify: Classify) -> NDArray[np.int64]:
        """The codes of a number at which something told of them changes."""
        size = self.axis.size
        if size <= EVALUATED:
            told = classify(np.arange(size))
            return np.append(0, np.flatnonzero(told[1:] != told[:-1]) + 1)
        if not self._rises_or_falls:
            raise QueryError(
                f"'{self.axis.name}' has {size:,} values, too many to compute "
                f"{self.expression.sql()} for each",
                hint="compare the column itself with constants",
            )
        return _changes(classify, size)

    @property
    def _rises_or_falls(self) -> bool:
        """Whether the number never turns back as the column grows: the column stands in it once,
        under nothing but steps that keep an order.
        """
        expression = self.expression
        nodes: Iterator[Any] = expression.walk()
        parts = (node for node in nodes if not is_constant(bare(node)))
        once = len(list(expression.find_all(exp.Column))) == 1
        known = (*RISING_OR_FALLING, exp.Identifier, exp.DataType, exp.DataTypeParam)
        divided = any(
            not is_constant(node.expression) for node in expression.find_all(exp.Div, exp.IntDiv)
        )
        return once and not divided and all(isinstance(node, known) for node in parts)


def _changes(classify: Classify, size: int) -> NDArray[np.int64]:
    """Where something that never turns back changes: every run whose ends differ is halved."""
    first, last = np.array([0], dtype=np.int64), np.array([size - 1], dtype=np.int64)
    starts = [np.zeros(1, dtype=np.int64)]
    while len(first):
        differ = classify(first) != classify(last)
        first, last = first[differ], last[differ]
        if len(first) > KEYED_VALUES:
            raise QueryError(
                f"more than {KEYED_VALUES:,} groups are too many", hint="group by a coarser number"
            )
        done = last - first == 1
        starts.append(last[done])
        first, last = first[~done], last[~done]
        middle = (first + last) // 2
        first, last = np.concatenate([first, middle]), np.concatenate([middle, last])
    return np.unique(np.concatenate(starts))


def _wanted(operator: str, marks: NDArray[Any], constants: Sequence[float]) -> Mask:
    """Of each place among the marks (twice the marks below, and one on a mark), whether a
    comparison holds there.
    """
    places = np.arange(2 * len(marks) + 1)
    of = [2 * int(np.searchsorted(marks, value)) + 1 for value in constants]
    if operator in ("in", "not in"):
        return np.isin(places, of) == (operator == "in")
    if operator == "between":
        return (places >= of[0]) & (places <= of[1])
    return {"<": places < of[0], "<=": places <= of[0], ">": places > of[0], ">=": places >= of[0]}[
        operator
    ]
