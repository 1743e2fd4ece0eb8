"""A server that can be killed and started again in a moment: `python -m tests.collect.killable`.

Reads words from standard input: "start" forks a server and answers with its process number once it
listens; the parent keeps everything imported, so that a thousand deaths take minutes. With the
argument "hasty" the server is a mutant that acknowledges before it commits.
"""

from __future__ import annotations

import os
import sys

from sfumato.collect import writer as writing
from sfumato.collect.server import running
from sfumato.collect.server.application import App
from sfumato.collect.server.protocol import GuardedServer
from sfumato.collect.store import Added, Done


def acknowledge_before_the_commit() -> None:
    """The mutant: everyone is answered, and only then is anything written."""
    commit = writing.ReportWriter._commit

    def hasty(self, jobs, notes):
        answers = Done([Added([b for _, b in job.reports]) for job in jobs if job.reports], [])
        futures = [job.waiting for job in jobs]
        self._in_loop(lambda: _answer(futures, answers))
        commit(self, jobs, notes)

    writing.ReportWriter._commit = hasty


def _answer(futures, answers) -> None:
    for future, added in zip(futures, answers.added, strict=True):
        if not future.done():
            future.set_result(added)


def serve(settings: running.ServerSettings) -> None:
    """What the child does until it is killed."""
    bound = running._bound(settings.host, settings.port)
    server = GuardedServer(running._config(App.of(running.collector_of(settings))))
    print(os.getpid(), flush=True)
    server.run(sockets=[bound])


def main(campaign: str, store: str, port: str, *kind: str) -> None:
    if "hasty" in kind:
        acknowledge_before_the_commit()
    settings = running.ServerSettings([campaign], store, port=int(port), limited=False)
    for line in sys.stdin:
        if line.strip() == "start":
            child = os.fork()
            if child == 0:
                try:
                    serve(settings)
                except BaseException as error:
                    print(f"failed: {error}", flush=True)
                finally:
                    os._exit(0)
        else:
            os.waitpid(int(line), 0)
            print("gone", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
