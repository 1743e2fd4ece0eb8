"""Constants of a question, without loss: whole numbers and decimals exactly, doubles as doubles."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from sfumato.errors import QueryError
from sfumato.mine.cube.aggregates import KINDS

Number = int | Fraction | float  # SQL's whole numbers, decimals and doubles

DECIMAL_DIGITS = 38  # a literal with more is a double
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


def bare(expression: exp.Expression) -> exp.Expression:
    """An expression without the parentheses around it."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def is_constant(expression: exp.Expression) -> bool:
    """Whether an expression has no column, so that it is the same for everyone."""
    if isinstance(expression, exp.Literal):  # most are
        return True
    return expression.find(exp.Column, exp.Star, exp.Window, *KINDS) is None


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
        return inner.name if inner.is_string else _literal(inner)
    if inner.find(exp.Column) is not None:
        raise QueryError(
            f"{inner.sql()} is compared with another column",
            hint="compare a column with constants; words go in single quotes",
        )
    if isinstance(inner, exp.Neg):
        return -number(inner.this)
    if isinstance(inner, exp.Cast):
        return _cast(inner)
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


def _literal(literal: exp.Literal) -> Number:
    text = literal.name
    try:
        if text.isdigit():
            return int(text)
        digits = sum(letter.isdigit() for letter in text)
        if "e" in text.lower() or digits > DECIMAL_DIGITS:
            return _finite(float(text))
        return Fraction(text)
    except (ValueError, OverflowError):
        raise QueryError(f"{text} is not a number that is read here") from None


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise OverflowError
    return value


def _cast(expression: exp.Cast) -> Any:
    """A constant that a cast leaves as it is; SQL rounds the others, each engine in its own way."""
    value = constant(expression.this)
    if isinstance(value, str) and expression.to.this.name in ("TEXT", "VARCHAR"):
        return value
    if not is_number(value) or not keeps(expression.to, [value]):
        raise QueryError(
            f"{expression.sql()} changes {expression.this.sql()}",
            hint="write the value that is meant",
        )
    return float(value) if expression.to.this.name in ("DOUBLE", "FLOAT") else value


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
        width, scale = (int(part.this.name) for part in (*to.expressions, *_DEFAULTS)[:2])
        limit = Fraction(10) ** (width - scale)
        exact = (Fraction(value) for value in values)
        return all((each * 10**scale).denominator == 1 and abs(each) < limit for each in exact)
    return False


_DEFAULTS = exp.DataType.build("DECIMAL(18, 3)").expressions


def _folded(expression: exp.Expression) -> Number:
    """Arithmetic of two constants: doubles where one is or a quotient makes one, else exact."""
    left, right = number(expression.this), number(expression.expression)
    try:
        if isinstance(expression, exp.Div):
            return _finite(float(left) / float(right))
        if isinstance(expression, exp.Pow):
            return _finite(math.pow(left, right))
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
