"""Board: the figures of a campaign as they were last worked out, so that nobody waits for them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from sfumato.collect.campaign import Campaign
from sfumato.collect.figures import Figures, figures_of
from sfumato.collect.tally import CampaignTally

QUICK = 0.04  # seconds of work that someone who asks can wait for


@dataclass(eq=False)
class Board:
    """Figures that are worked out when they are asked for; where that takes long, those shown are
    of a moment ago while new ones are worked out beside.
    """

    campaign: Campaign
    tally: CampaignTally
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _shown: Figures | None = None
    _version: int = -1
    _seconds: float = 0.0  # of work, not of waiting for a processor
    _working: bool = False

    def figures(self) -> Figures:
        """The figures, of all reports or of those of a moment ago."""
        with self._lock:
            fresh = self._version == self.tally.version
            waits = self._shown is None or self._seconds <= QUICK
            if not fresh and not waits and not self._working:
                self._working = True
                threading.Thread(target=self._work_beside, daemon=True).start()
        if not fresh and waits:
            self.work()
        assert self._shown is not None
        return replace(self._shown, state=self.campaign.state())

    def work(self) -> None:
        """Work the figures out anew."""
        if self._shown is None:
            figures_of(self.campaign, self.tally)  # loads libraries, which is not counted as work
        version, start = self.tally.version, time.thread_time()
        found = figures_of(self.campaign, self.tally)
        with self._lock:
            self._shown, self._version = found, version
            self._seconds = time.thread_time() - start

    def _work_beside(self) -> None:
        try:
            self.work()
        finally:
            self._working = False
