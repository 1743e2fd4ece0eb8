"""Which cells a question needs: each column cut just where its predicates and groups cut it, and no
finer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Attribute, Bins, Category, Cells, Domain, Items, Numeric
from sfumato.errors import DataError, QueryError, SchemaError

KEYED_VALUES = 4096  # the most values of a number that may each be a cell of their own
FINE_CELLS = 256  # cells of a number whose distribution is asked for

Holds = Callable[[NDArray[Any]], NDArray[np.bool_]]


@dataclass
class Column:
    """One axis of the question: the conditions put on it, and the places where a number is cut."""

    name: str
    attribute: Attribute
    item: int | None = None
    conditions: list[Holds] = field(default_factory=list)
    cuts: set[int] = field(default_factory=set)
    keyed: bool = False  # every value is a cell of its own
    # every run between two cuts is a cell of its own, though no condition tells it from others
    fine: bool = False

    def cells(self) -> tuple[Cells, NDArray[Any]]:
        """The partition, and a code of each of its cells."""
        if isinstance(self.attribute, Items):
            return self.attribute.item_cells(self.name), np.arange(2)
        if isinstance(self.attribute, Numeric):
            return self._numeric_cells(self.attribute)
        codes = np.arange(self.attribute.size)
        group, first = (codes, codes) if self.keyed else self._alike(codes)
        labels = tuple(str(place) for place in range(len(first)))
        return Cells(self.attribute, labels, group), first

    def _numeric_cells(self, attribute: Numeric) -> tuple[Cells, NDArray[Any]]:
        cuts = (
            range(attribute.size)
            if self.keyed
            else sorted({0, *(cut for cut in self.cuts if 0 < cut < attribute.size)})
        )
        starts = np.array(list(cuts), dtype=np.int64)
        group, first = (
            (np.arange(len(starts)), starts) if self.keyed or self.fine else self._alike(starts)
        )
        labels = tuple(str(place) for place in range(len(first)))
        return Cells(attribute, labels, group, starts), first

    def _alike(self, codes: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """The cell of each code, those that no condition tells apart in one, and the first code of
        each cell.
        """
        group = np.zeros(len(codes), dtype=np.intp)
        for holds in self.conditions:
            _, group = np.unique(2 * group + holds(codes), return_inverse=True)
        _, first = np.unique(group, return_index=True)
        rank = np.argsort(np.argsort(first))  # cells in the order of their first value
        return rank[group], codes[np.sort(first)]


@dataclass
class Grid:
    """The joint cells of a question: a code of each cell of each axis, in the shape in which they
    broadcast.
    """

    columns: tuple[Column, ...]
    cells: tuple[Cells, ...]
    codes: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, columns: Iterable[Column]) -> Grid:
        """The grid of these columns."""
        columns = tuple(columns)
        pairs = [column.cells() for column in columns]
        return cls(columns, tuple(cells for cells, _ in pairs), tuple(codes for _, codes in pairs))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(part.size for part in self.cells)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def place(self, name: str) -> int:
        """The position of an axis."""
        return [column.name for column in self.columns].index(name)

    def axis(self, name: str) -> NDArray[Any]:
        """A code of each cell of one axis, shaped to broadcast over the grid."""
        place = self.place(name)
        return self.codes[place].reshape(
            [-1 if other == place else 1 for other in range(len(self.columns))]
        )


@dataclass
class Columns:
    """The columns that a question has mentioned so far."""

    domain: Domain
    found: dict[str, Column] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        """The axis of this name, known from now on."""
        if name not in self.found:
            axis = self.domain.axes[self.domain.axis(name)]
            self.found[name] = Column(name, self.domain.attributes[axis.attribute], axis.item)
        return self.found[name]

    def condition(
        self, name: str, operator: str, values: list[Any]
    ) -> Callable[[Grid], NDArray[np.bool_]]:
        """A comparison of a column with constants; says of each cell whether it holds."""
        column = self.column(name)
        holds = self._holds(column, operator, values)
        column.conditions.append(holds)
        return lambda grid: holds(grid.axis(column.name))

    def _holds(self, column: Column, operator: str, values: list[Any]) -> Holds:
        attribute = column.attribute
        if isinstance(attribute, Items):
            return _item_holds(column, operator, values)
        if isinstance(attribute, Numeric):
            return _number_holds(column, attribute, operator, values)
        if isinstance(attribute, Bins) and all(isinstance(value, int | float) for value in values):
            return _bin_holds(attribute, operator, values)
        return _label_holds(attribute, operator, values)


def _item_holds(column: Column, operator: str, values: list[Any]) -> Holds:
    if operator not in ("in", "not in") or any(
        value not in (True, False, 0, 1) for value in values
    ):
        raise QueryError(
            f'item \'{column.name}\' is there or not; write "{column.name}" or NOT "{column.name}"'
        )
    wanted = np.array([(code in values) == (operator == "in") for code in (0, 1)])
    return lambda codes: wanted[codes]


def _label_holds(attribute: Attribute, operator: str, values: list[Any]) -> Holds:
    if operator in ("in", "not in"):
        chosen = np.zeros(attribute.size, dtype=bool)
        for value in values:
            chosen[_label_code(attribute, value)] = True
        table = chosen if operator == "in" else ~chosen
    else:
        table = compares(
            operator,
            _label_numbers(attribute, operator),
            [_as_number(attribute, value) for value in values],
        )
    return lambda codes: table[codes]


def _label_code(attribute: Attribute, value: Any) -> int:
    words = [str(value)]
    if isinstance(value, bool):
        words = ["yes", "true", "1", "y"] if value else ["no", "false", "0", "n"]
        words = [label for label in attribute.labels if label.casefold() in words] or [str(value)]
    return attribute.code(words[0])


def _label_numbers(attribute: Attribute, operator: str) -> NDArray[Any]:
    try:
        return np.array([float(label) for label in attribute.labels])
    except ValueError:
        raise QueryError(
            f"'{attribute.name}' holds words, which have no order for {operator}",
            hint="use = or IN with the values themselves",
        ) from None


def compares(operator: str, numbers: NDArray[Any], values: list[float]) -> NDArray[np.bool_]:
    """Of which numbers a comparison with these values holds."""
    if operator in ("in", "not in"):
        return np.isin(numbers, values) == (operator == "in")
    if operator == "between":
        return (numbers >= values[0]) & (numbers <= values[1])
    return {
        "<": numbers < values[0],
        "<=": numbers <= values[0],
        ">": numbers > values[0],
        ">=": numbers >= values[0],
    }[operator]


def _as_number(attribute: Attribute, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryError(f"'{attribute.name}' is a number, and '{value}' is not")
    return float(value)


def _number_holds(column: Column, attribute: Numeric, operator: str, values: list[Any]) -> Holds:
    """Comparisons of a number on its grid: each is a run of codes, or several."""
    numbers = [_as_number(attribute, value) for value in values]
    runs = _runs(attribute, operator, numbers)
    for first, last in runs:
        column.cuts |= {first, last}
    inside = operator != "not in"

    def holds(codes: NDArray[Any]) -> NDArray[np.bool_]:
        within = np.zeros(codes.shape, dtype=bool)
        for first, last in runs:
            within |= (codes >= first) & (codes < last)
        return within == inside

    return holds


def _runs(attribute: Numeric, operator: str, numbers: list[float]) -> list[tuple[int, int]]:
    """The runs [first, last) of codes for which a comparison holds."""
    if operator in ("in", "not in"):
        _check_inside(attribute, operator, numbers)
        return [
            (attribute.first_code(number), _code_above(attribute, number)) for number in numbers
        ]
    low, high = 0, attribute.size
    if operator == "between":
        if numbers[0] > attribute.max or numbers[1] < attribute.min:
            _check_inside(attribute, operator, numbers)
        low, high = attribute.first_code(numbers[0]), _code_above(attribute, numbers[1])
    else:
        _check_inside(attribute, operator, numbers)
        if operator in (">", ">="):
            low = (
                attribute.first_code(numbers[0])
                if operator == ">="
                else _code_above(attribute, numbers[0])
            )
        else:
            high = (
                attribute.first_code(numbers[0])
                if operator == "<"
                else _code_above(attribute, numbers[0])
            )
    return [(low, max(low, high))]


def _code_above(attribute: Numeric, number: float) -> int:
    """The code of the smallest grid point above a number."""
    return int(
        np.clip(
            math.floor((number - attribute.min) / attribute.grid_step + 1e-9) + 1, 0, attribute.size
        )
    )


def _check_inside(attribute: Numeric | Bins, operator: str, numbers: list[float]) -> None:
    low, high = (
        (attribute.min, attribute.max)
        if isinstance(attribute, Numeric)
        else (attribute.edges[0], attribute.edges[-1])
    )
    sign = "=" if operator in ("in", "not in") else operator.upper()
    for number in numbers:
        if not low <= number <= high:
            raise DataError(
                f"{attribute.name} {sign} {number:g} lies outside its domain [{low:g}, {high:g}]",
                hint="ask within the domain",
            )


def _bin_holds(attribute: Bins, operator: str, values: list[Any]) -> Holds:
    """Comparisons of a number that was cut before it was perturbed: they must fall on the cuts."""
    numbers = [float(value) for value in values]
    if operator in ("in", "not in"):
        raise DataError(
            f"'{attribute.name}' was perturbed in bins, so single numbers cannot be told apart",
            hint=f"use its bins: {', '.join(attribute.labels[:6])}",
        )
    last = attribute.size
    if operator == "between":
        run = (
            _edge(attribute, numbers[0], operator),
            _edge(attribute, numbers[1] + attribute.step, operator),
        )
    elif operator in ("<", "<="):
        _check_inside(attribute, operator, numbers)
        run = (
            0,
            _edge(attribute, numbers[0] + (attribute.step if operator == "<=" else 0), operator),
        )
    else:
        _check_inside(attribute, operator, numbers)
        run = (
            _edge(attribute, numbers[0] + (attribute.step if operator == ">" else 0), operator),
            last,
        )
    return lambda codes: (codes >= run[0]) & (codes < run[1])


def _edge(attribute: Bins, cut: float, operator: str) -> int:
    """The position of the edge that a cut falls on; anything beyond the ends is the end."""
    if cut <= attribute.edges[0]:
        return 0
    if cut >= attribute.edges[-1]:
        return attribute.size
    for place, edge in enumerate(attribute.edges):
        if edge - attribute.step < cut <= edge:
            return place
    raise DataError(
        f"{attribute.name} {operator.upper()} … does not fall on its cuts, and it was perturbed "
        "in bins",
        hint=f"its cuts are {', '.join(f'{edge:g}' for edge in attribute.edges[1:-1])}",
    )


def numbers_of(column: Column, codes: NDArray[Any]) -> NDArray[Any]:
    """The numbers that codes of a column stand for; a category counts where all its values are
    numbers.
    """
    attribute = column.attribute
    if isinstance(attribute, Numeric):
        return attribute.numbers(codes).astype(np.float64)
    if isinstance(attribute, Items):
        return codes.astype(np.float64)
    if isinstance(attribute, Category):
        return _label_numbers(attribute, "an average")[codes]
    raise QueryError(
        f"'{attribute.name}' was perturbed in bins, so it has no sum or average",
        hint="count its bins with GROUP BY, or perturb it as a number (retention)",
    )


def check_keyed(column: Column) -> None:
    """Refuse a group for every value of a fine number."""
    if isinstance(column.attribute, Numeric) and column.attribute.size > KEYED_VALUES:
        raise SchemaError(
            f"'{column.name}' has {column.attribute.size:,} values, too many for a group each",
            hint="group by WIDTH_BUCKET or CASE",
        )
