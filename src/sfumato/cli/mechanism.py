"""From options to a mechanism: a guarantee given one way, or the mechanism's own parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

import numpy as np

from sfumato.bits import Bits
from sfumato.cli.options import Guaranteed, option, parameter
from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.parameters import Option, parsed
from sfumato.mechanisms.registry import MECHANISMS, mechanism_class
from sfumato.table import Reader, Table

PARAMETERS = "Parameters of the mechanism (instead of a guarantee)"


@dataclass(frozen=True)
class MechanismOptions(Guaranteed):
    """What was said on the command line about the mechanism; None is what was not said. Each option
    of any mechanism is one of the command's.
    """

    mechanism: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    @cache
    def parameters(cls) -> tuple[inspect.Parameter, ...]:
        """--mechanism, the guarantee, and every option of any mechanism."""
        names = "\n\n".join(f"{name}: {mechanism_class(name).summary}" for name in MECHANISMS)
        words = (
            f"The plan's best unless stated; --mechanism NAME --help: its own options.\n\n{names}"
        )
        found: list[tuple[str, Any, Any]] = [
            ("mechanism", str, option(words, metavar="NAME", known=MECHANISMS))
        ]
        for name, owners in every_option().items():
            by_help: dict[str, list[str]] = {}
            for owner, own in owners:
                by_help.setdefault(own.help, []).append(owner)
            words = "; ".join(f"{', '.join(them)}: {text}" for text, them in by_help.items())
            stated = owners[0][1]
            found.append((name, stated.kind, option(f"{words}.", stated.flag, panel=PARAMETERS)))
        named, *others = [parameter(name, Annotated[kind | None, o]) for name, kind, o in found]
        return named, *Guaranteed.parameters(), *others

    @classmethod
    def typed(cls, values: Mapping[str, Any]) -> MechanismOptions:
        """The options as they were typed, those of the mechanism together."""
        own = ("mechanism", "gamma", "epsilon", "rho1", "rho2")
        given = {name: v for name, v in values.items() if name not in own and v is not None}
        return cls(**{name: values[name] for name in own}, given=given)

    @property
    def planned(self) -> bool:
        """Whether the plan is to choose: only a guarantee was given."""
        return self.mechanism is None and self.guarantee() is not None and not self.given

    def build(self, domain: Domain, reader: Reader | None) -> Mechanism:
        """The mechanism for these records; fp-nfp reads them once to see which items are
        frequent.
        """
        kind, guarantee = mechanism_class(self._name(domain)), self.guarantee()
        _check_belong(kind, self.given)
        beside = {option.name for option in kind.options if option.beside}
        if guarantee is None:
            if not self.given:
                raise _nothing_said(kind) if self.mechanism else _nothing_promised()
            if kind.promises and {*self.given} <= beside:  # which decide nothing of a promise
                raise _nothing_said(kind)
            supports = None if reader is None else lambda domain: _supports(domain, reader)
            return kind.from_options(domain, self.given, supports)
        against = [option for option in kind.options if option.name in {*self.given} - beside]
        if against:
            raise ParameterError(
                f"a guarantee and {against[0].flag} contradict each other: either decides how "
                "much is kept",
                hint="give the guarantee or the parameters",
            )
        return kind.promising(guarantee, domain, **parsed(kind.options, self.given))

    def _name(self, domain: Domain) -> str:
        """The mechanism named, else the usual one that takes what was given."""
        usual = "mask" if domain.baskets else "gamma-diagonal"
        if self.mechanism is not None or not self.given:
            return self.mechanism or usual
        others = (usual, *(["item-set"] if domain.baskets else []), "questionnaire", "retention")
        fitting = [name for name in others if {*self.given} <= {*_names(name)}]
        return fitting[0] if fitting else usual


def _names(mechanism: str) -> list[str]:
    return [option.name for option in mechanism_class(mechanism).options]


def every_option() -> dict[str, list[tuple[str, Option]]]:
    """Every option of any mechanism, by its name, with the mechanisms that have it."""
    found: dict[str, list[tuple[str, Option]]] = {}
    for name in MECHANISMS:
        for own in mechanism_class(name).options:
            found.setdefault(own.name, []).append((name, own))
    return found


def narrowed(command: Any, arguments: Sequence[str]) -> None:
    """Leave the options of other mechanisms out of a command's help, where one is named in what was
    typed.
    """
    name = named_mechanism(arguments)
    if name is None:
        return
    own = mechanism_class(name)
    known = every_option()
    for taken in command.params:
        owners = [owner for owner, _ in known.get(taken.name, [])]
        if taken.name == "mechanism":
            taken.help = f"{name}: {own.summary}"
        elif owners and name not in owners:
            taken.hidden = True
        elif owners:
            taken.help = next(one.help for one in own.options if one.name == taken.name)
        elif taken.name in ("gamma", "epsilon", "rho1", "rho2") and not own.promises:
            taken.hidden = True


def named_mechanism(arguments: Sequence[str]) -> str | None:
    """The mechanism that was typed.

    >>> named_mechanism(["--mechanism", "mask", "--help"]), named_mechanism(["--mechanism=mask"])
    ('mask', 'mask')
    """
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        flag, _, value = word.partition("=")
        if flag == "--mechanism":
            return value or following or None
    return None


def _check_belong(kind: type[Mechanism], given: Mapping[str, Any]) -> None:
    known = {option.name for option in kind.options}
    for name in given:
        if name not in known:
            owners = every_option()[name]
            raise ParameterError(
                f"{owners[0][1].flag} is no option of {kind.name}",
                hint=f"it belongs to {' and '.join(owner for owner, _ in owners)}",
            )


WAYS = "--gamma 19, --epsilon 2.944 or --rho1 0.05 --rho2 0.50"


def _nothing_promised() -> ParameterError:
    return ParameterError(
        "it is not said what should be promised",
        hint=f"give {WAYS}, and the plan chooses the mechanism; or name one with its parameters",
    )


def _nothing_said(kind: type[Mechanism]) -> ParameterError:
    own = " ".join(option.flag for option in kind.options if option.needed)
    if not kind.promises:
        return ParameterError(f"{kind.name} needs {own}")
    return ParameterError(
        f"it is not said what {kind.name} should promise",
        hint=f"give {WAYS}" + (f"; or {own}" if own else ""),
    )


def _supports(domain: Domain, reader: Reader) -> Any:
    """The true support of every report item, by one pass over the data."""
    binned, counts, rows = domain.binned(), [], 0
    for columns in reader.batches(domain):
        table = Table(domain, columns).recode(binned.private)
        pairs = zip(table.domain, table.columns, strict=True)
        found = [
            c.counts() if isinstance(c, Bits) else np.bincount(c, minlength=a.size)
            for a, c in pairs
        ]
        counts.append(np.concatenate(found))
        rows += table.rows
    return np.sum(counts, axis=0) / rows
