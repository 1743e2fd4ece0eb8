"""Assets: the files that browsers get, byte for byte as they stand in the wheel."""

from __future__ import annotations

import base64
import gzip
import hashlib
import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).resolve().parent / "static"
_LINK = re.compile(r'(src|href)="/static/([^"]+)"')
_LANGUAGE = re.compile(r'<html lang="[^"]*"')
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}


class Asset(NamedTuple):
    """A file as it is and compressed, its type, and whether its address holds its hash, so that it
    can be kept for good.
    """

    data: bytes
    zipped: bytes
    kind: str
    kept: bool


@dataclass(frozen=True)
class Assets:
    """Every file under `static/`, and the hashes by which anyone can hold them against the wheel.

    They are served under an address that holds the hash of them all, so that it can be kept for
    good and what a script imports by its name is of the same version.
    """

    files: Mapping[str, bytes]

    @classmethod
    def load(cls, folder: Path = STATIC) -> Assets:
        """The files of a folder."""
        found = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
        return cls(
            {
                path.as_posix(): (folder / path).read_bytes()
                for path in found
                if not any(part.startswith((".", "__")) for part in path.parts)
            }
        )

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each file."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}

    @cached_property
    def zipped(self) -> dict[str, bytes]:
        """Each file as most browsers take it."""
        return {name: gzip.compress(data, 9, mtime=0) for name, data in self.files.items()}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all names and hashes."""
        return digest_of(self.hashes)

    @property
    def root(self) -> str:
        """The address under which the files stand."""
        return root_of(self.digest)

    def find(self, path: str) -> Asset | None:
        """The file at an address below /static/."""
        digest, _, name = path.partition("/")
        kept = digest == self.digest[:16]
        wanted = name if kept else path
        if wanted not in self.files:
            return None
        return Asset(self.files[wanted], self.zipped[wanted], kind_of(wanted), kept)

    def page(self, name: str, language: str) -> str:
        """An HTML page of ours in a language: links to our files get their hashed address and the
        hash by which the browser checks them.
        """
        text = self.files[name].decode()
        return self.linked(_LANGUAGE.sub(f'<html lang="{language}"', text, count=1))

    def linked(self, page: str) -> str:
        """A page whose links to our files have their hashed address and hash."""
        return _LINK.sub(lambda link: self._link(link[1], link[2]), page)

    def _link(self, kind: str, name: str) -> str:
        if name not in self.files:
            return f'{kind}="/static/{name}"'
        found = base64.b64encode(hashlib.sha256(self.files[name]).digest()).decode()
        return f'{kind}="{self.root}{name}" integrity="sha256-{found}"'


def digest_of(hashes: Mapping[str, str]) -> str:
    """The SHA-256 of the names and hashes of files."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def root_of(digest: str) -> str:
    """The address under which files of this digest stand."""
    return f"/static/{digest[:16]}/"


def kind_of(name: str) -> str:
    """The type of a file, by its name."""
    kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0]
    return kind or "application/octet-stream"


def chosen_language(asked: str | None, accepted: str | None, known: Sequence[str]) -> str:
    """The language to answer in: the one asked for, else the best that the browser accepts, else
    the first known.

    >>> chosen_language(None, "fr;q=0.8, de-AT, en;q=0.5", ["en", "de"])
    'de'
    """
    wanted = [(1.0, asked)] if asked else []
    for part in (accepted or "").split(",")[:20]:
        language, _, quality = part.partition(";q=")
        try:
            wanted.append((float(quality or 1), language.strip()))
        except ValueError:
            continue
    for _, language in sorted(wanted, key=lambda each: -each[0]):
        for tag in (language, language.partition("-")[0]):
            if tag in known:
                return tag
    return known[0] if known else "en"


def takes_gzip(accepted: str) -> bool:
    """Whether a browser takes what is compressed, by its Accept-Encoding.

    >>> takes_gzip("br, gzip;q=0.8"), takes_gzip("gzip;q=0"), takes_gzip("")
    (True, False, False)
    """
    parts = (part.replace(" ", "").partition(";q=") for part in accepted.lower().split(","))
    return any(
        name == "gzip" and (not quality or quality.strip("0.") != "") for name, _, quality in parts
    )
