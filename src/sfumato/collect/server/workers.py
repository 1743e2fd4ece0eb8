"""Workers: several processes that serve at one socket, started again when one dies."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from types import FrameType

LOOK_SECONDS = 0.5
LAST_SECONDS = 40.0  # for a worker to finish what it has begun
MOST_DEATHS = 20  # of workers before we give up

_spawn = multiprocessing.get_context("spawn")


@dataclass(eq=False)
class Workers:
    """A number of processes that all do the same until told to stop."""

    number: int
    work: Callable[[], None]  # what can be handed to another process
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Run them until a signal asks to stop."""
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._asked)
        running = [self._started() for _ in range(self.number)]
        deaths = 0
        while not self._stop.wait(LOOK_SECONDS) and deaths < MOST_DEATHS:
            for place, process in enumerate(running):
                if not process.is_alive():
                    process.join()
                    deaths += 1
                    running[place] = self._started()
        for process in running:
            process.terminate()
        for process in running:
            process.join(LAST_SECONDS)
            if process.is_alive():
                process.kill()

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _started(self) -> SpawnProcess:
        process = _spawn.Process(target=self.work)
        process.start()
        return process
