"""The Python client: drawn once, on disk before it is sent, and sent again as the same bytes."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.collect.speaking import CAMPAIGN, speaking

import sfumato as sf
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.client import CampaignError, Client, Survey
from sfumato.collect.server import limits
from sfumato.collect.store import open_store
from sfumato.collect.transport import Address, CollectorError, Transport
from sfumato.domain import Category, Domain
from sfumato.errors import DataError, FileError, ParameterError, PrivacyError, SchemaError
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.ledger import Ledger
from sfumato.randomness import seeded
from sfumato.table import Table

ANN = {"smoker": "yes", "age": "old"}


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "c.db")


@pytest.fixture
def url(campaign_path: Path, store: str) -> Iterator[str]:
    with speaking(campaign_path, store) as speaker:
        yield f"{speaker.address}/health"


def rows(store: str) -> int:
    opened = open_store(store)
    found = sum(len(part) for part in opened.bodies(1)) // 2
    opened.close()
    return found


def test_an_answer_is_stored_and_can_be_asked_after_and_withdrawn(url, store):
    client = sf.collect.Client(url)
    receipt = client.answer(ANN)
    assert len(receipt.id) == 22 and len(receipt.sha256) == 64
    assert client.receipts([receipt.id]) == {receipt.id: "stored"}
    client.withdraw(receipt.id)
    assert client.receipts([receipt.id]) == {receipt.id: "withdrawn"}


def test_an_answer_is_drawn_once_and_repeated_for_nothing(url, store, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", None)
    first = Client(url, ledger).answer(ANN)
    again = Client(url, tmp_path / "l.db").answer({"smoker": "no", "age": "young"})
    assert again == first and rows(store) == 1
    assert ledger.pending() == ()
    assert ledger.spent(Client(url, ledger)._key("")) == pytest.approx(2.944, abs=1e-3)


@pytest.mark.parametrize("report", [[], 3, {}, {"campaign": 1, "id": 2, "values": 3}])
@pytest.mark.parametrize("again", [lambda c: c.answer(ANN), Client.flush], ids=["answer", "flush"])
def test_a_report_of_the_ledger_that_is_none_is_one_line(url, store, tmp_path, report, again):
    client = Client(url, Ledger.create(tmp_path / "l.db", None))
    name = client.survey.release
    client.ledger.answer(client._key(""), name, client.survey.guarantee, lambda: report)
    with pytest.raises(FileError, match="report in this ledger"):
        again(client)
    assert rows(store) == 0


def test_a_persons_budget_on_a_server_is_kept(tmp_path, store):
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN + "[budget]\nepsilon = 4.0\n")
    ledger = Ledger.create(tmp_path / "l.db", None)
    with speaking(path, store) as speaker:
        Client(f"{speaker.address}/health", ledger).answer(ANN)
        address = speaker.address
    path.write_text(CAMPAIGN + "[budget]\nepsilon = 4.0\nround = 2\n")
    port = int(address.rpartition(":")[2])
    with (
        speaking(path, store, port=port) as speaker,
        pytest.raises(PrivacyError, match=r"2\.945, but 1\.055 is left of 4 \("),
    ):
        Client(f"{speaker.address}/health", ledger).answer(ANN)


def test_many_people_answer_from_a_table_a_list_or_a_file(url, store, tmp_path):
    client = Client(url)
    domain = client.survey.domain
    table = Table(domain, (np.arange(2500) % 3, np.arange(2500) % 3))
    assert client.send(table) == (2500, 0, 0)
    assert client.send([ANN, ANN]) == (2, 0, 0)
    (tmp_path / "people.csv").write_text("smoker,age\nyes,old\nno,young\nno answer,middle\n")
    assert client.send(tmp_path / "people.csv").stored == 3
    assert rows(store) == 2505


def test_people_in_a_ledger_answer_once_each(url, store, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", Guarantee.from_epsilon(3.0))
    client = Client(url, ledger)
    assert client.send([ANN] * 5, persons=list("abcde")) == (5, 0, 0)
    assert client.send([ANN] * 3, persons=list("cde")) == (0, 3, 0)
    assert client.send([ANN], persons=["f"]).stored == 1
    assert rows(store) == 6
    with pytest.raises(DataError, match="same person"):
        client.send([ANN, ANN], persons=["x", "x"])
    with pytest.raises(DataError, match="2 persons"):
        client.send([ANN], persons=["x", "y"])


def test_reports_follow_the_law_of_the_campaign(url, store, campaign_path):
    """The reports of one record, counted, against the channel of the mechanism."""
    from scipy.stats import chisquare

    client = Client(url, rng=seeded(5), at_once=1000)
    number = 20_000
    client.send(Table(client.survey.domain, (np.zeros(number, int), np.full(number, 2))))
    opened = open_store(store)
    codes = np.frombuffer(b"".join(opened.bodies(1)), dtype=np.uint8).reshape(-1, 2)
    opened.close()
    counts = np.bincount(codes[:, 0] * 3 + codes[:, 1], minlength=9)
    law = np.full(9, 1 / 27)
    law[2] = 19 / 27
    assert chisquare(counts, number * law).pvalue > 1e-6
    wrong = np.full(9, (1 - 0.95 * 19 / 27) / 8)
    wrong[2] = 0.95 * 19 / 27
    assert chisquare(counts, number * wrong).pvalue < 1e-6


def test_what_does_not_fit_is_told_at_home(url):
    client = Client(url)
    with pytest.raises(SchemaError, match="did you mean 'smoker'"):
        client.answer({"smokr": "yes", "age": "old"})
    with pytest.raises(SchemaError, match="'age' is missing"):
        client.answer({"smoker": "yes"})
    with pytest.raises(DataError, match="'maybe' is not one of its values"):
        client.answer({"smoker": "maybe", "age": "old"})


def test_a_program_above_its_promise_is_refused(campaign_path):
    document = CampaignFile.load(campaign_path).campaign.document()
    Survey(document)
    lowered = {**document, "promise": {"gamma": "18/1", "epsilon": 2.89}}
    with pytest.raises(PrivacyError, match="above its promise"):
        Survey(lowered)
    fewer = Domain((Category("smoker", ("yes", "no")), Category("age", ("a", "b", "c"))))
    with pytest.raises(ParameterError, match="does not fit"):
        Survey({**document, "domain": fewer.to_dict()})


def test_every_single_report_has_the_same_length(campaign_path):
    survey = Survey(CampaignFile.load(campaign_path).campaign.document())
    assert survey.padded_length == CampaignFile.load(campaign_path).campaign.padded_length
    from sfumato.collect.campaign import report_body

    for values in ([0, 0], [2, 2]):
        body = report_body(survey.hash, [{"id": "A" * 22, "values": values}], survey.padded_length)
        assert len(body) == survey.padded_length


# --- when things go wrong on the way


class Flaky(BaseHTTPRequestHandler):
    """A collector that fails a few times, and remembers the bytes it was sent."""

    bodies: list[bytes]
    failures: list[int]
    document: bytes

    def do_GET(self) -> None:
        self._answer(200, self.document)

    def do_POST(self) -> None:
        type(self).bodies.append(self.rfile.read(int(self.headers["content-length"])))
        status = type(self).failures.pop(0) if type(self).failures else 200
        if status == 0:
            self.connection.close()
            return
        told = {"stored": 1, "repeated": 0, "refused": []}
        error = {"error": {"kind": "x", "message": "not now", "hint": None}}
        self._answer(status, json.dumps(told if status == 200 else error).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if status in (429, 503):
            self.send_header("retry-after", "7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture
def flaky(campaign_path: Path) -> Iterator[tuple[type[Flaky], str]]:
    document = json.dumps(CampaignFile.load(campaign_path).campaign.document()).encode()
    kind = type("Kind", (Flaky,), {"bodies": [], "failures": [], "document": document})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield kind, f"http://127.0.0.1:{server.server_port}/health"
    server.shutdown()
    server.server_close()


def test_the_identical_bytes_go_out_again_with_growing_pauses(flaky):
    kind, url = flaky
    kind.failures[:] = [503, 0, 500, 429]
    client = Client(url, rng=seeded(1))
    pauses: list[float] = []
    client.transport.sleep = pauses.append
    client.answer(ANN)
    assert len(kind.bodies) == 5 and len(set(kind.bodies)) == 1
    assert pauses[0] == 7 and 7 <= pauses[3] <= 8  # at least as long as the server asked
    assert 1.0 <= pauses[1] <= 2.0 and 2.0 <= pauses[2] <= 4.0


@pytest.mark.parametrize(
    "answer",
    [
        b'{"stored": 5, "withdrawn": [], "unknown": []}',
        b'{"stored": [[1]]}',
        b'{"stored": {"a": 1}, "withdrawn": null, "unknown": []}',
        b"{}",
    ],
)
def test_an_answer_about_receipts_that_is_none_is_one_line(flaky, monkeypatch, answer):
    kind, url = flaky
    monkeypatch.setattr(kind, "do_POST", lambda self: self._answer(200, answer))
    with pytest.raises(FileError, match="cannot be made sense of"):
        Client(url, patience=0).receipts(["A" * 22])


def test_a_refusal_of_many_megabytes_is_not_repeated(flaky, monkeypatch):
    kind, url = flaky
    body = json.dumps({"error": {"message": "x" * 5_000_000}}).encode()
    monkeypatch.setattr(kind, "do_POST", lambda self: self._answer(422, body))
    with pytest.raises(CollectorError) as refused:
        Client(url, patience=0).withdraw("A" * 22)
    assert len(str(refused.value)) < 200


def test_what_could_not_be_sent_waits_in_the_ledger_and_is_the_same(flaky, tmp_path):
    kind, url = flaky
    kind.failures[:] = [503]
    ledger = Ledger.create(tmp_path / "l.db", None)
    client = Client(url, ledger, patience=0)
    with pytest.raises(CollectorError, match="not now"):
        client.answer(ANN)
    assert len(ledger.pending()) == 1
    assert client.flush() == 1 and client.flush() == 0
    assert kind.bodies[0] == kind.bodies[1] and ledger.pending() == ()


def test_a_report_on_its_own_is_as_long_as_any_other(flaky, tmp_path):
    kind, url = flaky
    client, receipts = Client(url), []
    client.send([ANN], received=receipts.extend)
    client.answer(ANN)
    assert {len(body) for body in kind.bodies} == {client.survey.padded_length}
    assert receipts[0].sha256 == hashlib.sha256(kind.bodies[0]).hexdigest()


def test_the_usual_port_is_the_same_server_in_a_ledger():
    for one, other in (
        ("https://a.org:443/x", "https://a.org/x"),
        ("http://A.org:80/x", "http://a.org/x"),
    ):
        assert Address.parse(one).origin == Address.parse(other).origin
    assert Address.parse("https://a.org:80/x").origin == "https://a.org:80"


def test_another_version_is_an_error_and_never_a_new_draw(flaky, tmp_path):
    kind, url = flaky
    kind.failures[:] = [409]
    client = Client(url, Ledger.create(tmp_path / "l.db", None))
    with pytest.raises(CollectorError) as raised:
        client.answer(ANN)
    assert raised.value.status == 409 and len(kind.bodies) == 1


def test_forgetting_costs_again(flaky, tmp_path):
    _, url = flaky
    client = Client(url, Ledger.create(tmp_path / "l.db", None))
    first = client.answer(ANN)
    client.forget()
    assert client.answer(ANN).id != first.id
    assert client.ledger is not None
    assert client.ledger.spent(client._key("")) == pytest.approx(2 * 2.944, abs=1e-2)


@pytest.mark.parametrize(
    "bad", ["", "example.org/x", "ftp://example.org/x", "http://", "http://h:99999/x"]
)
def test_what_is_no_address_is_told(bad):
    with pytest.raises(ParameterError, match="no address of a campaign"):
        Address.parse(bad)


@pytest.mark.parametrize("path", ["owner", "owner/dashboard", "x/owner/dashboard/owner/"])
def test_the_address_of_a_dashboard_names_its_campaign(path):
    assert Address.parse(f"https://example.org/{path}").name == "owner"


def test_a_server_that_is_not_there_is_told():
    transport = Transport(Address.parse("http://127.0.0.1:9/x"), patience=0)
    with pytest.raises(CollectorError, match="cannot reach"):
        transport.get("/v1/manifest")
    with pytest.raises(ParameterError, match="names no campaign"):
        Client("http://127.0.0.1:9/").answer(ANN)


def test_more_people_than_a_minute_takes_are_sent_without_a_token(
    campaign_path, tmp_path, monkeypatch
):
    """They go in parts that a limited server takes; what is refused waits for the next minute."""
    monkeypatch.setattr(limits, "MINUTE", 1.0)
    with speaking(campaign_path, str(tmp_path / "c.db"), limited=True) as speaker:
        client = Client(f"{speaker.address}/health", patience=0)
        start = time.monotonic()
        sent = client.send([ANN] * 130)
    assert sent.stored == 130 and sent.refused == 0
    assert time.monotonic() - start > 1.0  # what 60 a minute amounts to here


@pytest.mark.parametrize(("refused", "stops"), [(0, False), (1, False), (2, True)])
def test_only_a_batch_that_is_refused_whole_stops_the_client(refused: int, stops: bool) -> None:
    refusals = [{"kind": "invalid", "index": place} for place in range(refused)]
    answer = {"stored": 2 - refused, "repeated": 0, "refused": refusals}
    client = SimpleNamespace(
        transport=SimpleNamespace(post=lambda *_: answer),
        address=SimpleNamespace(campaign="/c", origin="http://c"),
    )
    with pytest.raises(CampaignError, match="invalid") if stops else nullcontext():
        assert len(Client._post(client, [{}, {}], b"")) == refused
