"""What an owner keeps for the record of a release: the risk before and after, what it cost, what
remains, what was done and with which settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato import __version__
from sfumato.errors import FileError
from sfumato.publish.verdict import Judged
from sfumato.renderers.frames import json_value
from sfumato.result import Result
from sfumato.view import TableView, View

BEWARE = (
    "For the owner's files, not for release: it describes the true data beside what was handed out."
)


@dataclass(frozen=True, repr=False)
class Dossier(Result):
    """A result of an owner with what was typed, the settings, and the files with their
    fingerprints.
    """

    result: Judged
    command: str
    settings: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]
    made: str

    @classmethod
    def of(
        cls,
        result: Judged,
        *,
        command: str,
        settings: Mapping[str, Any],
        files: Mapping[str, str | Path | None],
    ) -> Dossier:
        """The dossier of now; settings that were not given and files that were not named are left
        out.
        """
        given = {name: value for name, value in settings.items() if value not in (None, (), [])}
        named = {role: fingerprint(path) for role, path in files.items() if path is not None}
        return cls(result, command, given, named, datetime.now(UTC).isoformat(timespec="seconds"))

    def view(self) -> View:
        """The result's own, then what remains, then what was done."""
        view = self.result.view()
        noted = {*view.all_notes()}  # which stand there already
        remains = [words for words in self.result.remains if words not in noted]
        made = self.made.replace("T", " at ").replace("+00:00", " UTC")
        files = [
            (role, file["name"], file.get("bytes"), file.get("sha256", "–"))
            for role, file in self.files.items()
        ]
        done = View(
            "What was done",
            (f"Made by Sfumato {__version__} on {made}.",),
            [(name.replace("_", "-"), _worded(value)) for name, value in self.settings.items()],
            tables=(TableView.of(("file", "name", "bytes", "SHA-256"), files),),
            command=self.command,
        )
        sections = (*view.sections, View("What remains", remains), done)
        return replace(view, notes=(BEWARE, *view.notes), sections=sections)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: everything, the result in full."""
        return {
            "title": self.result.view().title,
            "verdict": json_value(self.result.verdict),
            "sfumato": __version__,
            "made": self.made,
            "command": self.command,
            "settings": json_value(self.settings),
            "files": json_value(self.files),
            "result": self.result.to_dict(),
            "remains": list(self.result.remains),
        }


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file; the name alone where it is a stream."""
    place = Path(path)
    if not place.is_file():
        return {"name": str(path)}
    digest = hashlib.sha256()
    try:
        with place.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise FileError(f"cannot read '{path}': {error.strerror}") from None
    return {
        "name": place.name,
        "bytes": place.stat().st_size,
        "sha256": digest.hexdigest(),
    }


def _worded(value: Any) -> Any:
    """A setting as it was given, to its last digit."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, float) else value
