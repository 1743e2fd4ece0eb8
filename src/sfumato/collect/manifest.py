"""Manifest: what decides what a respondent's browser runs, as one small file that is signed.

It names the form's page in each language, its content policy, every script, and the campaign, and
is signed with Ed25519 (RFC 8032) over its canonical JSON (RFC 8785).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.collect.assets import Assets, digest_of
from sfumato.collect.canonical import as_json, canonical
from sfumato.collect.headers import FORM_POLICY
from sfumato.collect.language import LANGUAGES
from sfumato.errors import FileError, ParameterError
from sfumato.files import appearing, written
from sfumato.untrusted import Untrusted, parsed_json, read_text, refuse_malformed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

VERSION = 1
MOST_KEY_BYTES = 4096  # of a key file, which has 119 or fewer
MOST_FILES = 1000  # that a manifest names
SHORT_LETTERS, GROUP = 20, 4  # five bits each: 100 bits in five groups
LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are misread
_HASH = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*", re.ASCII)


@dataclass(frozen=True)
class Published:
    """What servers of one version hand out to browsers: the SHA-256 of every file and of the form's
    page in each language, and the page's content policy.
    """

    version: str
    files: Mapping[str, str]
    pages: Mapping[str, str]
    policy: str

    @classmethod
    def of(cls, assets: Assets) -> Published:
        """What a server with these files hands out."""
        pages = {language: assets.page("form.html", language) for language in LANGUAGES}
        hashes = {name: hashlib.sha256(page.encode()).hexdigest() for name, page in pages.items()}
        return cls(__version__, assets.hashes, hashes, FORM_POLICY)

    @property
    def digest(self) -> str:
        """The SHA-256 of the files' names and hashes, whose beginning is in their address."""
        return digest_of(self.files)

    def to_dict(self) -> dict[str, Any]:
        """What `GET /v1/manifest` says."""
        return {
            "manifest": VERSION,
            "version": self.version,
            "digest": self.digest,
            "files": dict(self.files),
            "pages": dict(self.pages),
            "policy": self.policy,
        }


@dataclass(frozen=True)
class Manifest:
    """What is published, and the campaign as `GET /v1/campaigns/{name}` gives it, without `open`,
    which changes with the day.
    """

    published: Published
    campaign: Mapping[str, Any]

    @classmethod
    def of(cls, published: Published, document: Mapping[str, Any]) -> Manifest:
        """The manifest of a campaign's document."""
        kept = {name: value for name, value in document.items() if name != "open"}
        return cls(published, as_json(kept))

    @property
    def contents(self) -> dict[str, Any]:
        """What is signed."""
        return {**self.published.to_dict(), "campaign": self.campaign}

    @cached_property
    def digest(self) -> str:
        """The first 100 bits of the contents' SHA-256, in letters that can be printed on paper."""
        octets = hashlib.sha256(canonical(self.contents).encode()).digest()
        number = int.from_bytes(octets) >> (8 * len(octets) - 5 * SHORT_LETTERS)
        places = range(5 * (SHORT_LETTERS - 1), -1, -5)
        letters = "".join(LETTERS[number >> place & 31] for place in places)
        return "-".join(letters[at : at + GROUP] for at in range(0, SHORT_LETTERS, GROUP))

    def signed(self, key: Ed25519PrivateKey) -> bytes:
        """The manifest as a file, signed with this key."""
        found = {
            "contents": self.contents,
            "key": _base64(key.public_key().public_bytes_raw()),
            "signature": _base64(key.sign(canonical(self.contents).encode())),
        }
        return f"{json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True)}\n".encode()

    @classmethod
    def read(cls, path: Path, key: Ed25519PublicKey) -> Manifest:
        """The manifest in a file, once its signature is seen to be by this key."""
        where = f"manifest '{path}'"
        with refuse_malformed(where):
            file = Untrusted(parsed_json(read_text(path, where), where), where)
            contents = file["contents"]
            # First, so that a later version is told to be one and not to be damaged.
            if (version := contents["manifest"].whole()) != VERSION:
                raise FileError(
                    f"{where} is of version {version}; this software reads {VERSION}",
                    hint="update it",
                )
            file.only("contents", "key", "signature")
            _check_signature(file, key)
            return cls._checked(contents)

    @classmethod
    def _checked(cls, contents: Untrusted) -> Manifest:
        contents.only("manifest", "version", "digest", "files", "pages", "policy", "campaign")
        published = Published(
            contents["version"].word(),
            _hashes(contents["files"], _FILE),
            _hashes(contents["pages"], re.compile("|".join(LANGUAGES))),
            contents["policy"].word(),
        )
        if contents["digest"].word() != published.digest:
            contents["digest"].refuse(f"{published.digest}, that of its files")
        contents["campaign"].fields()
        return cls(published, contents["campaign"].value)


def _hashes(given: Untrusted, names: re.Pattern[str]) -> dict[str, str]:
    found = {name: value.word() for name, value in given.fields(MOST_FILES).items()}
    for name, value in found.items():
        if not names.fullmatch(name) or not _HASH.fullmatch(value):
            given.refuse("names and their SHA-256 in hexadecimal")
    return found


def _check_signature(file: Untrusted, key: Ed25519PublicKey) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        signature = base64.b64decode(file["signature"].word(), validate=True)
        key.verify(signature, canonical(file["contents"].value).encode())
    except (InvalidSignature, ValueError):
        raise FileError(
            f"{file.name} was not signed with this key, or was changed since",
            hint="take both from someone you trust, each by another way",
        ) from None


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


# Keys: PEM as openssl writes it, so that other tools can use them.


def new_key(path: Path) -> Ed25519PrivateKey:
    """A new key for signing in a file that only its owner can read, and the public one beside it,
    as `FILE.pub`. Neither replaces a file.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    beside = public_path(path)
    for each in (path, beside):
        if each.exists() or each.is_symlink():
            raise FileError(f"'{each}' exists; a key is never overwritten", hint="use another name")
    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    with (
        written(path),
        appearing(path, mode=0o600) as secret,
        appearing(beside, mode=0o644) as shown,
    ):
        secret.write(private)
        shown.write(public)
    return key


def public_path(path: Path) -> Path:
    """Where the public key beside a key stands."""
    return path.with_name(f"{path.name}.pub")


def private_key(path: Path) -> Ed25519PrivateKey:
    """The key for signing in a file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not path.exists():
        raise FileError(f"no key '{path}'", hint="--new-key makes one")
    found = _key_in(path, partial(load_pem_private_key, password=None))
    if not isinstance(found, Ed25519PrivateKey):
        raise ParameterError(
            f"'{path}' is no private Ed25519 key without a password (PEM)",
            hint="--key FILE --new-key makes one",
        )
    return found


def public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found = _key_in(path, load_pem_public_key)
    if not isinstance(found, Ed25519PublicKey):
        raise ParameterError(
            f"'{path}' is no public Ed25519 key (PEM)",
            hint="use the FILE.pub that `campaign sign --new-key` wrote beside the key",
        )
    return found


def _key_in(path: Path, load: Callable[[bytes], object]) -> object:
    """What is in a file of a key; None where that is no key."""
    text = read_text(path, f"key '{path}'", MOST_KEY_BYTES)
    try:
        return load(text.encode())
    except Exception:  # cryptography raises what it likes for a file that is none of its own
        return None
