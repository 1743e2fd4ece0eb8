"""Cuts: which cells a question needs, each column cut just where some part of the question tells
its values apart, and no finer; and what comparisons with constants tell of each value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.domain import Attribute, Axis, Bins, Category, Cells, Codes, Domain, Items, Numeric
from sfumato.errors import DataError, QueryError
from sfumato.mine import limits
from sfumato.mine.cube.numbers import (
    HOLDS,
    LEAVES,
    NEAR,
    Kind,
    Mask,
    Terms,
    axis_numbers,
    check_casts,
    evaluated,
    is_arithmetic,
    is_constant,
    is_number,
    label_numbers,
    plain,
)

FEW_CODES = 64  # up to which different ones are told apart by a dictionary
TRUE_WORDS, FALSE_WORDS = ("yes", "true", "1", "y", "t"), ("no", "false", "0", "n", "f")
RISING_OR_FALLING = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg, exp.Floor, exp.Ceil, exp.Round),
    *(exp.Cast, *LEAVES),
)

Tells = Callable[[Codes], NDArray[Any]]  # codes -> a whole number each; different ones lie apart


@dataclass(frozen=True, eq=False)
class Cut:
    """What one part of a question asks of a column: that values which it tells apart lie in
    different cells. `starts` are the codes of a number at which that may change.
    """

    axis: Axis
    tells: Tells
    starts: Sequence[int] | NDArray[np.int64] = ()

    @classmethod
    def by_value(cls, axis: Axis) -> Cut:
        """Every value a cell of its own."""
        every = np.arange(axis.size) if isinstance(axis.attribute, Numeric) else ()
        return cls(axis, lambda codes: codes, every)

    @classmethod
    def by_table(cls, axis: Axis, table: NDArray[Any]) -> Cut:
        """What a table says of every code."""
        return cls(axis, lambda codes: table[codes])


@dataclass(frozen=True, eq=False)
class Grid:
    """The joint cells of a question: its columns, the cells of each, and a code of each cell by the
    name of its column, in the shape in which they broadcast.
    """

    axes: tuple[Axis, ...]
    cells: tuple[Cells, ...]
    codes: Mapping[str, Codes]

    @classmethod
    def of(cls, cuts: Iterable[Cut]) -> Grid:
        """The coarsest grid that makes these cuts, its axes by name: the same question in another
        order has the same cells.
        """
        by_axis: dict[str, list[Cut]] = {}
        for cut in cuts:
            by_axis.setdefault(cut.axis.name, []).append(cut)
        names = sorted(by_axis)
        axes = tuple(by_axis[name][0].axis for name in names)
        pairs = [_cells(axis, by_axis[axis.name]) for axis in axes]
        codes = np.ix_(*(codes for _, codes in pairs))
        return cls(axes, tuple(cells for cells, _ in pairs), dict(zip(names, codes, strict=True)))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.cells)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What tells these cells from those of another grid."""
        return tuple(part.key for part in self.cells)

    def place(self, name: str) -> int:
        """The position of an axis."""
        return list(self.codes).index(name)

    def full(self, value: Any) -> NDArray[Any]:
        """The same value everywhere, shaped to broadcast over the grid."""
        return np.full((1,) * len(self.axes), value)


def _cells(axis: Axis, cuts: Sequence[Cut]) -> tuple[Cells, Codes]:
    """The partition of one column, codes that nothing tells apart in one cell, and the first code
    of each of its cells, in whose order they stand.
    """
    attribute = axis.attribute
    if isinstance(attribute, Items):
        return attribute.item_cells(axis.name), np.arange(2)
    starts = None
    if isinstance(attribute, Numeric):
        found = [np.asarray(cut.starts, dtype=np.int64) for cut in cuts]
        starts = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *found]))
        starts = starts[(starts >= 0) & (starts < attribute.size)]
    codes = np.arange(attribute.size) if starts is None else starts
    group, first = _alike([np.asarray(cut.tells(codes)) for cut in cuts])
    return Cells(attribute, tuple(map(str, range(len(first)))), group, starts), codes[first]


def _alike(parts: Sequence[NDArray[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The cell of each place, those that no part tells apart in one, and the first of each cell."""
    if len(parts[0]) <= FEW_CODES:
        # A dictionary numbers what differs as it is first met, for a tenth of sorting's time.
        cells: dict[tuple[Any, ...], int] = {}
        listed = zip(*(part.tolist() for part in parts), strict=True)
        few = [cells.setdefault(each, len(cells)) for each in listed]
        first = [few.index(cell) for cell in range(len(cells))]
        return np.array(few, dtype=np.intp), np.array(first, dtype=np.intp)
    group = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        lifted = part.astype(np.int64) - int(part.min())
        _, group = np.unique(group * (int(lifted.max()) + 1) + lifted, return_inverse=True)
    _, starts = np.unique(group, return_index=True)
    return np.argsort(np.argsort(starts))[group], np.sort(starts)


# Comparisons.


def comparison(axis: Axis, operator: str, values: Sequence[Any]) -> Cut:
    """The cut that a comparison (<, <=, >, >=, in, between) makes: it tells of a code whether the
    comparison holds.
    """
    attribute = axis.attribute
    if isinstance(attribute, Items):
        if operator != "in" or not all(value in (True, False, 0, 1) for value in values):
            raise QueryError(
                f'item \'{axis.name}\' is there or not; write "{axis.name}" or NOT "{axis.name}"'
            )
        return Cut.by_table(axis, np.array([code in values for code in (0, 1)]))
    bins = isinstance(attribute, Bins) and all(map(is_number, values))
    if not isinstance(attribute, Numeric) and operator == "in" and not bins:
        chosen = np.zeros(attribute.size, dtype=bool)
        for value in values:
            chosen |= _equal_labels(attribute, value)
        return Cut.by_table(axis, chosen)
    if isinstance(attribute, Category):
        label_numbers(attribute, f"order for {operator}")  # words are refused
    for value in values:
        if not is_number(value):
            raise QueryError(f"'{attribute.name}' is a number, and '{value}' is not")
    if isinstance(attribute, Bins | Numeric):
        _check_within(attribute, operator, values)
    if isinstance(attribute, Bins):
        return Cut.by_table(axis, _bins(attribute, operator, [float(value) for value in values]))
    return Derived(axis).condition(operator, values)


def likeness(axis: Axis, pattern: str, *, escape: str | None, folded: bool) -> Cut:
    """The cut that LIKE makes among the words of a category: % is anything, _ is one letter."""
    if not isinstance(axis.attribute, Category):
        raise QueryError(f"LIKE compares words, and '{axis.name}' holds none")
    parts, letters = [], iter(pattern)
    for letter in letters:
        if escape is not None and letter == escape:
            following = next(letters, None)
            if following is None:
                raise QueryError(f"LIKE '{pattern}' ends with its ESCAPE character")
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    found = re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if folded else 0))
    labels = axis.attribute.labels
    return Cut.by_table(axis, np.array([bool(found.fullmatch(label)) for label in labels]))


def _equal_labels(attribute: Attribute, value: Any) -> Mask:
    """Which labels a value equals: the word itself, the same number, or a word for true or
    false.
    """
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
        return np.arange(attribute.size) == attribute.code(value)
    equal = np.array([each == value for each in label_numbers(attribute, f"= {plain(value):g}")])
    if not equal.any():
        attribute.code(f"{plain(value):g}")  # refused, with its near miss
    if equal.sum() > 1:
        alike = [f"'{attribute.labels[place]}'" for place in np.flatnonzero(equal)]
        raise QueryError(
            f"'{attribute.name}' = {plain(value):g} may be {' or '.join(alike)}",
            hint=f"write the value in quotes, as in = {alike[0]}, or IN ({', '.join(alike)})",
        )
    return equal


def buckets(axis: Axis, edges: Sequence[float]) -> Cut:
    """The cut that tells of a code how many of these ascending edges it has reached."""
    least, most = _ends(axis.attribute)
    if not isinstance(axis.attribute, Bins):
        return Derived(axis).reached(edges)
    table = np.full(axis.size, sum(edge <= least for edge in edges))
    for edge in edges:
        if least < edge <= most:
            table += _bins(axis.attribute, ">=", [edge])
    return Cut.by_table(axis, table)


def _ends(attribute: Attribute) -> tuple[float, float]:
    """The range of a number, cut into bins or not."""
    if isinstance(attribute, Numeric):
        return attribute.min, attribute.max
    if isinstance(attribute, Bins):
        return attribute.edges[0], attribute.edges[-1]
    raise QueryError(f"'{attribute.name}' holds no numbers, so it has no buckets")


def _check_within(attribute: Numeric | Bins, operator: str, values: Sequence[Any]) -> None:
    """Refuse a comparison with numbers that nobody can have; BETWEEN may reach beyond the ends."""
    if isinstance(attribute, Bins) and operator == "in":
        raise DataError(
            f"'{attribute.name}' is known in bins only, so single numbers cannot be told apart",
            hint=f"use its bins: {', '.join(attribute.labels[:6])}",
        )
    low, high = _ends(attribute)
    met = isinstance(attribute, Bins) or (values[0] <= high and values[-1] >= low)
    outside = [value for value in values if not low <= value <= high]
    if outside and (operator != "between" or not met):
        sign = "=" if operator == "in" else operator.upper()
        raise DataError(
            f"{attribute.name} {sign} {float(outside[0]):g} lies outside its domain "
            f"[{low:g}, {high:g}]",
            hint="ask within the domain",
        )


def _bins(attribute: Bins, operator: str, numbers: Sequence[float]) -> Mask:
    """Which bins of a number that was cut before it was perturbed a comparison takes, which must
    begin and end on its cuts.
    """

    def edge(cut: float) -> int:
        """The position of the edge that a cut falls on; anything beyond the ends is the end. The
        last bin is closed: a cut at its end parts the largest number from the rest of it.
        """
        if cut <= attribute.edges[0]:
            return 0
        wholly = not attribute.step and operator in ("<=", ">", "between")
        if cut > attribute.edges[-1] or (cut == attribute.edges[-1] and wholly):
            return attribute.size
        for place, end in enumerate(attribute.edges[:-1]):
            if end - attribute.step < cut <= end:
                return place
        raise DataError(
            f"{attribute.name} {operator.upper()} … does not fall on its cuts, and it is known in "
            "bins only",
            hint=f"its cuts are {', '.join(f'{each:g}' for each in attribute.edges[1:-1])}",
        )

    every = np.arange(attribute.size)
    if operator == "between":
        return (every >= edge(numbers[0])) & (every < edge(numbers[1] + attribute.step))
    cut = edge(numbers[0] + (attribute.step if operator in (">", "<=") else 0))
    return every >= cut if operator in (">", ">=") else every < cut


@dataclass(frozen=True, eq=False)
class Derived:
    """A number computed from one column and constants, or the column itself."""

    axis: Axis
    expression: exp.Expression | None = None  # None for the column itself

    @classmethod
    def of(cls, expression: exp.Expression, domain: Domain) -> Derived | None:
        """The number that an expression is; None where it is something else."""
        names = {column.name for column in expression.find_all(exp.Column)}
        if len(names) != 1 or not is_arithmetic(expression):
            return None
        check_casts(expression, domain)
        return cls(domain.axis_named(names.pop()), expression)

    def at(self, codes: Codes) -> Terms:
        """The number at some codes of the column."""
        found = axis_numbers(self.axis, codes)
        if self.expression is None:
            return found
        found = evaluated(self.expression, {self.axis.name: found})
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
        # Beside whole numbers every fraction is a half, however many digits it has.
        whole = self.at(np.zeros(1, dtype=np.int64)).kind is Kind.WHOLE
        halves = [whole and value != math.floor(value) for value in constants]
        pairs = zip(constants, halves, strict=True)
        values = [math.floor(value) + 0.5 if half else float(value) for value, half in pairs]
        marks = np.unique(values)

        def place(codes: Codes) -> NDArray[Any]:  # twice the marks below, and one if on a mark
            terms = self.at(codes)
            if self.expression is not None:
                for mark in marks:
                    terms.check_clear(mark)
            below, upto = (np.searchsorted(marks, terms.start, side) for side in ("left", "right"))
            return below + upto

        places, of = np.arange(2 * len(marks) + 1), 2 * np.searchsorted(marks, values) + 1
        if operator == "in":
            wanted = np.isin(places, of)
        elif operator == "between":
            wanted = (places >= of[0]) & (places <= of[1])
        else:
            wanted = np.asarray(HOLDS[operator](places, of[0]))
        return Cut(self.axis, lambda codes: wanted[place(codes)], self._starts(place))

    def reached(self, edges: Sequence[float]) -> Cut:
        """The cut that tells how many of these ascending edges the number has reached."""

        def place(codes: Codes) -> NDArray[Any]:
            return np.searchsorted(edges, self.at(codes).start, side="right")

        return Cut(self.axis, place, self._starts(place))

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
            assert self.expression is not None
            raise QueryError(f"{self.expression.sql()} has groups that differ by rounding alone")
        whole = (found == np.rint(found)).all()
        labels = tuple((found.astype(np.int64) if whole else found).tolist())
        return labels, Cut(
            self.axis, lambda codes: np.searchsorted(found, self.at(codes).start), starts
        )

    def _starts(self, classify: Callable[[Codes], NDArray[Any]]) -> NDArray[np.int64]:
        """The codes of a number at which a classification of them changes."""
        size, expression = self.axis.size, self.expression
        plain_number = expression is None and isinstance(self.axis.attribute, Numeric)
        if size <= limits.EVALUATED and not plain_number:  # each is held against its doubts
            classes = classify(np.arange(size))
            return np.append(0, np.flatnonzero(classes[1:] != classes[:-1]) + 1)
        if expression is not None and not _rises_or_falls(expression):
            raise QueryError(
                f"'{self.axis.name}' has {size:,} values, too many to compute "
                f"{expression.sql()} for each",
                hint="compare the column itself with constants",
            )
        # What never turns back changes within every run whose ends differ, which is halved.
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


def _rises_or_falls(expression: exp.Expression) -> bool:
    """Whether a number never turns back as its column grows: the column stands in it once, under
    nothing but steps that keep an order.
    """
    nodes: Iterator[Any] = expression.walk()
    parts = [node for node in nodes if not is_constant(node)]
    divided = expression.find_all(exp.Div, exp.IntDiv)
    return (
        len(list(expression.find_all(exp.Column))) == 1
        and all(is_constant(node.expression) for node in divided)
        and all(isinstance(node, RISING_OR_FALLING) for node in parts)
    )
