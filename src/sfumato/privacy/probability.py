"""Probabilities as integer weights, and checks with the message a caller can act on."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real

from sfumato.arguments import shown
from sfumato.errors import ParameterError

ONE = 1 << 32  # what the weights of a distribution sum to: one 32-bit word decides


def check_number(name: str, value: object, kind: type = Real) -> None:
    """Raise unless the value is a number of this kind; a truth value is none."""
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "whole number" if kind is Integral else "number"
        raise ParameterError(
            f"{name}={shown(value)} is no {what}", parameter=name, found=type(value).__name__
        )


def check_seconds(value: float) -> None:
    """Raise unless the value is a time that something may take."""
    check_number("seconds", value)
    if not value >= 0:
        raise ParameterError(f"seconds={value:g} is no time to take", hint="use 0 or more")


def check_probability(name: str, value: float) -> None:
    """Raise unless 0 <= value <= 1."""
    check_number(name, value)
    if not 0 <= value <= 1:
        raise ParameterError(
            f"{name}={value} is not a probability; use a number from 0 to 1",
            parameter=name,
            found=value,
        )


def check_strictly_between(name: str, value: float) -> None:
    """Raise unless 0 < value < 1."""
    check_number(name, value)
    if not 0 < value < 1:
        raise ParameterError(
            f"{name}={value} must lie strictly between 0 and 1", parameter=name, found=value
        )


def check_breach(rho1: float, rho2: float) -> None:
    """Raise unless 0 < rho1 < rho2 < 1."""
    check_strictly_between("rho1", rho1)
    check_strictly_between("rho2", rho2)
    if rho2 <= rho1:
        raise ParameterError(
            f"rho2={rho2} is not above rho1={rho1}: a posterior below the prior is no breach; use "
            "rho2 > rho1",
            rho1=rho1,
            rho2=rho2,
        )


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless value >= least."""
    check_number(name, value, Integral)
    if value < least:
        raise ParameterError(
            f"{name}={value} is too small; use {name} >= {least}", parameter=name, found=value
        )


def check_places(name: str, places: Iterable[int], size: int) -> None:
    """Raise unless each is a place of one of `size` things, counted from 0."""
    for place in places:
        if not -size <= place < size:
            raise ParameterError(f"{name}={place} names none of {size} places, counted from 0")
