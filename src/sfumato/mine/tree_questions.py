"""What a growing tree asks: counts of conjunctions for all nodes of a level at once, answered from
one scan or none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Cells
from sfumato.errors import Unanswerable
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.evidence import CountEvidence, is_nested
from sfumato.mine import limits
from sfumato.mine.features import Problem
from sfumato.model.model_evidence import LawEvidence

Groups = NDArray[np.intp]  # for each cell of a feature, the group it belongs to
Partition = dict[int, Groups]  # what a question tells apart: by feature
Region = dict[int, NDArray[np.bool_]]  # what leads to a node: by feature, the cells that belong


@dataclass(frozen=True, eq=False)
class NodeCounts:
    """The counts of one node by the cells of one feature and by class, and their covariance,
    sampling error included.
    """

    feature: int
    cells: Groups  # the cells of the feature that belong to the node
    value: NDArray[Any]  # (cells, classes)
    covariance: NDArray[Any]  # (cells, classes, cells, classes)
    shrunk: bool = False  # by a model: what chance adds was taken away before


class TreeQuestions:
    """Answers to the questions of a growing tree.

    A node is a conjunction over a few features. Asked what one more feature would tell, it needs
    the marginal over these features, that one and the target (OLAP §6.3); a feature that is in the
    conjunction already adds no column. Nodes with the same features share one table. Where the
    table of all features is small beside the rows, it is counted once instead.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.source = problem, problem.source
        self.sizes = [feature.size for feature in problem.features]
        self._answers: dict[frozenset[int], list[tuple[Partition, Estimate]]] = {
            frozenset([place]): [({place: np.arange(size)}, table)]
            for place, (size, table) in enumerate(zip(self.sizes, problem.tables, strict=True))
        }
        counted = isinstance(problem.tables[0].evidence, CountEvidence)
        cells = math.prod(self.sizes) * problem.target.size
        # Bits of few columns say more of them than those of all, summed.
        nested = is_nested(problem.tables[0].evidence)
        small = cells <= min(limits.WHOLE_CELLS, max(self.source.rows, 1 << 12))
        self._whole = counted and nested and small
        self._free = not counted  # whether a question costs no scan

    def candidates(self, region: Region) -> list[int]:
        """The features that still have more than one cell in this node."""
        return [
            place
            for place in range(len(self.sizes))
            if place not in region or region[place].sum() > 1
        ]

    def prepare(self, regions: Sequence[Region], levels_left: int) -> None:
        """Ask what is not known yet about these nodes, in one scan; and about their children, where
        that costs little.
        """
        needs = [
            self._need(region, (place,)) for region in regions for place in self.candidates(region)
        ]
        missing = [need for need in needs if self._find(need) is None]
        if not missing:
            return
        if self._whole and not self._free:  # where the reports say anything of all columns at once
            every = [*(feature.cells for feature in self.problem.features), self.problem.target]
            try:
                self.source = self.source.condensed(every)
                _ = self.source.marginal(every[:1]).value
                self._free = True
            except Unanswerable:
                self.source, self._whole = self.problem.source, False
        if levels_left > 1 and not self._free and self._ask([*missing, *self._next_needs(regions)]):
            return
        self._ask(missing, needed=True)

    def _ask(self, needs: Sequence[Partition], needed: bool = False) -> bool:
        """Ask these in one scan; whether they were answered, where they need not be."""
        questions = list(self._shared(needs))
        try:
            estimates = self.source.marginals([self._cells(partition) for partition in questions])
        except Unanswerable:  # reports may say nothing of the columns that children would ask about
            if needed:
                raise
            return False
        for partition, estimate in zip(questions, estimates, strict=True):
            self._answers.setdefault(frozenset(partition), []).append((partition, estimate))
        return True

    def _next_needs(self, regions: Sequence[Region]) -> list[Partition]:
        """What the children of these nodes will ask, whatever the nodes are split by; nothing if
        that is too much.
        """
        needs = [
            self._need(region, pair)
            for region in regions
            for pair in combinations(self.candidates(region), 2)
        ]
        few = len({frozenset(need) for need in needs}) <= limits.TABLES_AHEAD
        small = few and all(self._table_cells(need) <= limits.SHARED_CELLS for need in needs)
        return needs if small else []

    def _need(self, region: Region, told_apart: tuple[int, ...]) -> Partition:
        """The node against all else, and every cell of these features."""
        need: Partition = {
            place: (mask != mask[0]).astype(np.intp) for place, mask in region.items()
        }
        return need | {place: np.arange(self.sizes[place]) for place in told_apart}

    def _find(self, need: Partition) -> Estimate | None:
        """An answer that tells apart all that must be told apart."""
        for partition, estimate in self._answers.get(frozenset(need), ()):
            if all(_refines(partition[place], groups) for place, groups in need.items()):
                return estimate
        return None

    def _shared(self, needs: Sequence[Partition]) -> Iterable[Partition]:
        """One table for all needs over the same features where it stays small, else one
        for each.
        """
        by_features: dict[frozenset[int], list[Partition]] = {}
        for need in needs:
            by_features.setdefault(frozenset(need), []).append(need)
        for same in by_features.values():
            together = dict(same[0])
            for need in same[1:]:
                for place, own in together.items():  # the coarsest grouping finer than both
                    other = need[place]
                    if not _refines(own, other):
                        finer = _numbered(own * (int(other.max()) + 1) + other)
                        together[place] = other if _refines(other, own) else finer
            if self._table_cells(together) <= limits.SHARED_CELLS:
                yield together
            else:
                keys = (tuple((at, need[at].tobytes()) for at in sorted(need)) for need in same)
                yield from dict(zip(keys, same, strict=True)).values()

    def _table_cells(self, partition: Partition) -> int:
        return (
            math.prod(int(groups.max()) + 1 for groups in partition.values())
            * self.problem.target.size
        )

    def _cells(self, partition: Partition) -> list[Cells]:
        features = self.problem.features
        return [
            *(features[place].merged(groups) for place, groups in sorted(partition.items())),
            self.problem.target,
        ]

    def counts(self, region: Region, feature: int) -> NodeCounts:
        """The counts of a node by the cells of one feature and by class; the node must have been
        prepared.
        """
        estimate = self._find(self._need(region, (feature,)))
        assert estimate is not None
        inside = (
            np.flatnonzero(region[feature]) if feature in region else np.arange(self.sizes[feature])
        )
        groups = np.full(self.sizes[feature], len(inside))  # all cells outside are one
        groups[inside] = np.arange(len(inside))
        partition = self._need(region, ()) | {feature: _numbered(groups)}
        small = estimate.coarsen(self._cells(partition))
        places = [
            partition[place][inside]
            if place == feature
            else np.full(len(inside), partition[place][np.argmax(region[place])])
            for place in sorted(partition)
        ]  # where the counts of the node stand: (cells of the feature, classes)
        cells = np.arange(small.value.size).reshape(small.value.shape)[tuple(places)]
        shrunk, value = small.evidence.samples, small.value.ravel()[cells]
        covariance = (
            small.evidence.by_chance(cells.ravel())
            if isinstance(small.evidence, LawEvidence)
            else small.cell_covariance(cells.ravel(), sampling=True)
        ).reshape(*cells.shape, *cells.shape)
        if shrunk:
            # Were the size of each cell known: n_h times the covariance of its class shares. A
            # model's counts are never negative, so shares are their own; and it may know well how
            # classes differ between cells whose sizes it hardly knows.
            rows = np.maximum(value.sum(axis=1), 1e-300)
            apart = np.eye(value.shape[1]) - (value / rows[:, None])[:, :, None]  # I - share_h·1ᵀ
            covariance = np.einsum("hkl,hlgm,gnm->hkgn", apart, covariance, apart, optimize=True)
        return NodeCounts(feature, inside, value, covariance, shrunk)


def _numbered(groups: Groups) -> Groups:
    """Groups numbered in the order in which they first occur."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]


def _refines(fine: Groups, coarse: Groups) -> bool:
    """Whether cells of one fine group are always in one coarse group."""
    of_group = np.empty(len(fine), dtype=np.intp)
    of_group[fine] = coarse
    return bool((of_group[fine] == coarse).all())
