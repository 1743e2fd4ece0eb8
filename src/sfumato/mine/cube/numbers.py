"""Numbers of a record: columns and arithmetic of them, evaluated over the cells of a question.

Whole numbers and decimals are exact, quotients are doubles, as in SQL. Of a column that is stated
in steps (0.1) it is not known whether the engine beside us would hold doubles or decimals; where
the two would answer differently, the question is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Attribute, Category, Domain, Items, Numeric
from sfumato.errors import QueryError
from sfumato.mine.cube.columns import AskedColumn, Codes, Mask
from sfumato.mine.cube.constants import bare, is_constant, keeps, number

Numbers = NDArray[Any]

WRITTEN_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?")
DIGITS = 9  # decimals of an exact number; what lies closer together is the same
NEAR = 1e-9  # of a number: closer than this to a jump, but not on it, two engines may disagree
EXACT = 2.0**53  # whole numbers beyond this are rounded


class Kind(Enum):
    """How a number is held: what rounding it has been through."""

    WHOLE = 0
    DECIMAL = 1
    DOUBLE = 2
    STEPPED = 3  # of a column in steps: a decimal here, a double there


@dataclass(frozen=True, eq=False)
class Terms:
    """A number over the cells of a question: start + slope·x, where x is the one column that is too
    fine to be cut value by value; and where it is not NULL (None: everywhere).
    """

    start: Numbers
    kind: Kind = Kind.WHOLE
    slope: Numbers | None = None
    present: Mask | None = None

    def _both(self, other: Terms) -> Mask | None:
        if self.present is None or other.present is None:
            return other.present if self.present is None else self.present
        return self.present & other.present

    def _mixed(self, other: Terms) -> Kind:
        return max(self.kind, other.kind, key=lambda kind: kind.value)

    def plus(self, other: Terms, sign: int = 1) -> Terms:
        """The sum, or the difference."""
        slopes = [
            factor * term.slope
            for factor, term in ((1, self), (sign, other))
            if term.slope is not None
        ]
        start, kind = self.start + sign * other.start, self._mixed(other)
        slope = sum(slopes[1:], slopes[0]) if slopes else None
        return _settled(Terms(start, kind, slope, self._both(other)))

    def times(self, other: Terms) -> Terms:
        """The product; at most one of the two may vary with x."""
        if self.slope is not None and other.slope is not None:
            raise NotLinearError
        slope = None
        if self.slope is not None or other.slope is not None:
            moving, fixed = (self, other) if other.slope is None else (other, self)
            assert moving.slope is not None
            slope = moving.slope * fixed.start
        product, kind = self.start * other.start, self._mixed(other)
        return _settled(Terms(product, kind, slope, self._both(other)))

    def over(self, other: Terms) -> Terms:
        """The quotient, which is a double."""
        if other.slope is not None:
            raise NotLinearError
        kind = Kind.STEPPED if Kind.STEPPED in (self.kind, other.kind) else Kind.DOUBLE
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = None if self.slope is None else self.slope / other.start
            return Terms(self.start / other.start, kind, slope, self._both(other))

    def mapped(self, function: Callable[[Numbers], Numbers], kind: Kind) -> Terms:
        """Some function of the number."""
        if self.slope is not None:
            raise NotLinearError
        with np.errstate(divide="ignore", invalid="ignore"):
            return replace(self, start=function(self.start), kind=kind)


class NotLinearError(Exception):
    """A number that is no line in the column that is too fine to be cut; told in the caller's
    words.
    """


def _settled(terms: Terms) -> Terms:
    """Decimals as they are written; whole numbers refused where they would be rounded."""
    if terms.kind is Kind.DECIMAL:
        return replace(terms, start=np.round(terms.start, DIGITS))
    if terms.kind is Kind.WHOLE and np.abs(terms.start).max(initial=0.0) > EXACT:
        raise QueryError("a whole number here has more than 15 digits")
    return terms


def axis_numbers(axis: AskedColumn, codes: Codes) -> Terms:
    """The numbers that codes of a column stand for; a category counts where all its values are
    numbers.
    """
    attribute = axis.attribute
    if isinstance(attribute, Numeric):
        kind = Kind.WHOLE if attribute.whole else Kind.STEPPED
        return Terms(attribute.numbers(codes).astype(np.float64), kind)
    if isinstance(attribute, Items):
        return Terms(np.asarray(codes, dtype=np.float64))
    if isinstance(attribute, Category):
        values = label_numbers(attribute, "sum or average")
        kind = Kind.WHOLE if all(value.denominator == 1 for value in values) else Kind.DECIMAL
        return Terms(np.array([float(value) for value in values])[codes], kind)
    raise QueryError(
        f"'{attribute.name}' is known in bins only, so it has no sum or average",
        hint="count its bins with GROUP BY, or ask a release that has its numbers (public, or by "
        "piecewise, square-wave, retention; for averages by groups by ranges, and fit it)",
    )


def are_numbers(attribute: Attribute) -> bool:
    """Whether all values of a category are numbers."""
    return all(WRITTEN_NUMBER.fullmatch(label) for label in attribute.labels)


def label_numbers(attribute: Attribute, what: str) -> list[Fraction]:
    """The numbers that the values of a category are; a word among them has no such thing."""
    if not are_numbers(attribute):
        raise QueryError(
            f"'{attribute.name}' holds words, which have no {what}",
            hint="use = or IN with the values themselves",
        )
    return [Fraction(label) for label in attribute.labels]


def evaluated(expression: exp.Expression, columns: Mapping[str, Terms]) -> Terms:
    """Arithmetic of columns and constants."""
    inner = bare(expression)
    if isinstance(inner, exp.Column):
        return columns[inner.name]
    if is_constant(inner):
        return _constant(inner)
    if isinstance(inner, exp.Cast):
        return _cast(inner, evaluated(inner.this, columns))
    if isinstance(inner, exp.Round):
        decimals = inner.args.get("decimals")
        return _rounded(evaluated(inner.this, columns), 0 if decimals is None else number(decimals))
    if type(inner) in UNARY:
        return UNARY[type(inner)](evaluated(inner.this, columns))
    first, second = (evaluated(part, columns) for part in (inner.this, inner.expression))
    return BINARY[type(inner)](first, second)


def _cast(expression: exp.Cast, terms: Terms) -> Terms:
    """The same numbers, which a cast was checked to leave alone, held in another way."""
    kind = {"DOUBLE": Kind.DOUBLE, "DECIMAL": Kind.DECIMAL}.get(expression.to.this.name, Kind.WHOLE)
    return terms if terms.kind is Kind.STEPPED else replace(terms, kind=kind)


def _constant(expression: exp.Expression) -> Terms:
    value = number(expression)
    kinds = {int: Kind.WHOLE, Fraction: Kind.DECIMAL, float: Kind.DOUBLE}
    return Terms(np.asarray(float(value)), kinds[type(value)])


def _whole(function: Callable[[Numbers, Numbers], Numbers]) -> Callable[[Terms, Terms], Terms]:
    """Division with a remainder: of whole numbers only, as engines disagree about others."""

    def computed(first: Terms, second: Terms) -> Terms:
        if first.slope is not None or second.slope is not None:
            raise NotLinearError
        if not first.kind is second.kind is Kind.WHOLE:
            raise QueryError("// and % are answered for whole numbers only")
        with np.errstate(divide="ignore", invalid="ignore"):
            return Terms(function(first.start, second.start), Kind.WHOLE, None, first._both(second))

    return computed


def _power(first: Terms, second: Terms) -> Terms:
    if first.slope is not None or second.slope is not None:
        raise NotLinearError
    kind = Kind.STEPPED if Kind.STEPPED in (first.kind, second.kind) else Kind.DOUBLE
    with np.errstate(all="ignore"):
        return Terms(np.power(first.start, second.start), kind, None, first._both(second))


def _jump(function: Callable[[Numbers], Numbers]) -> Callable[[Terms], Terms]:
    """A function that jumps at whole numbers."""

    def computed(terms: Terms) -> Terms:
        if terms.slope is None:
            check_clear(terms, np.rint(terms.start))
        return terms.mapped(function, Kind.WHOLE if terms.kind is Kind.WHOLE else Kind.DOUBLE)

    return computed


def _negative(terms: Terms) -> Terms:
    slope = None if terms.slope is None else -terms.slope
    return replace(terms, start=-terms.start, slope=slope)


def _root(terms: Terms) -> Terms:
    kind = Kind.STEPPED if terms.kind is Kind.STEPPED else Kind.DOUBLE
    return terms.mapped(np.sqrt, kind)


def _rounded(terms: Terms, decimals: Any) -> Terms:
    """Halves away from zero, as SQL rounds."""
    if decimals != int(decimals) or abs(decimals) > DIGITS:
        raise QueryError(f"ROUND to {decimals} digits is not answered")
    scale = 10.0 ** abs(int(decimals))
    moved = terms.start * scale if decimals > 0 else terms.start / scale
    check_clear(replace(terms, start=moved), np.floor(moved) + 0.5)

    def rounded(values: Numbers) -> Numbers:
        moved = values * scale if decimals > 0 else values / scale
        if terms.kind is Kind.DECIMAL:
            moved = np.round(moved, DIGITS)
        whole = np.trunc(moved) + np.copysign(np.abs(moved - np.trunc(moved)) >= 0.5, moved)
        return whole / scale if decimals > 0 else whole * scale

    kind = Kind.DOUBLE if terms.kind is Kind.STEPPED else terms.kind
    return terms.mapped(rounded, kind)


def check_clear(terms: Terms, marks: Numbers) -> None:
    """Refuse where a double and a decimal of the same column would fall on different sides."""
    if terms.kind is not Kind.STEPPED:
        return
    away = np.abs(terms.start - marks)
    if ((away > 0) & (away < NEAR * np.maximum(1.0, np.abs(marks)))).any():
        raise QueryError(
            "this depends on how fractions are rounded on the way",
            hint="compare the column itself with a constant",
        )


UNARY: dict[type[exp.Expression], Callable[[Terms], Terms]] = {
    exp.Neg: _negative,
    exp.Abs: lambda terms: terms.mapped(np.abs, terms.kind),
    exp.Floor: _jump(np.floor),
    exp.Ceil: _jump(np.ceil),
    exp.Sqrt: _root,
}
BINARY: dict[type[exp.Expression], Callable[[Terms, Terms], Terms]] = {
    exp.Add: lambda first, second: first.plus(second),
    exp.Sub: lambda first, second: first.plus(second, -1),
    exp.Mul: lambda first, second: first.times(second),
    exp.Div: lambda first, second: first.over(second),
    exp.IntDiv: _whole(lambda left, right: np.trunc(left / right)),
    exp.Mod: _whole(np.fmod),
    exp.Pow: _power,
}
ARITHMETIC = (
    *(*UNARY, *BINARY, exp.Round, exp.Cast, exp.Paren, exp.Column, exp.Identifier),
    *(exp.Literal, exp.DataType, exp.DataTypeParam),
)


def is_arithmetic(expression: exp.Expression) -> bool:
    """Whether an expression is made of columns, numbers and arithmetic alone."""
    return all(isinstance(node, ARITHMETIC) for node in expression.walk())


def check_casts(expression: exp.Expression, domain: Domain) -> None:
    """Refuse a cast that would change the numbers it is applied to."""
    for cast in expression.find_all(exp.Cast):
        name = column_name(cast, domain)
        if name is None and not _keeps_arithmetic(cast):
            raise changing(cast)


def _keeps_arithmetic(cast: exp.Cast) -> bool:
    return is_constant(cast) or cast.to.this.name == "DOUBLE"


def column_name(expression: exp.Expression, domain: Domain) -> str | None:
    """The column that an expression is: bare, in parentheses, or cast to a type that leaves its
    values as they are.
    """
    inner = bare(expression)
    if isinstance(inner, exp.Cast):
        name = column_name(inner.this, domain)
        if name is not None and not _keeps_column(inner, AskedColumn.of(domain, name).attribute):
            raise changing(inner)
        return name
    return inner.name if isinstance(inner, exp.Column) else None


def changing(cast: exp.Cast) -> QueryError:
    """The error for a cast that changes what it is applied to."""
    return QueryError(f"{cast.sql()} changes the values", hint="use FLOOR, CEIL or ROUND")


def _keeps_column(cast: exp.Cast, attribute: Attribute) -> bool:
    kind = cast.to.this.name
    if kind == "FLOAT":
        return False  # single precision changes most numbers, and all that is computed from them
    if isinstance(attribute, Numeric):
        return keeps(cast.to, _grid(attribute))
    if isinstance(attribute, Category) and kind not in ("TEXT", "VARCHAR"):
        return keeps(cast.to, label_numbers(attribute, f"form as {kind}"))
    return isinstance(attribute, Category) or (isinstance(attribute, Items) and kind in ("INT",))


def _grid(attribute: Numeric) -> list[Fraction]:
    """Numbers that say of the whole grid how it is written: its ends, and its first step."""
    low, step = Fraction(str(attribute.min)), Fraction(str(attribute.grid_step))
    return [low, low + step, low + step * (attribute.size - 1)]
