"""What goes wrong with a PostgreSQL server is one clear line that never shows a password."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import sfumato as sf
from sfumato.domain import Category, Domain, Numeric
from sfumato.engines import open_source, save_release
from sfumato.errors import MissingExtraError, ServerError, SfumatoError
from sfumato.randomness import seeded
from sfumato.release import Release
from sfumato.table import Table

PASSWORD = "s3cret-Pa55"
DOMAIN = Domain((Category("sex", ("F", "M")), Numeric("age", 0, 49, cuts=(20,))))


@pytest.fixture(scope="module")
def release() -> Release:
    rng = np.random.default_rng(1)
    table = Table(DOMAIN, (rng.integers(0, 2, 500), rng.integers(0, 50, 500)))
    return sf.perturb(table, sf.Retention(DOMAIN, 0.5), seeded(2))


def complaint(url: str) -> str:
    with pytest.raises(SfumatoError) as caught:
        open_source(url)
    text = str(caught.value)
    assert PASSWORD not in text and "\n" not in text
    return text


def test_a_server_that_is_down(postgres: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound but not listening: refused at once
        found = complaint(f"postgresql://ann:{PASSWORD}@127.0.0.1:{port}/db#t")
    assert f"cannot reach PostgreSQL at 127.0.0.1:{port}/db" in found and "refused" in found


def test_a_host_that_does_not_exist() -> None:
    assert "cannot reach" in complaint(f"postgresql://ann:{PASSWORD}@no-such-host.invalid/db#t")


@pytest.mark.parametrize(
    "address", [f"postgresql://ann:{PASSWORD}@host:notaport/db#t", f"postgresql://x?{PASSWORD}#t"]
)
def test_an_address_that_cannot_be_read(address: str) -> None:
    complaint(address)


def test_a_wrong_password(postgres: str) -> None:
    import psycopg

    folder = parse_qs(urlsplit(postgres).query)["host"][0]
    rules = Path(folder) / "pg_hba.conf"
    plain = rules.read_text()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS guarded")
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'another'")
        try:
            rules.write_text("local all guarded scram-sha-256\n" + plain)
            connection.execute("SELECT pg_reload_conf()")
            found = complaint(f"postgresql://guarded:{PASSWORD}@/postgres?host={folder}#t")
            found_without = complaint(f"postgresql://guarded@/postgres?host={folder}#t")
        finally:
            rules.write_text(plain)
            connection.execute("SELECT pg_reload_conf()")
    assert "refuses the password of 'guarded'" in found
    assert "refuses the password of 'guarded'" in found_without


def test_a_database_that_does_not_exist(postgres: str) -> None:
    found = complaint(postgres.replace("/postgres?", "/nothing?") + "#t")
    assert 'database "nothing" does not exist' in found


def test_a_table_that_is_missing_or_carries_no_mechanism(postgres: str, release: Release) -> None:
    import psycopg

    save_release(release, f"{postgres}#census", force=True)
    assert "no table 'sensus'" in complaint(f"{postgres}#sensus")
    assert "did you mean 'census'" in complaint(f"{postgres}#sensus")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute('CREATE TABLE IF NOT EXISTS "stranger" (a int)')
    assert "carries no mechanism" in complaint(f"{postgres}#stranger")


def test_a_release_is_written_whole_or_not_at_all(
    postgres: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_release(release, f"{postgres}#whole", force=True)
    with pytest.raises(ServerError, match="already"):
        save_release(release, f"{postgres}#whole")

    def broken(table: Table) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.engines.postgres._lines", broken)
    for name in ("whole", "fresh"):
        with pytest.raises(KeyboardInterrupt):
            save_release(release, f"{postgres}#{name}", force=True)
    assert open_source(f"{postgres}#whole").rows == 500  # the old one is still there
    with pytest.raises(ServerError, match="no table 'fresh'"):
        open_source(f"{postgres}#fresh")


def test_rows_added_later_are_noticed(postgres: str, release: Release) -> None:
    import psycopg

    save_release(release, f"{postgres}#grown", force=True)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("INSERT INTO grown VALUES ('F', 3)")
    with pytest.raises(SfumatoError, match="501 rows, but its description speaks of 500"):
        open_source(f"{postgres}#grown").marginal(["sex"])


def test_a_table_in_another_schema(postgres: str, release: Release) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS surveys")
    save_release(release, f"{postgres}#surveys.census", force=True)
    found, true = (
        open_source(f"{postgres}#surveys.census").marginal(["sex"]),
        release.marginal(["sex"]),
    )
    assert np.allclose(found.value, true.value)


def test_a_question_is_one_statement_and_only_counts_come_back(
    postgres: str, release: Release
) -> None:
    save_release(release, f"{postgres}#pushed", force=True)
    source = open_source(f"{postgres}#pushed")
    sent: list[str] = []
    relation = source.counter.relation
    fetch = type(relation).fetch

    def noted(self: object, statement: str) -> object:
        sent.append(statement)
        found = fetch(self, statement)
        assert found.num_rows <= 6
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(relation), "fetch", noted)
        source.marginal(["sex", DOMAIN["age"].cells_by_cuts([10, 20])])
    kinds, strangers, counts = sent  # the columns are looked at once, then counted
    assert kinds.endswith("LIMIT 0") and "GROUP BY" in counts
    assert strangers.startswith("SELECT COUNT(*) FILTER (WHERE")


def test_psycopg_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[postgres\]'"):
        open_source("postgresql://host/db#t")
