"""From options to a mechanism: a guarantee given one way, or the mechanism's own parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any

import numpy as np
import typer

from sfumato.bits import Bits
from sfumato.cli.options import Epsilon, Gamma, Rho1, Rho2, among
from sfumato.domain import Domain
from sfumato.errors import ParameterError, listing
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.parameters import Option
from sfumato.mechanisms.registry import MECHANISMS, mechanism_class
from sfumato.privacy.guarantee import Guarantee
from sfumato.table import Reader, Table

PARAMETERS = "Parameters of the mechanism (instead of a guarantee)"


@dataclass(frozen=True)
class MechanismOptions:
    """What was said on the command line about the mechanism; None is what was not said."""

    mechanism: str | None = None
    gamma: float | None = None
    epsilon: float | None = None
    rho1: float | None = None
    rho2: float | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    def guarantee(self) -> Guarantee | None:
        """The guarantee asked for, which may be stated one way only."""
        if (self.rho1 is None) != (self.rho2 is None):
            raise ParameterError(
                "--rho1 and --rho2 belong together; give both, as in --rho1 0.05 --rho2 0.50"
            )
        ways = [name for name in ("gamma", "epsilon", "rho1") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ParameterError(
                "the guarantee is given in more than one way "
                f"({listing('--' + way for way in ways)})",
                hint="give one of them",
            )
        return Guarantee.stated(self.gamma, self.epsilon, self.rho1, self.rho2)

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
        return kind.promising(guarantee, domain, **kind.parsed(self.given))

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
        for option in mechanism_class(name).options:
            found.setdefault(option.name, []).append((name, option))
    return found


def takes_mechanism(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of every mechanism in the place of its parameter `chosen`."""
    own = inspect.signature(command, eval_str=True).parameters
    added = _parameters()
    shown: list[inspect.Parameter] = []
    for name, parameter in own.items():
        named = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        shown += added if name == "chosen" else [named]

    @wraps(command)
    def called(**values: Any) -> None:
        said = {parameter.name: values.pop(parameter.name) for parameter in added}
        stated = {key: said.pop(key) for key in ("mechanism", "gamma", "epsilon", "rho1", "rho2")}
        given = {name: value for name, value in said.items() if value is not None}
        command(chosen=MechanismOptions(**stated, given=given), **values)

    # Typer and `inspect` read it; functions are not typed as having one.
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return called


def _parameters() -> list[inspect.Parameter]:
    names = "\n\n".join(f"{name}: {mechanism_class(name).summary}" for name in MECHANISMS)
    words = f"The plan's best unless stated; --mechanism NAME --help: its own options.\n\n{names}"
    named = typer.Option(metavar="NAME", help=words, autocompletion=among(MECHANISMS))
    mechanism = Annotated[str | None, named]
    kinds: list[tuple[str, Any]] = [
        ("mechanism", mechanism),
        ("gamma", Gamma),
        ("epsilon", Epsilon),
        ("rho1", Rho1),
        ("rho2", Rho2),
    ]
    for name, owners in every_option().items():
        words = "; ".join(f"{', '.join(them)}: {text}" for text, them in _by_help(owners).items())
        kind = owners[0][1].kind
        stated = typer.Option(owners[0][1].flag, help=f"{words}.", rich_help_panel=PARAMETERS)
        kinds.append((name, Annotated[kind | None, stated]))
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in kinds
    ]


def narrowed(command: Any, arguments: Sequence[str]) -> None:
    """Leave the options of other mechanisms out of a command's help, where one is named in what was
    typed.
    """
    name = named_mechanism(arguments)
    if name is None:
        return
    own = mechanism_class(name)
    known = every_option()
    for parameter in command.params:
        owners = [owner for owner, _ in known.get(parameter.name, [])]
        if parameter.name == "mechanism":
            parameter.help = f"{name}: {own.summary}"
        elif owners and name not in owners:
            parameter.hidden = True
        elif owners:
            parameter.help = next(
                option.help for option in own.options if option.name == parameter.name
            )
        elif parameter.name in ("gamma", "epsilon", "rho1", "rho2") and not own.promises:
            parameter.hidden = True


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


def _by_help(owners: list[tuple[str, Option]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, option in owners:
        found.setdefault(option.help, []).append(name)
    return found


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
