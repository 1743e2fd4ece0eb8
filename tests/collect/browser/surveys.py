"""Campaigns of the tests: one of every kind of column, one that deals questions, one of baskets."""

from __future__ import annotations

from typing import Any

from tests.collect.browser.collector import document

from sfumato.domain import Bins, Category, Domain, Items, Numeric
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.combined import Combined
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.program import Program
from sfumato.mechanisms.retention import Retention
from sfumato.mechanisms.steps import Deal, Kary

SMOKER = Category("smoker", ("yes", "no", "no answer"))
AGE = Bins("age", (15, 35, 55, 75, 95))
REGION = Category("region", ("north", "south"), public=True)
HOURS = Numeric("hours", 0, 99)
WEIGHT = Numeric("weight", 30, 250, step=0.5)
SPORTS = Items("sports", ("football", "tennis", "chess", "swimming"))
COUNTRY = Category("country", tuple(f"country {number}" for number in range(30)))
NUMBERS = Domain((HOURS, WEIGHT))
WORDS = {
    "smoker": {
        "text": {"en": "Do you smoke?", "de": "Rauchen Sie?"},
        "values": {"yes": {"en": "Yes", "de": "Ja"}, "no": {"en": "No", "de": "Nein"}},
        "decline": True,
    },
    "age": {"text": {"en": "How old are you?", "de": "Wie alt sind Sie?"}},
    "region": {"text": {"en": "Where do you live?"}},
    "hours": {"text": {"en": "How many hours do you work in a week?"}},
    "sports": {"text": {"en": "What do you like?"}},
}


def health(**changes: Any) -> dict[str, Any]:
    """Two private columns and a public one, gamma 19."""
    return document(
        GammaDiagonal(Domain((SMOKER, AGE, REGION)), 19), **{"questions": WORDS} | changes
    )


def coin(gamma: int = 3, **changes: Any) -> dict[str, Any]:
    """One question with three answers."""
    return document(GammaDiagonal(Domain((SMOKER,)), gamma), **{"questions": WORDS} | changes)


def everything(numbers: Mechanism | None = None, **changes: Any) -> dict[str, Any]:
    """A column of every kind: choices, ranges, numbers, a long list, baskets, a public one."""
    parts = (
        GammaDiagonal(Domain((SMOKER, AGE, COUNTRY)), 19),
        numbers or Retention(NUMBERS, keep=0.5),
        BitFlip(Domain((SPORTS,)), 0.8, 0.9),
    )
    domain = Domain((SMOKER, AGE, HOURS, WEIGHT, COUNTRY, SPORTS, REGION))
    return document(Combined(domain, parts), **{"questions": WORDS, "budget": None} | changes)


def questionnaire(**changes: Any) -> dict[str, Any]:
    """Each person is dealt one of three questions: smoker, age, or both."""
    domain = Domain((SMOKER, AGE, REGION))
    one = {"reports": (1,), "a": 19, "b": 1}
    deal = Deal(
        columns=(0, 1),
        reports=(0, 1),
        weights=(1 << 31, 1 << 30, 1 << 30),
        questions=(
            Kary(columns=(0,), sizes=(3,), answers=3, **one),
            Kary(columns=(1,), sizes=(4,), answers=4, **one),
            Kary(columns=(0, 1), sizes=(3, 4), answers=12, **one),
        ),
    )
    passed = GammaDiagonal(domain, 19).program().steps[-1].to_dict() | {"reports": [2]}
    steps = [deal.to_dict() | {"columns": [0, 1]}, passed | {"columns": [2]}]
    program = Program.from_dict({"version": 1, "steps": steps})
    return health(program=program.to_dict(), **changes)
