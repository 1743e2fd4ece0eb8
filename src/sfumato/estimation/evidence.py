"""Evidence: what reports say about the cells of a question, and how sure that is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Decoded, NotLumpableError
from sfumato.channels.channel import (
    exact_axes,
    has_known_laws,
    is_exact,
    keep_of,
    own_axes,
    scatter,
)
from sfumato.channels.limits import ENTRIES
from sfumato.channels.product import people_by, people_in, shown_at
from sfumato.domain import Cells, gathered, spread
from sfumato.errors import Unanswerable
from sfumato.estimation.answer import Answer
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.estimation.limits import REMEMBERED_BYTES, REMEMBERED_WEIGHTS
from sfumato.memory import Recent
from sfumato.observation import Observation

# Σ counts·first·second of n pairs, or of each of the first with each of the second.
Product = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[Any]]
NEGLIGIBLE = 1e-9  # variances below this × people × max w² count as 0
FAR = 5.0  # standard errors beyond the possible that chance does not explain: once in 3 million


def _flat(table: NDArray[Any], batch: int = 0) -> NDArray[Any]:  # (cells, n), or (cells, 1)
    """A table of cells as one column, or where its last axis is a batch as one column each."""
    return np.asarray(table).reshape(-1, table.shape[-1] if batch else 1)


def paired(counts: NDArray[Any], first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:  # (n,)
    """Σ counts·first·second of n pairs."""
    return np.asarray((_flat(counts) * _flat(first, 1) * _flat(second, 1)).sum(axis=0))


def crossed(
    counts: NDArray[Any], first: NDArray[Any], second: NDArray[Any]
) -> NDArray[Any]:  # (n, n)
    """The same of each of the first with each of the second."""
    if first.shape[-1] == 1:  # too little work for threads
        return paired(counts, first, second)[:, None]
    return np.asarray(_flat(first, 1).T @ (_flat(counts) * _flat(second, 1)))


class Evidence(ABC):
    """What reports say about the cells of a question: counts, and the covariance of any weighted
    sums of them. All that is asked of an estimate is such a sum, or moves like one (delta method).
    """

    @property
    def samples(self) -> bool:
        """Whether its covariances count the rows as a sample, and not as held fixed."""
        return False

    @property
    def assumes(self) -> str | None:
        """What the estimate supposes beyond the reports, in words; None where it is nothing."""
        return None

    @property
    def exact(self) -> bool:
        """Whether every report is the truth, so that nothing has an error."""
        return False

    @cached_property
    @abstractmethod
    def estimated(self) -> NDArray[Any]:  # shape of the cells
        """The contributions summed over all reports: the estimate times the copies."""

    @cached_property
    @abstractmethod
    def cell_variances(self) -> NDArray[Any]:  # shape of the cells
        """The variance of `estimated`, cell by cell, with the true rows held fixed."""

    @abstractmethod
    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:  # (*cells, n) each -> (n,) or (n, n)
        """The covariances of weighted sums of `estimated`, the true rows held fixed: of n pairs
        (`paired`) or of each of the first with each of the second (`crossed`). Those of sums with
        themselves, the same array given twice, are their variances: never nothing by rounding.
        """

    def variances(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (n,)
        """The variances of n weighted sums."""
        return self.covariances(weights, weights, paired)

    def covariance_matrix(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (n, n)
        """The covariances of n weighted sums with one another."""
        return self.covariances(weights, weights, crossed)

    def cell_covariance(self, cells: NDArray[Any]) -> NDArray[Any]:  # n flat indices -> (n, n)
        """The covariances of n cells of `estimated` with one another."""
        if self.exact:
            return np.zeros((len(cells), len(cells)))
        return self.covariance_matrix(_units(self.estimated.shape, cells))

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        """The evidence about merged cells of some of the axes."""
        return MergedEvidence.over(self, axes, merges)

    def answered(self, plain: Answer, weights: Callable[[], NDArray[Any]]) -> Answer:
        """The answer about a weighted sum of the cells, or about what moves like one, with the
        interval that this evidence gives it.
        """
        return plain


def _units(shape: tuple[int, ...], cells: NDArray[Any]) -> NDArray[Any]:  # -> (*shape, n)
    """The weights of n cells, by their flat indices, each alone."""
    units = np.zeros((math.prod(shape), len(cells)))
    units[cells, np.arange(len(cells))] = 1
    return units.reshape(*shape, len(cells))


def _one_by_one(evidence: Evidence) -> NDArray[Any]:  # shape of the cells
    """The variances of all cells, of one at a time, for finer cells may not all fit at once."""
    shape = evidence.estimated.shape
    every = np.arange(evidence.estimated.size)
    found = [evidence.variances(_units(shape, every[cell : cell + 1]))[0] for cell in every]
    return np.array(found).reshape(shape)


class _Total(NamedTuple):
    """How the estimate of everyone goes with that of each cell."""

    covariances: NDArray[Any]  # C1, shape of the cells
    variance: NDArray[Any]  # 1ᵀC1, of each value of the axes that are reported as they are
    shares: NDArray[Any]  # C1 / 1ᵀC1


@dataclass(frozen=True, eq=False)
class CountEvidence(Evidence):
    """Reports counted cell by cell, undone through their channel.

    With g = A⁻ᵀw, the estimate of w·x is g·y, with variance Σ_v ŷ_v g_v² - Σ_u x̂_u (Aᵀg)_u² (rows
    held fixed); ŷ is y, or what the channel expects where few were counted. Unbiasedness is Aᵀg =
    w; where a law was estimated from the same reports, g includes how the estimate moves with that
    law, and Aᵀg is computed. If the variance is 0 or below, or so small that the estimate could not
    be where it is, it is at least the smallest that any truth has.

    How many people there are is known: where estimates x of all cells, with covariance C, do not
    add up to N by themselves, they are x + C1(1ᵀC1)⁻¹(N - 1ᵀx), by least squares under that
    constraint, so a count and that of everyone else add up.
    """

    counts: NDArray[Any]  # outputs of the channel
    channel: Channel

    @cached_property
    def settled(self) -> Channel:
        """The channel with every law known."""
        return self.channel.settle(self.counts)

    @cached_property
    def _known_laws(self) -> bool:
        return has_known_laws(self.channel)

    @cached_property
    def estimated(self) -> NDArray[Any]:
        if self._total is None:
            return self._solved
        missed = self._alike - self._solved.sum(axis=self._noisy, keepdims=True)
        return self._solved + self._total.shares * missed

    @cached_property
    def _solved(self) -> NDArray[Any]:
        """The estimate as the tally alone gives it."""
        return np.asarray(self.settled.solve(self.counts))

    @cached_property
    def _total(self) -> _Total | None:
        """How the estimate of everyone, among those with the same values of the axes that are
        reported as they are, goes with each cell; None where that is their number itself.
        """
        if self.settled.inputs == self.settled.outputs and not self.settled.repeats:
            return None
        influence = np.asarray(self.settled.solve_adjoint(np.ones(self.settled.inputs)))
        if scatter(self.settled, influence, influence).max() <= NEGLIGIBLE:
            return None  # whatever the truth is, every report adds one person
        if self.settled.repeats:
            joint = self._with_total(influence, self._solved) + self._excess
        else:
            joint = self.settled.solve(self._variance_counts[0] * influence) - self._solved
        variance = joint.sum(axis=self._noisy, keepdims=True)
        likely = clip_and_scale(self._solved, self._people)  # else the shares may be anything
        shares = self._with_total(influence, likely)
        shares = shares / shares.sum(axis=self._noisy, keepdims=True)
        return _Total(joint, variance, shares)

    def _with_total(self, influence: NDArray[Any], truths: NDArray[Any]) -> NDArray[Any]:
        """How the estimate of everyone goes with that of each cell at these truths: A⁻¹ of what
        the tally goes with it, less the truths, which are held fixed.
        """
        if self.settled.repeats and math.prod(self.settled.outputs) ** 2 <= ENTRIES:
            moments = self.settled.moments(truths)[..., 0]
            seen = (moments @ influence.ravel()).reshape(self.settled.outputs)
        else:  # for want of memory, as if bits of one report did not go together
            seen = self.settled.apply(truths) * influence
        return np.asarray(self.settled.solve(seen) - truths)

    def _balanced(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (*cells, n)
        """The weights by which the tally's own estimates give that of the balanced ones, but for a
        known number.
        """
        if self._total is None:
            return weights
        shares = self._total.shares[..., None]
        return np.asarray(weights - (shares * weights).sum(axis=self._noisy, keepdims=True))

    @cached_property
    def _people(self) -> float:
        """How many reports were counted, each once."""
        return people_in(self.channel, self.counts)

    @cached_property
    def _variance_counts(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The counts by which errors are weighed, and the true counts that go with them."""
        tally, truths = self.settled.variance_counts(self.counts)
        return np.asarray(tally), self._solved if truths is None else np.asarray(truths)

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        if not self._known_laws:
            return _one_by_one(self)
        # The same in closed form: (A⁻¹)² ŷ, entry by entry, less Aᵀg = w.
        tally, truths = self._variance_counts
        found = self.settled.inverse_squared(tally) - truths
        if self._total is not None:
            joint, variance, shares = self._total
            found = found - 2 * shares * joint + shares**2 * variance
        peopled = np.broadcast_to(self._alike > 0, found.shape)  # else nobody is known to be there
        beyond = np.maximum(-self.estimated, self.estimated - self._people)
        found = np.where(found > NEGLIGIBLE * self._people, found, 0.0)
        lost = np.flatnonzero((found <= (np.maximum(beyond, 0.0) / FAR) ** 2) & peopled)
        return self._floored(found, lost, lambda some: _units(found.shape, some))

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        if first is not second:
            return self._covariances(first, second, product)
        if product is paired:
            return self._reached(self._covariances(first, first, paired), first)
        if first.nbytes > REMEMBERED_BYTES:
            return self._matrix(first)
        key = first.shape, first.dtype, first.tobytes()
        return self._matrices.get(key, lambda: self._matrix(first)).copy()

    @cached_property
    def _matrices(self) -> Recent[NDArray[Any]]:
        """Of small weights, as they were asked for: a question that comes again has the same."""
        return Recent(REMEMBERED_WEIGHTS)

    def _matrix(self, weights: NDArray[Any]) -> NDArray[Any]:
        found = self._covariances(weights, weights, crossed)
        np.fill_diagonal(found, self._reached(np.diagonal(found), weights))
        return found

    def _covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        """gᵀ diag(ŷ) h - (Aᵀg)ᵀ diag(x̂) Aᵀh, where Aᵀg is the weights themselves if no law was
        read off the reports, so where few people were asked on average only; and where reports are
        counted several times gᵀ E[tally tallyᵀ] h in place of the first.
        """
        alike = first is second
        second = self._balanced(second)
        first = second if alike else self._balanced(first)
        left = self._influences(first)
        right = left if alike else self._influences(second)
        if not self.settled.repeats:
            weights = [(first, left), (second, right)]
            expected = [w if self._known_laws else self.settled.adjoint(g) for w, g in weights]
            tally, truths = self._variance_counts
            return np.asarray(product(tally, left, right) - product(truths, *expected))
        seen = product(self._excess, first, second)
        if product is paired:
            scattered = scatter(self.settled, left, right)
            return (_flat(self._solved) * _flat(scattered, 1)).sum(axis=0) + seen
        if math.prod(self.settled.outputs) ** 2 > ENTRIES:  # one by one, for want of memory
            each = [np.broadcast_to(left[..., [n]], right.shape) for n in range(left.shape[-1])]
            rows = (scatter(self.settled, one, right) for one in each)
            return np.array([paired(self._solved, row, np.ones(1)) for row in rows]) + seen
        expected = [self.settled.adjoint(each) for each in (left, right)]
        moments = self.settled.moments(self._solved)[..., 0]
        squares = _flat(left, 1).T @ moments @ _flat(right, 1)
        return np.asarray(squares - crossed(self._solved, *expected) + seen)

    def _reached(self, found: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:  # (n,)
        """The variances of n weighted sums, none of them lost to rounding."""
        if self.exact:
            return found
        flat = _flat(weights, 1)
        least, most = flat.min(axis=0, initial=0), flat.max(axis=0, initial=0)
        sums = paired(self.estimated, weights, np.ones((1, 1)))
        beyond = np.maximum(least * self._people - sums, sums - most * self._people)
        squares = np.maximum(most, -least) ** 2
        found = np.where(found > NEGLIGIBLE * self._people * squares, found, 0.0)
        lost = np.flatnonzero(found <= (np.maximum(beyond, 0.0) / FAR) ** 2)
        return self._floored(found, lost, lambda some: weights[..., some])

    def _floored(
        self,
        found: NDArray[Any],
        lost: NDArray[np.intp],
        weights: Callable[[NDArray[np.intp]], NDArray[Any]],
    ) -> NDArray[Any]:
        """Variances, those that are not believed at least as large as any truth has them: of
        Σ_u x_u·scatter_u, the truth that scatters least for everyone.
        """
        if self.exact or not len(lost):
            return found
        found = np.array(found)
        step = max(1, ENTRIES // max(self.estimated.size, 1))
        for some in np.split(lost, range(step, len(lost), step)):
            given = self._balanced(weights(some))
            influence = self._influences(given)
            scattered = np.asarray(scatter(self.settled, influence, influence))
            largest = _flat(given**2, 1).max(axis=0, initial=0)
            scattered[scattered <= NEGLIGIBLE * largest] = 0  # by rounding
            least = scattered.min(axis=self._noisy, keepdims=True)
            floor = _flat(self._alike[..., None] * least, 1).sum(axis=0)
            found.ravel()[some] = np.maximum(found.ravel()[some], floor)
        return found

    @cached_property
    def _noisy(self) -> tuple[int, ...]:
        """The axes that are not reported as they are."""
        known = exact_axes(self.channel)
        return tuple(axis for axis in range(len(self.channel.inputs)) if axis not in known)

    @cached_property
    def _alike(self) -> NDArray[Any]:
        """How many people there are with each value of the axes that are reported as they are."""
        if len(self._noisy) == len(self.channel.inputs):
            return np.full((1,) * len(self.channel.inputs), self._people)
        if self._total is None:
            return np.maximum(self._solved.sum(axis=self._noisy, keepdims=True), 0.0)
        people = people_by(self.settled, self.counts, exact_axes(self.channel))
        return np.expand_dims(people, self._noisy)

    @cached_property
    def _excess(self) -> NDArray[Any]:
        """How far the squares that were counted lie from those to be expected of the estimate.

        Where reports are counted several times, what bits of different values say together was not
        counted and comes from the channel; what one cell's own bits say was, and its mean is 0.
        """
        expected = self.settled.apply(self._solved)
        return np.asarray(self.settled.inverse_squared(self.counts - expected))

    @property
    def exact(self) -> bool:
        return is_exact(self.channel)

    @property
    def nested(self) -> bool:
        """Whether summing cells gives what asking about the coarser cells alone would give; where
        other reports answer those too, it does not.
        """
        return not self.channel.repeats and self.channel.inputs == self.channel.outputs

    def _influences(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*inputs, n) -> (*outputs, n)
        if self._known_laws:
            return np.asarray(self.settled.solve_adjoint(weights))
        return np.stack(
            [self._influence(weights[..., i]) for i in range(weights.shape[-1])], axis=-1
        )

    def merged(self, axes: Sequence[int], merges: Sequence[Cells]) -> Evidence:
        if list(axes) == list(range(self.estimated.ndim)) and all(part.trivial for part in merges):
            return self
        if not self.nested:
            return super().merged(axes, merges)
        try:
            channel = self.channel.marginal(axes).coarsen(merges)
        except NotLumpableError:
            return super().merged(axes, merges)
        return CountEvidence(gathered(self.counts, axes, merges), channel)

    def _influence(self, weights: NDArray[Any]) -> NDArray[Any]:
        """What one more report of each kind adds to the estimate of w·x."""
        influence = np.asarray(self.settled.solve_adjoint(weights))
        if self._known_laws:
            return influence
        for axis, keep, _ in own_axes(self.channel):
            influence = influence + self._through_law(weights, axis, keep)
        permuted = [axis for axis, _, permuted in own_axes(self.channel) if permuted]
        if not permuted:
            return influence
        if self.channel.inputs != self.channel.outputs:
            raise Unanswerable(
                "a permuted column beside one that is reported otherwise than it is recorded: "
                "the error of counts over both is not known; ask about them apart"
            )
        return _without_margins(influence, self.counts, permuted, exact_axes(self.channel))

    def _through_law(self, weights: NDArray[Any], axis: int, keep: float) -> NDArray[Any]:
        """How the estimate moves with the law of one axis, which is that axis's share of the
        reports.
        """
        # The other axes are undone: columns of the inverse sum to 1.
        everyone = _about(self.estimated, axis).sum(axis=1)
        slope = np.einsum("ijk,ik->j", _about(weights, axis), everyone)
        share = -(1 - keep) / (keep * self._people)
        return np.asarray(shown_at(self.channel, axis, share * slope))


def is_nested(evidence: Evidence) -> bool:
    """Whether these are counts whose sums are those of coarser cells (`CountEvidence.nested`)."""
    return isinstance(evidence, CountEvidence) and evidence.nested


def with_known_laws(evidence: Evidence) -> Evidence:
    """The same evidence with laws that were read off the reports taken as known: its errors cost
    less, and leave out what those laws add.
    """
    if not isinstance(evidence, CountEvidence) or has_known_laws(evidence.channel):
        return evidence
    return CountEvidence(evidence.counts, evidence.settled)


def keeps_of(evidence: Evidence) -> tuple[float | None, ...]:
    """For each axis how probably its value was kept; None where it was not perturbed on its own."""
    if not isinstance(evidence, CountEvidence):
        return (None,) * evidence.estimated.ndim
    return tuple(keep_of(evidence.channel, axis) for axis in range(evidence.estimated.ndim))


def _without_margins(
    influence: NDArray[Any], counts: NDArray[Any], axes: Sequence[int], exact: Sequence[int]
) -> NDArray[Any]:
    """The influence less its best additive part over these axes, and over the exact ones together.

    A permuted column keeps its counts, and so do columns that are reported as they are: whatever
    depends on one of them alone has no error.
    """
    influence, counts = np.array(influence, order="C"), np.asarray(counts, dtype=np.float64)
    views = [(_about(influence, axis), _about(counts, axis)) for axis in axes]  # of one array
    masses = [np.maximum(each.sum(axis=(0, 2)), 1e-300) for _, each in views]
    noisy = tuple(axis for axis in range(counts.ndim) if axis not in exact)
    held = np.maximum(counts.sum(axis=noisy, keepdims=True), 1e-300)
    for _ in range(100):
        largest = 0.0
        for (view, each), mass in zip(views, masses, strict=True):
            mean = np.einsum("ijk,ijk->j", view, each) / mass
            view -= mean[:, None]
            largest = max(largest, float(np.abs(mean).max(initial=0.0)))
        if exact:
            mean = (influence * counts).sum(axis=noisy, keepdims=True) / held
            influence -= mean
            largest = max(largest, float(np.abs(mean).max(initial=0.0)))
        if largest < 1e-10:
            break
    return influence


def _about(table: NDArray[Any], axis: int) -> NDArray[Any]:  # (before, axis, after)
    """The axes before and after one axis, each made one: sums over many small axes are slow."""
    return table.reshape(math.prod(table.shape[:axis]), table.shape[axis], -1)


@dataclass(frozen=True, eq=False)
class MergedEvidence(Evidence):
    """Evidence about finer cells, summed to coarser ones: for channels whose cells cannot be merged
    beforehand.
    """

    fine: Evidence
    gather: Callable[[NDArray[Any]], NDArray[Any]]  # fine cells -> cells
    spread: Callable[[NDArray[Any]], NDArray[Any]]  # weights of cells -> weights of fine cells

    @classmethod
    def over(cls, fine: Evidence, axes: Sequence[int], merges: Sequence[Cells]) -> MergedEvidence:
        """The evidence about some of the axes, their cells merged."""
        return cls(
            fine,
            lambda table: gathered(table, axes, merges),
            lambda weights: spread(weights, axes, merges, np.shape(fine.estimated)),
        )

    @property
    def samples(self) -> bool:
        return self.fine.samples

    @property
    def assumes(self) -> str | None:
        return self.fine.assumes

    @cached_property
    def estimated(self) -> NDArray[Any]:
        return self.gather(self.fine.estimated)

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        if (self.gather(np.ones(self.fine.estimated.shape)) == 1).all():  # no cells are merged
            return self.gather(self.fine.cell_variances)
        return _one_by_one(self)

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        left = self._spread_all(first)
        right = left if first is second else self._spread_all(second)
        return self.fine.covariances(left, right, product)

    @property
    def exact(self) -> bool:
        return self.fine.exact

    def _spread_all(self, weights: NDArray[Any]) -> NDArray[Any]:  # (*cells, n) -> (*fine, n)
        each = [self.spread(weights[..., place]) for place in range(weights.shape[-1])]
        return np.stack(each, axis=-1)


@dataclass(frozen=True, eq=False)
class DecodedEvidence(Evidence):
    """How many hold an item and how many do not, group by group: together everyone."""

    counts: NDArray[Any]  # outputs of the channel
    channel: Decoded

    @property
    def assumes(self) -> str | None:
        return self.channel.assumes

    @cached_property
    def _groups(self) -> list[tuple[float, float, float]]:
        """Everyone, those who hold it, and the variance, of each group."""
        tables = np.asarray(self.counts).reshape(-1, *self.channel.shape)
        return [(float(table.sum()), *self.channel.decode(table)) for table in tables]

    @cached_property
    def estimated(self) -> NDArray[Any]:
        found = [(everyone - held, held) for everyone, held, _ in self._groups]
        return np.array(found).reshape(self.channel.inputs)

    @cached_property
    def cell_variances(self) -> NDArray[Any]:
        found = [(variance, variance) for _, _, variance in self._groups]
        return np.array(found).reshape(self.channel.inputs)

    def covariances(
        self, first: NDArray[Any], second: NDArray[Any], product: Product = paired
    ) -> NDArray[Any]:
        apart = (
            np.diff(each.reshape(-1, 2, each.shape[-1]), axis=1)[:, 0] for each in (first, second)
        )
        return product(np.array([group[2] for group in self._groups]), *apart)


@cache
def undoing(name: str) -> Any:
    """The class that a channel names to undo its tallies, such as "evidence:CountEvidence"."""
    module, _, noun = name.partition(":")
    return getattr(import_module(f"sfumato.estimation.{module}"), noun)


def evidence_of(seen: Observation, counts: NDArray[Any], cells: Sequence[Cells]) -> Evidence:
    """What a tally says about the cells that were asked for, which may be coarser than those it was
    made for.
    """
    evidence: Evidence = undoing(seen.channel.way_back)(counts, seen.channel)
    pairs = zip(cells, seen.cells, strict=False)
    if len(cells) == len(seen.cells) and all(a is b or a.key == b.key for a, b in pairs):
        return evidence
    names = [part.name for part in seen.cells]
    axes = [names.index(part.name) for part in cells]
    merges = [part.within(seen.cells[axis]) for part, axis in zip(cells, axes, strict=True)]
    return evidence.merged(axes, merges)
