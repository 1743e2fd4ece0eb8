"""Comparisons of one column with constants: for each value of the column, whether they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Attribute, Bins, Category, Items, Numeric
from sfumato.errors import DataError, QueryError
from sfumato.mine.cube.columns import AskedColumn, Codes, Cut, Mask
from sfumato.mine.cube.constants import is_number, plain

WRITTEN_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?")
TRUE_WORDS, FALSE_WORDS = ("yes", "true", "1", "y", "t"), ("no", "false", "0", "n", "f")


def comparison(axis: AskedColumn, operator: str, values: Sequence[Any]) -> Cut:
    """The cut that a comparison makes; what it tells of a code is 1 where the comparison holds."""
    attribute = axis.attribute
    if isinstance(attribute, Items):
        return Cut(axis, _item_holds(axis, operator, values))
    if isinstance(attribute, Numeric):
        return _number_cut(axis, attribute, operator, values)
    if isinstance(attribute, Bins) and all(is_number(value) for value in values):
        return Cut(axis, _bin_holds(attribute, operator, [float(value) for value in values]))
    table = _label_table(attribute, operator, values)
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


def _item_holds(axis: AskedColumn, operator: str, values: Sequence[Any]) -> Callable[[Codes], Mask]:
    if operator not in ("in", "not in") or any(
        value not in (True, False, 0, 1) for value in values
    ):
        raise QueryError(
            f'item \'{axis.name}\' is there or not; write "{axis.name}" or NOT "{axis.name}"'
        )
    wanted = np.array([(code in values) == (operator == "in") for code in (0, 1)])
    return lambda codes: wanted[codes]


def _label_table(attribute: Attribute, operator: str, values: Sequence[Any]) -> Mask:
    if operator in ("in", "not in"):
        chosen = np.zeros(attribute.size, dtype=bool)
        for value in values:
            chosen |= _equal_labels(attribute, value)
        return chosen if operator == "in" else ~chosen
    labels = label_numbers(attribute, f"order for {operator}")
    numbers = [_as_number(attribute, value) for value in values]
    return np.array([_holds(operator, label, numbers) for label in labels])


def _equal_labels(attribute: Attribute, value: Any) -> Mask:
    """Which labels a value equals: the word itself, the same number, or a word for true or
    false.
    """
    equal = np.zeros(attribute.size, dtype=bool)
    if isinstance(value, bool):
        return _truth_labels(attribute) == value
    if isinstance(value, str):
        equal[attribute.code(value)] = True
        return equal
    equal |= [label == value for label in label_numbers(attribute, f"= {plain(value):g}")]
    if not equal.any():
        attribute.code(f"{plain(value):g}")  # refused, with its near miss
    return equal


def _truth_labels(attribute: Attribute) -> Mask:
    words = [label.casefold() for label in attribute.labels]
    strange = [word for word in words if word not in TRUE_WORDS + FALSE_WORDS]
    if strange:
        raise QueryError(
            f"'{attribute.name}' is not true or false: it has the value '{strange[0]}'",
            hint="use = or IN with the values themselves",
        )
    return np.array([word in TRUE_WORDS for word in words])


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


def _holds(operator: str, label: Fraction, numbers: Sequence[Any]) -> bool:
    if operator == "between":
        return bool(numbers[0] <= label <= numbers[1])
    first = numbers[0]
    return bool(
        {"<": label < first, "<=": label <= first, ">": label > first, ">=": label >= first}[
            operator
        ]
    )


def _as_number(attribute: Attribute, value: Any) -> Any:
    if not is_number(value):
        raise QueryError(f"'{attribute.name}' is a number, and '{value}' is not")
    return value


def _number_cut(axis: AskedColumn, attribute: Numeric, operator: str, values: Sequence[Any]) -> Cut:
    """Comparisons of a number on its grid: each is a run of codes, or several."""
    runs = _runs(attribute, operator, [_as_number(attribute, value) for value in values])
    inside = operator != "not in"

    def holds(codes: Codes) -> Mask:
        within = np.zeros(np.shape(codes), dtype=bool)
        for first, last in runs:
            within |= (codes >= first) & (codes < last)
        return within == inside

    return Cut(axis, holds, [code for run in runs for code in run])


def _runs(attribute: Numeric, operator: str, numbers: list[Any]) -> list[tuple[int, int]]:
    """The runs [first, last) of codes for which a comparison holds."""
    if operator in ("in", "not in"):
        _check_inside(attribute, operator, numbers)
        return [(first_code(attribute, value), code_above(attribute, value)) for value in numbers]
    low, high = 0, attribute.size
    if operator == "between":
        if numbers[0] > attribute.max or numbers[1] < attribute.min:
            _check_inside(attribute, operator, numbers)
        low, high = first_code(attribute, numbers[0]), code_above(attribute, numbers[1])
        return [(low, max(low, high))]
    _check_inside(attribute, operator, numbers)
    cut = (first_code if operator in (">=", "<") else code_above)(attribute, numbers[0])
    return [(cut, high) if operator in (">", ">=") else (low, cut)]


def first_code(attribute: Numeric, value: Any) -> int:
    """The code of the smallest grid point that is not below a value, the grid's size where none
    is.
    """
    if attribute.whole:
        below = math.ceil(Fraction(value)) - int(attribute.min)
        return min(max(below, 0), attribute.size)
    codes, numbers = _around(attribute, float(value))
    return int(codes[0] + np.searchsorted(numbers, float(value), side="left"))


def code_above(attribute: Numeric, value: Any) -> int:
    """The code of the smallest grid point above a value."""
    if attribute.whole:
        above = math.floor(Fraction(value)) + 1 - int(attribute.min)
        return min(max(above, 0), attribute.size)
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


def _check_inside(attribute: Numeric | Bins, operator: str, numbers: Sequence[Any]) -> None:
    low, high = ends(attribute)
    sign = "=" if operator in ("in", "not in") else operator.upper()
    for number in numbers:
        if not low <= number <= high:
            raise DataError(
                f"{attribute.name} {sign} {float(number):g} lies outside its domain "
                f"[{low:g}, {high:g}]",
                hint="ask within the domain",
            )


def ends(attribute: Attribute) -> tuple[float, float]:
    """The range of a number, cut into bins or not."""
    if isinstance(attribute, Numeric):
        return attribute.min, attribute.max
    if isinstance(attribute, Bins):
        return attribute.edges[0], attribute.edges[-1]
    raise QueryError(f"'{attribute.name}' holds no numbers, so it has no buckets")


def _bin_holds(attribute: Bins, operator: str, numbers: Sequence[float]) -> Callable[[Codes], Mask]:
    """Comparisons of a number that was cut before it was perturbed: they must fall on the cuts."""
    if operator in ("in", "not in"):
        raise DataError(
            f"'{attribute.name}' is known in bins only, so single numbers cannot be told apart",
            hint=f"use its bins: {', '.join(attribute.labels[:6])}",
        )
    first, last, step = 0, attribute.size, attribute.step
    if operator == "between":
        first = _edge(attribute, numbers[0], operator)
        last = _edge(attribute, numbers[1] + step, operator)
        return lambda codes: (codes >= first) & (codes < last)
    _check_inside(attribute, operator, numbers)
    cut = _edge(attribute, numbers[0] + (step if operator in ("<=", ">") else 0), operator)
    if operator in ("<", "<="):
        return lambda codes: codes < cut
    return lambda codes: codes >= cut


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
