"""Drafting: a first campaign file for a schema, with the planner's best mechanism filled in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfumato.collect.campaign_file import TAKEN
from sfumato.domain import Domain, Items, Numeric
from sfumato.domain.domain import toml_value

MOST_VALUES = 12  # of a question whose values are written out to be named
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def draft(
    domain: Domain,
    schema: Path,
    target: Path,
    promise: Mapping[str, float],
    mechanism: str,
    rounds: tuple[int, float] | None = None,
    sizes: Sequence[str] = (),
) -> str:
    """The text of a campaign file; what only its owner can say is marked with an ellipsis. `rounds`
    are the people announced and what one of them may spend.
    """
    name = _name(target.stem)
    title = domain.title or name.replace("-", " ").capitalize()
    given = "\n".join(f"{key} = {_number(value)}" for key, value in promise.items())
    if sizes:
        given += f"\nsizes = {toml_value(list(sizes))}  # of which the size is sent as it is"
    place = os.path.relpath(str(schema), str(target.parent))
    questions = "".join(_question(domain, name) for name in domain.names)
    return f"""\
name = {toml_value(name)}  # part of the address
title = {{ en = {toml_value(title)} }}  # add languages: {{ en = "…", de = "…" }}
schema = {toml_value(Path(place).as_posix())}
# opens = 2027-01-01  # days, UTC
# closes = 2027-03-31

[promise]
{given}

[mechanism]
name = {toml_value(mechanism)}

{_ALL_AT_ONCE if rounds is None else _in_rounds(*rounds)}
[text]
purpose = {{ en = "…" }}
consent = {{ en = "…" }}
# contact = "…"

[dashboard]
public = false
{_BOUNDED if mechanism == "item-set" else ""}{questions}"""


_ALL_AT_ONCE = """\
# [budget]
# epsilon = 6.0  # what one browser may spend on this server, over all campaigns and rounds
# round = 1
"""


_BOUNDED = """\
# estimate = "bounded"  # counts a repeated report a few times at most; hashes = true above
"""


def _in_rounds(people: int, budget: float) -> str:
    return f"""\
[rounds]
people = {people}  # announced: the next round begins once its share has answered

[budget]
epsilon = {budget}  # one answer: nobody is asked in two rounds
"""


def _name(stem: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:64] or "survey"
    return f"{name}-1" if name in TAKEN else name


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _question(domain: Domain, name: str) -> str:
    attribute = domain[name]
    lines = [f"\n[question.{_key(name)}]", f"text = {{ en = {toml_value(_asked(name))} }}"]
    labels: tuple[Any, ...] = attribute.labels if attribute.size <= MOST_VALUES else ()
    if labels and not isinstance(attribute, Items):
        named = ", ".join(f"{_key(label)} = {{ en = {toml_value(label)} }}" for label in labels)
        lines.append(f"values = {{ {named} }}")
    if not isinstance(attribute, Numeric) or attribute.cuts:  # a whole number leaves no room
        lines.append('# decline = true  # adds the value "no answer"')
    return "\n".join(lines) + "\n"


def _asked(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}?"


def _key(word: str) -> str:
    return word if _BARE.fullmatch(word) else toml_value(word)
