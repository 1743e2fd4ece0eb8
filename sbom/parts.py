"""Parts: what the lock files name, of Python and of npm, with what is known of each."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What `make setup` installs (the build backend is among it), the pip that installs it, and the npm
# tools that the tests of the form use: the form itself is built from nothing but its own files.
LOCKS = ("requirements.lock", "requirements-pip.lock")
NPM_LOCK = "tests/collect/browser/package-lock.json"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Part:
    """One package of a lock file."""

    name: str
    version: str
    # By algorithm, of every file of this version that may be installed: which one is depends on the
    # machine.
    hashes: tuple[tuple[str, str], ...]
    scope: str  # required by the package, optional as part of an extra, or excluded: for our tests
    licence: str | None  # None where it is not installed here, so that nothing says
    kind: str = "pypi"

    @property
    def purl(self) -> str:
        """Its name as a package URL."""
        return f"pkg:{self.kind}/{self.name.replace('@', '%40')}@{self.version}"


def locked_parts(root: Path) -> list[Part]:
    """Everything that the lock files pin, in their order."""
    return [*_of_python(root), *_of_npm(root)]


def _of_python(root: Path) -> Iterator[Part]:
    texts = [(root / lock).read_text(encoding="utf-8").replace("\\\n", " ") for lock in LOCKS]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = _needed(project["dependencies"])
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    optional = _needed([line for line in extras if Requirement(line).name != project["name"]])
    for line in "\n".join(texts).splitlines():
        if found := _PINNED.match(line):
            name = canonicalize_name(found[1])
            scope = (
                "required" if name in required else "optional" if name in optional else "excluded"
            )
            hashes = tuple(("SHA-256", digest) for digest in _HASH.findall(line))
            yield Part(name, found[2], hashes, scope, _licence(name))


def _of_npm(root: Path) -> Iterator[Part]:
    """What npm installs for the tests; its lock file states hash and licence of each package."""
    packages = json.loads((root / NPM_LOCK).read_text(encoding="utf-8"))["packages"]
    for place, known in packages.items():
        if place:  # the first is the folder itself
            _, _, name = place.rpartition("node_modules/")
            algorithm, _, digest = known["integrity"].partition("-")
            hashes = ((algorithm.upper().replace("SHA", "SHA-"), base64.b64decode(digest).hex()),)
            yield Part(name, known["version"], hashes, "excluded", known.get("license"), "npm")


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
