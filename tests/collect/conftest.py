"""A campaign, a server that takes its answers, and stores of both kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.collect.speaking import CAMPAIGN

pytest.importorskip("starlette", reason="the extra 'serve' is not installed")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are fresh whenever they are asked for: what takes 6 ms of CPU may take more than the
    40 ms of `QUICK` on a busy machine, and those of a moment ago be shown.
    """
    monkeypatch.setattr("sfumato.collect.board.QUICK", 5.0)


@pytest.fixture
def campaign_path(tmp_path: Path) -> Path:
    """A campaign file."""
    path = tmp_path / "health.toml"
    path.write_text(CAMPAIGN, encoding="utf-8")
    return path


@pytest.fixture
def postgres_database(postgres: str) -> Iterator[str]:
    """The address of a database of its own in the PostgreSQL server."""
    import secrets

    import psycopg

    name = f"d{secrets.token_hex(6)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    start, _, query = postgres.partition("?")
    yield f"{start.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
