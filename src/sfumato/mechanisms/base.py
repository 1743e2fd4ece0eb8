"""Mechanism: a way to randomise one record, and the channel this amounts to."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.channels import Channel, NotLumpableError, Product, Retain
from sfumato.channels.channel import has_known_laws
from sfumato.domain import Cells, Columns, Domain
from sfumato.errors import DataError, ParameterError, PrivacyError, Unanswerable, listing
from sfumato.mechanisms.in_rounds import RoundDesign
from sfumato.mechanisms.parameters import (
    AskedSet,
    InFile,
    Option,
    Supports,
    check_given,
    parsed,
)
from sfumato.mechanisms.program import Program, with_public
from sfumato.mechanisms.steps.step import Step, product_of, run_steps
from sfumato.observation import CellTally, ItemLaw, Observation, SymbolLaw, joined
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream
from sfumato.renderers.html import MOST_LINES
from sfumato.result import Shown
from sfumato.untrusted import Untrusted
from sfumato.view import View

SHOWN = 200  # letters of a parameter where a mechanism is looked at
TYPICAL_BASKET = 6  # the items of a basket where a choice or a plan must take some number
Within = Sequence[NDArray[Any]]  # one array (groups, cells) a column
T = TypeVar("T")
M = TypeVar("M", bound="Mechanism")


def by_parameters(find: Callable[[Any], T]) -> T:
    """A cached property, by which a mechanism states what the base class has an attribute for."""
    return cached_property(find)  # type: ignore[return-value]


@checked
class Mechanism(Shown, ABC):
    """How a record is randomised; its privacy, standard errors, plan and place in the collector
    follow from the channel.

    A subclass is a frozen dataclass with a `domain` (the true records as the mechanism sees them:
    cells, numbers or baskets) and its parameters, checked and rounded towards privacy on
    construction. It says what happens to the private columns; public columns pass beside them
    unchanged.
    """

    # What it states of itself: an attribute where it is so for all of its kind, a property (for
    # type checkers `by_parameters`) where it follows from the parameters.

    name: ClassVar[str]  # as on the command line and in files
    summary: ClassVar[str] = ""  # what it is for, in a few words
    options: ClassVar[tuple[Option, ...]] = ()  # what it can be told, beside or instead of γ
    in_file: ClassVar[tuple[InFile, ...]] = ()  # its parameters, as they stand in a file
    called: ClassVar[Mapping[str, str]] = {}  # parameters by what people may call them
    promises: ClassVar[bool] = True  # whether a guarantee can be asked of it
    rounds: ClassVar[RoundDesign | None] = None  # the series of which it is a round, if any
    in_rounds: ClassVar[bool] = False  # whether it stands for all rounds of a series, in a plan
    domain: Domain
    needs_all_rows: bool = False  # a record is not randomised without the others: no streaming
    caveats: tuple[str, ...] = ()  # what it does not protect, in plain words
    details: Mapping[str, Any] = {}  # what else people should see of it, as JSON data
    # The sets of private columns that single reports speak of; None where each speaks of all.
    together: tuple[tuple[str, ...], ...] | None = None
    asked_sets: tuple[AskedSet, ...] | None = None  # how many people are asked about which; or all
    # The most private columns of which any can be asked about together; None where nothing but
    # what was asked sets a limit.
    at_once: int | None = None
    joins_by_model: bool = False  # a fitted model alone says what columns are together
    beyond_prediction: tuple[str, ...] = ()  # what `predicted_variance` leaves out
    item_law: ItemLaw | None = None  # how supports come back of reports that are baskets
    symbol_law: SymbolLaw | None = None  # of reports that are one symbol for a whole basket

    # What must be written: its parameters, in a file, unless `in_file` says it; and the steps, or
    # else `randomise` and `guarantee`.

    def parameters(self) -> dict[str, Any]:
        """The public parameters as JSON data, from which `from_parameters` makes an equal
        mechanism.
        """
        return {each.name: each.write(getattr(self, each.name)) for each in self.in_file}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        """The mechanism with these parameters."""
        make: Callable[..., Self] = cls
        given = Untrusted(parameters, f"the parameters of {cls.name}")
        return make(domain, **{each.name: each.read(given[each.name]) for each in cls.in_file})

    @classmethod
    @abstractmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        """The most informative mechanism of this kind whose guarantee is at most the
        one asked for.
        """

    def steps(self) -> tuple[Step, ...]:
        """What a respondent's device does to one record: steps on the private columns and the
        private reports, numbered from 0. A mechanism that cannot say so writes `randomise` itself,
        and has no form.
        """
        raise PrivacyError(f"{self.name} cannot be written as a client program")

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        """The reports of these private columns, drawn once: rows independent, each by its record's
        column of the channel. Its steps say how, for one record as for many.
        """
        return run_steps(steps_of(self), columns, rng)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What a respondent is promised, computed exactly from the integers of its steps."""
        return Guarantee(product_of(step.gamma for step in steps_of(self)))

    # The channel of private columns that are reported as themselves; where reports live in other
    # columns, `private_reports`, `observe_private` and `private_likelihood`.

    @property
    def private_channel(self) -> Channel:
        """The channel over the axes of `domain.private`, where it can be written down."""
        raise Unanswerable(f"the reports of {self.name} have no channel over whole records")

    @property
    def private_reports(self) -> Domain:
        """The domain of the randomised columns; the private domain itself unless the mechanism
        reports in another.
        """
        return self.domain.private

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        """What to count for these cells of private columns, and the channel of that tally.

        By default the same cells of the same columns; where merged cells have no channel of their
        own, every cell of the private domain.
        """
        private = self.domain.private
        axes = [private.axis(part.name) for part in cells]
        try:
            channel = self.private_channel_over(axes).coarsen(cells)
        except NotLumpableError:
            cells = [private.cells_of(axis.name) for axis in private.axes]
            channel = self.private_channel
        return Observation(tuple(cells), CellTally(tuple(cells)), channel)

    def private_likelihood(
        self,
        reports: Columns,
        cells: Sequence[Cells],
        within: Within | None,
        margins: Within | None,
    ) -> NDArray[Any]:  # (rows, groups)
        """`likelihood` for private columns; override it where reports live in other columns."""
        axes = [self.domain.private.axis(part.name) for part in cells]
        try:
            channel = self.private_channel_over(axes).coarsen(cells)
        except NotLumpableError:
            raise Unanswerable(
                f"what {self.name} reports of a few columns depends on the others",
                hint="ask about every column, in its own cells",
            ) from None
        columns = [reports[self.reports.index(part.attribute.name)] for part in cells]
        codes = [_assigned(part, column) for part, column in zip(cells, columns, strict=True)]
        if within is not None:
            return safe_log(channel.mixed(codes, within, margins))
        if not has_known_laws(channel) and margins is not None:
            channel = channel.settle(reduce(np.multiply.outer, margins))
        return safe_log(channel.to_dense())[np.ravel_multi_index(tuple(codes), channel.outputs)]

    # What may be written.

    @classmethod
    def from_options(
        cls, domain: Domain, given: Mapping[str, Any], supports: Supports | None = None
    ) -> Self:
        """The mechanism with the parameters that people gave, by the names of `options`."""
        make: Callable[..., Self] = cls
        found = parsed(cls.options, given)
        check_given(cls.name, cls.options, given)
        taken = inspect.signature(cls).parameters
        unsaid = [name for name in taken if name not in {"domain", *found}]
        if any(taken[name].default is inspect.Parameter.empty for name in unsaid):
            raise ParameterError(f"{cls.name} needs {listing(unsaid)}", hint="or give a guarantee")
        return make(domain, **found)

    def private_channel_over(self, axes: Sequence[int]) -> Channel:
        """The channel of a few private axes; override it where the whole channel is costly to write
        down.
        """
        return self.private_channel.marginal(axes)

    def most_likely(self, reports: Columns) -> tuple[NDArray[Any], float] | None:
        """The highest chance that any record gives each of these private reports, and a bound on
        its sum over all reports; None where a tally counts whole reports anyhow, or none is known.

        By default for columns reported as themselves: no record makes a report more than γ times as
        likely as one that differs from it everywhere does.
        """
        gamma = float(self.guarantee.gamma)
        if self.private_reports != self.domain.private or gamma == math.inf:
            return None
        if not has_known_laws(self.private_channel):
            return None
        shown = axis_codes(reports)
        sizes = [axis.size for axis in self.domain.private.axes]
        others = [(code + 1) % size for code, size in zip(shown, sizes, strict=True)]
        least = self.private_channel.chances(shown, others)  # 0 where a float cannot hold it
        return np.where(least > 0, np.minimum(gamma * least, 1), 1), gamma**2

    def predicted_variance(
        self, cells: Sequence[Cells], weights: NDArray[Any], shares: NDArray[Any]
    ) -> float | None:
        """What one person adds to the variance of Σ weights·shares over these private cells, before
        anything is observed; None where these have no closed form.
        """
        return None

    def modelled_variance(
        self,
        cells: Sequence[Cells],
        weights: NDArray[Any],
        shares: NDArray[Any],
        people: float,
        order: int,
    ) -> float | None:
        """The same of a fitted model's answer, times so many people: a model of interactions of up
        to `order` columns, which shrinks them the more the fewer people there are.
        """
        return None

    # What follows for whole records: public columns pass beside the private ones.

    @cached_property
    def reports(self) -> Domain:
        """The domain of the reports: public columns keep their places where the private ones keep
        their number.
        """
        if not any(attribute.public for attribute in self.domain):
            return self.private_reports
        private, whole = self.private_reports.attributes, self.domain.attributes
        return Domain(_with_public(self.domain, private, whole), self.domain.title)

    def program(self) -> Program:
        """The integer steps that a respondent's device runs on one record; refused where it would
        need other people's records, or would promise nothing.
        """
        if self.needs_all_rows:
            raise PrivacyError(
                f"{self.name} needs all records at once, so no respondent can run it",
                hint="it is a data owner's method; use gamma-diagonal or mask",
            )
        if self.guarantee.gamma == math.inf:  # a finite one may be too large for a float
            raise PrivacyError(
                f"{self.name} promises nothing with these parameters, so no respondent should "
                "run it",
                hint="use one that promises a gamma",
            )
        return with_public(self.domain, self.reports, steps_of(self))

    def perturb(self, columns: Columns, rng: Keystream) -> Columns:
        """The reports of these records: private columns randomised, public ones as they are."""
        if len(columns) != len(self.domain):
            raise DataError(f"{len(columns)} columns were given for {len(self.domain)} attributes")
        private = [c for c, own in zip(columns, self.domain, strict=True) if not own.public]
        return _with_public(self.domain, self.randomise(tuple(private), rng), columns)

    def observe(self, cells: Sequence[Cells]) -> Observation:
        """What to count of the reports for these cells of the records, and the channel of that
        tally.

        Public columns are counted as they are, beside the private ones; the observation lists them
        first.
        """
        public = [part for part in cells if is_public(self.domain, part)]
        private = [part for part in cells if not is_public(self.domain, part)]
        if not private:
            return Observation.plain(public)
        inside = self.observe_private(private)
        return joined([Observation.plain(public), inside], cells) if public else inside

    def likelihood(
        self,
        reports: Columns,
        cells: Sequence[Cells],
        within: Within | None = None,
        shares: NDArray[Any] | None = None,
    ) -> NDArray[Any]:  # (rows, groups)
        """log P(what a report says of these columns | group), up to a term the same for all groups.

        Without `within` every combination of the cells is a group; else `within[j]` has one row a
        group, the distribution of column j among its people, columns independent inside a group.
        Other columns are summed out. A law that is a column's own is its margin over the groups,
        weighted by their `shares`. A report that says nothing of these columns is 0 for all.
        """
        if not cells or len(reports) != len(self.reports):
            raise DataError("a likelihood is one of whole reports, about one or more columns")
        groups = every_cell(cells) if within is None else [np.asarray(part) for part in within]
        if len(groups) != len(cells) or (shares is not None and len(shares) != len(groups[0])):
            raise ParameterError("within has one array a column, shares one number a group")
        weights = np.full(len(groups[0]), 1 / len(groups[0])) if shares is None else shares
        inside = [place for place, part in enumerate(cells) if not is_public(self.domain, part)]
        margins = [weights @ groups[place] for place in inside]
        if within is None and len(inside) == len(cells):
            return self.private_likelihood(reports, cells, None, margins)
        logs = np.zeros((rows_of(reports), len(groups[0])))
        for place, part in enumerate(cells):
            if is_public(self.domain, part):
                column = reports[self.reports.index(part.attribute.name)]
                logs += safe_log(groups[place][:, _assigned(part, column)].T)
        if inside:
            own = [cells[place] for place in inside]
            chosen = [groups[place] for place in inside]
            logs += self.private_likelihood(reports, own, chosen, margins)
        return logs

    def __repr__(self) -> str:
        return f"{self.name} of {listing(self.domain.names)}: {self.guarantee}"

    def view(self) -> View:
        """The guarantee and what makes it."""
        facts = [
            ("guarantee", str(self.guarantee)),
            ("columns", listing(self.domain.names, most=MOST_LINES)),
        ]
        for name, value in self.parameters().items():
            text = str(value)
            short = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
            facts.append((name.replace("_", " "), short))
        return View(self.name, facts=facts, notes=self.caveats)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What follows from a mechanism are functions since 0.3; as attributes they go."""
            if name not in _FORMER:
                raise AttributeError(f"a {type(self).__name__} has no '{name}'")
            now, found = _FORMER[name]
            warn(f"Mechanism.{name} is now {now}", DeprecationWarning, stacklevel=2)
            return found(self)


_FORMER = {
    "channel": (f"{__name__}.channel_over", lambda of: channel_over(of)),
    "channel_over": (f"{__name__}.channel_over", lambda of: partial(channel_over, of)),
    "described": ("Mechanism.details", lambda of: lambda: of.details),
    "spec": (f"{__name__}.spec_of", lambda of: partial(spec_of, of)),
}


def steps_of(mechanism: Mechanism) -> tuple[Step, ...]:
    """The steps of a mechanism, written down once: a matrix has a million integers."""
    own = vars(mechanism)
    if "_steps" not in own:
        own["_steps"] = mechanism.steps()
    found: tuple[Step, ...] = own["_steps"]
    return found


def spec_of(mechanism: Mechanism) -> dict[str, Any]:
    """Everything public about a mechanism, as JSON data; `registry.from_spec` makes an equal one of
    it.
    """
    return {
        "mechanism": mechanism.name,
        "domain": mechanism.domain.to_dict(),
        "parameters": mechanism.parameters(),
    }


def channel_over(mechanism: Mechanism, axes: Sequence[int] | None = None) -> Channel:
    """The channel of a few axes of the domain in the order given, or of all; the public ones by the
    identity.
    """
    every = mechanism.domain.axes
    shown = [axis.attribute.public for axis in every]
    axes = range(len(every)) if axes is None else axes
    inside = [place for place, axis in enumerate(axes) if not shown[axis]]
    outside = [place for place, axis in enumerate(axes) if shown[axis]]
    own = [axes[place] - sum(shown[: axes[place]]) for place in inside]
    if not outside:
        return mechanism.private_channel_over(own)
    identity = Retain.identity([every[axes[place]].size for place in outside])
    if not inside:
        return identity
    private = mechanism.private_channel_over(own)
    return Product((private, identity), (tuple(inside), tuple(outside)))


def is_public(domain: Domain, part: Cells) -> bool:
    """Whether cells are of a column that is reported as it is."""
    return domain[part.attribute.name].public


def _with_public(domain: Domain, private: Sequence[T], whole: Sequence[T]) -> tuple[T, ...]:
    """What is private beside what is public of the whole: in their places where the private ones
    keep their number, else the public ones behind.
    """
    public = [part for part, own in zip(whole, domain, strict=True) if own.public]
    if len(private) + len(public) != len(whole):
        return (*private, *public)
    rest = iter(private)
    pairs = zip(whole, domain, strict=True)
    return tuple(part if own.public else next(rest) for part, own in pairs)


def every_cell(cells: Sequence[Cells]) -> list[NDArray[Any]]:
    """Every combination of the cells as a group of its own: all its people are in one cell."""
    shape = tuple(part.size for part in cells)
    places = np.unravel_index(np.arange(math.prod(shape)), shape)
    return [np.eye(size)[place] for size, place in zip(shape, places, strict=True)]


def safe_log(chances: NDArray[Any]) -> NDArray[Any]:
    """The logarithm of probabilities, very small for what cannot happen."""
    return np.log(np.maximum(chances, 1e-300))


def _assigned(part: Cells, column: Any) -> NDArray[np.intp]:
    return np.asarray(part.assign(column)).astype(np.intp)


def axis_codes(columns: Columns) -> list[NDArray[np.intp]]:
    """The codes of every axis: those of a column, or whether a basket holds an item."""
    codes: list[NDArray[np.intp]] = []
    for column in columns:
        if isinstance(column, Bits):
            codes += list(column.to_dense().T.astype(np.intp))
        else:
            codes.append(np.asarray(column).astype(np.intp))
    return codes


def rows_of(columns: Columns) -> int:
    """How many records a batch holds."""
    return len(columns[0])


def check_kept(mechanism: M, asked: Guarantee) -> M:
    """The mechanism, refused if its guarantee came out above the one asked for: rounding must go
    towards privacy.
    """
    if not asked.allows(mechanism.guarantee):
        raise PrivacyError(
            f"{mechanism.name} would give {mechanism.guarantee}, above the {asked} asked for"
        )
    return mechanism
