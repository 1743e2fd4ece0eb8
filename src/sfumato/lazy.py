"""Names that are loaded when they are first asked for: importing a package then costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def loading(package: str, exports: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: each public name from where it is defined (module:object)."""

    def load(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module '{package}' has no attribute {name!r}")
        module, _, noun = exports[name].partition(":")
        value = getattr(import_module(f"{package}.{module}"), noun)
        setattr(sys.modules[package], name, value)
        return value

    return load
