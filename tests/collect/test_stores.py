"""The contract of a store, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.collect.speaking import CAMPAIGN

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.releases import find_campaign, release_of
from sfumato.collect.store import Batch, Store, Work, allowed, new_token, open_store, utc_today
from sfumato.errors import (
    CampaignError,
    FileError,
    ParameterError,
    ServerError,
    SfumatoError,
    StoreError,
)

Open = Callable[[], Store]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """A way to open the same store again and again."""
    place = str(tmp_path / "c.db")
    if request.param == "postgres":
        place = request.getfixturevalue("postgres_database")
    stores: list[Store] = []

    def make() -> Store:
        stores.append(open_store(place, create=True))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def number(opened: Open, campaign_path: Path) -> int:
    return opened().enrol(CampaignFile.load(campaign_path))


def key() -> bytes:
    return os.urandom(16)


def add(store: Store, number: int, *reports: tuple[bytes, bytes]):
    (added,) = store.write(Work([Batch(number, reports)])).added
    return added


def stored(store: Store, number: int) -> bytes:
    return b"".join(store.bodies(number))


def test_an_id_is_one_row_however_often_it_comes(opened, number):
    store, first, other = opened(), key(), key()
    assert add(store, number, (first, b"\0\1")).bodies == [b"\0\1"]
    again = add(store, number, (first, b"\0\1"), (other, b"\1\1"), (other, b"\1\1"))
    assert (again.bodies, again.repeated, list(again.refused)) == ([b"\1\1"], 2, [])
    clash = add(store, number, (first, b"\2\2"))
    assert (list(clash.bodies), clash.repeated, clash.refused) == ([], 0, [(0, "conflict")])
    assert stored(opened(), number) in (b"\0\1\1\1", b"\1\1\0\1")


def test_a_clash_inside_one_batch_keeps_the_first(opened, number):
    same = key()
    added = add(opened(), number, (same, b"\0\0"), (same, b"\1\1"), (same, b"\0\0"))
    assert (added.bodies, added.repeated, added.refused) == ([b"\0\0"], 1, [(1, "conflict")])


def test_the_same_id_in_two_requests_of_one_transaction_is_stored_once(opened, number):
    same = key()
    done = opened().write(
        Work([Batch(number, [(same, b"\0\0")]), Batch(number, [(same, b"\0\0")])])
    )
    assert [list(added.bodies) for added in done.added] == [[b"\0\0"], []]
    assert [added.repeated for added in done.added] == [0, 1]


def test_campaigns_do_not_share_ids(opened, number, tmp_path):
    path = tmp_path / "other.toml"
    path.write_text(CAMPAIGN.replace('"health"', '"other"'))
    store, same = opened(), key()
    other = store.enrol(CampaignFile.load(path))
    done = store.write(Work([Batch(number, [(same, b"\0\0")]), Batch(other, [(same, b"\1\1")])]))
    assert [len(added.bodies) for added in done.added] == [1, 1]
    assert stored(store, other) == b"\1\1"


def test_withdrawn_stays_withdrawn(opened, number):
    store, first, never = opened(), key(), key()
    add(store, number, (first, b"\0\1"))
    done = store.write(Work(withdrawals=[(number, first), (number, never), (number, first)]))
    assert done.withdrawn == [b"\0\1", None, None]
    late = add(store, number, (first, b"\0\1"), (never, b"\0\1"))
    assert late.refused == [(0, "withdrawn"), (1, "withdrawn")]
    assert add(opened(), number, (first, b"\0\1")).refused == [(0, "withdrawn")]
    assert stored(store, number) == b""
    assert store.receipts(number, [first, never, key()]) == ["withdrawn", "withdrawn", "unknown"]


def test_an_id_that_no_report_has_had_freezes_nothing(opened, number, campaign_path):
    store, never, given = opened(), key(), key()
    store.write(Work(withdrawals=[(number, never)]))
    campaign_path.write_text(CAMPAIGN.replace("gamma = 19", "gamma = 9"))
    assert store.enrol(CampaignFile.load(campaign_path)) == number
    add(store, number, (given, b"\0\0"))
    store.write(Work(withdrawals=[(number, given)]))  # someone has answered, and thought again
    campaign_path.write_text(CAMPAIGN.replace("gamma = 19", "gamma = 5"))
    with pytest.raises(CampaignError, match="1 report"):
        store.enrol(CampaignFile.load(campaign_path))


def test_an_id_that_no_report_has_had_is_remembered_for_a_while(opened, number, monkeypatch):
    store, never, given = opened(), key(), key()
    today = utc_today()

    def on(day: date) -> None:
        for place in ("store", "sqlite_store"):
            monkeypatch.setattr(f"sfumato.collect.store.{place}.utc_today", lambda: day)

    add(store, number, (given, b"\0\0"))
    store.write(Work(withdrawals=[(number, never), (number, given)]))
    on(today + timedelta(14))  # for as long as a client sends the same again
    store.tidy()
    assert add(opened(), number, (never, b"\0\0")).refused == [(0, "withdrawn")]
    on(today + timedelta(16))
    store.tidy()
    for each in (store, opened()):
        assert each.receipts(number, [never, given]) == ["unknown", "withdrawn"]
    late = add(store, number, (never, b"\0\0"), (given, b"\0\0"))
    assert (late.bodies, late.refused) == ([b"\0\0"], [(1, "withdrawn")])


def test_a_clock_that_ran_ahead_keeps_nothing_for_ever(opened, number, monkeypatch):
    store, never = opened(), key()
    today = utc_today()
    for day, remembered in ((3650, True), (0, True), (14, True), (16, False)):
        moved = today + timedelta(day)
        for place in ("store", "sqlite_store"):
            monkeypatch.setattr(f"sfumato.collect.store.{place}.utc_today", lambda day=moved: day)
        if day == 3650:
            store.write(Work(withdrawals=[(number, never)]))
        store.tidy()
        assert store.receipts(number, [never]) == ["withdrawn" if remembered else "unknown"]


def test_made_up_ids_are_bounded_in_number_and_push_out_no_other_campaigns(
    opened, number, tmp_path, monkeypatch
):
    monkeypatch.setattr("sfumato.collect.store.store.MOST_UNSEEN", 100)
    path = tmp_path / "other.toml"
    path.write_text(CAMPAIGN.replace('"health"', '"other"'))
    store, theirs, given = opened(), [key() for _ in range(50)], key()
    other = store.enrol(CampaignFile.load(path))
    add(store, number, (given, b"\0\0"))
    store.write(Work(withdrawals=[(other, each) for each in theirs] + [(number, given)]))
    made_up = [key() for _ in range(1000)]
    for start in range(0, 1000, 20):
        store.write(Work(withdrawals=[(number, each) for each in made_up[start : start + 20]]))
    for each in (store, opened()):
        assert each.receipts(number, made_up).count("withdrawn") <= 120
        assert each.receipts(other, theirs) == ["withdrawn"] * 50
        assert each.receipts(number, [given]) == ["withdrawn"]
        assert each.receipts(other, [given]) == ["unknown"]


def test_a_store_of_an_earlier_version_remembers_such_ids_too(tmp_path, campaign_path):
    import sqlite3

    place = str(tmp_path / "c.db")
    store = open_store(place, create=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    given, never = key(), key()
    add(store, number, (given, b"\0\1"))
    store.close()
    with sqlite3.connect(place) as connection:
        connection.execute("DROP TABLE unseen")
    connection.close()
    store = open_store(place)
    assert stored(store, number) == b"\0\1"
    store.write(Work(withdrawals=[(number, never)]))
    assert store.receipts(number, [never]) == ["withdrawn"]
    store.close()


def test_a_report_and_its_withdrawal_in_one_transaction_leave_nothing(opened, number):
    store, both = opened(), key()
    done = store.write(Work([Batch(number, [(both, b"\0\0")])], [(number, both)]))
    assert done.withdrawn == [b"\0\0"] and stored(store, number) == b""


def test_receipts_tell_what_is_stored(opened, number):
    store, first = opened(), key()
    add(store, number, (first, b"\0\0"))
    assert store.receipts(number, [key(), first]) == ["unknown", "stored"]


def test_bodies_come_in_the_order_of_the_ids_and_not_of_arrival(opened, number):
    store = opened()
    rows = [(key(), bytes([place % 3, place // 3 % 3])) for place in range(2000)]
    for start in range(0, len(rows), 100):
        add(store, number, *rows[start : start + 100])
    assert stored(store, number) == b"".join(body for _, body in sorted(rows))


def test_bodies_come_whole_in_parts_and_of_one_moment(opened, number, monkeypatch):
    for store_module in ("sqlite_store", "postgres_store"):
        monkeypatch.setattr(f"sfumato.collect.store.{store_module}.CHUNK", 97)
    store = opened()
    rows = [(key(), bytes([place % 256, place * 7 % 256])) for place in range(1000)]
    rows += [(b"\0" * 16, b"\0\0"), (b"\xff" * 16, b"\xff\xff")]  # the first id and the last
    add(store, number, *rows)
    parts = store.bodies(number)
    seen = next(parts)
    add(store, number, (b"\xfe" * 16, b"\1\2"))  # comes too late to be of that moment
    seen += b"".join(parts)
    assert seen == b"".join(body for _, body in sorted(rows))
    assert list(store.bodies(number + 1)) == []


def test_the_day_counts_what_happened_and_nothing_finer(opened, number):
    store, first = opened(), key()
    add(store, number, (first, b"\0\0"), (key(), b"\0\1"))
    add(store, number, (first, b"\0\0"), (first, b"\1\1"))
    store.write(Work(withdrawals=[(number, first)], notes={(number, "refused domain"): 3}))
    today = utc_today().isoformat()
    assert store.daily(number) == [
        (today, "refused conflict", 1),
        (today, "refused domain", 3),
        (today, "repeated", 1),
        (today, "stored", 2),
        (today, "withdrawn", 1),
    ]


def test_tokens_are_kept_as_hashes_and_expire(opened):
    store = opened()
    secret, token = new_token("read", "anna", date(2027, 1, 31))
    store.add_token(token)
    assert secret.encode() not in repr(store.tokens()).encode()
    assert store.tokens() == [token] and len(token.digest) == 32
    find = store.find_token
    assert allowed(find, secret, "read", date(2027, 1, 31))
    assert not allowed(find, secret, "read", date(2027, 2, 1))
    assert not allowed(find, secret, "send", date(2027, 1, 1))
    assert not allowed(find, secret + "x", "read") and not allowed(find, "", "read")
    assert store.remove_tokens("anna") == 1 and store.tokens() == []
    admin, token = new_token("admin", "owner")
    store.add_token(token)
    assert allowed(find, admin, "read") and allowed(find, admin, "send")
    with pytest.raises(ParameterError, match="did you mean 'read'"):
        new_token("reed", "x")


def test_what_a_public_dashboard_shows_is_kept(opened, number):
    store = opened()
    assert store.shown(number) is None
    assert store.show(number, {"reports": 150}, instead_of=None)
    assert opened().shown(number) == {"reports": 150}


def test_of_two_who_show_figures_at_once_one_is_told_that_it_is_late(opened, number):
    one, other = opened(), opened()
    assert one.show(number, {"reports": 150, "x": 0.1}, instead_of=None)
    assert not other.show(number, {"reports": 151}, instead_of=None)
    assert other.shown(number) == {"reports": 150, "x": 0.1}
    assert other.show(number, {"reports": 201}, instead_of=other.shown(number))
    assert not one.show(number, {"reports": 202}, instead_of={"reports": 150, "x": 0.1})
    assert one.shown(number) == {"reports": 201}


def test_a_failed_transaction_leaves_nothing(opened, number):
    store, first = opened(), key()
    bad = Work([Batch(number, [(first, b"\0\0")]), Batch(number, [(key(), None)])])
    with pytest.raises(StoreError):
        store.write(bad)
    assert stored(store, number) == b"" and store.daily(number) == []
    store.probe()
    assert add(store, number, (first, b"\0\0")).bodies == [b"\0\0"]


def test_tidying_keeps_every_row(opened, number):
    store = opened()
    rows = sorted((key(), bytes([place % 3, 0])) for place in range(500))
    add(store, number, *rows)
    store.write(Work(withdrawals=[(number, rows[0][0])]))
    store.tidy()
    assert stored(store, number) == b"".join(body for _, body in rows[1:])
    assert store.size() > 0


def test_what_is_no_store_is_refused(tmp_path):
    import sqlite3

    with pytest.raises(FileError, match="no store"):
        open_store(str(tmp_path / "none.db"))
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t(x)")
    other.close()
    with pytest.raises(StoreError, match="no store of campaigns"):
        open_store(str(tmp_path / "other.db"), create=True)
    (tmp_path / "text.db").write_text("not a database at all, but longer than a header " * 40)
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(str(tmp_path / "text.db"), create=True)
    with pytest.raises(ParameterError, match="mysql"):
        open_store("mysql://host/db")


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
TAMPERED = {
    "reports are a view": (
        "DROP TABLE report",
        f"CREATE VIEW report AS {ENDLESS} SELECT x AS campaign, x AS id, x AS body FROM n",
    ),
    "campaigns are a view": (
        "DROP TABLE campaign",
        f"CREATE VIEW campaign AS {ENDLESS} SELECT x AS number, 'a' AS name, 1 AS round,"
        " 'b' AS hash, 'c' AS frozen, 'd' AS spec, 'e' AS shown FROM n",
    ),
    "forgotten ids are a view": (
        "DROP TABLE unseen",
        f"CREATE VIEW unseen AS {ENDLESS} SELECT x AS campaign, x AS id, x AS day FROM n",
    ),
    "a table is gone": ("DROP TABLE daily",),
    "one more index refuses the second report": ("CREATE UNIQUE INDEX more ON report(campaign)",),
}


@pytest.mark.parametrize("statements", TAMPERED.values(), ids=TAMPERED)
def test_a_store_with_other_tables_than_ours_is_refused_at_once(opened, statements):
    import sqlite3

    import psycopg

    store = opened()
    place = store._address if store.shared else str(store.path)
    store.close()
    connect = psycopg.connect if store.shared else sqlite3.connect
    with contextlib.closing(connect(place)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    with pytest.raises(StoreError, match="no store of campaigns"):
        open_store(place)


def test_a_store_with_a_trigger_and_one_without_a_version_are_refused(tmp_path, postgres_database):
    import sqlite3

    import psycopg

    open_store(str(tmp_path / "a.db"), create=True).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON report BEGIN DELETE FROM campaign; END"
        )
    with pytest.raises(StoreError, match="its tables are not as Sfumato's are"):
        open_store(str(tmp_path / "a.db"))
    open_store(postgres_database, create=True).close()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("DELETE FROM sfumato_meta")
    with pytest.raises(StoreError, match="no store of campaigns"):
        open_store(postgres_database)


def test_beside_what_is_no_store_nothing_is_left(tmp_path):
    """A lock was, and a database of someone else was set to another kind of log."""
    import sqlite3

    (tmp_path / "text.parquet").write_text("PAR1, not a database at all " * 40)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t(x)")
    other.close()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path in before:
        with pytest.raises(StoreError):
            open_store(str(path), create=True, serve=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_two_servers_on_one_file_are_refused(tmp_path):
    place = str(tmp_path / "c.db")
    first = open_store(place, create=True, serve=True)
    with pytest.raises(StoreError, match="served by another process"):
        open_store(place, serve=True)
    reader = open_store(place)  # reading beside a server is fine
    assert reader.enrolled() == []
    reader.close()
    first.close()
    open_store(place, serve=True).close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_the_files_of_a_store_are_their_owners_alone(tmp_path, campaign_path):
    (tmp_path / "c.db-lock").touch(0o644)  # as an earlier version made it
    store = open_store(str(tmp_path / "c.db"), create=True, serve=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    add(store, number, (key(), b"\0\0"))
    found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("c.db*")}
    assert set(found.values()) == {0o600} and len(found) == 4
    store.close()


def test_postgres_keeps_no_order_of_arrival_once_it_is_tidied(postgres_database, campaign_path):
    """Each row carries the number of the transaction that wrote it, which CLUSTER leaves as it is;
    whoever may read the table can read that.
    """
    store = open_store(postgres_database, create=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    ids = [key() for _ in range(60)]
    for identity in ids:
        add(store, number, (identity, b"\0\0"))
        store.write(Work(withdrawals=[(number, key())]))

    def numbers(table: str) -> int:
        ((found,),) = store._rows(f"SELECT count(DISTINCT xmin::text) FROM {table}")
        return int(found)

    def order(by: str) -> list[bytes]:
        return [bytes(row[0]) for row in store._rows(f"SELECT id FROM report ORDER BY {by}")]

    assert order("xmin::text::bigint") == ids and order("ctid") == ids  # so the test can see it
    store.tidy()
    assert numbers("report") == numbers("unseen") == 1
    assert order("ctid") == sorted(ids)
    assert stored(store, number) == b"\0\0" * 60
    store.close()


@pytest.mark.parametrize("name", ["x'; DROP TABLE report; --", 'a"b', "%s", "health' OR '1'='1"])
def test_names_are_never_statements(opened, number, name):
    store, given = opened(), key()
    add(store, number, (given, b"\0\0"))
    with pytest.raises(StoreError, match="no campaign"):
        find_campaign(store, name)
    _, token = new_token("read", name)
    store.add_token(token)
    assert store.find_token(token.digest) == token
    assert store.remove_tokens("'" + name) == 0 and store.remove_tokens(name) == 1
    store.write(Work(notes={(number, name): 2}))
    assert (utc_today().isoformat(), name, 2) in store.daily(number)
    assert store.show(number, {name: name}, instead_of=None)
    assert store.shown(number) == {name: name}
    bad = name.encode().ljust(16)[:16]
    assert add(store, number, (bad, name.encode())).bodies == [name.encode()]
    assert store.receipts(number, [bad, given]) == ["stored", "stored"]


def test_a_postgres_store_is_safe_from_the_names_of_tables_and_schemas(
    postgres_database, campaign_path
):
    """Whatever stands behind the # of an address or is called a schema is a name and no statement,
    and none of a store's own tables is ever taken for a release to be replaced.
    """
    from urllib.parse import quote

    import psycopg

    import sfumato as sf

    store = open_store(postgres_database, create=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    add(store, number, *((key(), bytes([place % 3, place % 2])) for place in range(200)))
    drop = "x'; DROP TABLE report; --"
    for name in (
        drop,
        'x"; DROP TABLE report; --',
        "health' OR '1'='1",
        "%s",
        "\\",
        "a%00b",
        "é" * 99,
    ):
        with pytest.raises(SfumatoError, match=r"no (table|name|campaign)"):
            sf.open_source(f"{postgres_database}#{name}")
    release = sf.open_source(f"{postgres_database}#health")
    assert release.rows == 200
    table = release_of(store, number, store.enrolled()[0].provenance).table
    for name in ("report", "campaign", "token", "sfumato_meta", "public.report", "unseen"):
        with pytest.raises(ServerError, match="is no release"):
            sf.save_release(table, f"{postgres_database}#{name}", force=True)
    for name in (drop, 'we"ird', "se;lect"):
        for _ in range(2):
            sf.save_release(table, f"{postgres_database}#{name}", force=True)
        assert sf.open_source(f"{postgres_database}#{name}").rows == 200
    assert len(stored(store, number)) == 400
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "a""b\'; --"')
    path = quote('-csearch_path="a""b\';\\ --"')
    other = open_store(
        postgres_database + ("&" if "?" in postgres_database else "?") + f"options={path}",
        create=True,
    )
    assert other.enrolled() == []
    there = other.enrol(CampaignFile.load(campaign_path))
    add(other, there, (key(), b"\0\0"))
    other.tidy()
    assert (stored(other, there), len(stored(store, number))) == (b"\0\0", 400)
    other.close()
    store.close()


def test_workers_of_postgres_never_bring_back_what_was_withdrawn(postgres_database, campaign_path):
    """One worker adds, again and again, what another withdraws at the same moment."""
    place = postgres_database
    first, second = (open_store(place, create=True) for _ in range(2))
    number = first.enrol(CampaignFile.load(campaign_path))
    ids = [key() for _ in range(60)]

    def adding() -> None:
        for identity in ids:
            add(first, number, (identity, b"\0\0"))

    def withdrawing() -> None:
        for identity in ids:
            second.write(Work(withdrawals=[(number, identity)]))

    threads = [threading.Thread(target=each) for each in (adding, withdrawing)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(first, number) == b""
    assert set(first.receipts(number, ids)) == {"withdrawn"}
    first.close()
    second.close()


def physical_order(path: Path) -> list[bytes]:
    """The ids in a SQLite file by their place in it: pages in order, and within a page from its end
    backwards, which is the order in which SQLite fills it.
    """
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    found = []
    for start in range(0, len(data), size):
        head = start + (100 if start == 0 else 0)
        if data[head] != 0x0A:  # a leaf of a table without row numbers
            continue
        cells = int.from_bytes(data[head + 3 : head + 5], "big")
        places = [
            start + int.from_bytes(data[head + 8 + 2 * c : head + 10 + 2 * c], "big")
            for c in range(cells)
        ]
        found += [data[place : place + 40] for place in sorted(places, reverse=True)]
    return found


def test_sqlite_pages_tell_the_order_of_arrival_until_they_are_tidied(tmp_path, campaign_path):
    path = tmp_path / "c.db"
    store = open_store(str(path), create=True, serve=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    store._writing.execute("PRAGMA synchronous = OFF")  # quicker
    rng = random.Random(1)
    ids = [rng.randbytes(16) for _ in range(3000)]
    for identity in ids:
        add(store, number, (identity, b"\0\0"))
    rank = {identity: place for place, identity in enumerate(ids)}

    def correlations() -> float:
        """How far neighbours in the file came one after the other."""
        seen = [_id_in(cell, rank) for cell in physical_order(path)]
        order = [rank[identity] for identity in seen if identity is not None]
        rising = np.mean(np.diff(order) > 0)
        return abs(float(rising) - 0.5) * np.sqrt(12 * len(order))

    store.cut_log()
    assert correlations() > 6  # so the test can see it
    store.tidy()
    assert correlations() < 4
    store.close()


@pytest.mark.parametrize("repeated", [False, True])
def test_what_arrives_together_is_written_in_the_order_of_the_ids(
    tmp_path, campaign_path, repeated
):
    path = tmp_path / "c.db"
    store = open_store(str(path), create=True, serve=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    known = key()
    if repeated:
        add(store, number, (known, b"\0\0"))
    ids = [key() for _ in range(50)]
    work = [Batch(number, [(identity, b"\0\0")]) for identity in ids]
    store.write(Work([*work, Batch(number, [(known, b"\0\0")] if repeated else [])]))
    store.cut_log()
    found = [_id_in(cell, dict.fromkeys(ids, 0)) for cell in physical_order(path)]
    assert [each for each in found if each is not None] == sorted(ids)
    store.close()


def _id_in(cell: bytes, rank: dict[bytes, int]) -> bytes | None:
    return next((cell[s : s + 16] for s in range(12) if cell[s : s + 16] in rank), None)


@pytest.mark.parametrize(
    "row",
    [
        "x'00','read','l','not a day'",
        "'abc','read','l',null",
        "99999999999,'read','l',null",  # of which Python would make 100 GB of noughts
        "x'00',x'01','l',null",
        "x'00','read',x'01',null",
    ],
)
def test_a_token_that_is_none_is_one_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "s.db"
    open_store(str(path), create=True).close()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"INSERT INTO token VALUES ({row})")
    with contextlib.closing(open_store(str(path))) as store, pytest.raises(SfumatoError):
        store.tokens()


def test_a_store_whose_names_are_no_text_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    open_store(str(path), create=True).close()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), sql = 'CREATE x'")
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(str(path))


def test_a_report_that_is_no_body_can_be_taken_back(tmp_path: Path, campaign_path: Path) -> None:
    store = open_store(str(tmp_path / "s.db"), create=True)
    number = store.enrol(CampaignFile.load(campaign_path))
    add(store, number, (bytes(16), b"\0\0"))
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection, connection:
        connection.execute("UPDATE report SET body = 'ab'")
    assert store.write(Work(withdrawals=[(number, bytes(16))])).withdrawn == [b"ab"]
    store.close()


@pytest.mark.parametrize("beside", ["-journal", "-wal", "-shm"])
def test_a_pipe_beside_a_store_is_not_waited_for(tmp_path: Path, beside: str) -> None:
    path = tmp_path / "s.db"
    open_store(str(path), create=True).close()
    os.mkfifo(f"{path}{beside}")
    with pytest.raises(FileError, match="is a pipe"):
        open_store(str(path))


@pytest.mark.parametrize(
    "change",
    [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER t BEFORE INSERT ON report FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE RULE r AS ON INSERT TO report DO INSTEAD NOTHING",
        "ALTER TABLE report ADD COLUMN at timestamptz DEFAULT now()",
        "ALTER TABLE report SET UNLOGGED",
        "ALTER TABLE report ALTER COLUMN body TYPE text USING ''",
        "ALTER TABLE report ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE token ALTER COLUMN hash TYPE text USING ''",
        "ALTER TABLE campaign ALTER COLUMN shown SET DEFAULT 'x'",
        "ALTER TABLE daily ADD CHECK (count < 1000)",
        "CREATE INDEX more ON report (body)",
        "CREATE INDEX ON token (md5(label))",
        "CREATE TABLE older() INHERITS (report)",
        "ALTER TABLE unseen DROP CONSTRAINT unseen_key",
    ],
)
def test_a_database_that_does_more_than_keep_reports_is_refused(
    postgres_database: str, change: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    open_store(postgres_database, create=True).close()
    open_store(postgres_database).close()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(change)
    with pytest.raises(StoreError):
        open_store(postgres_database)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("hash = x'ff'", "a hash that is not its own"),
        ("hash = 'x'", "a hash that is not its own"),
        ("hash = 'x', frozen = '{}'", "cannot be made sense of"),
        ("hash = 'x', frozen = '{\"domain\": {\"attribute\": 3}}'", "cannot be changed"),
        ("hash = 'x', frozen = '['", "changed or cut short"),
    ],
)
def test_a_campaign_that_was_changed_in_the_store_ends_in_one_line(
    campaign_path: Path, tmp_path: Path, change: str, told: str
) -> None:
    store = open_store(str(tmp_path / "c.db"), create=True)
    file = CampaignFile.load(campaign_path)
    add(store, store.enrol(file), (bytes(16), b"\0"))
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as connection:
        connection.execute(f"UPDATE campaign SET {change}")
        connection.commit()
    again = open_store(str(tmp_path / "c.db"))
    with pytest.raises(SfumatoError, match=told):
        again.enrol(file)
    again.close()
