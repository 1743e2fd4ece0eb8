"""Attribute: one column, a finite list of values, and how they are coded.

A number lives on a grid min, min + step, …, max, so that a value that was kept and a value that
was drawn afresh look alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.bits import Bits
from sfumato.domain.cells import Cells, Codes, code_dtype
from sfumato.errors import DataError, ParameterError, SchemaError, listing, near_miss
from sfumato.untrusted import MOST_CUTS, MOST_LABELS, MOST_NUMBER, MOST_WHOLE

FINE_GRID = 1 << 16  # steps of a number whose schema states no step and no whole bounds
MOST_LISTED = 1 << 20  # values of a number that are listed one by one
# What spreadsheets, data frames and old surveys write for a value that is not there.
NO_VALUE = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "-", ".")


@checked
@dataclass(frozen=True)
class Attribute(ABC):
    """One column: a name, a finite list of values, and whether it is sent as it is (public, outside
    the guarantee).
    """

    name: str
    public: bool = field(default=False, kw_only=True)

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values the column can take."""

    @abstractmethod
    def encode(self, array: pa.Array, first_row: int = 1) -> Codes | Bits:
        """Codes of an Arrow array; a value outside the domain raises DataError naming row, column
        and value.
        """

    @abstractmethod
    def decode(self, codes: Any) -> pa.Array:
        """The Arrow array that these codes stand for."""

    def to_dict(self) -> dict[str, Any]:
        """The attribute as it stands in a schema: what is as it would be unsaid is not said."""
        said: dict[str, Any] = {"name": self.name, "type": type(self).__name__.lower()}
        for each in self.stated():
            value = getattr(self, each.name)
            if value not in (each.default, []):
                said[each.name] = list(value) if isinstance(value, tuple) else value
        return said

    @classmethod
    def stated(cls) -> list[Field[Any]]:
        """What a schema may state of such an attribute beside its name and type."""
        public, *others = fields(cls)[1:]
        return [*others, public]

    def cells(self) -> Cells:
        """Every value a cell of its own."""
        return Cells(self, self.labels, np.arange(self.size))

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What the values are called."""

    def cells_by_values(self, *sets: Iterable[str], rest: str = "other") -> Cells:
        """One cell for each set of values, and one for the rest where something is left.

        >>> Category("pet", ("cat", "dog", "eel")).cells_by_values(["cat", "dog"]).labels
        ('cat|dog', 'other')
        """
        group = np.full(self.size, -1)
        names = []
        for number, values in enumerate(sets):
            values = list(values)
            for value in values:
                group[self.code(value)] = number
            names.append("|".join(values))
        if (group < 0).any():
            group[group < 0] = len(names)
            names.append(rest)
        return Cells(self, tuple(names), group)

    def code(self, label: str) -> int:
        """The code of one value, by its label."""
        try:
            return self._codes[label]
        except KeyError:
            raise SchemaError(
                f"no value '{label}' in attribute '{self.name}' ({listing(self.labels)})",
                hint=near_miss(label, self.labels),
            ) from None

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {label: code for code, label in enumerate(self.labels)}


@dataclass(frozen=True)
class Listed(Attribute):
    """A column whose values, or whose items, are listed by name."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse labels that are none, too many, or the same."""
        name, values = self.name, self.values
        if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
            raise SchemaError(
                f"attribute '{name}': values are a list of labels, not {shown(values)}",
                hint='as in ("no", "yes")',
            )
        if not values:
            raise SchemaError(f"attribute '{name}' has no values")
        if len(values) > MOST_LABELS:
            raise SchemaError(
                f"attribute '{name}' has {len(values):,} values; it may have {MOST_LABELS:,}",
                hint="merge the rare ones",
            )
        twice, times = Counter(values).most_common(1)[0]
        if times > 1:
            raise SchemaError(f"attribute '{name}' lists the value '{twice}' twice")

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.values


@checked
@dataclass(frozen=True)
class Category(Listed):
    """A column with listed values; `other` takes the unlisted, `missing` takes the nulls and the
    words that stand for one (?, NA, …), unless they are listed.

    >>> Category("sex", ("Female", "Male")).encode(pa.array(["Male", "Female"])).tolist()
    [1, 0]
    """

    other: str | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for role in ("other", "missing"):
            word = getattr(self, role)
            if word is not None and word not in self.values:
                raise SchemaError(
                    f"attribute '{self.name}': {role} = {shown(word)} is not one of its values "
                    f"({listing(self.values)})",
                    hint=near_miss(word, self.values),
                )

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        words = as_words(array)
        codes = places_among(words, pa.array(self.values, pa.string()))
        if (codes < 0).any():
            codes = self._place_strangers(words, codes.copy(), first_row)
        return codes.astype(code_dtype(self.size))

    def _place_strangers(self, words: pa.Array, codes: Codes, first_row: int) -> Codes:
        absent = np.asarray(words.is_null().to_numpy(zero_copy_only=False))
        if self.missing is not None:
            unsaid = pc.is_in(pc.utf8_trim_whitespace(words), value_set=pa.array(NO_VALUE))
            absent = absent | np.asarray(unsaid.to_numpy(zero_copy_only=False))
            codes[absent & (codes < 0)] = self.code(self.missing)
        if self.other is not None:
            codes[(codes < 0) & ~absent] = self.code(self.other)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            value = words[row].as_py()
            if value is None:
                raise _is_empty(self.name, row + first_row, 'missing = "…"')
            raise _refused(
                self.name,
                row + first_row,
                value,
                f"'{value}' is not one of its values ({listing(self.values)})",
                near_miss(value, self.values)
                or 'list it in the schema, or name an other = "…" to take it',
            )
        return codes

    def decode(self, codes: Codes) -> pa.Array:
        indices = pa.array(np.asarray(codes).astype(np.int32, copy=False))
        try:
            return pa.DictionaryArray.from_arrays(indices, pa.array(self.labels, pa.string()))
        except pa.ArrowIndexError:
            raise DataError(
                f"these codes are no values of '{self.name}'", hint=f"use 0 to {self.size - 1}"
            ) from None


@checked
@dataclass(frozen=True)
class Bins(Attribute):
    """A number cut into intervals: [e0,e1) [e1,e2) … [en-1,en], the last closed; the column holds
    the intervals, not numbers.

    >>> Bins("age", (15, 35, 95)).labels
    ('[15,35)', '[35,95]')
    """

    edges: tuple[float, ...]
    step: float = (
        0.0  # of the numbers that were cut; a question may fall anywhere between two grid points
    )
    clip: bool = False  # of the numbers that were cut, so that they can still be read
    missing: float | None = None

    def __post_init__(self) -> None:
        _check_cuts(self.name, "edges", self.edges)
        if len(self.edges) < 2 or any(
            a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise SchemaError(
                f"attribute '{self.name}': edges must ascend and be at least two, found "
                f"{listing(self.edges)}"
            )

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def labels(self) -> tuple[str, ...]:
        pairs = list(zip(self.edges, self.edges[1:], strict=False))
        return tuple(
            f"[{plain_number(low)},{plain_number(high)}{']' if index == len(pairs) - 1 else ')'}"
            for index, (low, high) in enumerate(pairs)
        )

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        """Codes of labels, or of numbers where the array holds numbers."""
        if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):
            numbers = _numbers_in(self, array, self.edges[0], self.edges[-1], first_row)
            places = np.searchsorted(self.edges[1:-1], numbers, side="right")
            return places.astype(code_dtype(self.size))
        return Category(self.name, self.labels).encode(array, first_row)

    def decode(self, codes: Codes) -> pa.Array:
        return Category(self.name, self.labels).decode(codes)

    def cells_by_cuts(self, cuts: Sequence[float]) -> Cells:
        """Neighbouring bins merged at these cuts, which must fall on the edges."""
        inner = self.edges[1:-1]
        places = []
        for cut in cuts:
            near = [
                index
                for index, edge in enumerate(inner, 1)
                if cut == edge or edge - self.step < cut < edge
            ]
            if not near:
                raise DataError(
                    f"{plain_number(cut)} does not fall on the cuts of '{self.name}', which is "
                    "known in bins only",
                    hint=f"its cuts are {listing(map(plain_number, inner))}",
                )
            places.append(near[0])
        starts = np.array([0, *sorted(set(places))])
        group = np.searchsorted(starts, np.arange(self.size), side="right") - 1
        merged = Bins(self.name, (*(self.edges[place] for place in starts), self.edges[-1]))
        return Cells(self, merged.labels, group)


@checked
@dataclass(frozen=True)
class Numeric(Attribute):
    """A number on the grid min, min + step, …, max; `cuts` are its default bins, `clip` moves what
    lies beyond to the ends, `zero` gives 0 a report of its own where numbers are reported in
    windows.

    The step is 1 where min and max are whole, else a 65,536th of the range unless stated. Values
    are rounded to the grid, except that a fraction in a whole-number column is an error.

    >>> age = Numeric("age", 15, 95, cuts=(35, 55, 75))
    >>> age.size, age.bins().labels[0], age.encode(pa.array([15, 95])).tolist()
    (81, '[15,35)', [0, 80])
    """

    min: float
    max: float
    cuts: tuple[float, ...] = ()
    step: float | None = None
    clip: bool = False
    missing: float | None = None
    zero: bool = False

    def __post_init__(self) -> None:
        most = MOST_WHOLE if self.whole else MOST_NUMBER
        if not -most <= self.min < self.max <= most:
            raise SchemaError(
                f"attribute '{self.name}': min = {self.min} must be below max = {self.max}, both "
                f"finite and within {most:g} of 0"
            )
        if self.max - self.min < 1 / MOST_NUMBER:
            raise SchemaError(
                f"attribute '{self.name}': min = {self.min} and max = {self.max} are too close"
            )
        _check_cuts(self.name, "cuts", self.cuts)
        if self.step is not None and not 0 < self.step <= (self.max - self.min) * (1 + 1e-9):
            raise SchemaError(
                f"attribute '{self.name}': step = {self.step} must be above 0 and within the range"
            )
        if list(self.cuts) != sorted(set(self.cuts)) or any(
            not self.min < cut <= self.max for cut in self.cuts
        ):
            raise SchemaError(
                f"attribute '{self.name}': cuts {listing(self.cuts)} must ascend between min = "
                f"{self.min} and max = {self.max}"
            )
        if self.missing is not None and not self.min <= self.missing <= self.max:
            raise SchemaError(
                f"attribute '{self.name}': missing = {self.missing} lies outside [{self.min}, "
                f"{self.max}]"
            )
        if self.zero and self.min != 0:
            raise SchemaError(
                f"attribute '{self.name}': zero = true gives 0 a report of its own, and min = "
                f"{self.min}",
                hint="state min = 0, or leave zero out",
            )
        if (self.max - self.min) / self.grid_step > (1 << 32) - 1:
            raise SchemaError(
                f"attribute '{self.name}': step {self.grid_step} gives more than 2^32 values; use "
                "a larger step"
            )

    @property
    def whole(self) -> bool:
        """Whether the column holds whole numbers."""
        return self.step is None and isinstance(self.min, int) and isinstance(self.max, int)

    @property
    def grid_step(self) -> float:
        if self.step is not None:
            return self.step
        return 1 if self.whole else (self.max - self.min) / FINE_GRID

    @property
    def size(self) -> int:
        return math.floor((self.max - self.min) / self.grid_step + 1e-9) + 1

    @property
    def above_zero(self) -> Numeric:
        """The numbers without a zero that has a report of its own."""
        step = None if self.whole else self.grid_step
        low = self.min + self.grid_step
        return replace(self, min=low, step=step, cuts=(), missing=None, zero=False)

    @property
    def labels(self) -> tuple[str, ...]:
        if self.size > MOST_LISTED:
            raise SchemaError(
                f"'{self.name}' has {self.size:,} values, too many to list one by one",
                hint="ask about intervals, or give it cuts = […] in the schema",
            )
        return tuple(plain_number(number) for number in self.numbers(np.arange(self.size)).tolist())

    def numbers(self, codes: Codes) -> NDArray[Any]:
        """The numbers that these codes stand for."""
        codes = np.asarray(codes)
        if self.whole:
            return codes.astype(np.int64) + int(self.min)
        digits = max(
            0,
            9 - math.floor(math.log10(self.max - self.min)),
            4 - math.floor(math.log10(self.grid_step)),
        )
        return np.round(self.min + self.grid_step * codes.astype(np.float64), digits)

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        numbers = _numbers_in(self, array, self.min, self.max, first_row)
        codes = np.rint((numbers - self.min) / self.grid_step)
        if self.whole and (numbers != np.rint(numbers)).any():
            row = int(np.argmax(numbers != np.rint(numbers)))
            raise DataError(
                f"row {row + first_row}, column '{self.name}': {plain_number(numbers[row])} is "
                "not a whole number",
                hint="state a step (step = 0.5) in the schema",
                row=row + first_row,
            )
        return np.minimum(codes, self.size - 1).astype(code_dtype(self.size))

    def decode(self, codes: Codes) -> pa.Array:
        return pa.array(self.numbers(codes))

    def bins(self) -> Bins:
        """The attribute cut at its default cuts."""
        if not self.cuts:
            raise SchemaError(
                f"attribute '{self.name}' has no cuts, and this mechanism perturbs cells, not "
                "numbers",
                hint="give it cuts = […] in the schema, or use a mechanism for numbers (piecewise, "
                "square-wave, retention)",
            )
        last = (self.max,) if self.cuts[-1] < self.max else (self.max + self.grid_step,)
        edges = (self.min, *self.cuts, *last)
        return Bins(self.name, edges, self.grid_step, self.clip, self.missing, public=self.public)

    def cells_by_cuts(self, cuts: Sequence[float]) -> Cells:
        """The intervals between these cuts; a value equal to a cut belongs to the interval above
        it.
        """
        inner = sorted({cut for cut in cuts if self.min < cut <= self.max})
        starts = np.array([0, *(self.first_code(cut) for cut in inner)], dtype=np.int64)
        edges = (
            self.min,
            *inner,
            self.max if not inner or inner[-1] < self.max else self.max + self.grid_step,
        )
        return Cells(self, Bins(self.name, edges).labels, np.arange(len(starts)), starts)

    def first_code(self, cut: float) -> int:
        """The code of the smallest grid point that is not below the cut."""
        if math.isnan(cut):
            raise ParameterError("nan is no cut; give a number")
        cut = min(max(cut, self.min), self.max + self.grid_step)
        return int(np.clip(math.ceil((cut - self.min) / self.grid_step - 1e-9), 0, self.size))


@checked
@dataclass(frozen=True)
class Items(Listed):
    """A universe of items; a record's column is a basket, the set of items it holds.

    >>> baskets = pa.array([["milk"], ["bread", "milk"]])
    >>> Items("items", ("bread", "milk")).encode(baskets).to_dense().astype(int).tolist()
    [[0, 1], [1, 1]]
    """

    def encode(self, array: pa.Array, first_row: int = 1) -> Bits:
        lists = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if lists.null_count:
            row = first_row + int(np.argmax(lists.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                f"row {row}, column '{self.name}' is null",
                hint="an empty basket is an empty list",
                row=row,
            )
        offsets = lists.offsets.to_numpy().astype(np.int64)
        words = as_words(lists.values[offsets[0] : offsets[-1]])
        codes = places_among(words, pa.array(self.values, pa.string()))
        offsets = offsets - offsets[0]
        if (codes < 0).any():
            place = int(np.argmax(codes < 0))
            row = int(np.searchsorted(offsets, place, side="right")) - 1 + first_row
            raise DataError(
                f"row {row}: item '{words[place].as_py()}' is not in the universe of {self.size} "
                "items",
                hint="name every item with --items FILE, or leave it out to take the ids found",
                row=row,
            )
        return Bits.from_csr(offsets, codes.astype(np.int32), self.size)

    def decode(self, codes: Bits) -> pa.Array:
        offsets, items = codes.to_csr()
        return pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), self._names.take(pa.array(items))
        )

    @cached_property
    def _names(self) -> pa.Array:
        """Item ids stay integers in files where they are integers."""
        if all(
            value.isascii() and value.isdigit() and str(int(value)) == value
            for value in self.values
        ):
            numbers = [int(value) for value in self.values]
            return pa.array(
                numbers, pa.int32() if max(numbers, default=0) < 1 << 31 else pa.int64()
            )
        return pa.array(self.values, pa.string())

    def item_cells(self, item: str) -> Cells:
        """The two cells without and with this item."""
        return Cells(self, (f"no {item}", item), np.arange(2), item=self.code(item))

    def cells(self) -> Cells:
        raise ParameterError(
            f"'{self.name}' holds baskets; ask for its items one by one, like '{self.values[0]}'"
        )


@checked
@dataclass(frozen=True)
class Distinct(Attribute):
    """A column as it was found: each different value, null among them, is one and keeps its type.

    What an owner's methods work on (a factor, as R calls it). Its values are someone's own, so it
    is no part of a schema that is written down before data are seen.

    >>> town, codes = Distinct.of("town", pa.chunked_array([["York", None, "Lyon", "York"]]))
    >>> town.values, codes.tolist()
    (('Lyon', 'York', None), [1, 2, 0, 1])
    """

    values: tuple[Any, ...]
    kind: pa.DataType

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray) -> tuple[Distinct, NDArray[np.int32]]:
        """The attribute of a column, and its codes; values ascend, null comes last, so that codes
        do not depend on the order of the records.
        """
        kind = column.type
        plain = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
        encoded = plain.combine_chunks().dictionary_encode(null_encoding="encode")
        array = encoded if isinstance(encoded, pa.DictionaryArray) else encoded.combine_chunks()
        order = pc.sort_indices(array.dictionary).to_numpy()
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        values = tuple(array.dictionary.take(pa.array(order)).to_pylist())
        return cls(name, values, kind), rank[array.indices.to_numpy(zero_copy_only=False)]

    @property
    def size(self) -> int:
        return len(self.values)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What the values are called: as text files write them, nothing for a null."""
        return tuple(self.array.cast(pa.string()).fill_null("").to_pylist())

    @cached_property
    def array(self) -> pa.Array:
        """The values as Arrow holds them."""
        plain = self.kind.value_type if pa.types.is_dictionary(self.kind) else self.kind
        return pa.array(self.values, plain)

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        found = places_among(array.cast(self.array.type), self.array)
        if (found < 0).any():
            row = int(np.argmax(found < 0)) + first_row
            raise DataError(f"row {row}, column '{self.name}' holds another value", row=row)
        return found

    def decode(self, codes: Codes) -> pa.Array:
        values = self.array.take(pa.array(codes))
        return values.cast(self.kind) if pa.types.is_dictionary(self.kind) else values

    def to_dict(self) -> dict[str, Any]:
        return Category(self.name, self.labels, public=self.public).to_dict()


def _check_cuts(name: str, what: str, cuts: Sequence[float]) -> None:
    if not isinstance(cuts, list | tuple) or not all(isinstance(cut, Real) for cut in cuts):
        raise SchemaError(
            f"attribute '{name}': {what} are a list of numbers, not {shown(cuts)}",
            hint="as in (30, 60)",
        )
    if len(cuts) > MOST_CUTS:
        raise SchemaError(f"attribute '{name}' has {len(cuts):,} {what}; it may have {MOST_CUTS:,}")
    if not all(-MOST_NUMBER <= cut <= MOST_NUMBER for cut in cuts):
        raise SchemaError(f"attribute '{name}': {what} must be numbers within {MOST_NUMBER:g} of 0")


def as_words(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as words, one array of them."""
    values = plain_values(array)
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def plain_values(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as one array that lists no different ones."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def places_among(values: pa.Array, known: pa.Array) -> Codes:
    """Where each value stands among those known; -1 for a stranger."""
    found = pc.index_in(values, value_set=known).fill_null(-1)
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _numbers_in(
    attribute: Bins | Numeric, array: pa.Array, low: float, high: float, first_row: int
) -> NDArray[np.float64]:
    """Numbers between low and high, as the schema has nulls and those beyond them read."""
    numbers = _as_numbers(attribute.name, array, first_row)
    absent = np.isnan(numbers)
    if absent.any():
        if attribute.missing is None:
            row = first_row + int(np.argmax(absent))
            raise _is_empty(attribute.name, row, "missing = … (a number of its range)")
        numbers = np.where(absent, attribute.missing, numbers)
    if attribute.clip:
        return np.clip(numbers, low, high)
    outside = ~((numbers >= low) & (numbers <= high))
    if outside.any():
        row = int(np.argmax(outside))
        value, ends = numbers[row], f"[{plain_number(low)}, {plain_number(high)}]"
        raise _refused(
            attribute.name,
            row + first_row,
            value,
            f"{plain_number(value)} lies outside {ends}",
            "widen the range, or say clip = true in the schema",
        )
    return numbers


def _as_numbers(
    name: str, array: pa.Array | pa.ChunkedArray, first_row: int
) -> NDArray[np.float64]:
    """Numbers as floats, nulls and words that stand for nothing as NaN."""
    array = plain_values(array)
    if pa.types.is_string(array.type):
        array = number_words(array)
    try:
        numbers = array.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for row, value in enumerate(array.to_pylist(), first_row):
            try:
                float(value) if value is not None else None
            except (TypeError, ValueError):
                raise _refused(name, row, value, f"'{value}' is not a number") from None
        raise DataError(f"column '{name}' of type {array.type} does not hold numbers") from None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def number_words(words: pa.Array) -> pa.Array:
    """Numbers as written, without blanks around them, and what stands for no number as null."""
    trimmed = pc.utf8_trim_whitespace(words)
    unsaid = pc.is_in(trimmed, value_set=pa.array(NO_VALUE))
    return pc.if_else(unsaid, pa.scalar(None, pa.string()), trimmed)


def _refused(name: str, row: int, value: Any, found: str, hint: str | None = None) -> DataError:
    """The refusal of a value by its row and column."""
    return DataError(
        f"row {row}, column '{name}': {found}", hint=hint, row=row, column=name, value=value
    )


def _is_empty(name: str, row: int, key: str) -> DataError:
    return DataError(
        f"row {row}, column '{name}' is empty",
        hint=f"say {key} in the schema to give nulls a value",
        row=row,
        column=name,
    )


def plain_number(number: float) -> str:
    """A number as a person writes it: 35, 0.5, 1490400."""
    short = float(number).is_integer() and abs(number) < 1e15
    return str(int(number)) if short else repr(float(number))
