"""A campaign in rounds: the server begins each by itself, nobody answers twice, all are mined."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.bits import Bits
from sfumato.cli import app
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.client import Client
from sfumato.collect.releases import begin_next
from sfumato.collect.server.running import ServerSettings, collector_of, serving
from sfumato.collect.store import open_store
from sfumato.errors import CampaignError, ParameterError, PrivacyError
from sfumato.privacy.ledger import Ledger
from sfumato.randomness import seeded
from sfumato.table import Table

ITEMS, PEOPLE = 10, 2000
SCHEMA = f"""
[[attribute]]
name = "basket"
type = "items"
values = {json.dumps([f"i{place}" for place in range(ITEMS)])}
"""


def run(line: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("shop.schema").write_text(SCHEMA, encoding="utf-8")
    run(f"campaign init shop.schema -o shop.toml --gamma 19 --rounds {PEOPLE}")
    return tmp_path / "shop.toml"


def people() -> np.ndarray:
    """Baskets in which the first three items go together."""
    rng = np.random.default_rng(2)
    alike = rng.random((PEOPLE, 1)) < 0.5
    chances = np.where(alike & (np.arange(ITEMS) < 3), 0.9, 0.15)
    return rng.random((PEOPLE, ITEMS)) < chances


def answered(address: str, domain, rows: np.ndarray, seed: int = 1) -> int:
    """How many reports were stored. Seeded: the three items that go together were not among the
    seven found in 1 of 12 runs of fresh noise.
    """
    client = Client(f"{address}/shop", at_once=1000, rng=seeded(seed))
    return client.send(Table(domain, (Bits.from_dense(rows),))).stored


def round_at(address: str, wanted: int) -> dict:
    """The campaign once its server has come to a round."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = dict(Client(f"{address}/shop").survey.document)
        if found["round"] == wanted:
            return found
        time.sleep(0.2)
    raise AssertionError(f"round {wanted} did not begin")


def test_a_server_asks_in_rounds_by_itself(file: Path) -> None:
    """40 % for any item, then 30 % and 30 % for what those before made probable; a person who
    answered is not asked again; `mine` takes all rounds together.
    """
    truth, upto = people(), (0, int(0.4 * PEOPLE), int(0.7 * PEOPLE), PEOPLE)
    campaign = CampaignFile.load(file).campaign
    settings = ServerSettings([str(file)], "shop.db", port=0, limited=False)
    with serving(settings) as address:
        book = Ledger.create("one.ledger", None)
        Client(f"{address}/shop", book, rng=seeded(4)).answer({"basket": ["i1"]})
        assert answered(address, campaign.domain, truth[: upto[1] - 1]) == upto[1] - 1
        second = round_at(address, 2)
        (step,) = second["program"]["steps"]
        assert [0, 1] in step["candidates"] and second["promise"]["gamma"] == "19/1"
        with pytest.raises(PrivacyError, match=r"budget|left"):
            Client(f"{address}/shop", book).answer({"basket": ["i1"]})
        answered(address, campaign.domain, truth[upto[1] : upto[2]], 2)
        round_at(address, 3)
        answered(address, campaign.domain, truth[upto[2] :], 3)
    found = json.loads(run("mine sqlite://shop.db#shop --top 7 --json"))
    assert found["rows"] == PEOPLE
    sets = {frozenset(each["items"]): each for each in found["itemsets"]}
    assert frozenset({"i0", "i1", "i2"}) in sets
    shown = sets[frozenset({"i0", "i1"})]
    assert abs(shown["support"] - truth[:, :2].all(axis=1).mean()) < 4 * shown["stderr"]
    again = collector_of(ServerSettings([str(file)], "shop.db"))  # started anew it is at round 3
    assert again.served["shop"].campaign.round == 3
    again.store.close()
    assert "all 3 rounds" in run("campaign next shop.toml --store shop.db", 2)


def test_a_round_is_closed_by_hand_while_a_server_runs(file: Path) -> None:
    settings = ServerSettings([str(file)], "shop.db", port=0, limited=False)
    with serving(settings) as address:
        assert "nobody has answered round 1" in run("campaign next shop.toml --store shop.db", 2)
        answered(address, CampaignFile.load(file).campaign.domain, people()[:300])
        told = json.loads(run("campaign next shop.toml --store shop.db --json"))
        assert told["round"] == 2 and told["candidates"] > ITEMS
        round_at(address, 2)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("epsilon = 2.9445", "epsilon = 6.0", "nobody answers twice"),
        ("[budget]\nepsilon", "[text.x]\nepsilon", "nobody answers twice"),
        ('"item-set"', '"mask"', "asks by item-set"),
        ('"item-set"', '"item-set"\ncap = 3', "asks by item-set"),
        ("[budget]", "[budget]\nround = 2", "which of its rounds"),
        (f"people = {PEOPLE}", "people = 2", "should be at least 10"),
        (f"people = {PEOPLE}", "", "needs a rounds.people"),
    ],
)
def test_rounds_that_cannot_be(file: Path, before: str, after: str, told: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")
    assert told in run("campaign check shop.toml", 2)


def test_what_has_no_next_round(file: Path) -> None:
    with pytest.raises(ParameterError, match="one process"):
        collector_of(ServerSettings([str(file)], "postgresql://nowhere/x", workers=2))
    assert "one of them" in run("simulate shop.toml --people 100 --store shop.db", 2)
    store = open_store("empty.db", create=True)
    with pytest.raises(CampaignError, match="no round to close"):
        begin_next(store, CampaignFile.load(file))
    store.close()
    text = file.read_text(encoding="utf-8").replace(f"[rounds]\npeople = {PEOPLE}", "[dashboard]")
    file.write_text(text.replace("[dashboard]\npublic = false", ""), encoding="utf-8")
    assert "has no rounds" in run("campaign next shop.toml --store empty.db", 2)
