"""Formula: what is explained by which columns, as in `ill ~ age + smoker + age:smoker`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from sfumato.arguments import checked, shown
from sfumato.errors import ParameterError

CONTRASTS, SCORES = "C", "score"
CODINGS = (CONTRASTS, SCORES)
_TOKEN = re.compile(r'\s*(?:([~+:*()=])|`([^`]*)`|"([^"]*)"|([^~+:*()=`"]+))')
_HINT = 'as in "diabetes ~ age + smoker + age:smoker"; quote names with signs in them: `a+b`'
_CODED = "C(x) takes x by contrasts, score(x) as a number; no other function is known"
_QUOTED = 'quote a value with signs in it: income="<=50K" ~ …'


@dataclass(frozen=True)
class Factor:
    """A column of a term, and how it is coded where that was stated: C(x) by contrasts of its
    values with a reference, score(x) by numbers that ascend.
    """

    name: str
    coding: str = ""

    def __str__(self) -> str:
        return f"{self.coding}({self.name})" if self.coding else self.name


Term = tuple[Factor, ...]  # one factor, or those of an interaction


@checked
@dataclass(frozen=True)
class Formula:
    """A response and the terms that explain it (Wilkinson and Rogers 1973); an intercept is always
    among them.

    >>> found = Formula.read("income=high ~ age + sex*C(region)")
    >>> found.response, found.event
    ('income', 'high')
    >>> [term_name(term) for term in found.terms]
    ['age', 'sex', 'C(region)', 'sex:C(region)']
    """

    response: str
    event: str | None  # the value of the response that counts as yes, where it is named
    terms: tuple[Term, ...]

    @classmethod
    def read(cls, text: str) -> Formula:
        """The formula that is written so."""
        if not isinstance(text, str):
            raise ParameterError(f"{shown(text)} is no formula", hint=_HINT)
        sides = _split([*_tokens(text)], "~")
        if len(sides) != 2:
            raise ParameterError(
                f"{shown(text)} is no formula: one ~ separates the response from what explains it",
                hint=_HINT if len(sides) < 2 else _QUOTED,
            )
        left, right = sides
        named = [_word(part, text) for part in _split(left, "=")]
        terms = dict.fromkeys(term for part in _split(right, "+") for term in _terms(part, text))
        if len(named) > 2:
            raise ParameterError(f"the response of {shown(text)} has two values", hint=_QUOTED)
        response = named[0]
        if any(factor.name == response for term in terms for factor in term):
            raise ParameterError(f"'{response}' stands on both sides of the formula", hint=_HINT)
        return cls(response, named[1] if len(named) == 2 else None, tuple(terms))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, the response first."""
        named = (factor.name for term in self.terms for factor in term)
        return tuple(dict.fromkeys([self.response, *named]))


def term_name(term: Term) -> str:
    """The term as it is written."""
    return ":".join(map(str, term))


Token = tuple[str, bool]  # its letters, and whether it is a sign of the formula


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text.rstrip()):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ParameterError(f"{shown(text)} has a quote that does not end", hint=_HINT)
        sign, *words = found.groups()
        word = next((each for each in words if each is not None), "")
        yield (sign, True) if sign else (word if words[-1] is None else word.strip(), False)
        place = found.end()


def _split(tokens: Sequence[Token], sign: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == (sign, True):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _word(tokens: Sequence[Token], text: str) -> str:
    if len(tokens) != 1 or tokens[0][1] or not tokens[0][0]:
        found = "".join(word for word, _ in tokens)
        what = f"{shown(found)} is no name" if found else "a name is missing"
        raise ParameterError(f"{what} in {shown(text)}", hint=_CODED if "(" in found else _HINT)
    return tokens[0][0]


def _terms(tokens: Sequence[Token], text: str) -> Iterator[Term]:
    """The terms of a part between two plus signs; a*b is a + b + a:b, and 1 the intercept."""
    if list(tokens) == [("1", False)]:
        return
    crossed = _split(tokens, "*")
    if len(crossed) == 1:
        yield tuple(_factor(part, text) for part in _split(tokens, ":"))
        return
    factors = [_factor(part, text) for part in crossed]
    for order in range(1, len(factors) + 1):
        yield from combinations(factors, order)


def _factor(tokens: Sequence[Token], text: str) -> Factor:
    around = [token for place, token in enumerate(tokens) if place != 2]
    if around in ([(each, False), ("(", True), (")", True)] for each in CODINGS):
        return Factor(_word(tokens[2:3], text), tokens[0][0])
    return Factor(_word(tokens, text))
