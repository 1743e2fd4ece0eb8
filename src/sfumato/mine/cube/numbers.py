"""Constants of a question, and numbers of a record: columns and arithmetic of them, evaluated over
the cells of a question.

Whole numbers and decimals are exact, quotients are doubles, as in SQL. Of a column that is stated
in steps (0.1) it is not known whether the engine beside us would hold doubles or decimals; where
the two would answer differently, the question is refused.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Attribute, Axis, Category, Codes, Domain, Items, Numeric
from sfumato.errors import QueryError

Numbers = NDArray[Any]
Mask = NDArray[np.bool_]

WRITTEN_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?")
DIGITS = 9  # decimals of an exact number; what lies closer together is the same
NEAR = 1e-9  # of a number: closer than this to a jump, but not on it, two engines may disagree
EXACT = 2.0**53  # whole numbers beyond this are rounded
DECIMAL_DIGITS = 38  # a literal with more is a double
DECIMAL = (18, 3)  # the digits of a DECIMAL that states none, and those behind its point
WHOLE_TYPES = {
    "TINYINT": (-(1 << 7), (1 << 7) - 1),
    "SMALLINT": (-(1 << 15), (1 << 15) - 1),
    "INT": (-(1 << 31), (1 << 31) - 1),
    "BIGINT": (-(1 << 63), (1 << 63) - 1),
    "INT128": (-(1 << 127) + 1, (1 << 127) - 1),
    "UTINYINT": (0, (1 << 8) - 1),
    "USMALLINT": (0, (1 << 16) - 1),
    "UINT": (0, (1 << 32) - 1),
    "UBIGINT": (0, (1 << 64) - 1),
}
COMPARISONS: dict[type[exp.Expression], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}  # when the constant stands on the left
HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
JOINED: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


# Constants: int, Fraction and float are SQL's whole numbers, decimals and doubles.


def bare(expression: exp.Expression) -> exp.Expression:
    """An expression without the parentheses around it."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def is_constant(expression: exp.Expression) -> bool:
    """Whether an expression has no column, so that it is the same for everyone."""
    if isinstance(expression, exp.Literal):  # most are
        return True
    return expression.find(exp.Column, exp.Star, exp.Window, exp.AggFunc) is None


def is_number(value: Any) -> bool:
    """Whether a constant is a number."""
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """A constant as Python has it: decimals become doubles."""
    return float(value) if isinstance(value, Fraction) else value


def constant(expression: exp.Expression) -> Any:
    """The value of a literal, or of arithmetic and comparisons of literals; None of NULL."""
    inner = bare(expression)
    if isinstance(inner, exp.Null):
        return None
    if isinstance(inner, exp.Boolean):
        return bool(inner.this)
    if isinstance(inner, exp.Literal):
        return inner.name if inner.is_string else _literal(inner.name)
    if inner.find(exp.Column) is not None:
        raise QueryError(
            f"{inner.sql()} is compared with another column",
            hint="compare a column with constants; words go in single quotes",
        )
    if isinstance(inner, exp.Neg):
        return -number(inner.this)
    if isinstance(inner, exp.Cast):  # of what it leaves as it is: engines round in their own ways
        value, kind = constant(inner.this), inner.to.this.name
        if isinstance(value, str) and kind in ("TEXT", "VARCHAR"):
            return value
        if not is_number(value) or not keeps(inner.to, [value]):
            raise QueryError(
                f"{inner.sql()} changes {inner.this.sql()}", hint="write the value that is meant"
            )
        return float(value) if kind in ("DOUBLE", "FLOAT") else value
    if type(inner) in COMPARISONS:
        return compare(COMPARISONS[type(inner)], constant(inner.this), constant(inner.expression))
    if isinstance(inner, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.IntDiv | exp.Mod | exp.Pow):
        return _folded(inner)
    raise QueryError(f"{expression.sql()} is not a constant")


def number(expression: exp.Expression) -> Any:
    """The value of a constant that must be a number."""
    value = constant(expression)
    if not is_number(value):
        raise QueryError(f"{expression.sql()} is not a number")
    return value


def _literal(text: str) -> int | Fraction | float:
    if text.isdigit():
        return int(text)
    digits = sum(letter.isdigit() for letter in text)
    try:
        value = float(text)
        if not math.isfinite(value):
            raise OverflowError
        return value if "e" in text.lower() or digits > DECIMAL_DIGITS else Fraction(text)
    except (ValueError, OverflowError):
        raise QueryError(f"{text} is not a number that is read here") from None


def keeps(to: exp.DataType, values: Iterable[Any]) -> bool:
    """Whether a cast leaves all these numbers as they are."""
    kind = to.this.name
    if kind == "DOUBLE":
        return True
    if kind == "FLOAT":
        return all(float(np.float32(float(value))) == float(value) for value in values)
    if kind in WHOLE_TYPES:
        low, high = WHOLE_TYPES[kind]
        return all(value == math.floor(value) and low <= value <= high for value in values)
    if kind == "DECIMAL":
        stated = tuple(int(part.this.name) for part in to.expressions)
        width, scale = (*stated, *DECIMAL[len(stated) :])[:2]
        limit = Fraction(10) ** (width - scale)
        exact = (Fraction(value) for value in values)
        return all((each * 10**scale).denominator == 1 and abs(each) < limit for each in exact)
    return False


def _folded(expression: exp.Expression) -> int | Fraction | float:
    """Arithmetic of two constants: doubles where one is or a quotient makes one, else exact."""
    left, right = number(expression.this), number(expression.expression)
    try:
        if isinstance(expression, exp.Div | exp.Pow):
            power = isinstance(expression, exp.Pow)
            value = math.pow(left, right) if power else float(left) / float(right)
            if not math.isfinite(value):
                raise OverflowError
            return value
        if isinstance(expression, exp.IntDiv | exp.Mod):
            if not isinstance(left, int) or not isinstance(right, int):
                raise QueryError(f"{expression.sql()} is answered for whole numbers only")
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if isinstance(expression, exp.IntDiv) else left - right * quotient
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
    except (ZeroDivisionError, OverflowError, ValueError):
        raise QueryError(f"{expression.sql()} has no value") from None
    return JOINED[type(expression)](left, right)


def compare(sign: str, left: Any, right: Any) -> bool | None:
    """A comparison of two values; unknown (None) where one of them is NULL, as in SQL."""
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        raise QueryError(f"{plain(left)!r} and {plain(right)!r} are compared, a word with a number")
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    return bool(HOLDS[sign](left, right))


# Numbers of a record.


class Kind(IntEnum):
    """How a number is held: what rounding it has been through."""

    WHOLE = 0
    DECIMAL = 1
    DOUBLE = 2
    STEPPED = 3  # of a column in steps: a decimal here, a double there


class NotLinearError(Exception):
    """A number that is no line in the column that is too fine to be cut; refused in the
    caller's words.
    """


@dataclass(frozen=True, eq=False)
class Terms:
    """A number over the cells of a question: start + slope·x, where x is the one column that is too
    fine to be cut value by value; and where it is not NULL (None: everywhere).
    """

    start: Numbers
    kind: Kind = Kind.WHOLE
    slope: Numbers | None = None
    present: Mask | None = None

    def _with(self, other: Terms, start: Numbers, slope: Numbers | None) -> Terms:
        """A number made of two: NULL where one is, decimals as they are written, whole numbers
        refused where they would be rounded.
        """
        kind = max(self.kind, other.kind)
        if kind is Kind.DECIMAL:
            start = np.round(start, DIGITS)
        if kind is Kind.WHOLE and np.abs(start).max(initial=0.0) > EXACT:
            raise QueryError("a whole number here has more than 15 digits")
        return Terms(start, kind, slope, _both(self.present, other.present))

    def plus(self, other: Terms, sign: int = 1) -> Terms:
        """The sum, or the difference."""
        slope = self.slope
        if other.slope is not None:
            slope = sign * other.slope if slope is None else slope + sign * other.slope
        return self._with(other, self.start + sign * other.start, slope)

    def times(self, other: Terms) -> Terms:
        """The product; at most one of the two may vary with x."""
        moving, fixed = (self, other) if other.slope is None else (other, self)
        if fixed.slope is not None:
            raise NotLinearError
        slope = None if moving.slope is None else moving.slope * fixed.start
        return self._with(other, self.start * other.start, slope)

    def over(self, other: Terms) -> Terms:
        """The quotient, which is a double."""
        found = replace(self, slope=None).mapped(np.divide, self.as_double(other), other)
        if self.slope is None:
            return found
        with np.errstate(divide="ignore", invalid="ignore"):
            return replace(found, slope=self.slope / other.start)

    def negative(self) -> Terms:
        """The number with the other sign."""
        slope = None if self.slope is None else -self.slope
        return replace(self, start=-self.start, slope=slope)

    def mapped(self, function: Callable[..., Numbers], kind: Kind, *others: Terms) -> Terms:
        """Some function of the number and others, none of which may vary with x."""
        present = self.present
        for other in others:
            present = _both(present, other.present)
        if any(each.slope is not None for each in (self, *others)):
            raise NotLinearError
        with np.errstate(all="ignore"):
            start = function(self.start, *(other.start for other in others))
        return Terms(start, kind, None, present)

    def as_double(self, *others: Terms) -> Kind:
        """How a double computed from the number, and others, is held."""
        return max(Kind.DOUBLE, *(each.kind for each in (self, *others)))

    def check_clear(self, marks: Numbers) -> None:
        """Refuse where a double and a decimal of the same column would fall on different sides."""
        if self.kind is not Kind.STEPPED:
            return
        away = np.abs(self.start - marks)
        if ((away > 0) & (away < NEAR * np.maximum(1.0, np.abs(marks)))).any():
            raise QueryError(
                "this depends on how fractions are rounded on the way",
                hint="compare the column itself with a constant",
            )


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def axis_numbers(axis: Axis, codes: Codes) -> Terms:
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
        hint="sfumato compare estimates means from bins; AVG needs a release made with --mechanism "
        "piecewise, square-wave or retention (by groups: ranges, then query --fit)",
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
        value = number(inner)
        kinds = {int: Kind.WHOLE, Fraction: Kind.DECIMAL, float: Kind.DOUBLE}
        return Terms(np.asarray(float(value)), kinds[type(value)])
    first = evaluated(inner.this, columns)
    if isinstance(inner, exp.Cast):  # it was checked to leave the numbers alone
        kind = {"DOUBLE": Kind.DOUBLE, "DECIMAL": Kind.DECIMAL}.get(inner.to.this.name, Kind.WHOLE)
        return first if first.kind is Kind.STEPPED else replace(first, kind=kind)
    if isinstance(inner, exp.Round):
        decimals = inner.args.get("decimals")
        return _rounded(first, 0 if decimals is None else number(decimals))
    if type(inner) in UNARY:
        return UNARY[type(inner)](first)
    return BINARY[type(inner)](first, evaluated(inner.expression, columns))


def _whole(function: Callable[[Numbers, Numbers], Numbers]) -> Callable[[Terms, Terms], Terms]:
    """Division with a remainder: of whole numbers only, as engines disagree about others."""

    def computed(first: Terms, second: Terms) -> Terms:
        found = first.mapped(function, Kind.WHOLE, second)
        if not first.kind is second.kind is Kind.WHOLE:
            raise QueryError("// and % are answered for whole numbers only")
        return found

    return computed


def _jump(function: Callable[[Numbers], Numbers]) -> Callable[[Terms], Terms]:
    """A function that jumps at whole numbers."""

    def computed(terms: Terms) -> Terms:
        if terms.slope is None:
            terms.check_clear(np.rint(terms.start))
        return terms.mapped(function, Kind.WHOLE if terms.kind is Kind.WHOLE else Kind.DOUBLE)

    return computed


def _rounded(terms: Terms, decimals: Any) -> Terms:
    """Halves away from zero, as SQL rounds."""
    if decimals != int(decimals) or abs(decimals) > DIGITS:
        raise QueryError(f"ROUND to {decimals} digits is not answered")
    power = 10.0 ** abs(int(decimals))

    def moved(values: Numbers, *, up: bool) -> Numbers:  # by as many digits, or back
        return values * power if (decimals > 0) == up else values / power

    shifted = moved(terms.start, up=True)
    replace(terms, start=shifted).check_clear(np.floor(shifted) + 0.5)

    def rounded(values: Numbers) -> Numbers:
        far = moved(values, up=True)
        if terms.kind is Kind.DECIMAL:
            far = np.round(far, DIGITS)
        whole = np.trunc(far) + np.copysign(np.abs(far - np.trunc(far)) >= 0.5, far)
        return moved(whole, up=False)

    return terms.mapped(rounded, min(terms.kind, Kind.DOUBLE))


UNARY: dict[type[exp.Expression], Callable[[Terms], Terms]] = {
    exp.Neg: Terms.negative,
    exp.Abs: lambda terms: terms.mapped(np.abs, terms.kind),
    exp.Floor: _jump(np.floor),
    exp.Ceil: _jump(np.ceil),
    exp.Sqrt: lambda terms: terms.mapped(np.sqrt, terms.as_double()),
}
BINARY: dict[type[exp.Expression], Callable[[Terms, Terms], Terms]] = {
    exp.Add: Terms.plus,
    exp.Sub: lambda first, second: first.plus(second, -1),
    exp.Mul: Terms.times,
    exp.Div: Terms.over,
    exp.IntDiv: _whole(lambda left, right: np.trunc(left / right)),
    exp.Mod: _whole(np.fmod),
    exp.Pow: lambda first, second: first.mapped(np.power, first.as_double(second), second),
}
LEAVES = (exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.DataType, exp.DataTypeParam)
ARITHMETIC = (*UNARY, *BINARY, exp.Round, exp.Cast, *LEAVES)


def is_arithmetic(expression: exp.Expression) -> bool:
    """Whether an expression is made of columns, numbers and arithmetic alone."""
    return all(isinstance(node, ARITHMETIC) for node in expression.walk())


def check_casts(expression: exp.Expression, domain: Domain) -> None:
    """Refuse a cast that would change the numbers it is applied to."""
    for cast in expression.find_all(exp.Cast):
        kept = is_constant(cast) or cast.to.this.name == "DOUBLE"
        if column_of(cast, domain) is None and not kept:
            raise _changing(cast)


def column_of(expression: exp.Expression, domain: Domain) -> Axis | None:
    """The column that an expression is, if it is one: bare, in parentheses, or cast to a type that
    leaves its values as they are.
    """
    inner = bare(expression)
    if not isinstance(inner, exp.Cast):
        return domain.axis_named(inner.name) if isinstance(inner, exp.Column) else None
    axis = column_of(inner.this, domain)
    if axis is not None and not _keeps_column(inner, axis.attribute):
        raise _changing(inner)
    return axis


def _changing(cast: exp.Cast) -> QueryError:
    """The error for a cast that changes what it is applied to."""
    return QueryError(f"{cast.sql()} changes the values", hint="use FLOOR, CEIL or ROUND")


def _keeps_column(cast: exp.Cast, attribute: Attribute) -> bool:
    kind = cast.to.this.name
    if kind == "FLOAT":
        return False  # single precision changes most numbers, and all that is computed from them
    if isinstance(attribute, Numeric):  # its ends and its first step say how the grid is written
        low, step = Fraction(str(attribute.min)), Fraction(str(attribute.grid_step))
        return keeps(cast.to, [low, low + step, low + step * (attribute.size - 1)])
    if isinstance(attribute, Category) and kind not in ("TEXT", "VARCHAR"):
        return keeps(cast.to, label_numbers(attribute, f"form as {kind}"))
    return isinstance(attribute, Category) or (isinstance(attribute, Items) and kind in ("INT",))
