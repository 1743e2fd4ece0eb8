"""The owner's pages in Chromium: axe-core finds nothing, targets are large, and what comes in is
shown without a hand on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.collect.browser.scripts import console, find, run, text_of, wait, wait_for_text
from tests.collect.browser.test_accessibility import MEASURE, SCREENS, screen, violations
from tests.collect.speaking import CAMPAIGN, Speaker, first_token, some_reports, speaking

WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def owner(chromium: Any, tmp_path: Path) -> Iterator[Speaker]:
    """A server with some reports, whose token the browser knows from now on."""
    path, store = tmp_path / "health.toml", str(tmp_path / "campaign.db")
    path.write_text(CAMPAIGN.replace("gamma-diagonal", "questionnaire"), encoding="utf-8")
    token = first_token(store)
    with speaking(path, store) as found:
        deliver(found, 600)
        host = found.address.removeprefix("http://")
        chromium.get(f"http://owner:{token}@{host}/health/dashboard")
        find(chromium, "#take")
        yield found


def deliver(server: Speaker, count: int) -> None:
    """Reports of a questionnaire: the question dealt, and an answer that each of them has."""
    reports = [
        report | {"values": [report["values"][0], report["values"][1] % 2]}
        for report in some_reports(count, seed=count)
    ]
    assert server.send(reports).json["stored"] == count


def pages(chromium: Any, server: Speaker) -> Iterator[str]:
    """Every page that an owner may see, one after the other."""
    asked = "?sql=SELECT+smoker,COUNT(*)+FROM+t+GROUP+BY+smoker&pair=smoker,age"
    for path in ("/", "/health/dashboard", f"/health/dashboard{asked}", "/health/dashboard?sql=x"):
        chromium.get(server.address + path)
        find(chromium, "main")
        for closed in chromium.find_elements("css selector", "details:not([open]) summary"):
            closed.click()
        yield path


@pytest.mark.parametrize(("width", "height", "scheme"), SCREENS)
def test_axe_finds_nothing_in_the_owners_pages(
    chromium: Any, npm_packages: Path, owner: Speaker, width: int, height: int, scheme: str
) -> None:
    with screen(chromium, width, height, scheme):
        seen = {page: violations(chromium, npm_packages) for page in pages(chromium, owner)}
    assert len(seen) == 4 and {page: found for page, found in seen.items() if found} == {}


@pytest.mark.parametrize(("width", "letters"), [(360, 16), (640, 32)], ids=str)
def test_the_owners_pages_are_not_cut_off(
    chromium: Any, owner: Speaker, width: int, letters: int
) -> None:
    with screen(chromium, width, 800):
        for page in pages(chromium, owner):
            chromium.execute_script(f"document.documentElement.style.fontSize = '{letters}px'")
            wide, small = chromium.execute_script(MEASURE)
            assert (page, wide, small) == (page, 0, [])


def test_what_comes_in_is_shown_without_a_hand_on_the_page(chromium: Any, owner: Speaker) -> None:
    console(chromium)
    chromium.get(f"{owner.address}/health/dashboard")
    wait_for_text(chromium, "600", "main")
    deliver(owner, 333)
    wait(lambda: "933" in text_of(chromium, "main"), "the new figures", seconds=40)
    assert console(chromium) == []


def test_what_the_page_links_to_is_there_for_who_has_given_the_token(
    chromium: Any, owner: Speaker
) -> None:
    chromium.get(f"{owner.address}/health/dashboard")
    links = chromium.execute_script(
        "return [...document.querySelectorAll('section ul a')].map((each) => each.href)"
    )
    body = """
    const reply = await fetch(given[0]);
    return [reply.status, reply.headers.get("content-type").split(";")[0],
            (await reply.arrayBuffer()).byteLength > 100];
    """
    found = {run(chromium, body, link)[1]: run(chromium, body, link) for link in links}
    assert set(found) == {"application/vnd.apache.parquet", "application/json", "text/csv"}
    assert all(status == 200 and long for status, _, long in found.values())


def test_the_owner_of_a_public_dashboard_sees_all_of_it(chromium: Any, tmp_path: Path) -> None:
    path, store = tmp_path / "health.toml", str(tmp_path / "campaign.db")
    path.write_text(f"{CAMPAIGN}\n[dashboard]\npublic = true\n", encoding="utf-8")
    token = first_token(store)
    with speaking(path, store) as server:
        assert server.send(some_reports(620)).json["stored"] == 620
        chromium.get(f"{server.address}/health/dashboard")
        assert "620" in text_of(chromium, "main")
        assert server.send(some_reports(13)).json["stored"] == 13
        host = server.address.removeprefix("http://")
        chromium.get(f"http://owner:{token}@{host}/health/dashboard/owner")
        assert "633" in text_of(chromium, "main") and find(chromium, "#sql")
        find(chromium, "#pair").submit()
        wait_for_text(chromium, "633", "main")
        chromium.get(f"{server.address}/health/dashboard")
        assert "620" in text_of(chromium, "main")


def test_someone_without_a_token_sees_nothing(owner: Speaker) -> None:
    for end in ("", "/figures", "/figures?format=csv"):
        assert owner.get(f"/health/dashboard{end}").status == 401
        assert owner.get(f"/health/dashboard/owner{end}").status == 401
    assert owner.get("/health/dashboard/owner/export?format=parquet").status == 401
    for end in ("/figures", "/export"):
        assert owner.get(f"/v1/campaigns/health{end}").status == 403


def test_names_without_a_space_make_neither_form_nor_dashboard_wider(
    chromium: Any, tmp_path: Path
) -> None:
    """An answer of 90 letters, and a choice of two such questions, ran 600 pixels over."""
    path, store = tmp_path / "health.toml", str(tmp_path / "campaign.db")
    long = CAMPAIGN.replace("gamma-diagonal", "questionnaire").replace("middle", "m" * 90)
    path.write_text(long.replace("Do you smoke?", "S" * 90), encoding="utf-8")
    token = first_token(store)
    with speaking(path, store) as server, screen(chromium, 390, 844):
        deliver(server, 600)
        host = server.address.removeprefix("http://")
        for page in ("", "/dashboard"):
            chromium.get(f"http://owner:{token}@{host}/health{page}")
            find(chromium, "select" if page else "fieldset")
            assert run(chromium, WIDER) == 0, page or "the form"
