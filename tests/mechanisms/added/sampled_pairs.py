"""SampledPairs: each person is dealt one pair of columns and answers it by k-ary response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np

from sfumato.channels import Retain, Sampled
from sfumato.domain import Category, Cells, Columns, Domain, code_dtype
from sfumato.errors import Unanswerable
from sfumato.mechanisms.base import Mechanism, Within, every_cell, rows_of, safe_log
from sfumato.observation import CellTally, Observation
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness import Keystream


@dataclass(frozen=True)
class SampledPairs(Mechanism):
    """Of K possible answers the true one comes γ times as often as any other; γ is whole."""

    name = "sampled-pairs"
    domain: Domain
    gamma: int

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.domain.private)), 2))

    def _shape(self, pair: tuple[int, int]) -> tuple[int, int]:
        return self.domain.private.shape[pair[0]], self.domain.private.shape[pair[1]]

    @cached_property
    def _starts(self) -> np.ndarray:  # where the answers of each pair begin
        return np.cumsum([0, *(int(np.prod(self._shape(pair))) for pair in self.pairs)])

    @cached_property
    def private_reports(self) -> Domain:
        names = self.domain.private.names
        labels = tuple(
            f"{names[a]} {names[b]} {answer}"
            for (a, b) in self.pairs
            for answer in range(int(np.prod(self._shape((a, b)))))
        )
        return Domain((Category("answer", labels),))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.gamma)

    def parameters(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> Self:
        return cls(domain, parameters["gamma"])

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        return cls(domain.binned(), int(guarantee.gamma))

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        rows = rows_of(columns)
        dealt = rng.below(len(self.pairs), rows)
        reports = np.empty(rows, dtype=code_dtype(int(self._starts[-1])))
        for place, (a, b) in enumerate(self.pairs):
            here = np.flatnonzero(dealt == place)
            size = int(np.prod(self._shape((a, b))))
            truth = columns[a][here].astype(np.int64) * self._shape((a, b))[1] + columns[b][here]
            draw = rng.below(self.gamma + size - 1, len(here)).astype(np.int64)
            other = (truth + 1 + draw - self.gamma) % size
            reports[here] = self._starts[place] + np.where(draw < self.gamma, truth, other)
        return (reports,)

    def _told(self, cells: Sequence[Cells]) -> dict[int, Retain]:
        """The pairs that hold all these columns, and the channel of their answers."""
        asked = [self.domain.private.index(part.attribute.name) for part in cells]
        told = {}
        for place, pair in enumerate(self.pairs):
            if set(asked) <= set(pair):
                shape = self._shape(pair)
                keep = (self.gamma - 1) / (self.gamma + int(np.prod(shape)) - 1)
                whole = Retain.uniform(keep, shape).marginal([pair.index(a) for a in asked])
                told[place] = whole.coarsen(cells)
        if not told:
            raise Unanswerable(
                f"sampled pairs say nothing of {len(cells)} columns at once",
                hint="fit a model, or ask about two",
            )
        return told

    def _places(self, cells: Sequence[Cells], told: Mapping[int, Retain]) -> np.ndarray:
        """For every report code, the entry of the tally: its pair, and the cell that it names."""
        size = int(np.prod([part.size for part in cells]))
        places = np.repeat(np.arange(len(self.pairs)) * size, np.diff(self._starts))
        for place in told:
            shape = self._shape(self.pairs[place])
            codes = dict(zip(self.pairs[place], np.indices(shape).reshape(2, -1), strict=True))
            asked = [self.domain.private.index(part.attribute.name) for part in cells]
            named = [p.assign(codes[a]).astype(np.intp) for p, a in zip(cells, asked, strict=True)]
            own = slice(self._starts[place], self._starts[place + 1])
            places[own] += np.ravel_multi_index(tuple(named), tuple(p.size for p in cells))
        return places

    def observe_private(self, cells: Sequence[Cells]) -> Observation:
        told = self._told(cells)
        answers, size = self.private_reports.attributes[0], int(np.prod([p.size for p in cells]))
        entries = tuple(map(str, range(len(self.pairs) * size)))
        tally = CellTally((Cells(answers, entries, self._places(cells, told)),))
        channels = tuple(told.get(place) for place in range(len(self.pairs)))
        shares = (1 / len(self.pairs),) * len(self.pairs)
        return Observation(tuple(cells), tally, Sampled(channels, shares, size))

    def private_likelihood(
        self, reports: Columns, cells: Sequence[Cells], within: Within | None, margins: Any
    ) -> np.ndarray:
        groups, told = every_cell(cells) if within is None else within, self._told(cells)
        places = self._places(cells, told)[np.asarray(reports[self.reports.index("answer")])]
        size = int(np.prod([part.size for part in cells]))
        logs = np.zeros((len(places), len(groups[0])))
        for place, channel in told.items():
            here = np.flatnonzero(places // size == place)
            codes = np.unravel_index(places[here] % size, channel.outputs)
            logs[here] = safe_log(channel.mixed(list(codes), groups))
        return logs
