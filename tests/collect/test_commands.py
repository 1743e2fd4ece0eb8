"""The collector's commands: help, JSON, one-line errors, and the way from a schema to an answer."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.collect.speaking import (
    CAMPAIGN,
    Speaker,
    first_token,
    identity,
    some_reports,
    speaking,
)
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.collect import own_ledger
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.client import Client
from sfumato.printable import percent
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Ledger

COMMANDS = (
    "campaign init", "campaign check", "campaign next", "campaign sign", "campaign verify",
    "campaign form", "serve",
    "token add", "token list", "token revoke", "send", "export", "simulate",
)  # fmt: skip


def run(line: str, code: int = 0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def run_json(line: str, code: int = 0) -> dict:
    return json.loads(run(line + " --json", code).stdout)


def complaint(line: str) -> str:
    """The one line of a command that fails."""
    told = run(line, 2)
    assert told.stdout == "" and len(told.stderr.strip().splitlines()) == 1
    assert json.loads(run(line + " --json", 2).stdout)["error"]["message"]
    return told.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SFUMATO_TOKEN", raising=False)
    (tmp_path / "c.toml").write_text(CAMPAIGN, encoding="utf-8")
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with speaking(folder / "c.toml", "campaign.db") as speaker:
        yield f"{speaker.address}/health"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command):
    text = " ".join(run(f"{command} --help").stdout.split())
    assert f"Example: sfumato {command}" in text and "--json" in text


def test_a_schema_becomes_a_campaign_that_checks_and_works(folder):
    run("generate survey --rows 50 -o s.csv --schema survey.toml")
    made = run_json("campaign init survey.toml -o made.toml --rho1 0.05 --rho2 0.5")
    assert made["mechanism"] and made["promise"] == {"rho1": 0.05, "rho2": 0.5}
    campaign = CampaignFile.load(folder / "made.toml").campaign
    assert campaign.name == "made" and campaign.mechanism.name == made["mechanism"]
    found = run_json("campaign check made.toml")
    assert found["mechanism"] == made["mechanism"] and found["worst_posterior"]["rho2"] <= 0.5
    assert [each["name"] for each in found["questions"]] == list(campaign.domain.names)
    assert "people for ± 2 points" in " ".join(run("campaign check made.toml").stdout.split())
    assert "exists" in complaint("campaign init survey.toml -o made.toml")
    run("campaign init survey.toml -o made.toml --force --epsilon 2")


NUMBERS = """\
[[attribute]]
name = "age"
type = "numeric"
min = 18
max = 99

[[attribute]]
name = "smoker"
type = "category"
values = ["no", "yes"]
"""


def test_what_init_recommends_for_numbers_can_be_typed(folder: Path) -> None:
    """It named mechanisms, and had no option to name one by."""
    (folder / "numbers.toml").write_text(NUMBERS, encoding="utf-8")
    for more in ("", " --mechanism ranges"):
        said = " ".join(complaint(f"campaign init numbers.toml -o made.toml{more}").split())
        assert "'age' has no cuts" in said and "init --mechanism NAME" in said
        assert "--round 1" not in said
        for name in ("square-wave", "piecewise"):
            assert name in said
            run(f"campaign init numbers.toml -o made.toml --force --mechanism {name}")
            assert run_json("campaign check made.toml")["mechanism"] == name
        (folder / "made.toml").unlink()
    run("campaign init numbers.toml -o made.toml --mechanism square-wave")
    assert (folder / "made.toml").read_text(encoding="utf-8").count("# decline") == 1  # smoker's
    refused = complaint("campaign init numbers.toml -o x.toml --rounds 900 --mechanism mask")
    assert "asked by item-set" in " ".join(refused.split())


def test_check_says_how_often_a_report_is_true_by_what_is_asked(folder):
    """A questionnaire's answers of two cells are true more often than those of six."""
    (folder / "q.toml").write_text(CAMPAIGN.replace("gamma-diagonal", "questionnaire"))
    found = run_json("campaign check q.toml")
    assert found["truthful"] == pytest.approx(19 / 21)  # one of three values
    assert found["truthful_least"] < found["truthful"]
    shares = f"{percent(found['truthful_least'])} to {percent(found['truthful'])} of cases"
    assert shares in run("campaign check q.toml").stdout
    assert " to " not in run("campaign check c.toml").stdout.partition("of cases")[0][-20:]


def test_check_says_what_is_wrong_and_where(folder):
    (folder / "bad.toml").write_text(CAMPAIGN.replace("gamma = 19", "gama = 19"))
    told = complaint("campaign check bad.toml")
    assert "bad.toml, line 16" in told and "did you mean 'gamma'" in told
    assert "no campaign file" in complaint("campaign check none.toml")


def test_a_server_is_held_against_the_installed_files(url, monkeypatch):
    assert run_json(f"campaign verify {url}")["differences"] == []
    assert "the same" in run(f"campaign verify {url}").stdout
    from sfumato.collect.assets import Assets

    changed = {name: data + b"\n" if name == "form.js" else data
               for name, data in Assets.load().files.items()}  # fmt: skip
    monkeypatch.setattr(Assets, "load", classmethod(lambda cls: cls(changed)))
    found = run_json(f"campaign verify {url}", 3)
    assert any("form.js" in line for line in found["differences"])


def test_a_server_with_another_page_is_noticed(folder, monkeypatch):
    from sfumato.collect.assets import Assets

    plain = Assets.load()
    evil = dict(plain.files)
    evil["form.html"] = evil["form.html"].replace(b"</head>", b"<script src=/x></script></head>")
    monkeypatch.setattr(Assets, "load", classmethod(lambda cls: cls(evil)))
    with speaking(folder / "c.toml", "evil.db") as speaker:
        monkeypatch.setattr(Assets, "load", classmethod(lambda cls: plain))
        found = run_json(f"campaign verify {speaker.address}/health", 3)
    told = " ".join(found["differences"])
    assert "the form's page: other bytes" in told and "form.html" in told


def test_the_form_is_one_file(folder):
    made = run_json("campaign form c.toml --server https://example.org -o form.html")
    page = (folder / "form.html").read_text(encoding="utf-8")
    assert made["bytes"] == len(page.encode()) and "https://example.org" in page
    assert CampaignFile.load(folder / "c.toml").campaign.hash in page
    assert "not the address" in complaint("campaign form c.toml --server nowhere -o other.html")


def test_tokens_come_and_go(folder):
    first_token("campaign.db")
    made = run_json("token add --role read --label anna --expires 2099-01-31")
    assert len(made["token"]) == 43 and made["expires"] == "2099-01-31"
    listed = run_json("token list")["tokens"]
    assert {"role": "read", "label": "anna", "expires": "2099-01-31"} in listed
    assert made["token"] not in run("token list").stdout
    assert run_json("token revoke anna") == {"revoked": 1}
    assert "no token 'anna'" in complaint("token revoke anna")
    assert "did you mean 'read'" in complaint("token add --role reed")
    assert "no store" in complaint("token list --store none.db")


def test_people_of_a_file_are_sent_once(url, folder):
    (folder / "people.csv").write_text("name,smoker,age\nann,yes,old\nbob,no,young\n")
    line = f"send {url} people.csv --ledger people.ledger --key name"
    first = run_json(f"{line} --new-ledger")
    assert {name: first[name] for name in ("people", "stored", "repeated", "refused")} == {
        "people": 2, "stored": 2, "repeated": 0, "refused": 0}  # fmt: skip
    assert run_json(line)["repeated"] == 2
    assert "draws anew" in run(f"send {url} people.csv --no-ledger").stderr
    assert "no column 'nme'" in complaint(f"send {url} people.csv --key nme")
    assert "is not one of its values" in complaint(f"send {url} {_odd(folder)}")
    assert "cannot reach" in complaint("send http://127.0.0.1:9/x people.csv --patience 0")
    assert "give one" in complaint(f"send {url} people.csv --ledger a --no-ledger")
    assert "--ledger FILE" in complaint(f"send {url} people.csv --new-ledger")


@pytest.fixture
def ledgers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SFUMATO_LEDGERS", str(folder / "data" / "ledgers"))
    return folder / "data" / "ledgers"


def test_a_report_is_withdrawn_from_the_shell(url, folder, ledgers):
    (folder / "me.csv").write_text("smoker,age\nyes,old\n")
    (receipt,) = run_json(f"send {url} me.csv")["receipts"]
    taken = run_json(f"send {url} --withdraw {receipt['id']}")
    assert taken == {"id": receipt["id"], "before": "stored", "now": "withdrawn"}
    again = run(f"send {url} --withdraw {receipt['id']}").stdout
    assert again.split() == ["report", receipt["id"], "before", "withdrawn", "now", "withdrawn"]
    assert Client(url).receipts([receipt["id"]]) == {receipt["id"]: "withdrawn"}
    other = f"send {url} --withdraw {identity()}"
    assert run_json(other, 3) | {"id": ""} == {"id": "", "before": "unknown", "now": "withdrawn"}
    missed = run(f"send {url} --withdraw {identity()}", 3)
    assert "before unknown" in " ".join(missed.stdout.split())
    assert "no report of this id was there" in missed.stderr
    for line in ("", "me.csv --withdraw x"):
        assert "give DATA, or --withdraw ID" in complaint(f"send {url} {line}")
    assert "the id of a receipt" in complaint(f"send {url} --withdraw short")


def test_people_are_not_simulated_at_a_server_with_another_campaign(url, folder):
    other = (folder / "c.toml").read_text().replace("gamma = 19", "gamma = 18")
    (folder / "other.toml").write_text(other)
    told = complaint(f"simulate other.toml --people 10 --server {url.removesuffix('/health')}")
    assert "it has another hash; nothing was sent" in told


def test_a_device_draws_once_keeps_the_report_and_sends_the_same_again(url, folder, ledgers):
    """Without an option, as the pages promise: whatever the file says the second time."""
    (folder / "me.csv").write_text("smoker,age\nyes,old\n")
    first = run_json(f"send {url} me.csv")
    assert first["stored"] == 1 and first["ledger"].startswith(str(ledgers))
    (folder / "again.csv").write_text("smoker,age\nno,young\n")
    again = run_json(f"send {url} again.csv")
    assert (again["stored"], again["repeated"]) == (0, 1)
    assert again["receipts"] == first["receipts"]
    assert set(first["receipts"][0]) == {"id", "sha256", "campaign"}
    told = run(f"send {url} me.csv")
    assert first["receipts"][0]["id"] in told.stdout
    assert first["receipts"][0]["sha256"] in told.stdout
    assert "has answered before" in told.stderr
    assert "answered before   1 time;" in told.stderr
    assert run_json("export campaign.db -o all.parquet")["rows"] == 1


def test_the_people_of_a_file_draw_once_each(url, folder, ledgers):
    (folder / "people.csv").write_text("name,smoker,age\nann,yes,old\nbob,no,young\n")
    first = run_json(f"send {url} people.csv")
    again = run(f"send {url} people.csv")
    assert "by their place" in again.stderr
    assert all(receipt["id"] in again.stdout for receipt in first["receipts"])
    (folder / "others.csv").write_text("name,smoker,age\ncid,yes,old\ndan,no,young\n")
    assert run_json(f"send {url} others.csv")["stored"] == 2
    assert run_json(f"send {url} people.csv --key name")["stored"] == 2  # known by name from here
    (folder / "moved.csv").write_text("name,smoker,age\nbob,no,young\nann,yes,old\n")
    assert run_json(f"send {url} moved.csv --key name")["repeated"] == 2


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
def test_what_a_device_keeps_is_for_its_users_eyes_and_holds_no_answer(url, folder, ledgers):
    (folder / "secretive.csv").write_text("smoker,age\nyes,old\nno,young\n")
    place = Path(run_json(f"send {url} secretive.csv")["ledger"])
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o077 for file in place.parent.iterdir()} == {0}
    entries = Ledger(place).account.entries
    assert len(entries) == 2 and {entry.state for entry in entries} == {"sent"}
    # Of the answers only the report, of the file not even its name.
    assert all(set(entry.report) == {"campaign", "id", "values"} for entry in entries)
    assert b"secretive" not in place.read_bytes() and b"young" not in place.read_bytes()


def test_a_report_to_another_version_is_told_and_not_drawn_anew(folder, ledgers):
    (folder / "me.csv").write_text("smoker,age\nyes,old\n")
    with speaking(folder / "c.toml", "first.db") as speaker:
        run_json(f"send {speaker.address}/health me.csv")
        port = int(speaker.address.rpartition(":")[2])
    (folder / "c.toml").write_text(CAMPAIGN.replace("middle", "between"), encoding="utf-8")
    with speaking(folder / "c.toml", "second.db", port=port) as speaker:
        told = run(f"send {speaker.address}/health me.csv", 2)
        assert told.stdout == "" and "another version" in told.stderr.splitlines()[-1]
        assert run_json(f"send {speaker.address}/health me.csv --ledger l --new-ledger")["stored"]


def test_two_who_begin_at_once_share_one_ledger(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        books = list(pool.map(lambda _: Ledger.ensure(tmp_path / "l.ledger"), range(8)))
    first = books[0].answer("k", "r", Guarantee(19), lambda: [1])
    assert all(book.answer("k", "r", Guarantee(19), lambda: [2]) == first for book in books)
    assert sorted(path.name for path in tmp_path.iterdir() if "-" not in path.name) == [
        "l.ledger", "l.ledger.lock"]  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "variable", "below"),
    [
        ("linux", "XDG_DATA_HOME", "sfumato/ledgers"),
        ("win32", "LOCALAPPDATA", "sfumato/ledgers"),
        ("darwin", "HOME", "Library/Application Support/sfumato/ledgers"),
    ],
)
def test_ledgers_are_where_the_system_puts_what_must_not_be_lost(
    platform, variable, below, tmp_path, monkeypatch
):
    for name in ("SFUMATO_LEDGERS", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert own_ledger.ledger_folder() == tmp_path / below


def _odd(folder: Path) -> str:
    (folder / "odd.csv").write_text("smoker,age\nsometimes,old\n")
    return "odd.csv"


def test_reports_are_exported_and_read_where_they_are(folder):
    with speaking(folder / "c.toml", "campaign.db") as speaker:
        speaker.send(some_reports(500))
        live = run_json('query sqlite://campaign.db#health "SELECT COUNT(*) FROM t"')
        assert live["rows"][0]["count"]["value"] == pytest.approx(500)
    assert run_json("export campaign.db -o health.parquet")["rows"] == 500
    for place in ("health.parquet", "sqlite://campaign.db#health", "sqlite://campaign.db#health/1"):
        found = run_json(f'query "{place}" "SELECT smoker, COUNT(*) FROM t GROUP BY smoker"')
        assert len(found["rows"]) == 3
    described = run_json("describe sqlite://campaign.db#health")
    assert described["rows"] == 500 and described["gamma"] == 19 and described["secure"]
    assert described["shuffled"] and "may hold others" in " ".join(described["caveats"])
    assert not any("order of the records" in each for each in described["caveats"])
    exported = run_json("describe health.parquet")
    assert exported["shuffled"] and exported["caveats"] == []
    mined = run_json("mine sqlite://campaign.db#health --min-support 0.2")
    assert mined["rows"] == 500 and mined["itemsets"]
    assert run_json("classify sqlite://campaign.db#health --target smoker")["target"] == "smoker"
    assert "did you mean 'health'" in complaint("describe sqlite://campaign.db#helth")
    assert "no campaign 'health/2'" in complaint("describe sqlite://campaign.db#health/2")
    assert "no database file" in complaint("describe sqlite://none.db#health")
    assert "exists already" in complaint("export campaign.db -o health.parquet")
    assert "no campaign 'x'" in complaint("export campaign.db -o y.parquet --campaign x")


def test_a_campaign_in_postgresql_is_read_like_any_release(folder, postgres_database):
    """The same reports give the same answers from both; `describe` says what PostgreSQL keeps."""
    reports = some_reports(500)
    place = f"{postgres_database}#health"
    for store in (postgres_database, "campaign.db"):
        with speaking(folder / "c.toml", store) as speaker:
            assert speaker.send(reports).json["stored"] == 500
    asked = "SELECT smoker, age, COUNT(*) FROM t GROUP BY smoker, age"
    found = [
        run_json(f'query "{each}" "{asked}"')["rows"]
        for each in (place, f"{place}/1", "sqlite://campaign.db#health")
    ]
    assert found[0] == found[1] == found[2] and len(found[0]) == 9
    described = run_json(f'describe "{place}"')
    assert described["rows"] == 500 and described["shuffled"]
    assert "the order in which reports came" in " ".join(described["caveats"])
    assert "health/2" in complaint(f'describe "{place}/2"')
    assert run_json(f'mine "{place}" --min-support 0.2')["rows"] == 500
    assert "report" in complaint(f'describe "{postgres_database}#report"')  # a table is no campaign
    assert run_json(f'export "{postgres_database}" -o out.parquet')["rows"] == 500


def test_synthetic_people_answer_through_http(folder):
    found = run_json("simulate c.toml --people 1500 --seed 1 -o truth.csv")
    assert found["stored"] == 1500 and len(found["answers"]) == 6
    assert 0 <= found["coverage"] <= 1
    # The noise is fresh in spite of the seed: one of six answers is three half intervals, 5.9
    # standard errors, from its truth but once in ten million.
    for each in found["answers"]:
        assert abs(each["value"] - each["truth"]) < 1.5 * (each["high"] - each["low"])
    assert len((folder / "truth.csv").read_text().splitlines()) == 1501
    again = run_json("simulate c.toml --people 100")  # beside the others: nothing to compare with
    assert again["stored"] == 100 and again["answers"] == [] and again["coverage"] is None
    assert (
        "intervals that hold the truth" in run("simulate c.toml --people 200 --store n.db").stdout
    )
    assert "at least one person" in complaint("simulate c.toml --people 0")


BASKETS = """\
[[attribute]]
name = "basket"
type = "items"
values = ["bread", "milk", "beer", "red wine"]
"""
WRONG = {
    "campaign init b.toml -o r.toml --rounds -3": "10 people are the fewest",
    "campaign check hashes.toml": "true or false",
    "token add --role read --expires tomorrow": "no day; as in 2027-12-31",
    "token add --role read --expires 2020-01-01": "has passed",
    "serve c.toml --host nowhere.invalid --store new.db": "another --host",
    "send {url} me.csv --patience -5": "seconds from 0 on",
    "send {url} me.csv --ledger none.ledger": "--new-ledger",
    "send {url} me.csv --ledger me.csv": "is not a ledger",
    "send {url} strange.csv": "the campaign takes no other values",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_typed_wrongly_is_told_in_the_typists_words(url, folder, line):
    (folder / "me.csv").write_text("smoker,age\nyes,old\n")
    (folder / "strange.csv").write_text("smoker,age\nxyz,old\n")
    (folder / "b.toml").write_text(BASKETS)
    text = CAMPAIGN.replace('"gamma-diagonal"', '"item-set"\nhashes = 3')
    (folder / "hashes.toml").write_text(text)
    before = {path.name for path in folder.iterdir()}
    assert WRONG[line] in " ".join(complaint(line.format(url=url)).split())
    left = {path.name for path in folder.iterdir()} - before
    assert left <= {"new.db", "new.db-lock"}, "a lock was left beside what is no ledger"


def test_baskets_are_sent_in_any_of_their_forms(folder, ledgers):
    (folder / "schema.toml").write_text(BASKETS)
    run("campaign init schema.toml -o b.toml --mechanism item-set")
    text = (folder / "b.toml").read_text(encoding="utf-8")
    assert '# estimate = "bounded"' in text
    (folder / "flags.csv").write_text("bread,milk,beer,red wine\n1,1,0,0\n0,0,0,0\n")
    (folder / "lines.csv").write_text("bread,milk\nred wine\n")
    (folder / "long.csv").write_text("tid,item\n1,bread\n1,milk\n2,red wine\n")
    with speaking(folder / "b.toml", "baskets.db") as speaker:
        for name, form in (("flags", ""), ("lines", "--form lines"), ("long", "--form long")):
            sent = run_json(f"send {speaker.address}/b {name}.csv {form} --budget 99")
            assert (sent["people"], sent["stored"]) == (2, 2)


def test_serve_says_what_it_cannot_do(folder):
    assert "PostgreSQL" in complaint("serve c.toml --workers 2")
    assert "no campaign file" in complaint("serve none.toml")
    assert not list(folder.glob("campaign.db*"))  # an error leaves nothing, above all no token
    assert "is no store" in complaint("serve c.toml --store mysql://host/x")
    with speaking(folder / "c.toml", "campaign.db") as speaker:
        port = speaker.address.rpartition(":")[2]
        assert "served by another process" in complaint("serve c.toml --port 0")
        assert "cannot listen" in complaint(f"serve c.toml --store other.db --port {port}")
    assert "two campaigns" in complaint("serve c.toml c.toml --store third.db --port 0")


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_asked_to_stop_finishes_and_is_content(folder, asked):
    command = [sys.executable, "-m", "sfumato", "serve", "c.toml", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    campaign = CampaignFile.load(folder / "c.toml").campaign
    assert (
        Speaker(told["address"], campaign.name, campaign.hash).send(some_reports(9)).status == 200
    )
    process.send_signal(asked)
    _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")
    assert not (folder / "campaign.db-wal").exists()
    assert run_json("export campaign.db -o out.parquet")["rows"] == 9
