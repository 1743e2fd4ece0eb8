"""Language: the words of our own pages, and how numbers are written in them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

STRINGS = Path(__file__).resolve().parent / "strings"
LANGUAGES = ("en", "de", "fr", "es")
_THOUSANDS = {"en": ",", "de": ".", "fr": "\u202f", "es": "."}


@dataclass(frozen=True)
class Language:
    """One of the languages that our pages speak."""

    name: str
    words: Mapping[str, str]

    @classmethod
    @cache
    def load(cls, name: str) -> Language:
        """The language of this name; English where we do not speak it."""
        known = name if name in LANGUAGES else "en"
        text = (STRINGS / f"{known}.json").read_text(encoding="utf-8")
        return cls(known, json.loads(text))

    def __call__(self, key: str, **values: Any) -> str:
        """The words for a key."""
        return self.words[key].format(**values)

    def number(self, value: float, digits: int = 0) -> str:
        """A number with so many decimals; what rounds to nothing has no sign.

        >>> Language.load("de").number(31000.5, 1), Language.load("en").number(-0.04, 1)
        ('31.000,5', '0.0')
        """
        text = f"{value:z,.{digits}f}"
        if self.name == "en":
            return text
        return text.translate({ord(","): _THOUSANDS[self.name], ord("."): ","})

    def figures(self, value: float) -> str:
        """A number with all the figures that it has, for one that was rounded before.

        >>> Language.load("de").figures(0.2945), Language.load("en").figures(1234570.0)
        ('0,2945', '1,234,570')
        """
        decimals = format(Decimal(repr(value)), "f").partition(".")[2].rstrip("0")
        return self.number(value, len(decimals))

    def percent(self, share: float, digits: int = 1) -> str:
        """A share in per cent."""
        return f"{self.number(100 * share, digits)}\u00a0%"

    def interval(self, low: float, high: float) -> str:
        """From one share to another, in per cent."""
        return f"{self.percent(low)} – {self.percent(high)}"

    def percent_up(self, share: float, digits: int = 1) -> str:
        """A share in per cent, rounded up: promises and dangers must not look smaller."""
        return self.percent(
            math.ceil(share * 10 ** (digits + 2) - 1e-9) / 10 ** (digits + 2), digits
        )

    def points_up(self, share: float) -> str:
        """By how much a share may move, in percentage points and rounded up.

        >>> Language.load("de").points_up(0.0821)
        '8,3'
        """
        return self.number(math.ceil(share * 1000 - 1e-9) / 10, 1)

    def of(self, texts: Mapping[str, str], otherwise: str = "") -> str:
        """A text that an owner wrote, in this language or the first they have."""
        return texts.get(self.name) or next(iter(texts.values()), otherwise)
