"""Step: one thing that a client does to some columns of a record, in integers."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.domain import Codes, Columns, code_dtype
from sfumato.errors import FileError, ParameterError, listing
from sfumato.mechanisms.limits import LARGEST
from sfumato.mechanisms.steps.draws import Draws
from sfumato.privacy.guarantee import Gamma
from sfumato.randomness import Keystream

DIGITS = re.compile("[0-9]{1,20}")  # of a number of up to 64 bits

Ints = tuple[int, ...]
Rows = tuple[Ints, ...]
Big = Annotated[int, "decimal"]  # up to 64 bits, so written as a string of digits
Value = int | Ints  # a code, or the codes of a basket's items in ascending order
Shows = Literal["answer", "set", "value", "size"]


@dataclass(frozen=True)
class Column:
    """What a column may hold: a code below `size`, or where it is a basket, a set of them, of
    exactly `count` where that is stated.

    In a report it also says what an observer sees there. Drawn: an "answer" that may equal the true
    one, or a "set" that may contain it. Not drawn, but sent as it is: the "value" of the step's
    column, or the "size" of its basket. Everything about a step that can be seen stands in its
    `outputs`, and nowhere else.
    """

    size: int
    basket: bool = False
    shows: Shows = field(default="answer", compare=False)
    count: int | None = field(default=None, compare=False)

    def holds(self, value: Any) -> bool:
        """Whether this is a value of the column."""
        if not self.basket:
            return _whole(value) and 0 <= value < self.size
        inside = isinstance(value, tuple) and all(
            _whole(item) and 0 <= item < self.size for item in value
        )
        return (
            inside
            and list(value) == sorted(set(value))
            and (self.count is None or len(value) == self.count)
        )

    @property
    def as_it_is(self) -> bool:
        """Whether it shows something of the record that nothing was drawn for."""
        return self.shows in ("value", "size")

    @property
    def blank(self) -> Value:
        """What stands in the column where a question does not use it."""
        return () if self.basket else 0

    @property
    def longest(self) -> int:
        """The most characters that a value takes in JSON."""
        if not self.basket:
            return len(str(self.size - 1))
        return sum(len(str(item)) for item in range(self.size)) + max(self.size - 1, 0) + 2


@dataclass(frozen=True, kw_only=True)
class Step(ABC):
    """Reads some columns of a record and writes some columns of its report.

    Numbers are checked on construction, so that `gamma` is what the integers amount to and not what
    somebody says of them. `outputs` states everything that can be seen of the step; what is sent as
    it is, the server's check of a report and the words on the form derive from it.
    """

    kind: ClassVar[str]  # as in files
    known: ClassVar[dict[str, type[Step]]] = {}  # every step by its kind
    columns: Ints  # of the record
    reports: Ints  # of the report

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Step.known[cls.kind] = cls

    @property
    @abstractmethod
    def inputs(self) -> tuple[Column, ...]:
        """What the columns read may hold."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Column, ...]:
        """What the columns written may hold, and what each of them shows."""

    @property
    @abstractmethod
    def gamma(self) -> Gamma:
        """The most that what is drawn can be likelier under one truth than under another: exact, or
        infinite. What is sent as it is comes on top: see `Program.gamma_beside`.
        """

    @property
    def kary(self) -> tuple[tuple[float, int], ...]:
        """Where it is k-ary response at its gamma, to one question or to one dealt by chance: the
        share and the number of answers of each question. Else nothing.
        """
        return ()

    @property
    def work(self) -> int:
        """How many turns its loops take at most: to compute gamma, to run once, to be shown."""
        return 1

    @property
    def sent_as_is(self) -> tuple[tuple[int, Shows], ...]:
        """The columns of the record of which something is sent as it is: the "value" or "size"."""
        shown = [column.shows for column in self.outputs if column.as_it_is]
        return tuple((place, what) for place in self.columns for what in shown)

    @property
    def gives_all(self) -> bool:
        """Whether all that its columns can hold can be given; else `gives` must be asked."""
        return all(column.count is None for column in self.outputs)

    def gives(self, values: Sequence[Value]) -> bool:
        """Whether some record can give this in the columns of the report that are written."""
        return all(column.holds(value) for column, value in zip(self.outputs, values, strict=True))

    @abstractmethod
    def run_many(self, columns: Columns, rng: Keystream) -> Sequence[Codes | Bits]:
        """The columns of the report for these columns of many records, by the distribution of
        `run`; one record alone takes the same integers from the same bytes, unless its items are
        drawn 64 rows at a time or its chosen items in another order.
        """

    def check(self, held: bool, found: str, wanted: str) -> None:
        """Refuse a step whose integers do not fit together."""
        if not held:
            raise ParameterError(f"a client program's step '{self.kind}' has {found}; {wanted}")

    def check_columns(self) -> None:
        """Refuse a step that reads or writes another number of columns than its integers are
        for.
        """
        for what, places, shapes in (
            ("reads", self.columns, self.inputs),
            ("writes", self.reports, self.outputs),
        ):
            self.check(
                len(places) == len(shapes) == len(set(places)),
                f"{what} columns {list(places)}",
                f"its sizes are those of {len(shapes)}",
            )
        self.check(
            all(shape.size >= 1 for shape in (*self.inputs, *self.outputs)),
            "a column without values",
            "each needs one at least",
        )

    def to_dict(self) -> dict[str, Any]:
        """The step as JSON data."""
        hints = _hints(type(self))
        stated = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {"step": self.kind} | {
            name: str(value) if hints[name] == Big else _plain(value)
            for name, value in stated
            if value is not None
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The step of JSON data; a missing or unknown field is refused."""
        known = {each.name: each.default is MISSING for each in fields(cls)}
        strange = [name for name in data if name != "step" and name not in known]
        missing = [name for name, needed in known.items() if needed and name not in data]
        if strange or missing:
            found = f"no '{missing[0]}'" if missing else f"an unknown field '{strange[0]}'"
            raise FileError(
                f"a client program's step '{cls.kind}' has {found}",
                hint=f"its fields are {listing(known, most=12)}",
            )
        hints = _hints(cls)
        return cls(
            **{
                name: _read(cls.kind, name, hints[name], data[name])
                for name in known
                if name in data
            }
        )


@dataclass(frozen=True, kw_only=True)
class Action(Step):
    """A step that reads its columns and draws."""

    @abstractmethod
    def run(self, values: Sequence[Value], draws: Draws) -> tuple[Value, ...]:
        """The columns of the report for these columns of the record."""

    @abstractmethod
    def truthful(self, values: Sequence[Value]) -> Fraction:
        """The probability that what is sent is true of this record."""


@lru_cache
def _hints(kind: type[Step]) -> dict[str, Any]:
    """The types of a step's fields."""
    return get_type_hints(kind, include_extras=True)


def step_from(data: Any) -> Step:
    """The step of JSON data; one that this program does not know is refused."""
    kind = data.get("step") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in Step.known:
        shown = f"'{kind}'" if isinstance(kind, str) else "without a name"
        raise FileError(
            f"this program does not know the step {shown} of a client program",
            hint=f"it knows {listing(sorted(Step.known), most=20)}",
        )
    return Step.known[kind].from_dict(data)


def run_steps(steps: Sequence[Step], columns: Columns, rng: Keystream) -> Columns:
    """The reports of many records: every step in its turn, codes as narrow as they can be."""
    reports: dict[int, Codes | Bits] = {}
    for step in steps:
        drawn = step.run_many(tuple(columns[place] for place in step.columns), rng)
        for place, shape, values in zip(step.reports, step.outputs, drawn, strict=True):
            if not isinstance(values, Bits):
                values = values.astype(code_dtype(shape.size), copy=False)
            reports[place] = values
    return tuple(reports[place] for place in sorted(reports))


def joint_codes(columns: Columns, sizes: Sequence[int]) -> NDArray[np.intp]:
    """The cell of each record, the last column changing fastest."""
    return np.ravel_multi_index([np.asarray(each).astype(np.intp) for each in columns], sizes)


def joint(sizes: Sequence[int], codes: Sequence[Value]) -> int:
    """The cell of these codes, the last column changing fastest."""
    cell = 0
    for size, code in zip(sizes, codes, strict=True):
        assert isinstance(code, int)
        cell = cell * size + code
    return cell


def split(sizes: Sequence[int], cell: int) -> Ints:
    """The codes of a cell: the inverse of `joint`."""
    codes = []
    for size in reversed(sizes):
        cell, code = divmod(cell, size)
        codes.append(code)
    return tuple(codes[::-1])


def basket(value: Value) -> Ints:
    """The items of a basket."""
    assert isinstance(value, tuple)
    return value


def product_of(gammas: Iterable[Gamma]) -> Gamma:
    """The gamma of steps that draw independently of each other."""
    found = list(gammas)
    return math.inf if math.inf in found else math.prod(found, start=Fraction(1))


def either(ratio: Fraction) -> Fraction:
    """A ratio or its inverse, whichever is above 1."""
    return max(ratio, 1 / ratio)


def quotient(above: int, below: int) -> Gamma:
    """above / below, exact; infinite where only the first is possible, 0 where neither is."""
    return Fraction(above, below) if below else math.inf if above else Fraction(0)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """Tuples as lists, steps as their data."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.to_dict() if isinstance(value, Step) else value


def _read(kind: str, name: str, hint: Any, value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():  # as JavaScript reads it: 3.0 is 3
        value = int(value)
    if hint == Big and isinstance(value, str) and DIGITS.fullmatch(value):
        return int(value)
    if hint in (int, int | None) and _whole(value) and 0 <= value < LARGEST:
        return int(value)
    if hint is str and isinstance(value, str):
        return value
    if hint in (Ints, Ints | None, Rows, Rows | None) and isinstance(value, list):
        inner = Ints if hint in (Rows, Rows | None) else int
        return tuple(_read(kind, name, inner, part) for part in value)
    if hint == tuple[Action, ...] and isinstance(value, list):
        if any(isinstance(part, Mapping) and part.get("step") == kind for part in value):
            raise FileError(f"a client program's step '{kind}' holds another one", hint="deal once")
        return tuple(map(step_from, value))
    raise FileError(
        f"a client program's step '{kind}' has a '{name}' that this program cannot read",
        hint="numbers are whole and below 2^53; larger ones are strings of digits",
    )
