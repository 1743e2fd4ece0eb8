"""Channel: the matrix that true counts pass through on their way to a tally of reports; and the law
from which a replaced value is drawn.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.limits import ENTRIES
from sfumato.domain import Cells
from sfumato.errors import EstimationError

Counts = NDArray[Any]
Formula = Callable[[Any, Counts], Counts]


class NotLumpableError(EstimationError):
    """Cells of this channel cannot be merged: what is reported depends on more than the merged
    cell.
    """


@dataclass(frozen=True, eq=False)
class Distribution:
    """What a value that is not kept is drawn from, on the codes 0..size-1 of an axis.

    `masses` None is uniform, so that a fine grid costs nothing; or the column's `own` (identity
    perturbation, permuting), read off the reports, for their marginal is unchanged. `permuted` says
    that the replaced values were permuted among themselves, so that the column's counts have no
    error at all.
    """

    size: int
    masses: NDArray[np.float64] | None = None
    own: bool = False
    permuted: bool = False

    @property
    def uniform(self) -> bool:
        """Whether every code has the same mass."""
        return self.masses is None and not self.own

    def vector(self) -> NDArray[np.float64]:
        """The masses, one a code."""
        if self.own:
            raise EstimationError(
                "this is the column's own distribution; settle the channel with the observed "
                "counts first"
            )
        return np.full(self.size, 1 / self.size) if self.masses is None else self.masses

    def coarsen(self, cells: Cells) -> Distribution:
        """That of merged cells: masses are summed."""
        if self.own:
            return replace(self, size=cells.size)
        if self.masses is None:
            return Distribution(cells.size, cells.counts() / self.size)
        return Distribution(cells.size, cells.sum(self.masses))

    @property
    def least(self) -> float:
        """The smallest mass; nothing is promised about a value that no one else holds."""
        return 0.0 if self.own else float(self.vector().min())


class Replacement(NamedTuple):
    """A value is kept with this probability, else drawn."""

    keep: float
    drawn: Distribution
    alone: bool  # whether it is drawn on its own, or never: else together with other axes


class Channel(ABC):
    """A matrix A with A[v, u] = the expected tally at v of one record u, known by its structure.

    Where each report is counted once, A[v, u] = P(report v | truth u) and columns sum to 1; a
    tally may count a report several times (one bit a value), so A need be neither square nor
    stochastic. Counts are arrays of shape `inputs` (truths) or `outputs` (tally); any further axes
    are a batch and are carried along.
    """

    # What undoes its tallies, and where it has its own, what gives sums of powers of a number: in
    # `sfumato.estimation`, loaded when asked for.
    way_back: ClassVar[str] = "evidence:CountEvidence"
    sums_back: ClassVar[str | None] = None

    # What every channel must say.

    @property
    @abstractmethod
    def inputs(self) -> tuple[int, ...]:
        """The shape of the table of truths."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[int, ...]:
        """The shape of the tally."""

    @abstractmethod
    def apply(self, counts: Counts) -> Counts:  # inputs -> outputs
        """A x: the tally to be expected from these truths."""

    @abstractmethod
    def adjoint(self, weights: Counts) -> Counts:  # outputs -> inputs
        """Aᵀ g: for each truth, the expected weight of its report."""

    @abstractmethod
    def solve(self, counts: Counts) -> Counts:  # outputs -> inputs
        """A⁻¹ y: the unbiased estimate of the truths from this tally; it may be negative."""

    @abstractmethod
    def solve_adjoint(self, weights: Counts) -> Counts:  # inputs -> outputs
        """A⁻ᵀ w: what each entry of the tally contributes to the estimate of w·x."""

    # What may be overridden.

    @property
    def repeats(self) -> bool:
        """Whether one report may be counted at several places of the tally."""
        return False

    def second_moment(self, first: Counts, other: Counts) -> Counts:  # outputs, outputs -> inputs
        """E[(g·tally)(h·tally) | truth] for one report: Aᵀ(gh) where each is counted once."""
        return self.adjoint(first * other)

    def moments(self, counts: Counts) -> Counts:  # (inputs, …) -> (outputs, outputs, …), flat
        """Σ_u x_u E[tally tallyᵀ | truth u]: what people at these truths report, squared."""
        shown = batched(self.apply(counts), self.outputs).reshape(math.prod(self.outputs), -1)
        result = np.zeros((len(shown), *shown.shape))
        result[np.arange(len(shown)), np.arange(len(shown))] = shown
        return result

    def variance_counts(self, counts: Counts) -> tuple[Counts, Counts | None]:  # outputs, inputs
        """The counts by which errors are weighed: those observed, unless the channel knows which
        are to be expected where hardly any were; and the true counts that go with them, None where
        these are those estimated.
        """
        return counts, None

    def inverse_squared(self, counts: Counts) -> Counts:  # outputs -> inputs
        """Σ over reports of (what it contributes to a cell)², for each cell, from the tally.

        Overridden where the structure gives it at once, and where reports are counted several
        times.
        """
        table = batched(counts, self.outputs)
        size, entries = math.prod(self.inputs), math.prod(self.outputs)
        flat = table.reshape(entries, -1)
        result = np.empty((size, flat.shape[1]))
        step = max(1, ENTRIES // max(1, entries))
        for start in range(0, size, step):
            stop = min(start + step, size)
            units = np.zeros((size, stop - start))
            units[np.arange(start, stop), np.arange(stop - start)] = 1
            influence = self.solve_adjoint(units.reshape(*self.inputs, -1))
            result[start:stop] = (np.asarray(influence).reshape(entries, -1) ** 2).T @ flat
        return unbatched(result, counts, self.outputs, self.inputs)

    def settle(self, counts: Counts) -> Channel:
        """The channel once its tally is known: laws read off the reports, people per question.

        Most channels know everything beforehand.
        """
        return self

    def replaced(self, axis: int) -> Replacement | None:
        """How a value of an axis is kept, or else drawn from a law; None where it is neither."""
        return None

    def chances(
        self, reports: Sequence[NDArray[Any]], truths: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        """A[v, u] row by row: how likely each of these reports is under the truth beside it."""
        matrix = self.to_dense()
        return matrix[
            np.ravel_multi_index(tuple(reports), self.outputs),
            np.ravel_multi_index(tuple(truths), self.inputs),
        ]

    def mixed(
        self,
        reports: Sequence[NDArray[Any]],
        within: Sequence[NDArray[Any]],
        margins: Sequence[NDArray[Any]] | None = None,
    ) -> NDArray[Any]:  # (rows, groups)
        """P(report | group): within[j] (groups, cells) is the distribution of axis j in a group.

        Axes are independent inside a group; a law that is an axis's own is its margin.
        """
        groups = len(within[0])
        joint = np.ones((groups,))
        for part in within:
            joint = joint[..., None] * part.reshape(groups, *(1,) * (joint.ndim - 1), -1)
        return np.asarray(self.apply(np.moveaxis(joint, 0, -1)))[tuple(reports)]

    # Means that some channels have: marginals and merged cells that are channels of their own.

    def marginal(self, axes: Sequence[int]) -> Channel:
        """The channel of a few axes, the others summed out."""
        raise NotLumpableError("this channel has no marginals of its own")

    def coarsen(self, cells: Sequence[Cells]) -> Channel:
        """The channel of merged cells: one partition an axis."""
        if all(part.trivial for part in cells):
            return self
        raise NotLumpableError("cells of this channel cannot be merged beforehand")

    def to_dense(self) -> NDArray[np.float64]:  # (outputs, inputs) flattened
        """The matrix itself: for judging and for small things."""
        size = math.prod(self.inputs)
        columns = self.apply(np.eye(size).reshape(*self.inputs, size))
        return np.asarray(columns).reshape(math.prod(self.outputs), size)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What follows from a channel are functions since 0.3; as attributes they go, and with
            them the former names of two methods.
            """
            if name not in _FORMER:
                raise AttributeError(f"a {type(self).__name__} has no '{name}'")
            home, function = _FORMER[name]
            now = f"{home}.{function}" if home else f"Channel.{function}"
            warn(f"Channel.{name} is now {now}", DeprecationWarning, stacklevel=2)
            if not home:
                return getattr(self, function)
            found = getattr(import_module(home), function)
            return partial(found, self) if name in ("scatter", "expected") else found(self)


_FORMER = {
    "second": ("", "second_moment"),
    "expected": (__name__, "variance_tally"),
    "settled": (__name__, "has_known_laws"),
    "noiseless": (__name__, "is_exact"),
    "scatter": (__name__, "scatter"),
    "gamma": ("sfumato.testing", "amplification"),
    "condition": ("sfumato.channels.conditioning", "condition"),
}


class Repeating(Channel):
    """A channel whose tally may count one report at several places: one bit a value."""

    @property
    def repeats(self) -> bool:
        return True

    @property
    @abstractmethod
    def everyone(self) -> Counts:  # outputs
        """Weights under which the tally counts every report once."""

    @abstractmethod
    def sqrt_factors(self, weights: Counts) -> Counts:  # (outputs, …) -> (inputs, terms, …)
        """Terms e with Σ e(g)·e(h) = `second_moment`(g, h): how it enters a product."""


class Dealt(Channel):
    """A channel to the answers of one question of several, dealt to each person by chance: the
    other questions say nothing, or little, of these cells.
    """

    @property
    def closed(self) -> NDArray[np.bool_] | None:  # outputs
        """Which entries of the tally follow from these cells alone; None where all do.

        The others depend on columns that are not among the cells, and count as if those were
        evenly spread.
        """
        return None

    @abstractmethod
    def beside(self, shape: tuple[int, ...]) -> Channel:
        """The channel of these cells jointly with columns that are reported as they are, standing
        first: people are counted and undone within each of their cells.
        """


# What follows from a channel.


def scatter(channel: Channel, first: Counts, other: Counts) -> Counts:  # outputs each -> inputs
    """Cov(g·tally, h·tally | truth) for one report of each truth: all that errors need."""
    return channel.second_moment(first, other) - channel.adjoint(first) * channel.adjoint(other)


def variance_tally(channel: Channel, counts: Counts) -> Counts:  # of outputs
    """The counts by which errors are weighed."""
    return channel.variance_counts(counts)[0]


class OwnAxis(NamedTuple):
    """An axis whose law is its own distribution: how probably its values are kept, and whether the
    others were permuted among themselves.
    """

    axis: int
    keep: float
    permuted: bool


def own_axes(channel: Channel) -> tuple[OwnAxis, ...]:
    """The axes whose law is to be read off the reports themselves."""
    found = ((axis, channel.replaced(axis)) for axis in range(len(channel.inputs)))
    return tuple(
        OwnAxis(axis, each.keep, each.drawn.permuted)
        for axis, each in found
        if each is not None and each.drawn.own
    )


def has_known_laws(channel: Channel) -> bool:
    """Whether no law of the channel is left to be read off the data."""
    return not own_axes(channel)


def keep_of(channel: Channel, axis: int) -> float | None:
    """How probably a value of an axis is kept, where it is perturbed on its own or not at all; None
    where it is perturbed with others, or otherwise.
    """
    found = channel.replaced(axis)
    return found.keep if found is not None and found.alone else None


def exact_axes(channel: Channel) -> tuple[int, ...]:
    """The axes that are reported as they are."""
    return tuple(axis for axis in range(len(channel.inputs)) if keep_of(channel, axis) == 1)


def is_exact(channel: Channel) -> bool:
    """Whether every report is the truth."""
    return len(exact_axes(channel)) == len(channel.inputs)


def to_tally(formula: Formula) -> Formula:  # inputs + (batch,) -> outputs + (batch,)
    """A method from truths to the tally, of its formula: all further axes are one behind."""

    @wraps(formula)
    def applied(channel: Any, table: Counts) -> Counts:
        found = formula(channel, batched(table, channel.inputs))
        return unbatched(found, table, channel.inputs, channel.outputs)

    return applied


def to_truths(formula: Formula) -> Formula:  # outputs + (batch,) -> inputs + (batch,)
    """The same from the tally to truths."""

    @wraps(formula)
    def applied(channel: Any, table: Counts) -> Counts:
        found = formula(channel, batched(table, channel.outputs))
        return unbatched(found, table, channel.outputs, channel.inputs)

    return applied


def batched(array: Counts, shape: tuple[int, ...]) -> Counts:
    """The array with all axes beyond `shape` made one trailing axis."""
    return np.asarray(array, dtype=np.float64).reshape(*shape, -1)


def unbatched(
    result: Counts, like: Counts, before: tuple[int, ...], after: tuple[int, ...]
) -> Counts:
    """The batched result with the trailing axes that `like` had behind its first len(before)."""
    return result.reshape(*after, *np.shape(like)[len(before) :])
