"""Parts: the distributions that the lock file names, with what is known of each."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = "requirements.lock"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Part:
    """One distribution of the lock file."""

    name: str
    version: str
    hashes: tuple[str, ...]
    scope: str  # required by the package, optional as part of an extra, or excluded: for our tests
    licence: str | None  # None where it is not installed here, so that nothing says

    @property
    def purl(self) -> str:
        """Its name as a package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def locked_parts(root: Path) -> list[Part]:
    """Everything that the lock file pins, in its order."""
    text = (root / LOCK).read_text(encoding="utf-8").replace("\\\n", " ")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = _needed(project["dependencies"])
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    optional = _needed([line for line in extras if Requirement(line).name != project["name"]])
    parts = []
    for line in text.splitlines():
        if found := _PINNED.match(line):
            name = canonicalize_name(found[1])
            scope = (
                "required" if name in required else "optional" if name in optional else "excluded"
            )
            parts.append(Part(name, found[2], tuple(_HASH.findall(line)), scope, _licence(name)))
    return parts


def _needed(requirements: list[str]) -> set[str]:
    """The distributions that these ask for, and those that these ask for in turn, as far as they
    are installed.
    """
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = requirement.extras or {""}
        marker = requirement.marker
        if name in found or (marker and not any(marker.evaluate({"extra": e}) for e in extras)):
            continue
        found.add(name)
        waiting += [
            inner
            for text in (_installed(name) or _Nothing()).requires or []
            if (inner := Requirement(text)).marker is None
            or any(inner.marker.evaluate({"extra": extra}) for extra in {"", *requirement.extras})
        ]
    return found


class _Nothing:
    """A distribution that is not installed asks for nothing that we know of."""

    requires: list[str] | None = None


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _licence(name: str) -> str | None:
    """What its metadata say: an expression, else the classifiers, else the first line of the
    text.
    """
    found = _installed(name)
    if found is None:
        return None
    metadata = found.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    listed = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or []
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    if listed:
        return " AND ".join(listed)
    text = str(metadata.get("License") or "").strip()
    return text.splitlines()[0].strip() if text else "not stated"
