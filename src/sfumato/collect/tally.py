"""CampaignTally: running counts of a campaign's reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfumato.mechanisms.base import Mechanism
from sfumato.table.packing import Packing


class CampaignTally:
    """Counts."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.packing = Packing(mechanism.reports)
        self.rows = 0
        self.version = 0

    def add(self, bodies: Sequence[bytes]) -> None:
        self.rows += len(bodies)
        self.version += 1

    def remove(self, body: bytes) -> None:
        self.rows -= 1
        self.version += 1

    def recount(self, chunks: Iterable[bytes]) -> None:
        self.rows = sum(len(chunk) // self.packing.width for chunk in chunks)
