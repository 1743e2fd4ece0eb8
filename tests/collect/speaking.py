"""Speaking HTTP to a collector in as few words as possible, for tests."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.collect.campaign_file import CampaignFile

CAMPAIGN = """
name = "health"
title = { en = "Health survey", de = "Gesundheitsumfrage" }

[[attribute]]
name = "smoker"
type = "category"
values = ["yes", "no"]

[[attribute]]
name = "age"
type = "category"
values = ["young", "middle", "old"]

[promise]
gamma = 19

[mechanism]
name = "gamma-diagonal"

[question.smoker]
text = { en = "Do you smoke?", de = "Rauchen Sie?" }
values = { yes = { en = "Yes", de = "Ja" }, no = { en = "No", de = "Nein" } }
decline = true
"""


def identity() -> str:
    """A fresh report id."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")


def some_reports(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Reports of the campaign above."""
    rng = random.Random(seed)
    return [
        {"id": identity(), "values": [rng.randrange(3), rng.randrange(3)]} for _ in range(count)
    ]


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Speaker:
    """Requests to a server, each over a connection of its own."""

    address: str
    name: str = "health"
    hash: str = ""

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        parts = urlsplit(self.address)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        given = dict(headers or {})
        if body is not None and not isinstance(body, bytes | str):
            body = json.dumps(body)
        if body is not None:
            given.setdefault("content-type", "application/json")
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        found = Answer(
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read(),
        )
        connection.close()
        return found

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, {k.replace("_", "-"): v for k, v in headers.items()})

    def campaign(self, end: str = "") -> str:
        return f"/v1/campaigns/{self.name}{end}"

    def send(self, reports: Sequence[Any], **more: Any) -> Answer:
        body = {"campaign": self.hash, "reports": list(reports)} | more
        return self.ask("POST", self.campaign("/reports"), body)


@contextmanager
def speaking(campaign: Path, store: str, **settings: Any) -> Iterator[Speaker]:
    """A speaker to a server of its own, run in a thread."""
    from sfumato.collect.server.running import ServerSettings, serving

    given = {"port": 0, "limited": False} | settings
    found = CampaignFile.load(campaign).campaign
    with serving(ServerSettings([str(campaign)], store, **given)) as address:
        yield Speaker(address, found.name, found.hash)


def first_token(store: str, role: str = "admin") -> str:
    """A new token of a store."""
    from sfumato.collect.store import new_token, open_store

    opened = open_store(store, create=True)
    secret, token = new_token(role, "test")
    opened.add_token(token)
    opened.close()
    return secret
