"""Attribute and Domain: which values a record may hold, how they are coded, and how cells are
merged for a question.

Every attribute is finite. A number lives on a grid min, min + step, …, max, so that a value that
was kept and a value that was drawn afresh look alike. A column in memory is an array of codes
0..size-1 (for items: a packed 0/1 matrix).
"""

from __future__ import annotations

import json
import math
import tomllib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.errors import DataError, FileError, ParameterError, SchemaError, listing, near_miss

Codes = NDArray[Any]
Columns = tuple[Codes | Bits, ...]  # a batch of encoded records: one entry an attribute

FINE_GRID = 1 << 16  # steps of a number whose schema states no step and no whole bounds


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

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The attribute as it stands in a schema."""

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
class Category(Attribute):
    """A column with listed values; `other` takes the unlisted, `missing` takes the nulls.

    >>> Category("sex", ("Female", "Male")).encode(pa.array(["Male", "Female"])).tolist()
    [1, 0]
    """

    values: tuple[str, ...]
    other: str | None = None
    missing: str | None = None

    def __post_init__(self) -> None:
        _check_labels(self.name, self.values)
        for role in ("other", "missing"):
            word = getattr(self, role)
            if word is not None and word not in self.values:
                raise SchemaError(
                    f"attribute '{self.name}': {role} = '{word}' is not one of its values "
                    f"({listing(self.values)})",
                    hint=near_miss(word, self.values),
                )

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.values

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        words = _as_words(array)
        found = pc.index_in(words, value_set=pa.array(self.values, pa.string()))
        codes = np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False))
        if (codes < 0).any():
            codes = self._place_strangers(words, codes.copy(), first_row)
        return codes.astype(code_dtype(self.size))

    def _place_strangers(self, words: pa.Array, codes: Codes, first_row: int) -> Codes:
        absent = np.asarray(words.is_null().to_numpy(zero_copy_only=False))
        if self.missing is not None:
            codes[absent] = self.code(self.missing)
        if self.other is not None:
            codes[(codes < 0) & ~absent] = self.code(self.other)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise self._stranger(words[row].as_py(), row + first_row)
        return codes

    def _stranger(self, value: str | None, row: int) -> DataError:
        if value is None:
            return _null_error(self.name, row)
        return DataError(
            f"row {row}, column '{self.name}': '{value}' is not one of its values "
            f"({listing(self.values)})",
            hint=near_miss(value, self.values)
            or 'list it in the schema, or name an other = "…" to take it',
            row=row,
            column=self.name,
            value=value,
        )

    def decode(self, codes: Codes) -> pa.Array:
        indices = pa.array(codes.astype(np.int32, copy=False))
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.labels, pa.string()))

    def to_dict(self) -> dict[str, Any]:
        fields = {"name": self.name, "type": "category", "values": list(self.values)}
        return fields | _stated(other=self.other, missing=self.missing, public=self.public or None)


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
        if len(self.edges) < 2 or any(
            a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise SchemaError(
                f"attribute '{self.name}': edges must ascend and be at least two, found "
                f"{list(self.edges)}"
            )

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def labels(self) -> tuple[str, ...]:
        pairs = list(zip(self.edges, self.edges[1:], strict=False))
        return tuple(
            f"[{_plain(low)},{_plain(high)}{']' if index == len(pairs) - 1 else ')'}"
            for index, (low, high) in enumerate(pairs)
        )

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        """Codes of labels, or of numbers where the array holds numbers."""
        if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):
            return self._encode_numbers(array, first_row)
        return Category(self.name, self.labels).encode(array, first_row)

    def _encode_numbers(self, array: pa.Array, first_row: int) -> Codes:
        numbers = _filled(
            self.name, _as_numbers(self.name, array, first_row), self.missing, first_row
        )
        if self.clip:
            numbers = np.clip(numbers, self.edges[0], self.edges[-1])
        outside = ~((numbers >= self.edges[0]) & (numbers <= self.edges[-1]))
        if outside.any():
            row = int(np.argmax(outside))
            raise _outside_error(
                self.name, numbers[row], row + first_row, self.edges[0], self.edges[-1]
            )
        return np.searchsorted(self.edges[1:-1], numbers, side="right").astype(
            code_dtype(self.size)
        )

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
                    f"{_plain(cut)} does not fall on the cuts of '{self.name}', which was "
                    "perturbed in bins",
                    hint=f"its cuts are {listing(map(_plain, inner))}",
                )
            places.append(near[0])
        starts = np.array([0, *sorted(set(places))])
        group = np.searchsorted(starts, np.arange(self.size), side="right") - 1
        merged = Bins(self.name, (*(self.edges[place] for place in starts), self.edges[-1]))
        return Cells(self, merged.labels, group)

    def to_dict(self) -> dict[str, Any]:
        fields = {"name": self.name, "type": "bins", "edges": list(self.edges)}
        return fields | _stated(
            step=self.step or None,
            clip=self.clip or None,
            missing=self.missing,
            public=self.public or None,
        )


@dataclass(frozen=True)
class Numeric(Attribute):
    """A number on the grid min, min + step, …, max; `cuts` are its default bins, `clip` moves what
    lies beyond to the ends.

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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.min) and math.isfinite(self.max)) or self.min >= self.max:
            raise SchemaError(
                f"attribute '{self.name}': min = {self.min} must be below max = {self.max}, both "
                "finite"
            )
        if self.step is not None and not 0 < self.step <= (self.max - self.min) * (1 + 1e-9):
            raise SchemaError(
                f"attribute '{self.name}': step = {self.step} must be above 0 and within the range"
            )
        if list(self.cuts) != sorted(set(self.cuts)) or any(
            not self.min < cut <= self.max for cut in self.cuts
        ):
            raise SchemaError(
                f"attribute '{self.name}': cuts {list(self.cuts)} must ascend between min = "
                f"{self.min} and max = {self.max}"
            )
        if self.missing is not None and not self.min <= self.missing <= self.max:
            raise SchemaError(
                f"attribute '{self.name}': missing = {self.missing} lies outside [{self.min}, "
                f"{self.max}]"
            )
        if self.size > 1 << 32:
            raise SchemaError(
                f"attribute '{self.name}': step {self.grid_step} gives {self.size:,} values; use "
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
    def labels(self) -> tuple[str, ...]:
        return tuple(_plain(number) for number in self.numbers(np.arange(self.size)).tolist())

    def numbers(self, codes: Codes) -> NDArray[Any]:
        """The numbers that these codes stand for."""
        if self.whole:
            return codes.astype(np.int64) + int(self.min)
        digits = max(
            0,
            9 - math.floor(math.log10(self.max - self.min)),
            4 - math.floor(math.log10(self.grid_step)),
        )
        return np.round(self.min + self.grid_step * codes.astype(np.float64), digits)

    def encode(self, array: pa.Array, first_row: int = 1) -> Codes:
        numbers = _filled(
            self.name, _as_numbers(self.name, array, first_row), self.missing, first_row
        )
        if self.clip:
            numbers = np.clip(numbers, self.min, self.max)
        outside = ~((numbers >= self.min) & (numbers <= self.max))
        if outside.any():
            row = int(np.argmax(outside))
            raise _outside_error(self.name, numbers[row], row + first_row, self.min, self.max)
        codes = np.rint((numbers - self.min) / self.grid_step)
        if self.whole and (numbers != np.rint(numbers)).any():
            row = int(np.argmax(numbers != np.rint(numbers)))
            raise DataError(
                f"row {row + first_row}, column '{self.name}': {_plain(numbers[row])} is not a "
                "whole number",
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
                hint="give it cuts = […] in the schema, or use the retention mechanism",
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
        return int(np.clip(math.ceil((cut - self.min) / self.grid_step - 1e-9), 0, self.size))

    def to_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "name": self.name,
            "type": "numeric",
            "min": self.min,
            "max": self.max,
        }
        return fields | _stated(
            cuts=list(self.cuts) or None,
            step=self.step,
            clip=self.clip or None,
            missing=self.missing,
            public=self.public or None,
        )


@dataclass(frozen=True)
class Items(Attribute):
    """A universe of items; a record's column is a basket, the set of items it holds.

    >>> Items("items", ("bread", "milk")).encode(pa.array([["milk"], ["bread", "milk"]])).to_dense().astype(int).tolist()
    [[0, 1], [1, 1]]
    """

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_labels(self.name, self.values)

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.values

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
        words = _as_words(lists.values[offsets[0] : offsets[-1]])
        codes = (
            pc.index_in(words, value_set=pa.array(self.values, pa.string()))
            .fill_null(-1)
            .to_numpy(zero_copy_only=False)
        )
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

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "type": "items", "values": list(self.values)} | _stated(
            public=self.public or None
        )


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of one attribute: the code c belongs to cell group[c], or to group[i] for the
    i-th run of codes `starts`.
    """

    attribute: Attribute
    labels: tuple[str, ...]
    group: NDArray[np.intp]
    starts: NDArray[np.int64] | None = None
    item: int | None = None

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def name(self) -> str:
        """The axis that is partitioned: the attribute, or one item of it."""
        return self.attribute.name if self.item is None else self.attribute.labels[self.item]

    @property
    def key(self) -> tuple[str, int, bytes, bytes]:
        """What tells this partition from others of the same domain."""
        return (
            self.name,
            self.size,
            self.group.tobytes(),
            b"" if self.starts is None else self.starts.tobytes(),
        )

    @property
    def trivial(self) -> bool:
        """Whether every code is a cell of its own, in order."""
        return (
            self.starts is None
            and self.size == len(self.group)
            and bool((self.group == np.arange(self.size)).all())
        )

    def assign(self, column: Codes | Bits) -> Codes:
        """The cell of each row."""
        if self.item is not None:
            assert isinstance(column, Bits)
            return column.column(self.item)
        codes = column if isinstance(column, np.ndarray) else np.asarray(column)
        if self.trivial:
            return codes
        if self.starts is None:
            return self.group.astype(code_dtype(self.size))[codes]
        return self.group[np.searchsorted(self.starts, codes, side="right") - 1].astype(
            code_dtype(self.size)
        )

    def sum(self, masses: NDArray[Any]) -> NDArray[Any]:
        """Masses of the codes summed to the cells."""
        group = self.group if self.starts is None else self.assign(np.arange(len(masses)))
        return np.bincount(group, weights=masses, minlength=self.size)

    def counts(self) -> NDArray[Any]:
        """How many codes each cell holds."""
        if self.starts is None:
            return np.bincount(self.group, minlength=self.size).astype(np.float64)
        lengths = np.diff([*self.starts.tolist(), self.attribute.size])
        return np.bincount(self.group, weights=lengths, minlength=self.size)

    def within(self, fine: Cells) -> Cells:
        """This partition as one of the cells of a finer partition of the same axis."""
        if self.key == fine.key:
            return Cells(self.attribute, self.labels, np.arange(self.size))
        firsts = fine._firsts()
        group = self.assign(firsts).astype(np.intp) if self.item is None else np.arange(2)
        if not set(self._firsts().tolist()) <= set(firsts.tolist()) or (
            self.starts is None
            and not np.array_equal(group[fine.assign(np.arange(len(self.group)))], self.group)
        ):
            raise ParameterError(
                f"the cells {listing(self.labels)} of '{self.name}' split cells of "
                f"{listing(fine.labels)}"
            )
        return Cells(self.attribute, self.labels, group)

    def _firsts(self) -> NDArray[Any]:
        """The first code of each cell."""
        first = np.zeros(self.size, dtype=np.int64)
        first[self.group[::-1]] = np.arange(len(self.group))[::-1]
        return first if self.starts is None else self.starts[first]

    def code(self, label: str) -> int:
        """The cell with this label."""
        if label not in self.labels:
            raise SchemaError(
                f"no cell '{label}' in '{self.name}' ({listing(self.labels)})",
                hint=near_miss(label, self.labels),
            )
        return self.labels.index(label)


@dataclass(frozen=True)
class Axis:
    """One direction of a contingency table: an attribute, or one item of a universe."""

    name: str
    size: int
    attribute: int
    item: int | None = None


@dataclass(frozen=True)
class Domain:
    """The attributes of a record, in order.

    >>> pets = Domain((Category("pet", ("cat", "dog")), Numeric("age", 0, 20, cuts=(2, 10))))
    >>> pets.names, pets.binned().cells
    (('pet', 'age'), 6)
    """

    attributes: tuple[Attribute, ...]
    title: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.attributes:
            raise SchemaError("a domain needs at least one attribute; found none")
        names = [attribute.name for attribute in self.attributes]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            raise SchemaError(f"attribute '{twice[0]}' is named twice in this domain")
        if len(names) > 1 and len(self._axis_places) < len(self.axes):
            axes = Counter(axis.name for axis in self.axes)
            raise SchemaError(
                f"'{axes.most_common(1)[0][0]}' is an item and an attribute, or an item of two; "
                "rename one of them"
            )

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def index(self, name: str) -> int:
        """The position of an attribute."""
        try:
            return self.names.index(name)
        except ValueError:
            raise SchemaError(
                f"no attribute '{name}' in this domain ({listing(self.names)})",
                hint=near_miss(name, self.names),
            ) from None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has: an attribute is one axis, each item of a universe is one
        of two values.
        """
        return tuple(axis.size for axis in self.axes)

    @property
    def cells(self) -> int:
        """The number of different records."""
        return math.prod(self.shape)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        axes: list[Axis] = []
        for place, attribute in enumerate(self.attributes):
            if isinstance(attribute, Items):
                axes += [Axis(value, 2, place, item) for item, value in enumerate(attribute.values)]
            else:
                axes.append(Axis(attribute.name, attribute.size, place))
        return tuple(axes)

    @cached_property
    def _axis_places(self) -> dict[str, int]:
        return {axis.name: place for place, axis in enumerate(self.axes)}

    def axis(self, name: str) -> int:
        """The position of an axis by its name: an attribute's, or an item's."""
        try:
            return self._axis_places[name]
        except KeyError:
            raise SchemaError(
                f"no attribute '{name}' in this domain ({listing(self._axis_places)})",
                hint=near_miss(name, self._axis_places),
            ) from None

    def cells_of(self, name: str) -> Cells:
        """The finest partition of the named axis."""
        axis = self.axes[self.axis(name)]
        attribute = self.attributes[axis.attribute]
        return attribute.item_cells(name) if isinstance(attribute, Items) else attribute.cells()

    @property
    def baskets(self) -> bool:
        """Whether records are baskets of items (and nothing else)."""
        return len(self.attributes) == 1 and isinstance(self.attributes[0], Items)

    @property
    def private(self) -> Domain:
        """The attributes inside the guarantee."""
        kept = tuple(attribute for attribute in self.attributes if not attribute.public)
        if not kept:
            raise SchemaError("every attribute is public, so there is nothing to perturb")
        return replace(self, attributes=kept)

    def project(self, names: Iterable[str]) -> Domain:
        """The domain of these attributes alone, in the order given."""
        return replace(self, attributes=tuple(self[name] for name in names))

    def binned(self) -> Domain:
        """The domain with every number cut into its default bins."""
        return replace(
            self,
            attributes=tuple(
                a.bins() if isinstance(a, Numeric) and not a.public else a for a in self.attributes
            ),
        )

    def one_hot(self, name: str = "items") -> Domain:
        """The domain of baskets with one item `attribute=value` for every value of every private
        attribute.
        """
        items = tuple(f"{a.name}={label}" for a in self.attributes for label in a.labels)
        return Domain((Items(name, items),), self.title)

    def to_dict(self) -> dict[str, Any]:
        """The domain as plain data, the shape of the TOML schema."""
        head = {"title": self.title} if self.title else {}
        return head | {"attribute": [attribute.to_dict() for attribute in self.attributes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Domain:
        """The domain of a parsed schema; a key or type it does not know is an error that shows the
        near miss.
        """
        _check_keys("schema", data, ("title", "attribute"))
        entries = data.get("attribute")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise SchemaError("a schema needs at least one [[attribute]] table; found none")
        return cls(
            tuple(_attribute_from(entry, place) for place, entry in enumerate(entries, 1)),
            data.get("title"),
        )

    def to_toml(self) -> str:
        """The schema as TOML text.

        >>> print(Domain((Category("sex", ("F", "M")),)).to_toml())
        [[attribute]]
        name = "sex"
        type = "category"
        values = ["F", "M"]
        <BLANKLINE>
        """
        blocks = [f"title = {_toml(self.title)}\n"] if self.title else []
        for attribute in self.attributes:
            lines = [f"{key} = {_toml(value)}" for key, value in attribute.to_dict().items()]
            blocks.append("\n".join(["[[attribute]]", *lines, ""]))
        return "\n".join(blocks)

    @classmethod
    def from_toml(cls, text: str, where: str = "schema") -> Domain:
        """The domain of a TOML schema."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"{where} is not valid TOML: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """The domain that a TOML file describes."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise FileError(f"no schema file '{path}'") from None
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"cannot read schema '{path}': {_reason(error)}") from None
        return cls.from_toml(text, where=f"schema '{path}'")

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")


def code_dtype(size: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the codes 0..size-1."""
    return np.dtype(np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32)


_KEYS = {
    "category": ("name", "type", "values", "other", "missing", "public"),
    "numeric": ("name", "type", "min", "max", "cuts", "step", "clip", "missing", "public"),
    "bins": ("name", "type", "edges", "step", "clip", "missing", "public"),
    "items": ("name", "type", "values", "public"),
}
_NEEDED = {
    "category": ("values",),
    "numeric": ("min", "max"),
    "bins": ("edges",),
    "items": ("values",),
}
_CLASSES: dict[str, type[Attribute]] = {
    "category": Category,
    "numeric": Numeric,
    "bins": Bins,
    "items": Items,
}
_TYPES: dict[str, tuple[type, ...]] = {
    "values": (list,),
    "other": (str,),
    "public": (bool,),
    "clip": (bool,),
    "cuts": (list,),
    "edges": (list,),
    "min": (int, float),
    "max": (int, float),
    "step": (int, float),
}


def _attribute_from(entry: Mapping[str, Any], place: int) -> Attribute:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"attribute {place} of the schema has no name", hint='give it name = "…"')
    kind = entry.get("type")
    if kind not in _CLASSES:
        found = "no type" if kind is None else f"type '{kind}'"
        raise SchemaError(
            f"attribute '{name}' has {found}; it must be one of {listing(_CLASSES)}",
            hint=near_miss(str(kind), _CLASSES),
        )
    _check_keys(f"attribute '{name}'", entry, _KEYS[kind])
    for key in _NEEDED[kind]:
        if key not in entry:
            raise SchemaError(f"attribute '{name}' of type {kind} needs {key}")
    return _CLASSES[kind](
        **{key: _field(name, kind, key, value) for key, value in entry.items() if key != "type"}
    )


def _field(name: str, kind: str, key: str, value: Any) -> Any:
    wanted = (
        (str,)
        if key == "missing" and kind == "category"
        else (int, float)
        if key == "missing"
        else _TYPES.get(key)
    )
    if wanted and (
        not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted)
    ):
        raise SchemaError(
            f"attribute '{name}': {key} = {value!r} should be "
            f"{' or '.join(t.__name__ for t in wanted)}"
        )
    if not isinstance(value, list):
        return value
    if key == "values":
        return tuple(_word(entry) for entry in value)
    if not all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in value):
        raise SchemaError(f"attribute '{name}': {key} = {value!r} should be a list of numbers")
    return tuple(value)


def _check_keys(where: str, found: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in found:
        if key not in known:
            raise SchemaError(
                f"{where} does not know the key '{key}' ({listing(known)})",
                hint=near_miss(key, known),
            )


def _check_labels(name: str, values: tuple[str, ...]) -> None:
    if not values:
        raise SchemaError(f"attribute '{name}' has no values")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise SchemaError(f"attribute '{name}' lists the value '{twice}' twice")


def _as_words(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def _as_numbers(
    name: str, array: pa.Array | pa.ChunkedArray, first_row: int
) -> NDArray[np.float64]:
    """Numbers as floats, nulls as NaN."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        numbers = array.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise _not_a_number(name, array, first_row) from None
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


def _filled(
    name: str, numbers: NDArray[np.float64], missing: float | None, first_row: int
) -> NDArray[np.float64]:
    """Numbers with what the schema says in place of nulls."""
    absent = np.isnan(numbers)
    if not absent.any():
        return numbers
    if missing is None:
        raise _null_error(
            name, first_row + int(np.argmax(absent)), "missing = … (a number of its range)"
        )
    return np.where(absent, missing, numbers)


def _not_a_number(name: str, array: pa.Array, first_row: int) -> DataError:
    for row, value in enumerate(array.to_pylist(), first_row):
        try:
            float(value) if value is not None else None
        except (TypeError, ValueError):
            return DataError(
                f"row {row}, column '{name}': '{value}' is not a number",
                row=row,
                column=name,
                value=value,
            )
    return DataError(f"column '{name}' of type {array.type} does not hold numbers")


def _null_error(name: str, row: int, key: str = 'missing = "…"') -> DataError:
    return DataError(
        f"row {row}, column '{name}' is empty",
        hint=f"say {key} in the schema to give nulls a value",
        row=row,
        column=name,
    )


def _outside_error(name: str, value: float, row: int, low: float, high: float) -> DataError:
    return DataError(
        f"row {row}, column '{name}': {_plain(value)} lies outside [{_plain(low)}, {_plain(high)}]",
        hint="widen the range, or say clip = true in the schema",
        row=row,
        column=name,
        value=value,
    )


def _plain(number: float) -> str:
    """A number as a person writes it: 35, 0.5, 1490400."""
    return (
        str(int(number))
        if float(number).is_integer() and abs(number) < 1e15
        else repr(float(number))
    )


def _word(value: Any) -> str:
    """A value of a schema as Arrow writes it when it turns a column into words."""
    if isinstance(value, bool):
        return str(value).lower()
    return _plain(value) if isinstance(value, float) else str(value)


def _stated(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(float(value)) if isinstance(value, float) else repr(value)


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
