"""A page as one file: style, scripts and data stand in it, and its content policy allows nothing
else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from sfumato.errors import ParameterError

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.M)
_NAMED = re.compile(r"^export \{([^}]*)\};\n", re.M)
_DECLARED = re.compile(r"^export ((?:async )?(?:const|class|function) (\w+))", re.M)
_LATER = re.compile(r'import\("\./(\w+)\.js"\)')
_TYPES = re.compile(r"/\*\* @(?:[^*]|\*(?!/))*\*/ ?")  # for those who check the modules


def sealed(page: str, style: str, script: str, connect: str = "", carried: str = "") -> str:
    """A page that carries its style, its script and its data, and whose content policy allows
    these alone, by their hashes, and the connections that are named.
    """
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        f"{connect}base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    page = replaced(page, "</head>", f"{head}{carried}</head>")
    return replaced(page, "</body>", f'<script type="module">{script}</script>\n</body>')


def bundle(modules: Iterable[Path]) -> str:
    """Modules as one script: each a function that hands on what it exports."""
    return "\n".join(_wrapped(module) for module in modules)


def _wrapped(module: Path) -> str:
    name = module.stem
    text = _TYPES.sub("", module.read_text(encoding="utf-8"))
    exported = [word.strip() for group in _NAMED.findall(text) for word in group.split(",")]
    exported += [word for _, word in _DECLARED.findall(text)]
    text = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {found[2]}_js;", text)
    text = _DECLARED.sub(lambda found: found[1], _NAMED.sub("", text))
    # A module that is loaded later is defined by then: the promise runs once the script has ended.
    text = _LATER.sub(lambda found: f"Promise.resolve().then(() => {found[1]}_js)", text)
    return f"const {name}_js = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def replaced(page: str, part: str, by: str) -> str:
    """A page with one part of it, which must stand there once, replaced."""
    if page.count(part) != 1:
        raise ParameterError(f"the page does not hold {part!r} once, so it cannot be one file")
    return page.replace(part, by)
