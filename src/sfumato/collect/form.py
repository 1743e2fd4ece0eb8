"""The form as one file: page, style, scripts, strings and campaign, to be kept or served anywhere.

Whoever serves a page decides what it does, so a respondent who does not trust the collector takes
the form from somebody else, or from their own disk. The campaign stands in the file: its program
cannot be changed afterwards, and the file talks to no one but the collector.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from sfumato.collect.assets import STATIC, Assets
from sfumato.collect.language import LANGUAGES
from sfumato.collect.manifest import Manifest, Published
from sfumato.errors import ParameterError

MODULES = ("steps", "program", "sfumato", "form")  # each imports only those before it
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.M)
_NAMED = re.compile(r"^export \{([^}]*)\};\n", re.M)
_DECLARED = re.compile(r"^export ((?:async )?(?:const|class|function) (\w+))", re.M)
_LATER = re.compile(r'import\("\./(\w+)\.js"\)')
_TYPES = re.compile(r"/\*\* @(?:[^*]|\*(?!/))*\*/ ?")  # for those who check the modules
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
    script, style = bundle(), _static("form.css")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        f"connect-src {origin}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
        + _data("campaign", manifest.campaign)
        + _data("manifest", manifest.published.to_dict())
        + _data("strings", {language: strings(language) for language in LANGUAGES})
    )
    address = f"{origin}{path}/v1/campaigns/{campaign['name']}"
    element = f'<sfumato-survey level="1" any-language campaign="{address}">'
    page = _LINK.sub("", _static("form.html"))
    page = _replaced(page, '<script type="module" src="/static/sfumato.js"></script>\n', head)
    page = _replaced(page, '<sfumato-survey level="1">', element)
    return _replaced(page, "</body>", f'<script type="module">{script}</script>\n</body>')


def bundle() -> str:
    """The modules as one script: each a function that hands on what it exports."""
    return "\n".join(_wrapped(name) for name in MODULES)


def _wrapped(name: str) -> str:
    text = _TYPES.sub("", _static(f"{name}.js"))
    exported = [word.strip() for group in _NAMED.findall(text) for word in group.split(",")]
    exported += [word for _, word in _DECLARED.findall(text)]
    text = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {found[2]}_js;", text)
    text = _DECLARED.sub(lambda found: found[1], _NAMED.sub("", text))
    # A module that is loaded later is defined by then: the promise runs once the script has ended.
    text = _LATER.sub(lambda found: f"Promise.resolve().then(() => {found[1]}_js)", text)
    return f"const {name}_js = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();"


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


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(name: str, data: Any) -> str:
    """JSON that the page carries; no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="sfumato-{name}">{text}</script>\n'


def _replaced(page: str, part: str, by: str) -> str:
    if page.count(part) != 1:
        raise ParameterError(f"form.html does not hold {part!r} once, so it cannot be one file")
    return page.replace(part, by)
