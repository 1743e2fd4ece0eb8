"""Schema: attributes as they stand in a TOML file or in a description, checked as they are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any

from sfumato.domain.attributes import Attribute, Bins, Category, Items, Numeric, plain_number
from sfumato.errors import SchemaError, listing, near_miss
from sfumato.printable import escaped
from sfumato.untrusted import MOST_ATTRIBUTES, MOST_CUTS, MOST_LABELS, Untrusted, shown

_CLASSES = {each.__name__.lower(): each for each in (Category, Numeric, Bins, Items)}


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
        raise SchemaError(
            f"attribute '{name}' has {_found_type(kind)}; it must be one of {listing(_CLASSES)}",
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


def _found_type(kind: Any) -> str:
    if kind is None:
        return "no type"
    return f"type {shown(kind)}" if isinstance(kind, str) else "a type that is no word"


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
