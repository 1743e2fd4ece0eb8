"""Canonical JSON: one way to write a value down, so that its hash is the same everywhere."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
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
    """A number as ECMAScript writes it: the fewest digits that read back as the same number."""
    if not math.isfinite(value):
        raise ParameterError(f"{value} has no place in JSON; use a finite number")
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    power = int(exponent)
    if -7 < power < 0:  # Python starts exponents at 1e-05, ECMAScript at 1e-7
        digits = mantissa.replace(".", "").replace("-", "")
        return ("-" if value < 0 else "") + "0." + "0" * (-power - 1) + digits
    return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"
