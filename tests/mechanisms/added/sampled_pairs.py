"""SampledPairs: each person is dealt one pair of columns and answers it by k-ary response."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np
from tests.mechanisms.added.sampled import Sampled

from sfumato.channels import Retain
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
    def pairs(self) -> list[Domain]:
        return [self.domain.project(pair) for pair in combinations(self.domain.private.names, 2)]

    @cached_property
    def starts(self) -> np.ndarray:
        return np.cumsum([0, *(pair.cells for pair in self.pairs)])

    @cached_property
    def private_reports(self) -> Domain:
        words = [f"{' '.join(p.names)} {answer}" for p in self.pairs for answer in range(p.cells)]
        return Domain((Category("answer", tuple(words)),))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.gamma)

    def parameters(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Any) -> Self:
        return cls(domain, parameters["gamma"])

    @classmethod
    def promising(cls, guarantee: Guarantee, domain: Domain) -> Self:
        return cls(domain.binned(), int(guarantee.gamma))

    def randomise(self, columns: Columns, rng: Keystream) -> Columns:
        dealt = rng.below(len(self.pairs), rows_of(columns))
        reports = np.empty(len(dealt), dtype=code_dtype(int(self.starts[-1])))
        for place, pair in enumerate(self.pairs):
            here = np.flatnonzero(dealt == place)
            own = [columns[self.domain.private.index(name)][here] for name in pair.names]
            truth = np.ravel_multi_index(tuple(c.astype(np.intp) for c in own), pair.shape)
            draw = rng.below(self.gamma + pair.cells - 1, len(here)).astype(np.int64)
            other = (truth + 1 + draw - self.gamma) % pair.cells
            reports[here] = self.starts[place] + np.where(draw < self.gamma, truth, other)
        return (reports,)

    def about(self, pair: Domain, cells: list[Cells]) -> tuple[Retain, np.ndarray]:
        """The channel of a pair's answers about columns that it holds; the cell each one names."""
        keep = (self.gamma - 1) / (self.gamma + pair.cells - 1)
        axes = [pair.index(part.name) for part in cells]
        codes = np.unravel_index(np.arange(pair.cells), pair.shape)
        named = [part.assign(codes[axis]) for part, axis in zip(cells, axes, strict=True)]
        channel = Retain.uniform(keep, pair.shape).marginal(axes).coarsen(cells)
        return channel, np.ravel_multi_index(tuple(map(np.intp, named)), channel.outputs)

    def observe_private(self, cells: Any) -> Observation:
        size, asked = int(np.prod([part.size for part in cells])), {part.name for part in cells}
        places = np.repeat(np.arange(len(self.pairs)) * size, np.diff(self.starts))
        channels: list[Retain | None] = [None] * len(self.pairs)
        for place, pair in enumerate(self.pairs):
            if asked <= set(pair.names):
                channels[place], named = self.about(pair, cells)
                places[self.starts[place] : self.starts[place + 1]] += named
        if not any(channels):
            words = f"sampled pairs say nothing of {len(cells)} columns at once"
            raise Unanswerable(words, hint="fit a model, or ask about two")
        entries, dealt = tuple(map(str, range(len(self.pairs) * size))), len(self.pairs)
        tally = CellTally((Cells(self.private_reports.attributes[0], entries, places),))
        sampled = Sampled(tuple(channels), (1 / dealt,) * dealt, size)
        return Observation(tuple(cells), tally, sampled)

    def private_likelihood(self, reports: Columns, cells: Any, within: Any, _: Any) -> np.ndarray:
        groups: Within = every_cell(cells) if within is None else within
        codes = np.asarray(reports[self.reports.index("answer")]).astype(np.intp)
        logs = np.zeros((len(codes), len(groups[0])))
        for place, pair in enumerate(self.pairs):
            own = [number for number, part in enumerate(cells) if part.name in pair]
            here = np.flatnonzero(np.searchsorted(self.starts, codes, "right") - 1 == place)
            if own and len(here):
                channel, named = self.about(pair, [cells[number] for number in own])
                shown = np.unravel_index(named[codes[here] - self.starts[place]], channel.outputs)
                logs[here] = safe_log(channel.mixed(shown, [groups[number] for number in own]))
        return logs
