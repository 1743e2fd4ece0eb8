"""Running: the server as a process, or as several that share a PostgreSQL store."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.server.app import App
from sfumato.collect.server.collector import Collector
from sfumato.collect.server.limits import PER_MINUTE, RateLimit
from sfumato.collect.server.protocol import (
    KEEP_ALIVE_SECONDS,
    MOST_CONNECTIONS,
    NETWORK_CONNECTIONS,
    GuardedProtocol,
    GuardedServer,
)
from sfumato.collect.server.workers import Workers
from sfumato.collect.store import open_store
from sfumato.errors import ParameterError, ServerError

BACKLOG = 2048
SEND_BUFFER = 128 << 10  # bytes of answers that the kernel keeps for one who does not take them


@dataclass(frozen=True)
class ServerSettings:
    """How a server is to run."""

    campaigns: Sequence[str]  # files
    store: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    limited: bool = True
    trust_proxy: bool = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ParameterError(f"--workers {self.workers} should be at least 1")
        if self.workers > 1 and not self.store.startswith(("postgresql://", "postgres://")):
            raise ParameterError(
                f"--workers {self.workers} needs a PostgreSQL store: SQLite has one writer",
                hint="give --store postgresql://user:password@host/database",
            )

    @property
    def of_network(self) -> int:
        """How many connections one network may have; a proxy's are of many."""
        limited = self.limited and not self.trust_proxy
        return NETWORK_CONNECTIONS if limited else MOST_CONNECTIONS


def collector_of(settings: ServerSettings) -> Collector:
    """The collector that settings describe, its campaigns entered and counted."""
    files = [CampaignFile.load(path) for path in settings.campaigns]
    names = [file.campaign.name for file in files]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"two campaigns are called '{name}'", hint="rename one of them")
    in_rounds = [file.campaign.name for file in files if file.campaign.people is not None]
    if settings.workers > 1 and in_rounds:
        raise ParameterError(
            f"'{in_rounds[0]}' is asked in rounds, which one process counts",
            hint="leave --workers out",
        )
    store = open_store(settings.store, create=True, serve=True)
    limit = RateLimit(max(1, PER_MINUTE // settings.workers)) if settings.limited else None
    collector = Collector(store, files, limit, settings.trust_proxy)
    collector.enrol()
    return collector


def server_of(settings: ServerSettings) -> GuardedServer:
    """The server of one worker."""
    return GuardedServer(_config(App.of(collector_of(settings)), settings.of_network))


def serve(settings: ServerSettings, started: Any = None) -> None:
    """Serve until told to stop; `started` is called with the address once it is bound."""
    bound = _bound(settings.host, settings.port)
    if settings.workers > 1:
        collector_of(settings).store.close()  # one error of a campaign's file, not one a worker
        _tell(started, bound)
        Workers(settings.workers, partial(serve_at, settings, bound)).run()
        return
    server = server_of(settings)
    _tell(started, bound)
    server.run(sockets=[bound])


def serve_at(settings: ServerSettings, bound: socket.socket) -> None:
    """Serve at a socket that listens already: what one worker does."""
    server_of(settings).run(sockets=[bound])


@contextmanager
def serving(settings: ServerSettings) -> Iterator[str]:
    """The address of a server that runs in a thread of this process for the length of a block."""
    bound = _bound(settings.host, settings.port)
    server = server_of(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield _address(bound)
    finally:
        server.should_exit = True
        thread.join()


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _tell(started: Any, bound: socket.socket) -> None:
    if started is not None:
        started(_address(bound))


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens at this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "no such port"
        raise ServerError(
            f"cannot listen at {host}:{port}: {reason}",
            hint=f"choose another --{'host' if _of_host(error) else 'port'}",
        ) from None
    listening.set_inheritable(True)
    return listening


def _of_host(error: Exception) -> bool:
    """Whether it is the host at which nobody can listen here, and not the port."""
    absent = isinstance(error, OSError) and error.errno == errno.EADDRNOTAVAIL
    return absent or isinstance(error, socket.gaierror)


def _loop() -> str:
    """The event loop: uvloop where it is installed, which is everywhere but on Windows."""
    try:
        import uvloop  # noqa: F401 (asked for by its name)
    except ImportError:
        return "asyncio"
    return "uvloop"


def _config(app: Any, of_network: int = MOST_CONNECTIONS) -> uvicorn.Config:
    """Settings of uvicorn: no log of who came, no words about ourselves."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return uvicorn.Config(
        app,
        http=partial(GuardedProtocol, of_network=of_network),  # type: ignore[arg-type]
        loop=_loop(),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=30,
    )
