"""Comparisons of one column, or of a number computed from one, with constants: for each value of
the column, whether they hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Attribute, Bins, Category, Domain, Items, Numeric
from sfumato.errors import DataError, QueryError
from sfumato.mine import limits
from sfumato.mine.cube.columns import AskedColumn, Codes, Cut, Mask
from sfumato.mine.cube.expressions import (
    HOLDS,
    NEAR,
    Kind,
    Terms,
    axis_numbers,
    bare,
    check_casts,
    check_clear,
    evaluated,
    is_arithmetic,
    is_constant,
    is_number,
    label_numbers,
    plain,
)

TRUE_WORDS, FALSE_WORDS = ("yes", "true", "1", "y", "t"), ("no", "false", "0", "n", "f")
RISING_OR_FALLING = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Cast, exp.Paren, exp.Column, exp.Literal),
    *(exp.Identifier, exp.DataType, exp.DataTypeParam),
)

Classify = Callable[[Codes], NDArray[Any]]


def comparison(axis: AskedColumn, operator: str, values: Sequence[Any]) -> Cut:
    """The cut that a comparison (<, <=, >, >=, in, between) makes: it tells of a code whether the
    comparison holds.
    """
    attribute = axis.attribute
    numbers = all(is_number(value) for value in values)
    if isinstance(attribute, Numeric) or (isinstance(attribute, Bins) and numbers):
        runs = _runs(attribute, operator, [_as_number(attribute, value) for value in values])

        def holds(codes: Codes) -> Mask:
            within = np.zeros(np.shape(codes), dtype=bool)
            for first, last in runs:
                within |= (codes >= first) & (codes < last)
            return within

        return Cut(axis, holds, [code for run in runs for code in run])
    if not isinstance(attribute, Items):
        table = _label_table(attribute, operator, values)
    elif operator == "in" and all(value in (True, False, 0, 1) for value in values):
        table = np.array([code in values for code in (0, 1)])
    else:
        raise QueryError(
            f'item \'{axis.name}\' is there or not; write "{axis.name}" or NOT "{axis.name}"'
        )
    return Cut(axis, lambda codes: table[codes])


def likeness(axis: AskedColumn, pattern: str, *, escape: str | None, folded: bool) -> Cut:
    """The cut that LIKE makes among the words of a category."""
    if not isinstance(axis.attribute, Category):
        raise QueryError(f"LIKE compares words, and '{axis.name}' holds none")
    found = re.compile(_expression(pattern, escape), re.DOTALL | (re.IGNORECASE if folded else 0))
    table = np.array([found.fullmatch(label) is not None for label in axis.attribute.labels])
    return Cut(axis, lambda codes: table[codes])


def _expression(pattern: str, escape: str | None) -> str:
    """The regular expression of a LIKE pattern: % is anything, _ is one letter."""
    parts, letters = [], iter(pattern)
    for letter in letters:
        if escape is not None and letter == escape:
            following = next(letters, None)
            if following is None:
                raise QueryError(f"LIKE '{pattern}' ends with its ESCAPE character")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    return "".join(parts)


def _label_table(attribute: Attribute, operator: str, values: Sequence[Any]) -> Mask:
    if operator == "in":
        chosen = np.zeros(attribute.size, dtype=bool)
        for value in values:
            chosen |= _equal_labels(attribute, value)
        return chosen
    labels = np.array(label_numbers(attribute, f"order for {operator}"), dtype=object)
    numbers = [_as_number(attribute, value) for value in values]
    if operator == "between":
        return np.asarray((labels >= numbers[0]) & (labels <= numbers[1]), dtype=bool)
    return np.asarray(HOLDS[operator](labels, numbers[0]), dtype=bool)


def _equal_labels(attribute: Attribute, value: Any) -> Mask:
    """Which labels a value equals: the word itself, the same number, or a word for true or
    false.
    """
    equal = np.zeros(attribute.size, dtype=bool)
    if isinstance(value, bool):
        words = [label.casefold() for label in attribute.labels]
        strange = [word for word in words if word not in TRUE_WORDS + FALSE_WORDS]
        if strange:
            raise QueryError(
                f"'{attribute.name}' is not true or false: it has the value '{strange[0]}'",
                hint="use = or IN with the values themselves",
            )
        return np.array([(word in TRUE_WORDS) == value for word in words])
    if isinstance(value, str):
        equal[attribute.code(value)] = True
        return equal
    equal |= [label == value for label in label_numbers(attribute, f"= {plain(value):g}")]
    if not equal.any():
        attribute.code(f"{plain(value):g}")  # refused, with its near miss
    return equal


def _as_number(attribute: Attribute, value: Any) -> Any:
    if not is_number(value):
        raise QueryError(f"'{attribute.name}' is a number, and '{value}' is not")
    return value


def _runs(attribute: Numeric | Bins, operator: str, numbers: list[Any]) -> list[tuple[int, int]]:
    """The runs [first, last) of codes for which a comparison holds. Those of a number that was cut
    before it was perturbed must begin and end on its cuts.
    """
    if isinstance(attribute, Bins):
        numbers = [float(number) for number in numbers]
        if operator == "in":
            raise DataError(
                f"'{attribute.name}' is known in bins only, so single numbers cannot be told apart",
                hint=f"use its bins: {', '.join(attribute.labels[:6])}",
            )
    low, high = ends(attribute)
    met = isinstance(attribute, Bins) or (numbers[0] <= high and numbers[-1] >= low)
    outside = [number for number in numbers if not low <= number <= high]
    if outside and (operator != "between" or not met):
        sign = "=" if operator == "in" else operator.upper()
        raise DataError(
            f"{attribute.name} {sign} {float(outside[0]):g} lies outside its domain "
            f"[{low:g}, {high:g}]",
            hint="ask within the domain",
        )
    if operator in ("in", "between"):
        pairs = zip(numbers, numbers, strict=True) if operator == "in" else [numbers]
        runs = [
            (first_code(attribute, least, operator), code_above(attribute, most, operator))
            for least, most in pairs
        ]
        return [(first, max(first, last)) for first, last in runs]
    cut = (first_code if operator in (">=", "<") else code_above)(attribute, numbers[0], operator)
    return [(cut, attribute.size) if operator in (">", ">=") else (0, cut)]


def first_code(attribute: Numeric | Bins, value: Any, operator: str) -> int:
    """The code of the smallest grid point that is not below a value, the grid's size where none
    is.
    """
    if isinstance(attribute, Bins):
        return _edge(attribute, value, operator)
    if attribute.whole:
        return min(max(math.ceil(Fraction(value)) - int(attribute.min), 0), attribute.size)
    codes, numbers = _around(attribute, float(value))
    return int(codes[0] + np.searchsorted(numbers, float(value), side="left"))


def code_above(attribute: Numeric | Bins, value: Any, operator: str) -> int:
    """The code of the smallest grid point above a value."""
    if isinstance(attribute, Bins):
        return _edge(attribute, value + attribute.step, operator)
    if attribute.whole:
        return min(max(math.floor(Fraction(value)) + 1 - int(attribute.min), 0), attribute.size)
    codes, numbers = _around(attribute, float(value))
    return int(codes[0] + np.searchsorted(numbers, float(value), side="right"))


def _around(attribute: Numeric, value: float) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """A few grid points on both sides of a value; they are rounded decimals, so that only comparing
    tells on which side it lies.
    """
    near = math.floor((value - attribute.min) / attribute.grid_step)
    first = min(max(near - 2, 0), attribute.size - 1)
    codes = np.arange(first, min(max(near + 4, first + 1), attribute.size))
    return codes, attribute.numbers(codes)


def ends(attribute: Attribute) -> tuple[float, float]:
    """The range of a number, cut into bins or not."""
    if isinstance(attribute, Numeric):
        return attribute.min, attribute.max
    if isinstance(attribute, Bins):
        return attribute.edges[0], attribute.edges[-1]
    raise QueryError(f"'{attribute.name}' holds no numbers, so it has no buckets")


def _edge(attribute: Bins, cut: float, operator: str) -> int:
    """The position of the edge that a cut falls on; anything beyond the ends is the end.

    The last bin is closed: a cut at its end parts the largest number from the rest of it.
    """
    if cut <= attribute.edges[0]:
        return 0
    wholly = not attribute.step and operator in ("<=", ">", "between")
    if cut > attribute.edges[-1] or (cut == attribute.edges[-1] and wholly):
        return attribute.size
    for place, edge in enumerate(attribute.edges[:-1]):
        if edge - attribute.step < cut <= edge:
            return place
    raise DataError(
        f"{attribute.name} {operator.upper()} … does not fall on its cuts, and it is known in "
        "bins only",
        hint=f"its cuts are {', '.join(f'{edge:g}' for edge in attribute.edges[1:-1])}",
    )


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
        terms = self.at(starts)
        found = np.unique(terms.start)
        if len(found) > limits.KEYED_VALUES:
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
        """The codes of a number at which a classification of them changes."""
        size = self.axis.size
        if size <= limits.EVALUATED:
            classes = classify(np.arange(size))
            return np.append(0, np.flatnonzero(classes[1:] != classes[:-1]) + 1)
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
        divided = any(
            not is_constant(node.expression) for node in expression.find_all(exp.Div, exp.IntDiv)
        )
        return once and not divided and all(isinstance(node, RISING_OR_FALLING) for node in parts)


def _changes(classify: Classify, size: int) -> NDArray[np.int64]:
    """Where something that never turns back changes: every run whose ends differ is halved."""
    first, last = np.array([0], dtype=np.int64), np.array([size - 1], dtype=np.int64)
    starts = [np.zeros(1, dtype=np.int64)]
    while len(first):
        differ = classify(first) != classify(last)
        first, last = first[differ], last[differ]
        if len(first) > limits.KEYED_VALUES:
            raise QueryError(
                f"more than {limits.KEYED_VALUES:,} groups are too many",
                hint="group by a coarser number",
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
    if operator == "in":
        return np.isin(places, of)
    if operator == "between":
        return (places >= of[0]) & (places <= of[1])
    return np.asarray(HOLDS[operator](places, of[0]))
