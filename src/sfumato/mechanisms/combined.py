"""Combined: independent mechanisms, each on its own group of attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.channels import Channel, Product
from sfumato.domain import Cells, Columns, Domain, Items
from sfumato.errors import ParameterError, SchemaError
from sfumato.mechanisms.base import (
    Mechanism,
    Within,
    by_parameters,
    check_kept,
    every_cell,
    rows_of,
    spec_of,
)
from sfumato.mechanisms.limits import SHARE_STEP
from sfumato.mechanisms.program import moved_step
from sfumato.mechanisms.registry import from_spec, mechanism_class
from sfumato.mechanisms.steps import Step
from sfumato.observation import Observation, joined, renamed
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream
from sfumato.untrusted import MOST_ATTRIBUTES, Untrusted


@checked
@dataclass(frozen=True, repr=False)
class Combined(Mechanism):
    """Each part randomises its own attributes; the channel is the product of theirs, and so is
    gamma.

    The parts share out the private attributes of the domain, each with a domain of its own that
    names them as they stand there.

    >>> from sfumato.domain import Category
    >>> from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
    >>> sex = Domain((Category("sex", ("f", "m")),))
    >>> pet = Domain((Category("pet", ("cat", "dog", "eel")),))
    >>> Combined.of(GammaDiagonal(sex, 3), GammaDiagonal(pet, 5)).guarantee
    Guarantee(gamma=15)
    """

    name = "combined"
    summary = "each binned column, or each group of columns, by a mechanism of its own"
    domain: Domain
    parts: tuple[Mechanism, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        named = [attribute for part in self.parts for attribute in part.domain]
        names = [attribute.name for attribute in named]
        for attribute in named:
            own = self.domain[attribute.name]
            if own.public or attribute.public:
                raise SchemaError(
                    f"attribute '{attribute.name}' is public, so no part may randomise it"
                )
            if own != attribute:
                raise SchemaError(
                    f"attribute '{attribute.name}' has other values in its part than in the domain",
                    hint="bin both",
                )
            if names.count(attribute.name) > 1:
                raise SchemaError(
                    f"attribute '{attribute.name}' is randomised by two parts; give it to one"
                )
        left = [name for name in self.domain.private.names if name not in names]
        if left:
            raise SchemaError(
                f"no part randomises attribute '{left[0]}'; give it to one, or make it public"
            )

    @classmethod
    def of(cls, *parts: Mechanism) -> Self:
        """The combination of these parts on the attributes they name, in that order."""
        if not parts:
            raise ParameterError("a combination needs at least one part; found none")
        return cls(Domain(tuple(attribute for part in parts for attribute in part.domain)), parts)

    @classmethod
    def promising(
        cls, guarantee: Guarantee, domain: Domain, *, groups: Sequence[Sequence[str]] | None = None
    ) -> Self:
        """Every group gets γ^(1/groups): records by gamma-diagonal, baskets by mask; by default
        each attribute alone.
        """
        binned = domain.binned()
        groups = [[name] for name in binned.private.names] if groups is None else groups
        if not groups:
            raise ParameterError("no group of columns was named", hint="name one or more")
        guarantee.check_finite()
        # The largest gamma of a group, in steps of 2^-20, whose power is not above the guarantee.
        count = math.floor(math.exp(guarantee.epsilon / len(groups)) * SHARE_STEP) + 1
        while Fraction(count, SHARE_STEP) ** len(groups) > guarantee.gamma:
            count -= 1
        share, parts = Guarantee(Fraction(count, SHARE_STEP)), list[Mechanism]()
        for group in groups:
            own = replace(binned.project(group), title=None)
            baskets = any(isinstance(attribute, Items) for attribute in own)
            kind = mechanism_class("mask" if baskets else "gamma-diagonal")
            parts.append(kind.promising(share, own))
        return check_kept(cls(binned, tuple(parts)), guarantee)

    @by_parameters
    def needs_all_rows(self) -> bool:
        return any(part.needs_all_rows for part in self.parts)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(Fraction(1)).compose(*(part.guarantee for part in self.parts))

    @by_parameters
    def caveats(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(caveat for part in self.parts for caveat in part.caveats))

    @cached_property
    def private_reports(self) -> Domain:
        """Columns that are reported as themselves in their places, the others behind them, under
        names of their own.
        """
        own = {a.name: a for part in self.parts if _in_place(part) for a in part.reports}
        kept = [own[name] for name in self.domain.private.names if name in own]
        others = [
            replace(attribute, name=names[attribute.name])
            for part, names in zip(self.parts, self.report_names, strict=True)
            if not _in_place(part)
            for attribute in part.reports
        ]
        return replace(self.domain.private, attributes=(*kept, *others))

    @cached_property
    def report_names(self) -> tuple[dict[str, str], ...]:
        """For each part, the names that its report columns have here."""
        taken = {name for part in self.parts if _in_place(part) for name in part.reports.names}
        taken |= set(self.domain.names)
        found: list[dict[str, str]] = []
        for part in self.parts:
            names: dict[str, str] = {}
            for name in part.reports.names:
                free, number = name, 2  # the first number that makes it new
                while free in taken and not _in_place(part):
                    free, number = f"{name} {number}", number + 1
                names[name] = free
                taken.add(free)
            found.append(names)
        return tuple(found)

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        """Each part's own observation of its columns, joined."""
        parts = []
        for part, names in zip(self.parts, self.report_names, strict=True):
            own = [cell for cell in cells if cell.attribute.name in part.domain]
            if own:
                seen = part.observe(own)
                changed = any(old != new for old, new in names.items())
                parts.append(replace(seen, tally=renamed(seen.tally, names)) if changed else seen)
        return joined(parts, cells)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float] | None:
        """The product of what each part says of its own columns."""
        highest, total = np.ones(rows_of(reports)), 1.0
        for part, names in zip(self.parts, self.report_names, strict=True):
            own = (self.private_reports.index(names[n]) for n in part.private_reports.names)
            found = part.most_likely(tuple(reports[place] for place in own))
            if found is None:
                return None
            highest, total = highest * found[0], total * found[1]
        return highest, total

    def private_likelihood(
        self,
        reports: Columns,
        cells: Sequence[Cells],
        within: Within | None,
        margins: Within | None,
    ) -> NDArray[Any]:
        within = every_cell(cells) if within is None else within
        logs = np.zeros((rows_of(reports), len(within[0])))
        for part, names in zip(self.parts, self.report_names, strict=True):
            own = [j for j, cell in enumerate(cells) if cell.attribute.name in part.domain]
            if own:
                columns = tuple(reports[self.reports.index(names[n])] for n in part.reports.names)
                logs += part.private_likelihood(
                    columns,
                    [cells[j] for j in own],
                    [within[j] for j in own],
                    None if margins is None else [margins[j] for j in own],
                )
        return logs

    @cached_property
    def private_channel(self) -> Channel:
        return self.private_channel_over(range(len(self.domain.private.axes)))

    def private_channel_over(self, axes: Sequence[int]) -> Channel:
        """The product of the parts' channels over those of these axes that are theirs; other parts
        are never written down.
        """
        names = [self.domain.private.axes[axis].name for axis in axes]
        factors, places = [], []
        for part in self.parts:
            own = {axis.name: place for place, axis in enumerate(part.domain.axes)}
            kept = [place for place, name in enumerate(names) if name in own]
            if kept:
                factors.append(part.private_channel_over([own[names[place]] for place in kept]))
                places.append(tuple(kept))
        return Product(tuple(factors), tuple(places))

    def parameters(self) -> dict[str, Any]:
        return {"parts": [spec_of(part) for part in self.parts]}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        parts = Untrusted(parameters, "the parameters of combined")["parts"]
        return cls(domain, tuple(from_spec(p.value) for p in parts.entries(MOST_ATTRIBUTES)))

    def steps(self) -> tuple[Step, ...]:
        private, reports = self.domain.private, self.private_reports
        moved: list[Step] = []
        for part, names in zip(self.parts, self.report_names, strict=True):
            own = [private.index(name) for name in part.domain.names]
            shown = [reports.index(names[name]) for name in part.reports.names]
            moved += [moved_step(step, own, shown) for step in part.program().steps]
        return tuple(moved)

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        private = self.domain.private
        drawn: dict[str, Any] = {}
        for part, names in zip(self.parts, self.report_names, strict=True):
            own = tuple(columns[private.index(name)] for name in part.domain.names)
            reports = part.perturb(own, rng)
            drawn |= {names[n]: c for n, c in zip(part.reports.names, reports, strict=True)}
        return tuple(drawn[name] for name in self.private_reports.names)


def side_by_side(domain: Domain, mechanisms: Sequence[Mechanism]) -> Combined:
    """What several mechanisms make of columns of the same people, perturbed apart."""
    return Combined(domain, tuple(part for each in mechanisms for part in _private_parts(each)))


def report_names(whole: Mechanism, mechanisms: Sequence[Mechanism]) -> list[dict[str, str]]:
    """For each of the mechanisms that stand side by side, the names its report columns have."""
    assert isinstance(whole, Combined)
    names = iter(whole.report_names)
    return [
        {old: new for _ in _private_parts(each) for old, new in next(names).items()}
        for each in mechanisms
    ]


def _private_parts(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """The mechanism without its public columns, which any combination passes by itself."""
    if isinstance(mechanism, Combined):
        return mechanism.parts
    private = replace(mechanism.domain.private, title=None)
    if private == mechanism.domain:
        return (mechanism,)
    return (from_spec({**spec_of(mechanism), "domain": private.to_dict()}),)


def _in_place(part: Mechanism) -> bool:
    """Whether a part reports the very columns that it was given."""
    return part.reports.names == part.domain.names
