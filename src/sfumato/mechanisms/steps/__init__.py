"""Steps: what a client program is made of; each says what it reads, what it writes, and its γ."""

from sfumato.mechanisms.steps.base import Action, Column, Step, Value, step_from
from sfumato.mechanisms.steps.baskets import Collide, Cut, Flip, Symbol
from sfumato.mechanisms.steps.cells import Diagonal, Diagonal64, Kary, KeepOrDraw, Spread, Table
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.numbers import Window
from sfumato.mechanisms.steps.questions import Deal, Public
from sfumato.mechanisms.steps.sets import Subset, Unary

__all__ = [
    "Action",
    "Collide",
    "Column",
    "Cut",
    "Deal",
    "Diagonal",
    "Diagonal64",
    "Draws",
    "Flip",
    "Kary",
    "KeepOrDraw",
    "Public",
    "Spread",
    "Step",
    "Subset",
    "Symbol",
    "Table",
    "Unary",
    "Value",
    "Window",
    "step_from",
]
