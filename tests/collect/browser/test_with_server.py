"""The form against the real server: a person answers in Chromium, the report is in the store, can
be asked after and withdrawn; the page loads only files whose hashes it names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.collect.browser.collector import Collector
from tests.collect.browser.scripts import click, console, find, text_of, wait, wait_for_text
from tests.collect.browser.test_form import WORDS, answer_and_send
from tests.collect.proxying import Passing, proxied
from tests.collect.speaking import CAMPAIGN, Speaker, speaking

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.form import MODULES, single_file
from sfumato.collect.verifying import verify

pytestmark = pytest.mark.xdist_group("browser")
ANSWERS = ((0, 0), (1, 2))  # yes, old


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Speaker]:
    path = tmp_path / "health.toml"
    path.write_text(CAMPAIGN, encoding="utf-8")
    with speaking(path, str(tmp_path / "campaign.db")) as found:
        yield found


def stored(folder: Path) -> int:
    with sqlite3.connect(folder / "campaign.db") as base:
        (count,) = base.execute("SELECT count(*) FROM report").fetchone()
    return int(count)


# What names a version of Chromium, and the language of a person: any server may know them.
OF_A_VERSION = ("user-agent", "sec-ch-ua", "sec-ch-ua-platform", "accept-language", "host")


def test_verify_asks_as_chromium_does(chromium: Any, server: Speaker) -> None:
    """A header by which a server could tell the two apart is a page of its own for people."""
    told: list[tuple[str, dict[str, str]]] = []
    with proxied(server.address) as proxy:

        def noted(passing: Passing) -> Passing:
            told.append((passing.path, {**passing.asked}))
            return passing

        proxy.change = noted
        form = f"{proxy.address}/health"
        chromium.get(form)
        wait_for_text(chromium, "Do you smoke?")
        chromium.refresh()
        wait_for_text(chromium, "Do you smoke?")
        chromium.get(f"data:text/html,<a href={form}>Please answer</a>")
        find(chromium, "a").click()
        wait_for_text(chromium, "Do you smoke?")
        by_chromium, told = list(told), []
        assert verify(form).differences == []
    for path, asked in by_chromium:
        by_us = [headers for where, headers in told if where == path]
        odd = {
            name: value
            for name, value in asked.items()
            if name not in (*OF_A_VERSION, "accept")
            and value not in {headers.get(name) for headers in by_us}
        }
        assert by_us and not odd, (path, odd)
        kinds = {headers["accept"].replace("image/jxl,", "") for headers in by_us}
        assert asked["accept"].replace("image/jxl,", "") in kinds
    assert {path.rpartition("/")[2] for path, _ in by_chromium} >= {"health", "form.css", "form.js"}


def test_a_person_answers_and_the_store_holds_the_report(
    chromium: Any, server: Speaker, tmp_path: Path
) -> None:
    console(chromium)
    chromium.get(f"{server.address}/health")
    wait_for_text(chromium, "Do you smoke?")
    assert "No answer" in text_of(chromium)
    answer_and_send(chromium, *ANSWERS)
    assert stored(tmp_path) == 1
    click(chromium, WORDS["stored"])
    wait_for_text(chromium, WORDS["status_stored"])
    click(chromium, WORDS["withdraw"])
    click(chromium, WORDS["yes"])
    wait_for_text(chromium, WORDS["withdrawn_title"])
    assert stored(tmp_path) == 0
    assert console(chromium) == []


@pytest.mark.parametrize("where", ["server", "one file", "another page"])
def test_the_form_shows_the_digest_that_verify_computes(
    chromium: Any, server: Speaker, tmp_path: Path, where: str
) -> None:
    found = verify(f"{server.address}/health")
    assert found.digest is not None and found.differences == []
    address, text = f"{server.address}/health", "server"
    if where == "one file":
        document = CampaignFile.load(tmp_path / "health.toml").campaign.document()
        text = single_file(document, server.address)
    elif where == "another page":
        text = (
            f'<script type="module" src="{server.address}/static/sfumato.js"></script>'
            f'<sfumato-survey campaign="{server.address}/health"></sfumato-survey>'
        )
    with Collector({}, pages={"/form.html": text.encode()}, policy=None) as host:
        chromium.get(address if where == "server" else f"{host.origin}/form.html")
        wait_for_text(chromium, "Do you smoke?")
        click(chromium, WORDS["doubts_title"])
        wait_for_text(chromium, found.digest, "code.digest")
        assert WORDS["doubts_digest"] in text_of(chromium)


@pytest.mark.parametrize("name", ["retention", "questionnaire", "subset-selection", "hadamard"])
def test_other_mechanisms_are_asked_and_sent(chromium: Any, tmp_path: Path, name: str) -> None:
    """A questionnaire asks only what it dealt; whatever is asked is answered by its
    first choice.
    """
    path = tmp_path / "health.toml"
    path.write_text(CAMPAIGN.replace("gamma-diagonal", name), encoding="utf-8")
    with speaking(path, str(tmp_path / "campaign.db")) as server:
        chromium.get(f"{server.address}/health")
        find(chromium, "form")
        for field in chromium.find_elements("css selector", "fieldset"):
            field.find_element("css selector", "input").click()
        click(chromium, WORDS["blur"])
        wait_for_text(chromium, WORDS["report_title"])
        click(chromium, WORDS["send"])
        wait_for_text(chromium, WORDS["sent_title"])
        assert stored(tmp_path) == 1


def test_the_page_names_the_hash_of_every_script_and_runs_no_other(
    chromium: Any, server: Speaker
) -> None:
    chromium.get(f"{server.address}/health")
    find(chromium, "form")
    linked = chromium.execute_script(
        "return [...document.querySelectorAll('script[src], link[href]')]"
        ".map((each) => [each.src || each.href, each.integrity])"
    )
    scripts = {address.rpartition("/")[2]: integrity for address, integrity in linked}
    assert {module.name for module in MODULES} | {"form.css"} <= set(scripts)
    assert all(integrity.startswith("sha256-") for integrity in scripts.values())
    loaded = chromium.execute_script(
        "return performance.getEntriesByType('resource').map((each) => each.name)"
    )
    assert {url.rpartition("/")[2] for url in loaded if url.endswith(".js")} <= set(scripts)


def test_the_form_speaks_the_language_asked_for(chromium: Any, server: Speaker) -> None:
    chromium.get(f"{server.address}/health?lang=de")
    wait_for_text(chromium, "Rauchen Sie?")
    assert chromium.title == "Gesundheitsumfrage"


def test_the_single_file_reaches_the_server_from_another_origin(
    chromium: Any, server: Speaker, tmp_path: Path
) -> None:
    document = server.get("/v1/campaigns/health").json
    with Collector({}, policy=None) as host:
        host.pages["/form.html"] = single_file(document, server.address).encode()
        chromium.get(f"{host.origin}/form.html?lang=en")
        wait_for_text(chromium, "Do you smoke?")
        answer_and_send(chromium, *ANSWERS)
        assert stored(tmp_path) == 1


def test_a_server_that_was_away_gets_the_same_report_once(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "health.toml"
    path.write_text(CAMPAIGN, encoding="utf-8")
    store = str(tmp_path / "campaign.db")
    with speaking(path, store) as server:
        chromium.get(f"{server.address}/health")
        find(chromium, "form")
        for place, code in ANSWERS:
            find(chromium, f"input[name=sfumato-{place}][value='{code}']").click()
        click(chromium, WORDS["blur"])
        wait_for_text(chromium, WORDS["report_title"])
        port = int(server.address.rpartition(":")[2])
    click(chromium, WORDS["send"])
    wait_for_text(chromium, "will be sent again")
    with speaking(path, store, port=port):
        wait_for_text(chromium, WORDS["sent_title"])
        wait(lambda: stored(tmp_path) == 1, "the report")
