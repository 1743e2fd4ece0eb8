"""What respondents allow, whatever a server asks: shown before anything is drawn, and kept to."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.collect.speaking import CAMPAIGN, speaking
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.collect.assets import STATIC
from sfumato.collect.canonical import digest
from sfumato.collect.client import Client
from sfumato.collect.own_ledger import own_ledger
from sfumato.collect.people import known_as
from sfumato.collect.policy import CampaignTerms, Policy, policy_file
from sfumato.collect.simulating import simulated, synthetic_truth
from sfumato.collect.transport import Address, _refused
from sfumato.errors import DataError, FileError, ParameterError, PrivacyError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Ledger
from sfumato.randomness import seeded

ANN = {"smoker": "yes", "age": "old"}
MINE = {"hiv": "yes", "age": "old"}
HIV = {"name": "hiv", "type": "category", "values": ["no", "yes"]}
AGE = {"name": "age", "type": "category", "values": ["young", "old"]}
KARY = {"step": "kary", "columns": [1], "reports": [1], "sizes": [2], "answers": 2, "a": 19, "b": 1}
OPEN = {"step": "public", "columns": [0], "reports": [0], "size": 2}
CUT = {"step": "cut", "columns": [0], "reports": [1, 2], "items": 1, "cutoff": 1, "insert": 32768}
DEALT = {"step": "deal", "columns": [0], "reports": [0, 1, 2], "weights": [1 << 32]}


def asking(steps: list[Any], *attributes: Any, gamma: str = "19/1", **more: Any) -> dict[str, Any]:
    """What a server may say of a campaign."""
    document = {"name": "c", "open": True, "title": {"en": "x"}}
    said = {"domain": {"attribute": list(attributes)}, "program": {"version": 1, "steps": steps}}
    hashed = {"hash": digest(said | {"round": 1}), "round": 1}
    return {**document, **said, **hashed, "promise": {"gamma": gamma}, "questions": {}, **more}


DISHONEST = {
    "calls the answer public": (
        asking([OPEN, KARY], HIV | {"public": True}, AGE),
        "sends hiv as it is",
    ),
    "promises nothing": (
        asking(
            [{"step": "diagonal64", "columns": [0, 1], "reports": [0, 1], "sizes": [2, 2],
              "keep": str((1 << 64) - 1)}],
            HIV, AGE, gamma=f"{10**30}/1",
        ),
        "above your limit of 20: a suspicion of 5 % could become 100 %",
    ),
    "deals a basket's size": (
        asking([DEALT | {"questions": [CUT]}],
               {"name": "hiv", "type": "items", "values": ["I am HIV positive"]}),
        "hiv",
    ),
}  # fmt: skip


class Server(BaseHTTPRequestHandler):
    """A server that says what it likes, and keeps what it is sent."""

    protocol_version = "HTTP/1.1"
    document: dict[str, Any]
    bodies: list[bytes]
    answers: list[Any]  # what it says of reports; else that it stored them

    def do_GET(self) -> None:
        self._say(self.document)

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        count = len(json.loads(self.bodies[-1]).get("reports", []))
        honest = {"stored": count, "repeated": 0, "refused": []}
        self._say(self.answers[-1] if self.answers else honest)

    def _say(self, said: Any) -> None:
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        return


@contextmanager
def serving(document: dict[str, Any], *answers: Any) -> Iterator[tuple[str, list[bytes]]]:
    kind = type("Kind", (Server,), {"document": document, "bodies": [], "answers": answers})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/c", kind.bodies
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A device of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SFUMATO_LEDGERS", str(tmp_path / "ledgers"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(policy: str) -> None:
    """Write the policy file."""
    path = policy_file()
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(policy)


def run(line: str, code: int = 0) -> Any:
    found = CliRunner().invoke(app, line.split())
    assert found.exit_code == code, found.output + found.stderr
    return found


# --- limits


@pytest.mark.parametrize("how", DISHONEST)
def test_no_server_gets_more_than_the_respondent_allows(how, home):
    document, told = DISHONEST[how]
    with serving(document) as (url, bodies):
        record = {"hiv": ["I am HIV positive"]} if how.startswith("deals") else MINE
        book = Ledger.create(home / "l.db", None)
        for client in (Client(url), Client(url, book)):
            with pytest.raises(PrivacyError, match=told):
                client.answer(record)
            with pytest.raises(PrivacyError, match=told):
                client.send([record])
        assert book.account.entries == () and bodies == []
        (home / "me.csv").write_text("hiv,age\nyes,old\n")
        found = run(f"send {url} me.csv", 2)
        assert told in found.stderr and found.stdout == ""
        assert len(found.stderr.strip().splitlines()) == 1
        run(f"send {url} me.csv --ledger new.ledger --new-ledger", 2)
        assert not (home / "ledgers").exists() and not (home / "new.ledger").exists()
        assert bodies == []


def test_what_a_respondent_allows_is_sent(home):
    """The test above can fail: by the respondent's own word the same campaigns are answered."""
    with serving(DISHONEST["calls the answer public"][0]) as (url, bodies):
        (home / "me.csv").write_text("hiv,age\nyes,old\n")
        run(f"send {url} me.csv --public hiv")
        assert json.loads(bodies[0])["reports"][0]["values"][0] == 1
    with serving(DISHONEST["promises nothing"][0]) as (url, bodies):
        with pytest.raises(PrivacyError, match="above your budget of 6"):
            Client(url, at_most=1e30).answer(MINE)
        Client(url, at_most=1e30, budget=100).answer(MINE)
        assert len(bodies) == 1


def test_the_terms_are_shown_before_anything_is_drawn(home):
    document = DISHONEST["calls the answer public"][0]
    with serving(document) as (url, bodies):
        (home / "me.csv").write_text("hiv,age\nyes,old\n")
        (home / "no.csv").write_text("hiv,age\nmaybe,old\n")
        shown = run(f"send {url} me.csv --public hiv").stderr
        for words in (document["hash"], "gamma             19 (epsilon 2.945)", "at most 50 %",
                      "sent as it is     hiv", "answered before   0 times"):  # fmt: skip
            assert words in shown
        assert "1 time; epsilon 2.945 is spent of the 6" in run(
            f"send {url} me.csv --public hiv").stderr  # fmt: skip
        terms = json.loads(run(f"send {url} me.csv --public hiv --json").stdout)["terms"]
        assert (terms["gamma"], terms["worst_posterior"]) == (19, pytest.approx(0.5))
        assert (terms["sent_as_is"], terms["answered"], terms["budget"]) == (["hiv"], 1, 6.0)
        sent = len(bodies)
        client = Client(url)
        assert client.terms().answered is None and client.terms().sent_as_is == ("hiv",)
        assert len(bodies) == sent


def test_a_limit_is_met_exactly():
    """19 is allowed by 19 and not by a hair less."""
    with serving(asking([KARY | {"columns": [0], "reports": [0]}], HIV)) as (url, bodies):
        with pytest.raises(PrivacyError, match=r"above your limit of 18\.9999"):
            Client(url, at_most=18.9999).answer({"hiv": "yes"})
        assert bodies == []
        Client(url, at_most=19).answer({"hiv": "yes"})
    with pytest.raises(ParameterError, match=r"at_most=0\.5 allows nothing"):
        Client("http://127.0.0.1/c", at_most=0.5)
    with pytest.raises(ParameterError, match="at_most=nan"):
        Client("http://127.0.0.1/c", at_most=math.nan)


def test_a_campaign_without_a_budget_is_not_an_unlimited_one(home):
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    book = Ledger.create(home / "l.db", None)
    with serving(document) as (url, _):
        for person, budget, most in (("a", None, 2), ("b", 1e6, 2), ("c", 3.0, 1)):
            document["budget"] = None if budget is None else {"epsilon": budget}
            for number in range(most):
                document["name"] = f"c{number}"  # another campaign of the same server
                Client(url, book).answer({"hiv": "yes"}, person)
            document["name"] = "one more"
            with pytest.raises(PrivacyError, match="is left of"):
                Client(url, book).answer({"hiv": "yes"}, person)
    document["budget"] = None
    with serving(document) as (url, _):
        client = Client(url, Ledger.create(home / "m.db", None), budget=2.9)
        with pytest.raises(PrivacyError, match=r"costs epsilon 2.945, but 2.9 is left of 2.9 "):
            client.answer({"hiv": "yes"})


def test_a_policy_file_keeps_the_choices_and_the_command_line_wins(home):
    document = DISHONEST["calls the answer public"][0]
    (home / "me.csv").write_text("hiv,age\nyes,old\n")
    with serving(document) as (url, bodies):
        said('at_most = 10\npublic = ["hiv"]\n')
        assert "above your limit of 10" in run(f"send {url} me.csv", 2).stderr
        assert run(f"send {url} me.csv --at-most 19")
        assert "sends hiv" in run(f"send {url} me.csv --at-most 19 --public age", 2).stderr
        said('public = ["hiv"]\nbudget = 2.5\n')
        url = url.replace("127.0.0.1", "localhost")
        with pytest.raises(PrivacyError, match=r"is left of 2\.5 "):
            Client(url, Ledger.create(home / "l.db", None)).answer(MINE)
        assert len(bodies) == 1


# --- what a server says of the device


def test_what_was_drawn_is_said_by_the_ledger_and_not_by_the_server(home):
    """A server that says "repeated" of a first answer would lead to a second draw, one that says
    "stored" of a repeated one would hide that it was.
    """
    (home / "me.csv").write_text("hiv\nyes\n")
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    with serving(document, {"stored": 0, "repeated": 1, "refused": []}) as (url, bodies):
        first = run(f"send {url} me.csv --json")
        assert (json.loads(first.stdout)["stored"], json.loads(first.stdout)["repeated"]) == (1, 0)
        assert "answered before" not in first.stderr
        assert len(bodies) == 1
        Client(url, own_ledger(Address.parse(url))).forget()
        again = run(f"send {url} me.csv")
        assert "drawn and sent  1" in again.stdout and "has answered before" not in again.stderr
    with serving(document, {"stored": 1, "repeated": 0, "refused": []}) as (url, bodies):
        run(f"send {url} me.csv")
        again = run(f"send {url} me.csv --json")
        assert json.loads(again.stdout)["repeated"] == 1 and bodies[0] == bodies[1]
        assert "this device has answered before" in again.stderr


SAID = {
    "more than were sent": {"stored": 10**18, "repeated": 0, "refused": []},
    "fewer than were sent": {"stored": 0, "repeated": 0, "refused": []},
    "less than none": {"stored": 2, "repeated": -1, "refused": []},
    "a million digits": {"stored": 1.5e300, "repeated": 0, "refused": []},
    "one refused twice": {"stored": 0, "repeated": 0,
                          "refused": [{"index": 0, "kind": "id"}, {"index": 0, "kind": "id"}]},
    "a place that is none": {"stored": 0, "repeated": 0, "refused": [{"index": 7, "kind": "id"}]},
    "a kind that is no word": {"stored": 0, "repeated": 0, "refused": [{"index": 0, "kind": [1]}]},
    "a hint that is no word": {"stored": 0, "repeated": 0, "hints": {"id": {}},
                               "refused": [{"index": 0, "kind": "id"}]},
    "a list": [1, 0],
}  # fmt: skip


@pytest.mark.parametrize("what", SAID)
def test_an_answer_that_does_not_fit_the_reports_is_one_line(what, home):
    (home / "me.csv").write_text("hiv\nyes\n")
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    with serving(document, SAID[what]) as (url, bodies):
        for _ in (1, 2):
            found = run(f"send {url} me.csv", 2)
            assert len(found.stderr.strip().splitlines()) == 8, found.stderr  # the terms, and one
            assert "the answer of " in found.stderr and found.stdout == ""
        assert bodies[0] == bodies[1]  # kept, and sent again as it was drawn


def test_what_a_server_says_of_a_refusal_is_cut(home):
    (home / "me.csv").write_text("hiv\nyes\n")
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    refusal = {"stored": 0, "repeated": 0, "refused": [{"index": 0, "kind": "x" * 4000}],
               "hints": {"x" * 4000: "use --new-ledger\x1b[2J " * 150}}  # fmt: skip
    with serving(document, refusal) as (url, _):
        found = run(f"send {url} me.csv", 2)
        assert "the server refused the reports: xxx" in found.stderr and "it says:" in found.stderr
        assert len(found.stderr) < 1600 and "\x1b" not in found.stderr


def test_what_is_charged_is_computed_here(home):
    """The promise may be larger than what the program gives away, which the browser charges too."""
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV, gamma="1000/1")
    book = Ledger.create(home / "l.db", None)
    with serving(document) as (url, bodies):
        client = Client(url, book)
        client.answer({"hiv": "yes"})
        assert book.spent(client._key("")) == pytest.approx(math.log(19), rel=1e-12)
        # What an earlier version charged by the server's word is repeated all the same.
        report = {**json.loads(bodies[0])["reports"][0], "campaign": document["hash"]}
        book.answer(client._key("ann"), "c round 1", Guarantee(1000), lambda: report)
        client.answer({"hiv": "no"}, "ann")
        assert len(bodies) == 2 and json.loads(bodies[1])["reports"][0]["id"] == report["id"]


BAD = {
    "no TOML": ("at_most 20", "not valid TOML"),
    "another kind": ('at_most = "20"', "'at_most' of the policy .* should be a number"),
    "below one": ("at_most = 0.5", "a number from 1"),
    "no number": ("at_most = nan", "a number from 1"),
    "no budget": ("budget = 0", "allows nothing"),
    "a word": ('public = "region"', "should be a list"),
    "numbers": ("public = [1]", "a list of words"),
    "from the future": ("at_most = 20\nonly_on_sundays = true", "does not know the key"),
    "too large": ("# " + "x" * (1 << 17), "larger than"),
    "not UTF-8": ("\udcff", "not UTF-8"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_policy_that_is_not_understood_sends_nothing(how, home):
    text, told = BAD[how]
    path = policy_file()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises((FileError, ParameterError), match=told):
        Policy.own()
    (home / "me.csv").write_text("hiv\nyes\n")
    with serving(asking([KARY | {"columns": [0], "reports": [0]}], HIV)) as (url, bodies):
        found = run(f"send {url} me.csv", 2)
        assert len(found.stderr.strip().splitlines()) == 1 and bodies == []
        path.unlink()
        run(f"send {url} me.csv")
        assert len(bodies) == 1


@pytest.mark.skipif(os.name == "nt", reason="pipes are those of POSIX")
def test_a_policy_that_is_no_file_is_not_waited_for(home):
    path = policy_file()
    assert path is not None
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(FileError, match="is no file"):
        Policy.own()
    path.unlink()
    path.symlink_to(home / "nowhere")
    with pytest.raises(FileError, match="is no file"):
        Policy.own()


def test_a_campaign_that_is_nonsense_is_one_clear_line(home):
    (home / "me.csv").write_text("hiv\nyes\n")
    good = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    for wrong in (
        {"promise": {"gamma": "1e1000000000"}}, {"promise": None}, {"domain": []}, {"program": 3},
        {"budget": {"epsilon": "much"}}, {"hash": None, "domain": None}, {"round": "1" * 500},
        {"open": 1}, {"budget": {"epsilon": -1}}, {"name": ["c"]},
    ):  # fmt: skip
        with serving(good | wrong) as (url, bodies):
            found = run(f"send {url} me.csv", 2)
            assert len(found.stderr.strip().splitlines()) == 1 and bodies == [], wrong


def test_synthetic_people_have_no_limits(home):
    """A campaign beyond any respondent's limits can still be tried."""
    text = CAMPAIGN.replace("gamma = 19", "gamma = 500")
    text = text.replace('"old"]', '"old"]\npublic = true')
    (home / "c.toml").write_text(text)
    from sfumato.collect.campaign_file import CampaignFile

    campaign = CampaignFile.load(home / "c.toml").campaign
    warned = json.loads(run("campaign check c.toml --json").stdout)["warnings"]
    assert any("gamma above 20 is refused" in each for each in warned)
    truth = synthetic_truth(campaign, 200, seeded(1))
    assert simulated("c.toml", truth, None, str(home / "c.db")).stored == 200
    with (
        speaking(home / "c.toml", str(home / "d.db")) as speaker,
        pytest.raises(PrivacyError, match="above your limit"),
    ):
        Client(f"{speaker.address}/health").answer(ANN)


# --- one server, one person, one account

SPELLINGS = ("localhost", "LOCALHOST", "127.0.0.1", "127.1", "0x7f.1", "0x7F000001", "2130706433",
             "127.0.0.1.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "x.localhost",
             "ip6-localhost", "ip6-loopback", "localhost.localdomain", "localhost6", "[::1]",
             "[64:ff9b::7f00:1]", "[::7f00:1]", "0.0.0.0", "[::]", "0x", "0.0x.0X",
             "localhost4.localdomain4", "localhost6.localdomain6")  # fmt: skip


def test_every_spelling_of_a_server_is_one_account(home):
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    (home / "me.csv").write_text("hiv\nyes\n")
    with serving(document) as (url, bodies):
        for name in SPELLINGS:
            assert Address.parse(url.replace("127.0.0.1", name)).server == Address.parse(url).server
        for name in ("127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]", "0x7f.1"):
            run(f"send {url.replace('127.0.0.1', name)} me.csv")
        assert len(bodies) == 5 and len(set(bodies)) == 1, "the one report, again and again"
    assert len(list((home / "ledgers").glob("*.ledger"))) == 1


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_a_browser_knows_a_server_by_the_same_name():
    others = ("a.org", "A.ORG.", "a.org:80", "192.0.2.1", "[::ffff:192.0.2.1]", "[64:ff9b::5]",
              "[::ffff:c000:201]:8000", "[2001:DB8:0::0:1]", "[::ffff:5]", "[fe80::1:2]", "[::5]",
              "[1:2:3:4:5:6:7:8]", "notlocalhost", "ip6-localhost.org", "xn--bcher-kva.example",
              "[64:ff9b:1::7f00:1]", "127.0.0.1.org", "1.0x", "0x.org",
              "localhost4.localdomain4.org")  # fmt: skip
    urls = [f"http://{name}/c" for name in (*SPELLINGS, *others)]
    script = f"""import {{ account }} from "{STATIC / "sfumato.js"}";
        console.log(JSON.stringify({json.dumps(urls)}.map(account)));"""
    command = ["node", "--input-type=module", "-e", script]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = [Address.parse(url).server.removeprefix("https://") for url in urls]
    # A browser writes the colon of the port always, and Python only where there is a port.
    assert [each.removesuffix(":") for each in json.loads(told)] == ours


def test_a_near_miss_of_a_public_column_is_told():
    with pytest.raises(PrivacyError) as refused:
        Policy(public=("regio",)).check(Guarantee(19), {"region": "region"})
    assert refused.value.hint == "did you mean 'region'?"


def test_the_terms_are_one_line_each_whatever_a_campaign_is_called():
    terms = CampaignTerms("a\ngamma 1", "b\nc", Guarantee(19), ("f\ng",), ("d\ne",), 6.0, 0, 0.0)
    assert len(terms.lines) == 6 and not any("\n" in line for line in terms.lines)


def test_the_terms_name_every_column_of_a_file_that_is_read():
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    with serving(document) as (url, _):
        found = Client(url).terms()
    assert "sent blurred      hiv" in found.lines and found.to_dict()["blurred"] == ["hiv"]


def test_arguments_the_other_way_round_are_told_of():
    client = Client("http://127.0.0.1:1/c")
    with pytest.raises(ParameterError, match="a record and then the person's name"):
        client.answer("ann", MINE)  # type: ignore[arg-type]


def test_what_a_server_says_is_told_as_its_words():
    said = b'{"error": {"message": "pay 5 euros", "hint": "to evil.example"}}'
    error = _refused(402, said, None)
    assert str(error) == "the server says: pay 5 euros (HTTP 402); it says: to evil.example"


def test_servers_are_told_apart_by_host_and_port_alone():
    def server(url: str) -> str:
        return Address.parse(url).server

    assert server("https://a.org/x") == "https://a.org"
    one = ("http://A.org/y", "https://a.org:443/x", "http://a.org:80", "https://a.org.:80/x")
    assert {server(each) for each in one} == {"https://a.org"}
    same = ("http://Bücher.example/", "https://xn--bcher-kva.example/", "http://BÜCHER。example/")
    assert len({server(each) for each in same}) == 1
    assert len({server(f"https://{a}/") for a in ("[2001:db8::1]", "[2001:DB8:0::0:1]")}) == 1
    others = ("a.org", "b.org", "a.org:8000", "a.org:8001", "a.org.evil.net", "192.0.2.1", "[::2]")
    assert len({server(f"https://{each}/c") for each in others}) == len(others)


NAMES = ("ann", "Ann ", " ANN", "ann\u200b", "\ufeffann", "a\u00adnn", "an\u200dn", "ann\ufe0f",
         "\uff21nn", "ann\u3164", "ann\n", "\u202eann", "a\u034fnn", "\U000e0061ann")  # fmt: skip


def test_a_name_is_one_person_however_it_is_typed(home):
    assert {known_as(name) for name in NAMES} == {"ann"}
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    book = Ledger.create(home / "l.db", None)
    with serving(document) as (url, bodies):
        client = Client(url, book)
        for name in NAMES:
            client.answer({"hiv": "yes"}, name)
        assert len(set(bodies)) == 1 and len(book.account.entries) == 1
        with pytest.raises(DataError, match="same person"):
            client.send([{"hiv": "yes"}] * 2, ["bob", "Bob\u200b "])
        client.send([{"hiv": "yes"}] * 2, ["bob", "rob"])
        (home / "named.csv").write_text("name,hiv\nann,yes\n\u200b,no\n", encoding="utf-8")
        assert "name nobody" in run(f"send {url} named.csv --key name", 2).stderr


def test_a_name_that_is_known_stays_so_and_others_stay_apart():
    rng = random.Random(1)
    for _ in range(20_000):
        name = "".join(chr(rng.choice((rng.randrange(0x20, 0x250), rng.randrange(0x20, 0xD800),
                                       rng.randrange(0xE000, 0x110000))))
                       for _ in range(rng.randrange(1, 6)))  # fmt: skip
        assert known_as(known_as(name)) == known_as(name)
        assert known_as(f" {name}\u200b ") == known_as(name)
    people = ("ann", "anna", "an n", "änn", "ann 1", "ann-1", "安", "an")
    assert len({known_as(name) for name in people}) == len(people)


def test_what_was_spent_under_another_spelling_is_not_forgotten(home):
    """A ledger of an earlier version, in which every spelling had an account of its own."""
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    book = Ledger.create(home / "l.db", None)
    with serving(document) as (url, bodies):
        origin = url.removesuffix("/c")
        for server in (origin, origin.replace("127.0.0.1", "localhost")):
            for person in ("Ann", "ann "):
                book.charge(f"{server} {person}".rstrip(" ") + " ", "old round 1", Guarantee(19))
        book.charge("a campaign's own key", "x", Guarantee(19))
        client = Client(url, book)
        assert client.terms("ANN").answered == 4
        assert client.terms("ann").spent == pytest.approx(4 * math.log(19))
        with pytest.raises(PrivacyError, match="but 0 is left of 6 "):
            client.answer({"hiv": "yes"}, "ann")
        assert bodies == [] and len(book.of("a campaign's own key")) == 1
        assert book.spent("a campaign's own key") == pytest.approx(math.log(19))


def test_a_report_under_another_spelling_is_repeated(home):
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    book = Ledger.create(home / "l.db", None)
    with serving(document) as (url, bodies):
        report = {"campaign": document["hash"], "id": "A" * 22, "values": [1]}
        for name, person in (("localhost", "Ann"), ("127.1", "ann")):
            key = f"{url.removesuffix('/c').replace('127.0.0.1', name)} {person}"
            book.answer(key, "c round 1", Guarantee(19), lambda: report)
        client = Client(url, book)
        client.answer({"hiv": "no"}, "ann")
        assert json.loads(bodies[0])["reports"][0]["id"] == "A" * 22
        assert client.terms("ann").answered == 2, "both were drawn, and cost"


def test_the_ledger_of_another_spelling_is_taken_in(home):
    import hashlib

    folder = home / "ledgers"
    folder.mkdir()
    for number, origin in enumerate(("http://localhost:8000", "http://127.0.0.1:8000")):
        mark = hashlib.sha256(origin.encode()).hexdigest()[:12]
        host = origin.split("/")[2].split(":")[0]
        older = Ledger.ensure(folder / f"{host}-{mark}.ledger")
        older.answer(origin, f"c{number} round 1", Guarantee(19), lambda: [1])
        older.deal(origin, f"c{number} round 1", lambda: 3)
    for url in ("http://127.1:8000/c", "https://LOCALHOST:8000/c"):
        book = own_ledger(Address.parse(url))
        assert Client(url, book).ledger is book
        book.rename(lambda key: "me")
        assert len(book.of("me")) == 2 and book.spent("me") == pytest.approx(2 * math.log(19))
        assert book.deal("me", "c0 round 1", lambda: 4) == 3
    assert len(list(folder.glob("*.ledger"))) == 1 and len(list(folder.glob("*.moved"))) == 2
    ordinary = hashlib.sha256(b"https://example.org").hexdigest()[:12]
    kept = own_ledger(Address.parse("https://example.org/c")).path.name
    assert kept == f"example.org-{ordinary}.ledger", "where it always was"


def test_what_waits_for_one_server_is_sent_to_no_other(home):
    document = asking([KARY | {"columns": [0], "reports": [0]}], HIV)
    with serving(document) as (url, bodies):
        book = Ledger.create(home / "l.db", None)
        report = {"campaign": "0" * 64, "id": "A" * 22, "values": [1]}
        own = Address.parse(url).server
        for key in (own[:-1], f"{own}1", f"{own}.evil.net", "http://example.org", f"{own} ann"):
            book.answer(key, "c round 1", Guarantee(19), lambda: report)
        assert Client(url, book).flush() == 1
        assert len(bodies) == 1 and len(book.pending()) == 4
