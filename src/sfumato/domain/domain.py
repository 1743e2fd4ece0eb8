"""Domain: the attributes of a record, in order; what a record may be. It stands in a TOML file or
in a description, and is checked as it is read.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.arguments import checked, shown
from sfumato.domain.attributes import (
    Attribute,
    Bins,
    Category,
    Distinct,
    Items,
    Numeric,
    plain_number,
)
from sfumato.domain.cells import Cells
from sfumato.errors import ParameterError, SchemaError, listing, near_miss
from sfumato.files import written
from sfumato.printable import escaped
from sfumato.renderers.picture import draw
from sfumato.result import Result
from sfumato.untrusted import (
    MOST_ATTRIBUTES,
    MOST_CUTS,
    MOST_DOMAIN_LABELS,
    MOST_LABELS,
    MOST_TOML_BYTES,
    Untrusted,
    parsed_toml,
    read_text,
)
from sfumato.view import Chart, ColumnView, Panel, Series, TableView, View

MOST_SHOWN = 64  # values of a column whose labels a notebook lists
_CLASSES = {each.__name__.lower(): each for each in (Category, Numeric, Bins, Items)}
RECORDS = {".csv", ".tsv", ".parquet", ".dat", ".arrow", ".feather"}  # never a schema's


@dataclass(frozen=True)
class Axis:
    """One direction of a contingency table: an attribute, or one item of a universe."""

    name: str
    attribute: Attribute
    item: int | None = None

    @property
    def size(self) -> int:
        """How many codes it has: two for an item."""
        return self.attribute.size if self.item is None else 2


@checked
@dataclass(frozen=True, repr=False)
class Domain(Result):
    """The attributes of a record, in order.

    >>> from sfumato.domain import Category
    >>> pets = Domain((Category("pet", ("cat", "dog")), Numeric("age", 0, 20, cuts=(2, 10))))
    >>> pets.names, pets.binned().cells
    (('pet', 'age'), 6)
    """

    attributes: tuple[Attribute, ...]
    title: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        several = isinstance(self.attributes, list | tuple)
        if not several or not all(isinstance(each, Attribute) for each in self.attributes):
            raise SchemaError(
                f"a domain is a list of attributes, not {shown(self.attributes)}",
                hint='as in Domain((Category("smoker", ("no", "yes")),))',
            )
        if not self.attributes:
            raise SchemaError("a domain needs at least one attribute; found none")
        names = Counter(attribute.name for attribute in self.attributes)
        twice, times = names.most_common(1)[0]
        if times > 1:
            raise SchemaError(f"attribute '{twice}' is named twice in this domain")
        if len(self.attributes) > MOST_ATTRIBUTES:  # what no file could describe
            raise SchemaError(
                f"{len(self.attributes):,} attributes are more than the {MOST_ATTRIBUTES:,} that "
                "a domain may have"
            )
        listed = sum(a.size for a in self.attributes if not isinstance(a, Numeric | Distinct))
        if listed > MOST_DOMAIN_LABELS:
            raise SchemaError(
                f"this domain lists {listed:,} values; it may list {MOST_DOMAIN_LABELS:,}",
                hint="leave out attributes, or merge rare values",
            )
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
        return isinstance(name, str) and name in self.names

    def index(self, name: str) -> int:
        """The position of an attribute."""
        try:
            return self.names.index(name)
        except ValueError:
            raise SchemaError(
                f"no attribute {shown(name)} in this domain ({listing(self.names)})",
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
        for attribute in self.attributes:
            if isinstance(attribute, Items):
                axes += [Axis(name, attribute, item) for item, name in enumerate(attribute.values)]
            else:
                axes.append(Axis(attribute.name, attribute))
        return tuple(axes)

    @cached_property
    def _axis_places(self) -> dict[str, int]:
        return {axis.name: place for place, axis in enumerate(self.axes)}

    def axis(self, name: str) -> int:
        """The position of an axis by its name: an attribute's, or an item's."""
        try:
            return self._axis_places[name]
        except (KeyError, TypeError):
            raise SchemaError(
                f"no attribute {shown(name)} in this domain ({listing(self._axis_places)})",
                hint=near_miss(name, self._axis_places),
            ) from None

    def axis_named(self, name: str) -> Axis:
        """The axis of this name; an unknown one is refused with its near miss."""
        return self.axes[self.axis(name)]

    def cells_of(self, name: str) -> Cells:
        """The finest partition of the named axis."""
        attribute = self.axis_named(name).attribute
        return attribute.item_cells(name) if isinstance(attribute, Items) else attribute.cells()

    @property
    def baskets(self) -> bool:
        """Whether records are baskets of items (and nothing else)."""
        return len(self.attributes) == 1 and isinstance(self.attributes[0], Items)

    @cached_property
    def private(self) -> Domain:
        """The attributes inside the guarantee."""
        kept = tuple(attribute for attribute in self.attributes if not attribute.public)
        if not kept:
            raise SchemaError("every attribute is public, so there is nothing to perturb")
        return self if kept == self.attributes else replace(self, attributes=kept)

    def view(self) -> View:
        """The columns, and of each its kind, values and whether it is public."""
        numbers = [isinstance(attribute, Numeric) for attribute in self]
        labels = [None if n else a.labels for a, n in zip(self, numbers, strict=True)]
        columns = [
            ColumnView("column", [a.name for a in self], field="name", kind="string"),
            ColumnView("kind", [*map(_kind, self)], field="kind", kind="string"),
            ColumnView("values", [a.size for a in self], field="values", kind="int64"),
            ColumnView("public", [a.public for a in self], field="public", kind="bool"),
            ColumnView("which", [*map(_values, self)]),
            ColumnView("", labels, field="labels", kind="names"),
        ]
        return View(self.title or "", charts=(self._chart(),), tables=(TableView(columns),))

    def plot(self, *, most: int = 40, axes: Any = None) -> Any:
        """How many values the attributes have, `most` of them; the axes it was drawn on."""
        if most < 1:
            raise ParameterError(f"most={most}; draw at least one attribute")
        return draw(self._chart(most), axes)

    def _chart(self, most: int = 40) -> Chart:
        shown = self.attributes[:most]
        sizes = [Series("", [each.size for each in shown])]
        names = [each.name for each in shown]
        return Chart(Panel("bars", names, sizes, quantity="values", sideways=True, log="x"))

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
        schema = Untrusted(data, "schema", SchemaError)
        title = data.get("title") if isinstance(data, Mapping) else None
        return cls(attributes_from(schema), None if title is None else schema["title"].word())

    def to_toml(self) -> str:
        """The schema as TOML text.

        >>> from sfumato.domain import Category
        >>> print(Domain((Category("sex", ("F", "M")),)).to_toml())
        [[attribute]]
        name = "sex"
        type = "category"
        values = ["F", "M"]
        <BLANKLINE>
        """
        blocks = [f"title = {toml_value(self.title)}\n"] if self.title else []
        for attribute in self.attributes:
            lines = [f"{key} = {toml_value(value)}" for key, value in attribute.to_dict().items()]
            blocks.append("\n".join(["[[attribute]]", *lines, ""]))
        return "\n".join(blocks)

    @classmethod
    def from_toml(cls, text: str, where: str = "schema") -> Domain:
        """The domain of a TOML schema."""
        return cls.from_dict(parsed_toml(text, where))

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """The domain that a TOML file describes."""
        if not isinstance(path, str | Path):
            raise SchemaError(
                f"a schema is read from a file, not from a {type(path).__name__}",
                hint='as in Domain.load("survey.toml")',
            )
        where = f"schema '{path}'"
        _check_schema_name(Path(path))
        text = read_text(Path(path), f"schema file '{path}'", MOST_TOML_BYTES)
        return cls.from_toml(text, where)

    def save(self, path: str | Path) -> None:
        """Write the schema as TOML."""
        with written(Path(path)):
            Path(path).write_text(self.to_toml(), encoding="utf-8")


def _values(attribute: Attribute) -> str:
    """Which values a column has: of a number its range, its step and its cuts.

    >>> _values(Numeric("age", 15, 95, cuts=(35, 55))), _values(Numeric("share", 0, 1, step=0.25))
    ('15 to 95 by 1, cut at 35, 55', '0 to 1 by 0.25')
    """
    if isinstance(attribute, Numeric):
        cuts = f", cut at {listing(map(_plain, attribute.cuts), most=8)}" if attribute.cuts else ""
        ends = f"{_plain(attribute.min)} to {_plain(attribute.max)}"
        return f"{ends} by {attribute.grid_step:g}{cuts}"
    return listing(attribute.labels, most=8) if attribute.size <= MOST_SHOWN else "–"


def _plain(number: float) -> str:
    """A number without digits that say nothing, and without an exponent where there is room."""
    return f"{number:.10g}" if abs(number) < 1e10 else f"{number:g}"


def _kind(attribute: Attribute) -> str:
    return type(attribute).__name__.lower()


def _check_schema_name(path: Path) -> None:
    """Refuse a file of records that is given as a schema."""
    form = next((each for each in path.suffixes if each.lower() in RECORDS), None)
    if form is not None and path.is_file():
        raise SchemaError(
            f"'{path}' is a file of records ({form}), and a schema is TOML",
            hint=f"sfumato schema {path} -o schema.toml proposes one",
        )


def attributes_from(schema: Untrusted) -> tuple[Attribute, ...]:
    """The attributes of a parsed schema; a key or type it does not know is an error that shows the
    near miss.
    """
    schema.only("title", "attribute")
    entries = schema.value.get("attribute")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SchemaError("a schema needs at least one [[attribute]] table; found none")
    listed = Untrusted(entries, "the list of attributes", SchemaError).entries(MOST_ATTRIBUTES)
    return tuple(_attribute(entry.value, place) for place, entry in enumerate(listed, 1))


def _attribute(entry: dict[str, Any], place: int) -> Attribute:
    name = entry.get("name")
    if name is None or name == "":
        raise SchemaError(f"attribute {place} of the schema has no name", hint='give it name = "…"')
    name = Untrusted(name, f"the name of attribute {place}", SchemaError).word()
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _CLASSES:
        found = f"type {shown(kind)}" if isinstance(kind, str) else "a type that is no word"
        found = "no type" if kind is None else found
        raise SchemaError(
            f"attribute '{name}' has {found}; it must be one of {listing(_CLASSES)}",
            hint=near_miss(kind, _CLASSES) if isinstance(kind, str) else None,
        )
    given = Untrusted(entry, f"attribute '{name}'", SchemaError)
    known = {each.name: each.default is MISSING for each in _CLASSES[kind].stated()}
    given.only("name", "type", *known)
    for key, needed in known.items():
        if needed and key not in entry:
            raise SchemaError(f"attribute '{name}' of type {kind} needs {key}")
    read = _FIELDS | ({"missing": Untrusted.word} if kind == "category" else {})
    said = {key: read[key](given[key]) for key in entry if key not in ("name", "type")}
    return _CLASSES[kind](name, **said)


def _labels(given: Untrusted) -> tuple[str, ...]:
    """The values of a schema as Arrow writes them when it turns a column into words."""
    return Untrusted(
        [_word(entry) for entry in given.entries(MOST_LABELS)], given.name, given.error
    ).words()


def _word(entry: Untrusted) -> str:
    value = entry.value
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    number = entry.number()
    return plain_number(number) if isinstance(number, float) else str(number)


def _cuts(given: Untrusted) -> tuple[float, ...]:
    return given.numbers(MOST_CUTS)


# How what an attribute says of itself beside its name and type is read.
_FIELDS: dict[str, Callable[[Untrusted], Any]] = {
    "values": _labels,
    "other": Untrusted.word,
    "edges": _cuts,
    "cuts": _cuts,
    "min": Untrusted.number,
    "max": Untrusted.number,
    "step": Untrusted.number,
    "clip": Untrusted.flag,
    "zero": Untrusted.flag,
    "missing": Untrusted.number,
    "public": Untrusted.flag,
}


def toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return escaped(json.dumps(value, ensure_ascii=False))
    return repr(float(value)) if isinstance(value, float) else repr(value)
