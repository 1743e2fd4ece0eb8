"""The scan: known vulnerabilities of every locked version, by the OSV database."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from sbom.parts import Part, locked_parts

SERVICE = "https://api.osv.dev/v1/querybatch"
PATIENCE = 20.0  # seconds


def check_vulnerabilities(root: Path) -> int:
    """Print what is known against any locked version; 1 where something is, 0 where nothing is or
    nobody could be asked.
    """
    parts = locked_parts(root)
    try:
        found = vulnerabilities(parts)
    except (OSError, ValueError) as error:
        print(_loud(len(parts), getattr(error, "reason", None) or error), file=sys.stderr)
        return 0
    for part, names in found.items():
        print(f"{part.name} {part.version}: {', '.join(names)}")
    print(f"{len(parts)} locked versions looked up, {len(found)} of them with known faults")
    return 1 if found else 0


def _loud(versions: int, reason: object) -> str:
    """What nobody should overlook: that no one has looked."""
    lines = (
        "SCAN NOT DONE: nobody has looked for known vulnerabilities.",
        f"The OSV database cannot be asked about the {versions} locked versions:",
        f"{reason}.",
        "This is no pass. Run `make scan` where it can be asked, before anything is published.",
    )
    return "\n".join(("", "*" * 90, *(f"***  {line}" for line in lines), "*" * 90, ""))


def vulnerabilities(parts: Sequence[Part], service: str = SERVICE) -> dict[Part, list[str]]:
    """The names of the known vulnerabilities of each part that has any."""
    queries = [{"package": {"purl": part.purl}} for part in parts]
    request = urllib.request.Request(
        service,
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        results = json.loads(answer.read())["results"]
    if len(results) != len(parts):
        raise ValueError(f"{len(results)} answers to {len(parts)} questions")
    return {
        part: [entry["id"] for entry in result["vulns"]]
        for part, result in zip(parts, results, strict=True)
        if result.get("vulns")
    }
