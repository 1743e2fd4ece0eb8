"""What an observer of the connection sees: under one keystream, two opposite truths that give the
same report give the same requests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.collect.browser.collector import Collector
from tests.collect.browser.scripts import find, run
from tests.collect.browser.surveys import coin, health, questionnaire
from tests.collect.browser.test_form import answer_and_send, before_every_page

pytestmark = pytest.mark.xdist_group("browser")

# A small generator in place of the operating system's: the same bytes on every page.
KEYSTREAM = """
let state = SEED;
Crypto.prototype.getRandomValues = (array) => {
  for (let i = 0; i < array.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    array[i] = state >>> 24;
  }
  return array;
};
"""
HIDDEN = ("host", "origin", "referer")  # they name the port, which differs from run to run


def requests_of(
    chromium: Any, campaign: dict[str, Any], seed: int, answers: tuple[tuple[int, int], ...]
) -> list[tuple[str, str, str, str]]:
    """Method, path, headers and body of every request that a person's visit causes."""
    with (
        before_every_page(chromium, KEYSTREAM.replace("SEED", str(seed))),
        Collector({campaign["name"]: campaign}) as collector,
    ):
        chromium.get(f"{collector.origin}/{campaign['name']}")
        find(chromium, "form")
        answer_and_send(chromium, *answers)
        seen = [
            (
                each.method,
                each.path,
                json.dumps({k: v for k, v in sorted(each.headers.items()) if k not in HIDDEN}),
                each.body.decode(),
            )
            for each in collector.requests
            if each.path != "/favicon.ico"
        ]
        return sorted(seen[:-1]) + seen[-1:]  # files are fetched in any order, the report last


def reported(requests: list[tuple[str, str, str, str]]) -> list[Any]:
    return list(json.loads(requests[-1][3])["reports"][0]["values"])


YES, NO = ((0, 0), (1, 0), (2, 0)), ((0, 1), (1, 3), (2, 0))


def test_opposite_truths_with_the_same_report_cause_the_same_requests(chromium: Any) -> None:
    same = other = 0
    for seed in range(1, 30):
        one = requests_of(chromium, health(), seed, YES)
        two = requests_of(chromium, health(), seed, NO)
        if reported(one) == reported(two):
            assert one == two
            same += 1
        else:
            assert one[:-1] == two[:-1]
            assert len(one[-1][3]) == len(two[-1][3])
            other += 1
        if same and other:
            return
    raise AssertionError(f"{same} seeds gave the same report and {other} another")


def test_every_report_has_the_same_length_whatever_is_said(chromium: Any) -> None:
    lengths = {
        len(requests_of(chromium, coin(), seed, ((0, seed % 3),))[-1][3]) for seed in range(3)
    }
    assert len(lengths) == 1


def test_the_question_is_dealt_whatever_the_answer(chromium: Any) -> None:
    """The same keystream deals the same question before anything is answered, and the bytes that
    the answer takes come after it.
    """
    campaign = questionnaire()
    with (
        before_every_page(chromium, KEYSTREAM.replace("SEED", "5")),
        Collector({campaign["name"]: campaign}) as collector,
    ):
        dealt = []
        for address in ("/health", "/health?lang=de"):
            chromium.get(f"{collector.origin}{address}")
            find(chromium, "form")
            body = """
            const { Survey } = await import("/static/sfumato.js");
            return (await Survey.open("/health", { public: ["region"] })).question;
            """
            dealt.append(run(chromium, body))
        assert dealt[0] == dealt[1] and dealt[0]["of"] == 3
        assert not collector.posted()
