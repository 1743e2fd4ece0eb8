"""The mechanisms by name, so that a file can say which one made it; a new mechanism is one file and
one line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from sfumato.domain import Domain
from sfumato.errors import ParameterError, listing, near_miss
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.in_rounds import RoundDesign
from sfumato.untrusted import Untrusted

MECHANISMS = {
    "gamma-diagonal": "gamma_diagonal:GammaDiagonal",
    "randomized-gamma": "gamma_diagonal:RandomizedGamma",
    "retention": "retention:Retention",
    "permuting": "retention:Permuting",
    "mask": "bitflip:BitFlip",
    "fp-nfp": "bitflip:FrequencyFlip",
    "cut-and-paste": "cut_and_paste:CutAndPaste",
    "matrix": "matrix:UserMatrix",
    "combined": "combined:Combined",
    "questionnaire": "questionnaire:Questionnaire",
    "unary": "joint:UnaryEncoding",
    "subset-selection": "joint:SubsetSelection",
    "hadamard": "joint:HadamardResponse",
    "piecewise": "piecewise:Piecewise",
    "square-wave": "square_wave:SquareWave",
    "ranges": "ranges:Ranges",
    "item-set": "item_set:ItemSet",
}
# What version 0.1.0 called a mechanism, in its files and on its command line.
FORMER_NAMES = {"swapping": "permuting"}


def mechanism_class(name: str) -> type[Mechanism]:
    """The class of a mechanism, loaded when asked for."""
    name = FORMER_NAMES.get(name, name)
    if name not in MECHANISMS:
        raise ParameterError(
            f"no mechanism '{name}' ({listing(MECHANISMS, most=12)})",
            hint=near_miss(name, MECHANISMS),
        )
    module, _, noun = MECHANISMS[name].partition(":")
    package = "" if "." in module else "sfumato.mechanisms."  # one of another package in full
    return getattr(import_module(f"{package}{module}"), noun)


def round_design(name: str) -> RoundDesign:
    """How the mechanism of this name asks in rounds."""
    found = mechanism_class(name).rounds
    assert found is not None
    return found


def from_spec(spec: Mapping[str, Any]) -> Mechanism:
    """The mechanism that a file describes."""
    given = Untrusted(spec, "this file's description of its mechanism")
    name, domain = given["mechanism"].word(), Domain.from_dict(given["domain"].value)
    given["parameters"].fields()
    return mechanism_class(name).from_parameters(domain, spec["parameters"])
