"""Steps: what a client program is made of; each says what it reads, what it writes, and its γ."""

from sfumato.mechanisms.steps.base import Action, Column, Step, Value, step_from
from sfumato.mechanisms.steps.baskets import CutStep, Flip
from sfumato.mechanisms.steps.cells import (
    Diagonal,
    Diagonal64,
    Kary,
    KeepOrDraw,
    Own,
    Spread,
    TableStep,
)
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.numbers import Window
from sfumato.mechanisms.steps.questions import Deal, Public
from sfumato.mechanisms.steps.sets import Subset, UnaryStep
from sfumato.mechanisms.steps.symbols import Collide, Symbol

__all__ = [
    "Action",
    "Collide",
    "Column",
    "CutStep",
    "Deal",
    "Diagonal",
    "Diagonal64",
    "Draws",
    "Flip",
    "Kary",
    "KeepOrDraw",
    "Own",
    "Public",
    "Spread",
    "Step",
    "Subset",
    "Symbol",
    "TableStep",
    "UnaryStep",
    "Value",
    "Window",
    "step_from",
]
