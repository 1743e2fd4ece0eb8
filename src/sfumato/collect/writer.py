"""Writer: many requests, one transaction at a time; nobody is answered before the commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sfumato.collect.store import Added, Batch, Done, Store, Work
from sfumato.errors import StoreError

MOST_WAITING = 20_000  # reports in the queue; beyond, the server asks to come back later
MOST_AT_ONCE = 20_000  # reports in one transaction
PROBE_SECONDS = 1.0  # between two attempts to write after a failure
NOTE_SECONDS = 60.0  # totals of what was refused are written at least so often
# The store's log tells the order of its commits: it is cut after so many of them, and once nothing
# has come for so long.
LOGGED_COMMITS, LOGGED_SECONDS = 32, 0.05


class BusyError(StoreError):
    """The store takes no reports for the moment; `wait` says for how many seconds."""

    def __init__(self, message: str, wait: int = 1) -> None:
        super().__init__(message)
        self.wait = wait


@dataclass(eq=False, slots=True)
class _Job:
    """Reports or an id to withdraw, and whoever waits for the commit."""

    campaign: int
    reports: Sequence[tuple[bytes, bytes]] | None
    identity: bytes | None
    waiting: asyncio.Future[Any]


class ReportWriter:
    """One thread that writes what has gathered while the commit before was on its way.

    There is no timer: a lone report is written at once, and under load the groups grow by
    themselves. `landed` is called in the event loop for every group, after its commit and before
    anyone is answered, with the bodies that came and went by campaign.
    """

    def __init__(self, store: Store, landed: Callable[[Work, Done], None]) -> None:
        self.store = store
        self.landed = landed
        self.commits = self.failures = 0
        self.failed: str | None = None  # why the last commit failed, while nothing is taken
        self._jobs: list[_Job] = []
        self._waiting = 0  # reports in the queue
        self._notes: Counter[tuple[int, str]] = Counter()
        self._wake = threading.Condition()
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def add(self, campaign: int, reports: Sequence[tuple[bytes, bytes]]) -> asyncio.Future[Added]:
        """What became of these reports, once it is on disk."""
        self._check_free(len(reports))
        return self._queue(_Job(campaign, reports, None, self._loop.create_future()), len(reports))

    def withdraw(self, campaign: int, identity: bytes) -> asyncio.Future[None]:
        """Done once the withdrawal is on disk."""
        self._check_free(1)
        return self._queue(_Job(campaign, None, identity, self._loop.create_future()), 1)

    def note(self, campaign: int, outcome: str, count: int = 1) -> None:
        """Count what never reached the store in the totals of the day."""
        with self._wake:
            self._notes[campaign, outcome] += count

    @property
    def waiting(self) -> int:
        """How many reports are in the queue."""
        return self._waiting

    def _check_free(self, reports: int) -> None:
        if self.failed is not None:
            raise BusyError(self.failed)
        if self._waiting + reports > MOST_WAITING:
            raise BusyError("too many reports are waiting to be written")

    def _queue(self, job: _Job, size: int) -> asyncio.Future[Any]:
        with self._wake:
            if self._stopping:
                raise BusyError("the server is stopping", 5)
            self._jobs.append(job)
            self._waiting += size
            self._wake.notify()
        return job.waiting

    async def stop(self) -> None:
        """Write what is waiting, then end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    # In the writer's own thread.

    def _run(self) -> None:
        noted, logged = time.monotonic(), 0
        while True:
            with self._wake:
                if not self._jobs and not self._stopping:
                    self._wake.wait(LOGGED_SECONDS if logged else NOTE_SECONDS)
                jobs, notes = self._taken(), Counter[tuple[int, str]]()
                if jobs or self._stopping or time.monotonic() - noted > NOTE_SECONDS:
                    notes, self._notes = self._notes, notes
                ended = self._stopping and not self._jobs
            if jobs or notes:
                self._commit(jobs, notes)
                noted, logged = time.monotonic(), logged + 1
            if logged and (not jobs or logged >= LOGGED_COMMITS):
                with suppress(StoreError):  # the next commit meets the same fault and says so
                    self.store.cut_log()
                logged = 0
            if ended:
                return

    def _taken(self) -> list[_Job]:
        """The jobs of the next transaction."""
        size = 0
        for place, job in enumerate(self._jobs):
            size += _size(job)
            if size > MOST_AT_ONCE and place:
                jobs, self._jobs = self._jobs[:place], self._jobs[place:]
                return jobs
        jobs, self._jobs = self._jobs, []
        return jobs

    def _commit(self, jobs: list[_Job], notes: Counter[tuple[int, str]]) -> None:
        work = Work(notes=dict(notes))
        for job in jobs:
            if job.reports is not None:
                work.adds.append(Batch(job.campaign, job.reports))
            elif job.identity is not None:
                work.withdrawals.append((job.campaign, job.identity))
        try:
            done = self.store.write(work)
        except Exception as error:  # a fault of ours must not end the thread with people waiting
            self._fail(jobs, notes, error)
            return
        self.commits += 1
        self._in_loop(lambda: self._settle(jobs, work, done))

    def _fail(self, jobs: list[_Job], notes: Counter[tuple[int, str]], error: Exception) -> None:
        """Tell everyone that nothing was written, and wait until something can be."""
        reason = error.message if isinstance(error, StoreError) else "the store failed"
        self.failures += 1
        self.failed = reason
        with self._wake:
            self._notes.update(notes)
            jobs = jobs + self._jobs
            self._jobs = []
        self._in_loop(lambda: self._refuse(jobs, reason))
        while not self._stopping:
            time.sleep(PROBE_SECONDS)
            try:
                self.store.probe()
            except StoreError as again:
                self.failed = again.message
            else:
                self.failed = None
                return

    def _in_loop(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    # Back in the event loop.

    def _settle(self, jobs: list[_Job], work: Work, done: Done) -> None:
        self.landed(work, done)
        added = iter(done.added)
        for job in jobs:
            self._waiting -= _size(job)
            result = None if job.reports is None else next(added)
            if not job.waiting.done():  # whoever waited may have gone
                job.waiting.set_result(result)

    def _refuse(self, jobs: list[_Job], reason: str) -> None:
        for job in jobs:
            self._waiting -= _size(job)
            if not job.waiting.done():
                job.waiting.set_exception(BusyError(reason, 5))


def _size(job: _Job) -> int:
    return 1 if job.reports is None else len(job.reports)
