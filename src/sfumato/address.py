"""Addresses of databases and clusters as they may be shown: without a password, or what could be
part of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "…"
LOCAL = ("duckdb", "file", "sqlite")  # schemes of files, which know no password
SPECIAL = "write # as %23, @ as %40, / as %2F and ? as %3F"

_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]*)(?::[0-9]+)?"
# Strictly what a URL may be. A password with a mark in it that should have been written as % and
# two digits makes it another thing, and then no part of it is shown.
_STRICT = re.compile(
    rf"(?:[^/?#@\s]*@)?(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>/[^?#@\s]*)?"
    r"(?:\?[^?#@\s]*)?(?P<table>\#[^@#]*)?"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
# An address of PostgreSQL may hold anything up to the quote around it; any other ends at a blank.
# Of two slashes a path keeps one; what has an @ behind it is then an address still.
_IN_TEXT = re.compile(
    r"(?P<server>postgres(?:ql)?):/+[^'\"\n]*"
    r"|(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/(?:/[^\s'\"]*|[^\s'\"]*@[^\s'\"]*)",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'([^'\n]*)'")
_PASSWORD = re.compile(r"(?i)\b(\w*pass(?:word|wd)?)=('[^']*'|[^\s&'\"]*)")


def redacted(address: str) -> str:
    """An address as it may be shown: host, database and table, without user, password and options;
    of one that is not strictly well formed only the scheme.

    >>> redacted("postgresql://ann:secret@host:5432/db?sslmode=require#t")
    'postgresql://host:5432/db#t'
    >>> redacted("postgresql://ann:se#cret@host/db#t"), redacted("duckdb://a@b.db#t")
    ('postgresql://…', 'duckdb://a@b.db#t')
    """
    scheme, mark, rest = address.partition("://")
    if not mark:
        return _PASSWORD.sub(rf"\1={HIDDEN}", address)
    if not _SCHEME.fullmatch(scheme):
        return HIDDEN
    if scheme.lower() in LOCAL:
        return address
    found = _STRICT.fullmatch(rest)
    if found is None:
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{found['hosts']}{found['path'] or ''}{found['table'] or ''}"


def well_formed(address: str) -> bool:
    """Whether an address is strictly what a URL may be, so that no part of it is taken for
    another.
    """
    return _STRICT.fullmatch(address.partition("://")[2]) is not None


def without_secrets(text: str, typed: Sequence[str] = ()) -> str:
    """A text with every address in it as it may be shown, and without quoted parts of what was
    typed that are not shown of it.

    >>> without_secrets("no file 'postgresql:/ann:secret@host/db'; see https://ann:x@host/help")
    "no file 'postgresql://host/db'; see https://host/help"
    >>> without_secrets("cannot read 'secret'", ["postgresql://host/db?password=secret"])
    "cannot read '…'"
    """

    def shown(found: re.Match[str]) -> str:
        scheme = found["server"] or found["scheme"]
        rest = found[0][len(scheme) + 1 :].lstrip("/")
        return redacted(f"{scheme}://{rest}")

    def quoted(found: re.Match[str]) -> str:
        word = found[1]
        is_hidden = any(word in each and word not in redacted(each) for each in typed)
        return f"'{HIDDEN}'" if word and is_hidden else found[0]

    hidden = _PASSWORD.sub(rf"\1={HIDDEN}", _IN_TEXT.sub(shown, text))
    return _QUOTED.sub(quoted, hidden)
