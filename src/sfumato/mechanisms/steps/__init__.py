"""Steps: what a client program is made of; each says what it reads, what it writes, and its γ."""

from sfumato.mechanisms.steps.answer_steps import Kary, Own, Subset, UnaryStep
from sfumato.mechanisms.steps.basket_steps import CutStep, Flip
from sfumato.mechanisms.steps.cell_steps import (
    Diagonal,
    Diagonal64,
    KeepOrDraw,
    Spread,
    TableStep,
)
from sfumato.mechanisms.steps.deal import Deal, Public
from sfumato.mechanisms.steps.draws import Draws
from sfumato.mechanisms.steps.number_steps import Window
from sfumato.mechanisms.steps.step import Action, Column, Step, Value, step_from
from sfumato.mechanisms.steps.symbol_steps import Collide, Symbol

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
