"""From options to a mechanism: a guarantee given one way, or the mechanism's own parameters."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError, listing

if TYPE_CHECKING:
    from sfumato.domain import Domain
    from sfumato.mechanisms.base import Mechanism
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.table import Reader

# The options that belong to each mechanism, and those of them that may stand beside a guarantee.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "gamma-diagonal": (),
    "randomized-gamma": ("spread",),
    "retention": ("keep", "replace"),
    "swapping": ("keep",),
    "mask": ("keep", "keep_ones", "keep_zeros"),
    "fp-nfp": ("fp", "nfp", "min_support"),
    "cut-and-paste": ("cutoff", "insert"),
    "matrix": ("matrix",),
    "combined": (),
}
BESIDE_GUARANTEE = ("spread", "replace")


@dataclass(frozen=True)
class MechanismOptions:
    """What was said on the command line about the mechanism; None is what was not said."""

    mechanism: str | None = None
    gamma: float | None = None
    epsilon: float | None = None
    rho1: float | None = None
    rho2: float | None = None
    keep: str | None = None
    replace: str | None = None
    keep_ones: float | None = None
    keep_zeros: float | None = None
    spread: float | None = None
    fp: float | None = None
    nfp: float | None = None
    min_support: float | None = None
    cutoff: int | None = None
    insert: float | None = None
    matrix: Path | None = None

    def guarantee(self) -> Guarantee | None:
        """The guarantee asked for, which may be stated one way only."""
        from sfumato.privacy.guarantee import Guarantee

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
        if self.gamma is not None:
            return Guarantee(_exactly(self.gamma))
        if self.epsilon is not None:
            return Guarantee.from_epsilon(self.epsilon)
        if self.rho1 is not None and self.rho2 is not None:
            return Guarantee.from_breach(self.rho1, self.rho2)
        return None

    def parameters(self) -> dict[str, Any]:
        """The parameters that were given."""
        names = dict.fromkeys(name for names in PARAMETERS.values() for name in names)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def build(self, domain: Domain, reader: Reader | None) -> Mechanism:
        """The mechanism for these records; fp-nfp reads them once to see which items
        are frequent.
        """
        from sfumato.mechanisms.registry import mechanism_class

        name = self.mechanism or ("mask" if domain.baskets else "gamma-diagonal")
        kind, guarantee, given = mechanism_class(name), self.guarantee(), self.parameters()
        _check_belong(name, given)
        if guarantee is None:
            return _from_parameters(name, kind, domain, given, reader)
        against = [option for option in given if option not in BESIDE_GUARANTEE]
        if against:
            raise ParameterError(
                f"a guarantee and {_flag(against[0])} contradict each other: either decides how "
                "much is kept",
                hint="give the guarantee or the parameters",
            )
        return kind.promising(guarantee, domain, **_parsed(given))


def _exactly(number: float) -> Fraction | float:
    """The decimal as it was written, where it is a number at all."""
    try:
        return Fraction(repr(number))
    except ValueError:
        return number


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _check_belong(name: str, given: dict[str, Any]) -> None:
    for option in given:
        if option not in PARAMETERS[name]:
            owners = [owner for owner, options in PARAMETERS.items() if option in options]
            raise ParameterError(
                f"{_flag(option)} is no option of {name}",
                hint=f"it belongs to {' and '.join(owners)}",
            )


def _from_parameters(
    name: str, kind: Any, domain: Domain, given: dict[str, Any], reader: Reader | None
) -> Mechanism:
    if name == "matrix" and "matrix" in given:
        return kind.from_file(given["matrix"], domain)
    if name == "mask" and "keep" in given:
        return _symmetric_mask(kind, domain, given)
    needed = [
        option
        for option in PARAMETERS[name]
        if option not in ("keep" if name == "mask" else "", *BESIDE_GUARANTEE)
    ]
    missing = [option for option in needed if option not in given]
    if missing and len(missing) < len(needed):
        raise ParameterError(f"{name} needs {' and '.join(map(_flag, missing))} as well")
    if missing or not needed:
        raise _nothing_said(name, needed)
    if name == "fp-nfp":
        if reader is None:
            raise ParameterError(
                "fp-nfp counts the items before it perturbs them, which is not done by Spark",
                hint="use mask",
            )
        return kind.from_supports(domain, _supports(domain, reader), **given)
    return kind(domain, **_parsed(given))


def _symmetric_mask(kind: Any, domain: Domain, given: dict[str, Any]) -> Mechanism:
    if len(given) > 1:
        raise ParameterError(
            "--keep is for ones and zeros alike, so it cannot stand beside --keep-ones or "
            "--keep-zeros"
        )
    keep = _keep(given["keep"])
    if isinstance(keep, dict):
        raise ParameterError("mask takes one --keep for all items, not one a column")
    return kind(domain, keep, keep)


def _nothing_said(name: str, needed: list[str]) -> ParameterError:
    own = " ".join(map(_flag, needed))
    if name in ("swapping", "matrix", "fp-nfp"):
        return ParameterError(f"{name} needs {own}")
    ways = "--gamma 19, --epsilon 2.944 or --rho1 0.05 --rho2 0.50"
    return ParameterError(
        f"it is not said what {name} should promise",
        hint=f"give {ways}" + (f"; or {own}" if own else ""),
    )


def _parsed(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters as a mechanism takes them: --keep and --replace may be one for all columns or
    one for each.
    """
    parsed = dict(given)
    if "keep" in parsed:
        parsed["keep"] = _keep(parsed["keep"])
    if "replace" in parsed:
        parsed["replace"] = _each_or_all("--replace", parsed["replace"])
    return parsed


def _keep(text: str) -> float | dict[str, float]:
    words = _each_or_all("--keep", text)
    try:
        return (
            float(words)
            if isinstance(words, str)
            else {name: float(word) for name, word in words.items()}
        )
    except ValueError:
        raise ParameterError(
            f"--keep {text} is not a number", hint="as in --keep 0.4, or --keep age=0.2,sex=0.6"
        ) from None


def _each_or_all(flag: str, text: str) -> str | dict[str, str]:
    if "=" not in text:
        return text
    pairs = [part.rpartition("=") for part in text.split(",")]
    if any(not name or not word for name, _, word in pairs):
        raise ParameterError(
            f"{flag} {text} should be one value, or one a column as in age=…,sex=…"
        )
    return {name.strip(): word.strip() for name, _, word in pairs}


def _supports(domain: Domain, reader: Reader) -> Any:
    """The true support of every report item, by one pass over the data."""
    import numpy as np

    from sfumato.bits import Bits
    from sfumato.table import Table

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
