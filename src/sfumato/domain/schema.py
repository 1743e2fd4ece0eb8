"""Schema: attributes as they stand in a TOML file or in a description, checked as they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.domain.attributes import Attribute, Bins, Category, Items, Numeric, plain_number
from sfumato.errors import SchemaError, listing, near_miss

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


def attribute_from(entry: Mapping[str, Any], place: int) -> Attribute:
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
    check_keys(f"attribute '{name}'", entry, _KEYS[kind])
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


def check_keys(where: str, found: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in found:
        if key not in known:
            raise SchemaError(
                f"{where} does not know the key '{key}' ({listing(known)})",
                hint=near_miss(key, known),
            )


def _word(value: Any) -> str:
    """A value of a schema as Arrow writes it when it turns a column into words."""
    if isinstance(value, bool):
        return str(value).lower()
    return plain_number(value) if isinstance(value, float) else str(value)


def toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(toml_value(entry) for entry in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(float(value)) if isinstance(value, float) else repr(value)


def reason_of(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
