"""Spark: what version 0.1.0 called `sfumato.engines.spark`."""

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """The object of that name where it stands now, with a warning."""
    value = getattr(import_module("sfumato.engines.spark"), name)
    warnings.warn(
        f"sfumato.spark.{name} is now sfumato.engines.spark.{name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return value
