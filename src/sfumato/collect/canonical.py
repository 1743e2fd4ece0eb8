"""Canonical JSON: one way to write a value down, so that its hash is the same everywhere."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from sfumato.errors import ParameterError

Path = tuple[str | int, ...]


def canonical(value: Any) -> str:
    """The JSON text of a value with sorted keys, no blanks, and numbers as JavaScript writes them
    (RFC 8785), so that a browser can compute the same hash.

    >>> canonical({"b": [1.0, 0.5, 1e-7], "a": "é"})
    '{"a":"é","b":[1,0.5,1e-7]}'
    """
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: str(key).encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_text(key)}:{canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def digest(value: Any) -> str:
    """The SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def as_json(value: Any) -> Any:
    """A value as JSON brings it back: with lists for tuples, and numbers by their value.

    >>> as_json({"a": (1.0, 0.5)})
    {'a': [1, 0.5]}
    """
    return json.loads(canonical(value))


def differences(first: Any, second: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Where two values differ, outermost first: the path, and what stands there in each; None where
    nothing does.

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}))
    [(('a', 1), 2, 3)]
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from differences(first.get(key), second.get(key), (*path, key))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for place, (left, right) in enumerate(zip(first, second, strict=True)):
            yield from differences(left, right, (*path, place))
    elif first != second:
        yield path, first, second


def _text(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as ECMAScript writes it (Number::toString): the fewest digits that read back as the
    same number, with an exponent below 1e-6 and from 1e21 on.
    """
    if not math.isfinite(value):
        raise ParameterError(f"{value} has no place in JSON; use a finite number")
    if value == 0:
        return "0"
    parts = Decimal(repr(value)).normalize().as_tuple()
    digits, sign = "".join(map(str, parts.digits)), "-" if parts.sign else ""
    point = len(digits) + int(parts.exponent)  # places before the decimal point
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
