"""Reading: what a tally of the reports says about the cells of a question, and the tally that is to
be expected where such counts were found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Decoded, Windowed
from sfumato.domain import Cells
from sfumato.estimation.evidence import CountEvidence, Evidence
from sfumato.estimation.likelihood import clip_and_scale
from sfumato.estimation.smooth import SmoothEvidence
from sfumato.observation import Observation

Floats = NDArray[np.float64]


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

    def covariances(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        number = first.shape[-1]
        left, right = (np.diff(w.reshape(-1, 2, number), axis=1)[:, 0] for w in (first, second))
        return np.array([group[2] for group in self._groups]) @ (left * right)


# The channels that have a better way back than by their inverse; every other one has that.
OWN_WAYS: Mapping[type[Channel], Callable[[NDArray[Any], Any], Evidence]] = {
    Decoded: DecodedEvidence,
    Windowed: SmoothEvidence,
}


def evidence_of(seen: Observation, counts: NDArray[Any], cells: Sequence[Cells]) -> Evidence:
    """What a tally says about the cells that were asked for, which may be coarser than those it was
    made for.
    """
    evidence = OWN_WAYS.get(type(seen.channel), CountEvidence)(counts, seen.channel)
    if len(cells) == len(seen.cells) and all(map(_same, cells, seen.cells)):
        return evidence
    names = [part.name for part in seen.cells]
    axes = [names.index(part.name) for part in cells]
    merges = [part.within(seen.cells[axis]) for part, axis in zip(cells, axes, strict=True)]
    return evidence.merged(axes, merges)


def usual_evidence(seen: Observation, counts: NDArray[Any], cells: Sequence[Cells]) -> Evidence:
    """The evidence of a tally that is to be expected where such counts were found: for its errors.
    Channels with a way of their own are judged by the counts themselves.
    """
    if type(seen.channel) in OWN_WAYS:
        return evidence_of(seen, counts, cells)
    return evidence_of(seen, expected_tally(counts, seen.channel), cells)


def _same(asked: Cells, seen: Cells) -> bool:
    return asked is seen or asked.key == seen.key


def expected_tally(counts: NDArray[Any], channel: Channel) -> Floats:
    """The tally to be expected where people are as likely spread as these counts make them: its
    errors are those of some law, which those of counts below 0 are not.
    """
    evidence = CountEvidence(counts, channel)
    chance = float(np.mean(evidence.cell_variances + np.maximum(evidence.estimated, 0.0)))
    return np.asarray(channel.settle(counts).apply(smoothed(evidence.estimated, chance)))


def smoothed(counts: NDArray[Any], variance: float) -> Floats:
    """Counts drawn towards those of columns that have nothing to do with one another, as far as
    chance alone explains how they differ (James–Stein); none below 0, everyone in all.

    >>> smoothed(np.array([[30.0, 10.0], [-2.0, 22.0]]), 1e9).round(1)
    array([[18.7, 21.3],
           [ 9.3, 10.7]])
    """
    people, every = counts.sum(), range(counts.ndim)
    alone = [counts.sum(axis=tuple(a for a in every if a != axis)) for axis in every]
    apart = reduce(np.multiply.outer, [clip_and_scale(margin, 1.0) for margin in alone]) * people
    beyond = float(np.mean((counts - apart) ** 2))
    part = max(0.0, 1 - variance / beyond) if beyond else 0.0
    return clip_and_scale(part * counts + (1 - part) * apart, float(people))
