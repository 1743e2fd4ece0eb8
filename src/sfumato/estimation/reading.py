"""Reading: what a tally of the reports says about the cells of a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from sfumato.channels import Channel, Decoded, Windowed
from sfumato.domain import Cells
from sfumato.estimation.decoded import DecodedEvidence
from sfumato.estimation.evidence import CountEvidence, Evidence
from sfumato.estimation.likely import expected_tally
from sfumato.estimation.smooth import SmoothEvidence
from sfumato.observation import Observation

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
