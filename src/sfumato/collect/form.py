"""The form as one file: page, style, scripts, strings and campaign, to be kept or served anywhere.

Whoever serves a page decides what it does, so a respondent who does not trust the collector takes
the form from somebody else, or from their own disk. The campaign stands in the file: its program
cannot be changed afterwards, and the file talks to no one but the collector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sfumato.collect.assets import STATIC, Assets
from sfumato.collect.language import LANGUAGES
from sfumato.collect.manifest import Manifest, Published
from sfumato.collect.one_file import bundle, replaced, sealed
from sfumato.errors import ParameterError

# Each imports only those before it.
MODULES = tuple(STATIC / f"{name}.js" for name in ("steps", "program", "sfumato", "form"))
_LINK = re.compile(r"^<link [^>]*>\n", re.M)


def strings(language: str) -> dict[str, str]:
    """What the form says in a language."""
    return json.loads(_static(f"strings/{language}.json"))


def single_file(campaign: Mapping[str, Any], server: str) -> str:
    """The form of a campaign as one HTML file that sends to this server; `campaign` is what
    `GET /v1/campaigns/{name}` answers.

    Its content policy stands in a meta element: scripts and style by their hash, connections to the
    server alone. The same campaign gives the same bytes on any day and machine.
    """
    manifest = Manifest.of(Published.of(Assets.load()), campaign)
    origin, path = _address(server)
    carried = (
        _data("campaign", manifest.campaign)
        + _data("manifest", manifest.published.to_dict())
        + _data("strings", {language: strings(language) for language in LANGUAGES})
    )
    address = f"{origin}{path}/v1/campaigns/{campaign['name']}"
    element = f'<sfumato-survey level="1" any-language campaign="{address}">'
    page = _LINK.sub("", _static("form.html"))
    page = replaced(page, '<script type="module" src="/static/sfumato.js"></script>\n', "")
    page = replaced(page, '<sfumato-survey level="1">', element)
    return sealed(page, _static("form.css"), bundle(MODULES), f"connect-src {origin}; ", carried)


def _address(server: str) -> tuple[str, str]:
    parts = urlsplit(server)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or re.search(r"[\s\"';,<>]", server)
    ):
        raise ParameterError(
            f"'{server}' is not the address of a server", hint="as in https://collector.example"
        )
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _data(name: str, data: Any) -> str:
    """JSON that the page carries; no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="sfumato-{name}">{text}</script>\n'
