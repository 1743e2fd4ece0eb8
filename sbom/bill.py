"""The software bill of materials: what the lock files pin, as CycloneDX 1.6."""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sbom.parts import Part, locked_parts

TARGET = Path("dist") / "sbom.json"


def write_bill(root: Path) -> int:
    """Write the bill to dist/sbom.json."""
    parts = locked_parts(root)
    target = root / TARGET
    target.parent.mkdir(exist_ok=True)
    text = json.dumps(bill_of(parts, _version(root)), indent=1, ensure_ascii=False)
    target.write_text(text + "\n", encoding="utf-8")
    by_scope = ", ".join(
        f"{sum(part.scope == scope for part in parts)} {scope}"
        for scope in ("required", "optional", "excluded")
    )
    npm = sum(part.kind == "npm" for part in parts)
    print(f"{TARGET}: {len(parts)} components with their hashes, {npm} of npm ({by_scope})")
    return 0


def bill_of(parts: list[Part], version: str) -> dict[str, Any]:
    """The bill as JSON data."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": {
                "type": "application",
                "bom-ref": "sfumato",
                "name": "sfumato",
                "version": version,
                "licenses": [{"license": {"id": "MIT"}}],
            },
        },
        "components": [_component(part) for part in parts],
        "dependencies": [
            {
                "ref": "sfumato",
                "dependsOn": [part.purl for part in parts if part.scope == "required"],
            }
        ],
    }


def _component(part: Part) -> dict[str, Any]:
    known = {"licenses": [{"license": {"name": part.licence}}]} if part.licence else {}
    return {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "scope": part.scope,
        "purl": part.purl,
        **known,
        "hashes": [{"alg": algorithm, "content": digest} for algorithm, digest in part.hashes],
    }


def _version(root: Path) -> str:
    text = (root / "src" / "sfumato" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    return found[1] if found else "unknown"
