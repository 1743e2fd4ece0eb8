"""Client programs to be judged: those of the example mechanisms, and one or more for every step."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mechanisms.examples import EXAMPLES

from sfumato.errors import PrivacyError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import (
    Collide,
    CutStep,
    Deal,
    Diagonal,
    Diagonal64,
    Flip,
    Kary,
    KeepOrDraw,
    Own,
    Public,
    Spread,
    Step,
    Subset,
    Symbol,
    TableStep,
    UnaryStep,
    Window,
)

ONE = 1 << 32
QUARTER = ONE // 4


@dataclass(frozen=True)
class Case:
    """A program, and the mechanism it is of, where it is of one."""

    name: str
    program: Program
    mechanism: Mechanism | None = None


def _of_examples() -> list[Case]:
    cases = []
    for example in EXAMPLES:
        try:
            cases.append(Case(example.name, example.mechanism.program(), example.mechanism))
        except PrivacyError:
            continue
    return cases


def _alone(step: Step) -> Program:
    return Program((step,))


KARY = Kary(columns=(0, 1), reports=(1,), sizes=(2, 3), answers=6, a=19, b=1)
FOLDED = Kary(
    columns=(1, 2), reports=(1,), sizes=(3, 4), answers=4, a=7, b=2,
    map=(0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3),
)  # fmt: skip
SINGLE = Kary(columns=(2,), reports=(1,), sizes=(4,), answers=4, a=19, b=1)
QUESTIONNAIRE = Program(
    (
        Deal(
            columns=(0, 1, 2),
            reports=(0, 1),
            weights=(QUARTER, QUARTER + 12_345, 2 * QUARTER - 12_345),
            questions=(KARY, FOLDED, SINGLE),
        ),
        Public(columns=(3,), reports=(2,), size=2),
    )
)
NUMBERS = Program(
    (
        Deal(
            columns=(0, 1),
            reports=(0, 1, 2),
            weights=(ONE - 1, 1),
            questions=(
                Window(columns=(0,), reports=(1,), values=5, length=3, a=4, b=1, round=11),
                Subset(columns=(1,), reports=(2,), sizes=(4,), answers=4, chosen=2, a=3, b=1),
            ),
        ),
    )
)
PAIRS = ((0,), (1,), (3,), (0, 1), (1, 2, 3))

STEPS: list[Case] = [
    Case("diagonal, large", _alone(
        Diagonal(columns=(0, 1), reports=(0, 1), sizes=(900, 4000), scale=7, total=30_000_000))),
    Case("diagonal64", _alone(
        Diagonal64(columns=(1, 0), reports=(0, 1), sizes=(70_000, 300), keep=(1 << 63) + 12_345))),
    Case("spread, small numbers", _alone(
        Spread(columns=(0,), reports=(0,), sizes=(3,), mean=5, total=9, reach=2))),
    Case("retain, every value stated", _alone(
        KeepOrDraw(columns=(0,), reports=(0,), size=3, keep=QUARTER,
                   weights=(1, ONE - 1000, 999)))),
    Case("table", _alone(
        TableStep(columns=(0,), reports=(0,), sizes=(2,),
              weights=((QUARTER, 3 * QUARTER), (3 * QUARTER + 1, QUARTER - 1))))),
    Case("flip, each its own", _alone(
        Flip(columns=(0,), reports=(0,), items=4, ones=(60_000, 40_000, 9, 1),
             zeros=(50_000, 65_535, 7, 30_000)))),
    Case("cut, baskets", _alone(
        CutStep(columns=(0,), reports=(0, 1), items=4, cutoff=2, insert=20_000))),
    Case("cut, small universe", _alone(
        CutStep(columns=(0,), reports=(0, 1), items=3, cutoff=3, insert=30_000))),
    Case("kary", _alone(Kary(columns=(0, 1), reports=(0,), sizes=(2, 3), answers=6, a=19, b=1))),
    Case("kary, cells of codes", _alone(
        Kary(columns=(0, 1), reports=(0,), sizes=(90, 7), answers=2, map=(0, 1, 1, 0, 1, 0),
             starts=((0, 17, 40), (0, 3)), a=19, b=1))),
    Case("own", _alone(
        Own(columns=(0, 1), reports=(0,), sizes=(2, 2), answers=3, map=(0, 1, 1, 2), symbols=5,
            own=((0, 2), (1, 2), (3, 4)), a=7, b=2))),
    Case("symbol", _alone(
        Symbol(columns=(0,), reports=(0,), items=4, candidates=PAIRS, cap=2, a=19, b=2))),
    Case("symbol, more cap than candidates", _alone(
        Symbol(columns=(0,), reports=(0,), items=2, candidates=((0,), (1,)), cap=3, a=5, b=1))),
    Case("symbol, tiers", _alone(
        Symbol(columns=(0,), reports=(0,), items=4, candidates=PAIRS, cap=2, a=19, b=2,
               tiers=(3, 5)))),
    Case("collide", _alone(
        Collide(columns=(0,), reports=(0, 1), items=1000, buckets=60, cap=3, a=19, b=1,
                pool="health-2027", seeds=65_536))),
    Case("collide, candidates", _alone(
        Collide(columns=(0,), reports=(0, 1), items=4, buckets=9, cap=2, a=19, b=2,
                pool="health-2027", seeds=16, candidates=PAIRS))),
    Case("collide, tiers", _alone(
        Collide(columns=(0,), reports=(0, 1), items=30, buckets=11, cap=2, a=19, b=2,
                pool="health-2027", seeds=16, tiers=(3, 5, 9)))),
    Case("window", _alone(Window(columns=(0,), reports=(0,), values=5, length=3, a=9, b=2))),
    Case("window, rounded", _alone(
        Window(columns=(0,), reports=(0,), values=4, length=2, a=19, b=1, round=11))),
    Case("window, zero", _alone(
        Window(columns=(0,), reports=(0,), values=4, length=3, a=9, b=2, zero=1))),
    Case("window, zero, rounded", _alone(
        Window(columns=(0,), reports=(0,), values=4, length=2, a=19, b=1, round=11, zero=1))),
    Case("subset", _alone(
        Subset(columns=(0,), reports=(0,), sizes=(5,), answers=5, chosen=2, a=3, b=1))),
    Case("unary, folded", _alone(
        UnaryStep(columns=(0,), reports=(0,), sizes=(4,), answers=3, map=(0, 1, 1, 2),
              ones=(32_768,), zeros=(50_000, 60_000, 55_000)))),
    Case("deal", QUESTIONNAIRE),
    Case("deal, numbers", NUMBERS),
]  # fmt: skip

CASES = [*_of_examples(), *STEPS]
