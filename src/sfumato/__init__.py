"""Sfumato: perturb each record before anyone sees it, and reconstruct the crowd's counts with their error bars."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    # One line an export, as `from sfumato.domain import Domain as Domain`, so that mypy sees what __getattr__ serves.
    pass

# name -> module. Loading on first use keeps `sfumato --help` free of everything it does not need.
_EXPORTS: dict[str, str] = {}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """The public object of that name, imported from its module the first time it is asked for."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted(__all__)
