"""Verifying: whether a server hands out the files of this very version, byte for byte."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sfumato.collect.assets import Assets
from sfumato.collect.language import LANGUAGES
from sfumato.collect.transport import Address, CollectorError, Transport


@dataclass(frozen=True)
class Verified:
    """How a server's files compare with the installed ones; no differences means the same."""

    url: str
    version: str
    files: int
    differences: list[str]


def verify(url: str) -> Verified:
    """Fetch the form and every file, and hold them against the installed package.

    A server can show one face to a tester and another to a respondent; verify from where you
    answer, or take the form from somebody else.
    """
    address = Address.parse(url)
    transport = Transport(address, patience=10.0)
    assets = Assets.load()
    manifest = transport.get("/v1/manifest")
    found = []
    if manifest.get("digest") != assets.digest:
        found.append("the manifest names other files than the installed package")
    for name, known in assets.hashes.items():
        served = _digest(transport, f"{assets.root}{name}")
        if served != known:
            found.append(f"{name} is {'missing' if served is None else 'another file'}")
    if address.name:
        found += _page_differences(transport, address, assets)
    transport.close()
    return Verified(url, str(manifest.get("version")), len(assets.files), found)


def _digest(transport: Transport, path: str) -> str | None:
    try:
        return hashlib.sha256(transport.fetch(path)[0]).hexdigest()
    except CollectorError as error:
        if error.status == 404:
            return None
        raise


def _page_differences(transport: Transport, address: Address, assets: Assets) -> list[str]:
    """What is wrong with the page that loads the scripts: a changed page could load others."""
    page, headers = transport.fetch(f"/{address.name}?lang=en")
    known = {assets.page("form.html", language).encode() for language in LANGUAGES}
    found = [] if page in known else ["the form's page is another one"]
    policy = headers.get("content-security-policy", "")
    if "default-src 'none'" not in policy or "script-src 'self';" not in policy:
        found.append("the form's page comes without its content policy")
    return found
