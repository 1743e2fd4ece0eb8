"""Mechanism: a way to randomise one record, and the channel this amounts to."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from sfumato.bits import Bits
from sfumato.channels import Channel, Product, Retain
from sfumato.domain import Columns, Domain
from sfumato.errors import EstimationError, PrivacyError
from sfumato.mechanisms.program import Program, with_public
from sfumato.mechanisms.steps import Step
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream


class Mechanism(ABC):
    """How a record is randomised; its privacy, standard errors, plan and place in the collector
    follow from the channel.

    A subclass is a frozen dataclass with a `domain` (the true records as the mechanism sees them:
    cells, numbers or baskets) and its parameters, checked and rounded towards privacy on
    construction. It sees only the private columns: public ones pass beside it unchanged.
    """

    name: ClassVar[str]  # as on the command line and in files
    domain: Domain

    # What every mechanism must say.

    @abstractmethod
    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        """The reports of these private columns, drawn once: rows independent, each by its record's
        column of the channel.
        """

    @property
    @abstractmethod
    def private_channel(self) -> Channel:
        """The channel over the axes of `domain.private`."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What a respondent is promised, computed exactly from the integers that are sampled."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The public parameters as JSON data, from which `from_parameters` makes an equal
        mechanism.
        """

    @classmethod
    @abstractmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        """The mechanism with these parameters."""

    @classmethod
    @abstractmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        """The most informative mechanism of this kind whose guarantee is at most the
        one asked for.
        """

    # What may be overridden.

    @property
    def needs_all_rows(self) -> bool:
        """Whether a record cannot be randomised without seeing the others, so that a file cannot be
        streamed.
        """
        return False

    @property
    def private_reports(self) -> Domain:
        """The domain of the randomised columns; the private domain itself unless the mechanism
        reports in another.
        """
        return self.domain.private

    @property
    def caveats(self) -> tuple[str, ...]:
        """What this mechanism does not protect, in plain words."""
        return ()

    @property
    def reports_in_items(self) -> bool:
        """Whether a report is a basket that cannot be counted cell by cell in the records' own
        domain; see `item_votes`.
        """
        return False

    @property
    def item_keeps(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """For reports that are baskets with every item flipped on its own: the probabilities of
        keeping ones and zeros.
        """
        return None

    @property
    def longest_itemset(self) -> int | None:
        """The most items whose joint presence leaves a trace in the reports; None where there is no
        such limit.
        """
        return None

    def number_votes(self, length: int) -> NDArray[Any] | None:  # (length + 1,)
        """The votes of a report that shows 0, 1, … of `length` items, where nothing else matters;
        None where it does.
        """
        return None

    def item_votes(self, reports: Columns, items: Sequence[int]) -> NDArray[Any]:  # (rows,)
        """For reports that are baskets: each report's unbiased vote on whether its record holds all
        these items.
        """
        raise EstimationError(f"{self.name} does not report items")

    def private_channel_over(self, axes: Sequence[int]) -> Channel:
        """The channel of a few private axes; override it where the whole channel is costly to write
        down.
        """
        return self.private_channel.marginal(axes)

    def steps(self) -> tuple[Step, ...]:
        """What a respondent's device does to one record: steps on the private columns and the
        private reports, numbered from 0.
        """
        raise PrivacyError(f"{self.name} cannot be written as a client program")

    # What follows.

    def program(self) -> Program:
        """The integer steps that a respondent's device runs on one record; refused where it would
        need other people's records, or would promise nothing.
        """
        if self.needs_all_rows:
            raise PrivacyError(
                f"{self.name} needs all records at once, so no respondent can run it",
                hint="it is a data owner's method; use gamma-diagonal or mask",
            )
        if math.isinf(self.guarantee.gamma):
            raise PrivacyError(
                f"{self.name} promises nothing with these parameters, so no respondent should "
                "run it",
                hint="use one that promises a gamma",
            )
        return with_public(self.domain, self.reports, self.steps())

    @cached_property
    def _places(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Positions of the private and of the public attributes."""
        private = tuple(i for i, attribute in enumerate(self.domain) if not attribute.public)
        return private, tuple(i for i, attribute in enumerate(self.domain) if attribute.public)

    @cached_property
    def reports(self) -> Domain:
        """The domain of the reports: public columns keep their places where the private ones keep
        their number.
        """
        private, public = self._places
        if not public:
            return self.private_reports
        if len(self.private_reports) == len(private):
            merged = dict(zip(private, self.private_reports, strict=True)) | {
                i: self.domain.attributes[i] for i in public
            }
            return Domain(tuple(merged[i] for i in range(len(merged))), self.domain.title)
        return Domain(
            (*self.private_reports, *(self.domain.attributes[i] for i in public)), self.domain.title
        )

    def perturb(self, columns: Columns, rng: Keystream) -> Columns:
        """The reports of these records: private columns randomised, public ones as they are."""
        private, public = self._places
        drawn = self.randomise(tuple(columns[i] for i in private), rng)
        if not public:
            return drawn
        if len(drawn) == len(private):
            merged = dict(zip(private, drawn, strict=True)) | {i: columns[i] for i in public}
            return tuple(merged[i] for i in range(len(merged)))
        return (*drawn, *(columns[i] for i in public))

    @cached_property
    def channel(self) -> Channel:
        """The channel over every axis of the domain, the public ones by the identity."""
        return self.channel_over(range(len(self.domain.axes)))

    def channel_over(self, axes: Sequence[int]) -> Channel:
        """The channel of a few axes of the domain, in the order given."""
        private = self._private_axes
        inside = [axis for axis in axes if axis in private]
        outside = [axis for axis in axes if axis not in private]
        factors: list[Channel] = []
        places: list[tuple[int, ...]] = []
        if inside:
            factors.append(self.private_channel_over([private[axis] for axis in inside]))
            places.append(tuple(list(axes).index(axis) for axis in inside))
        if outside:
            factors.append(Retain.identity([self.domain.axes[axis].size for axis in outside]))
            places.append(tuple(list(axes).index(axis) for axis in outside))
        if len(factors) == 1 and places[0] == tuple(range(len(places[0]))):
            return factors[0]
        return Product(tuple(factors), tuple(places))

    @cached_property
    def _private_axes(self) -> dict[int, int]:
        """Private axes of the domain, with their positions among the private ones."""
        places = [
            i
            for i, axis in enumerate(self.domain.axes)
            if not self.domain.attributes[axis.attribute].public
        ]
        return {axis: place for place, axis in enumerate(places)}

    def spec(self) -> dict[str, Any]:
        """Everything public about the mechanism, as JSON data; `registry.from_spec` makes an equal
        one of it.
        """
        return {
            "mechanism": self.name,
            "domain": self.domain.to_dict(),
            "parameters": self.parameters(),
        }


def rows_of(columns: Columns) -> int:
    """How many records a batch holds."""
    first = columns[0]
    return first.rows if isinstance(first, Bits) else len(first)


def check_kept(mechanism: Mechanism, asked: Guarantee) -> None:
    """Refuse a mechanism whose guarantee came out above the one asked for: rounding must go towards
    privacy.
    """
    if not asked.allows(mechanism.guarantee):
        raise PrivacyError(
            f"{mechanism.name} would give {mechanism.guarantee}, above the {asked} asked for"
        )
