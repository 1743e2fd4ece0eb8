"""Numbers computed from one column, such as age // 10 or income / 1000: known at every value the
column can take.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Numeric
from sfumato.errors import QueryError
from sfumato.mine.cube.columns import (
    KEYED_VALUES,
    Column,
    Columns,
    Grid,
    Holds,
    compares,
    numbers_of,
)

Numbers = NDArray[Any]

STEPS: dict[type[exp.Expression], Callable[[Numbers, Numbers], Numbers]] = {
    exp.Add: np.add,
    exp.Sub: np.subtract,
    exp.Mul: np.multiply,
    exp.Div: np.divide,
    exp.IntDiv: lambda left, right: np.trunc(left / right),
    exp.Mod: np.fmod,
    exp.Pow: np.power,
}
FUNCTIONS: dict[type[exp.Expression], Callable[[Numbers], Numbers]] = {
    exp.Neg: np.negative,
    exp.Abs: np.abs,
    exp.Floor: np.floor,
    exp.Ceil: np.ceil,
    exp.Sqrt: np.sqrt,
}
WHOLE_TYPES = {
    "INT",
    "BIGINT",
    "SMALLINT",
    "TINYINT",
    "INT128",
    "UINT",
    "UBIGINT",
    "USMALLINT",
    "UTINYINT",
}
REAL_TYPES = {"DOUBLE", "FLOAT", "DECIMAL"}


@dataclass(frozen=True, eq=False)
class Derived:
    """A number computed from one column: its value at each of the column's codes."""

    column: Column
    values: Numbers

    @classmethod
    def of(cls, expression: exp.Expression, columns: Columns) -> Derived | None:
        """The number that an expression of one column and constants is; None where it is something
        else.
        """
        names = {column.name for column in expression.find_all(exp.Column)}
        known = (
            *STEPS,
            *FUNCTIONS,
            exp.Round,
            exp.Cast,
            exp.Paren,
            exp.Column,
            exp.Identifier,
            exp.Literal,
            exp.DataType,
        )
        if len(names) != 1 or not all(isinstance(node, known) for node in expression.walk()):
            return None
        column = columns.column(names.pop())
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(
                _evaluated(expression, numbers_of(column, np.arange(column.attribute.size)))
            )
        if not np.isfinite(values).all():
            raise QueryError(f"{expression.sql()} has no value for some {column.name}")
        return cls(column, np.round(values, 9))  # so that 0.7 * 10 is 7

    def condition(self, operator: str, constants: list[Any]) -> Callable[[Grid], NDArray[np.bool_]]:
        """A comparison with constants, cell by cell."""
        if not all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in constants
        ):
            raise QueryError(
                f"a number computed from '{self.column.name}' is compared with {constants}"
            )
        table = compares(operator, self.values, constants)
        holds: Holds = lambda codes: table[codes]  # noqa: E731
        self._cut(table)
        self.column.conditions.append(holds)
        return lambda grid: holds(grid.axis(self.column.name))

    def groups(self) -> tuple[tuple[Any, ...], Callable[[Grid], NDArray[Any]]]:
        """The different values, and which of them each cell has."""
        found, place = np.unique(self.values, return_inverse=True)
        if len(found) > KEYED_VALUES:
            raise QueryError(
                f"{len(found):,} groups are too many", hint="group by a coarser number"
            )
        self._cut(place)
        self.column.fine = True
        self.column.keyed |= not isinstance(self.column.attribute, Numeric)
        whole = (found == np.rint(found)).all()
        return tuple((found.astype(np.int64) if whole else found).tolist()), lambda grid: place[
            grid.axis(self.column.name)
        ]

    def _cut(self, table: NDArray[Any]) -> None:
        self.column.cuts |= set((np.flatnonzero(table[1:] != table[:-1]) + 1).tolist())

    def line(self) -> tuple[float, float] | None:
        """(a, b) with value = a·number + b, where that is so."""
        numbers = numbers_of(self.column, np.arange(self.column.attribute.size))
        if len(numbers) < 2:
            return 0.0, float(self.values[0])
        slope = (self.values[-1] - self.values[0]) / (numbers[-1] - numbers[0])
        start = self.values[0] - slope * numbers[0]
        straight = np.allclose(slope * numbers + start, self.values, rtol=1e-9, atol=1e-8)
        return (float(slope), float(start)) if straight else None


def _evaluated(expression: exp.Expression, numbers: Numbers) -> Numbers:
    if isinstance(expression, exp.Column):
        return numbers
    if isinstance(expression, exp.Literal):
        return _number(expression)
    if isinstance(expression, exp.Paren):
        return _evaluated(expression.this, numbers)
    if isinstance(expression, exp.Cast):
        return _cast(expression, _evaluated(expression.this, numbers))
    if isinstance(expression, exp.Round):
        decimals = expression.args.get("decimals")
        return _rounded(
            _evaluated(expression.this, numbers),
            0 if decimals is None else _evaluated(decimals, numbers),
        )
    if type(expression) in FUNCTIONS:
        return FUNCTIONS[type(expression)](_evaluated(expression.this, numbers))
    left, right = _evaluated(expression.this, numbers), _evaluated(expression.expression, numbers)
    return STEPS[type(expression)](left, right)


def _number(literal: exp.Literal) -> Numbers:
    if literal.is_string:
        raise QueryError(f"{literal.sql()} is not a number")
    return np.asarray(float(literal.name))


def _cast(expression: exp.Cast, values: Numbers) -> Numbers:
    if not keeps_numbers(expression) and not (
        is_whole_type(expression) and (values == np.rint(values)).all()
    ):
        raise QueryError(f"{expression.sql()} changes the numbers", hint="use FLOOR, CEIL or ROUND")
    return values


def is_whole_type(cast: exp.Cast) -> bool:
    """Whether this casts to whole numbers."""
    return cast.to.this.name in WHOLE_TYPES


def keeps_numbers(cast: exp.Cast) -> bool:
    """Whether a cast leaves numbers as they are, but for their last digits."""
    return cast.to.this.name in REAL_TYPES


def _rounded(values: Numbers, decimals: Any) -> Numbers:
    """Halves away from zero, as SQL rounds."""
    scale = math.pow(10.0, float(decimals))
    return np.copysign(np.floor(np.abs(values) * scale + 0.5 + 1e-9), values) / scale
