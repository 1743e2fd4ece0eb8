"""The form for everyone: axe-core finds nothing, in every view, both colour schemes, on a phone and
at 200 % zoom; by keyboard alone; targets large enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.collect.browser.collector import Collector
from tests.collect.browser.scripts import click, find, run, text_of, wait, wait_for_text
from tests.collect.browser.surveys import everything, health, questionnaire
from tests.collect.browser.test_form import HEALTH, WORDS, blur, choose

pytestmark = pytest.mark.xdist_group("browser")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@contextmanager
def screen(chromium: Any, width: int, height: int, scheme: str = "light") -> Iterator[None]:
    """A window of this size, in light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    yield
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def violations(chromium: Any, packages: Path) -> list[str]:
    """What axe-core finds wrong with the page."""
    chromium.execute_script((packages / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    body = "return (await axe.run(document, { runOnly: given[0] })).violations;"
    found = run(chromium, body, RULES)
    return [f"{each['id']}: {[node['html'] for node in each['nodes']][:3]}" for each in found]


def views(chromium: Any) -> Iterator[str]:
    """Every view of the form, one after the other."""
    with Collector({"health": health()}) as collector:
        chromium.get(f"{collector.origin}/health")
        find(chromium, "form")
        yield "questions"
        click(chromium, WORDS["blur"])
        wait_for_text(chromium, WORDS["wrong_choice"])
        yield "errors"
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        yield "report"
        collector.refusals[:] = [503]
        click(chromium, WORDS["send"])
        wait_for_text(chromium, "will be sent again")
        yield "waiting"
        wait_for_text(chromium, WORDS["sent_title"])
        yield "receipt"
        click(chromium, WORDS["withdraw"])
        wait_for_text(chromium, WORDS["withdraw_sure"])
        yield "confirm"
        click(chromium, WORDS["yes"])
        wait_for_text(chromium, WORDS["withdrawn_title"])
        yield "withdrawn"
    for name, campaign in (
        ("everything", everything()),
        ("questionnaire", questionnaire()),
        ("refused", health(promise={"gamma": "2/1", "epsilon": 0.7})),
    ):
        with Collector({"health": campaign}) as collector:
            chromium.get(f"{collector.origin}/health")
            wait(lambda: text_of(chromium, "sfumato-survey h1"), name)
            yield name


SCREENS = [(900, 1100, "light"), (900, 1100, "dark"), (360, 740, "light")]


@pytest.mark.parametrize(("width", "height", "scheme"), SCREENS)
def test_axe_finds_nothing_in_any_view(
    chromium: Any, npm_packages: Path, width: int, height: int, scheme: str
) -> None:
    with screen(chromium, width, height, scheme):
        seen = {view: violations(chromium, npm_packages) for view in views(chromium)}
    assert len(seen) == 10
    assert {view: found for view, found in seen.items() if found} == {}


def test_axe_would_find_something(chromium: Any, npm_packages: Path) -> None:
    with Collector({"health": health()}) as collector:
        chromium.get(f"{collector.origin}/health")
        find(chromium, "form")
        chromium.execute_script("document.querySelector('legend').remove();"
                                "document.querySelector('p').style.color = '#ccc';")  # fmt: skip
        chromium.execute_script("document.documentElement.removeAttribute('lang')")
        assert any("lang" in each for each in violations(chromium, npm_packages))


MEASURE = """
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const all = [...document.querySelectorAll(
  "a, button, summary, select, .choice, input:not([type=radio], [type=checkbox])")];
const small = all.filter((each) => each.checkVisibility() && !each.closest(".errors li"))
  .map((each) => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
  .filter(([, box]) => box.height < 44 || box.width < 44);
return [wide, small.map(([html]) => html)];
"""


@pytest.mark.parametrize(
    ("width", "letters"), [(320, 16), (360, 16), (900, 16), (640, 32)], ids=str
)
def test_nothing_is_cut_off_and_targets_are_large(chromium: Any, width: int, letters: int) -> None:
    """On a small phone, on a desk, and with letters twice the size (200 % zoom of 1,280 pixels)."""
    with screen(chromium, width, 800):
        for view in views(chromium):
            chromium.execute_script(f"document.documentElement.style.fontSize = '{letters}px'")
            wide, small = chromium.execute_script(MEASURE)
            assert (view, wide, small) == (view, 0, [])


def test_the_form_is_filled_in_by_keyboard_alone(chromium: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        ActionChains(chromium).send_keys(*keys).perform()

    def reach(what: str) -> None:
        """Tab until the element with focus says this, or holds it as its name."""
        for _ in range(40):
            active = chromium.switch_to.active_element
            if what in (active.text, active.get_attribute("name")):
                return
            press(Keys.TAB)
        raise AssertionError(f"no way to {what} by the keyboard")

    with Collector({"health": health()}) as collector:
        chromium.get(f"{collector.origin}/health")
        find(chromium, "form")
        for field, moves in (("sfumato-0", 1), ("sfumato-1", 2), ("sfumato-2", 0)):
            reach(field)
            press(*(Keys.ARROW_DOWN for _ in range(moves)), Keys.SPACE)
        reach(WORDS["blur"])
        press(Keys.ENTER)
        wait_for_text(chromium, WORDS["report_title"])
        assert chromium.switch_to.active_element.text == WORDS["report_title"]
        reach(WORDS["send"])
        press(Keys.ENTER)
        wait_for_text(chromium, WORDS["sent_title"])
        assert chromium.switch_to.active_element.text == WORDS["sent_title"]
        reach(WORDS["forget"])
        press(Keys.ENTER)
        wait_for_text(chromium, WORDS["forget_sure"])
        press(Keys.ESCAPE)
        assert chromium.switch_to.active_element.text == WORDS["forget"]
        assert len(collector.stored) == 1


def test_a_screen_reader_is_told_names_groups_and_changes(chromium: Any) -> None:
    """From the accessibility tree, as assistive software reads it."""
    with Collector({"health": everything()}) as collector:
        chromium.get(f"{collector.origin}/health")
        find(chromium, "form")
        tree = chromium.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        said = {
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if "role" in node
        }
    assert ("group", "Do you smoke?") in said
    assert ("radio", "Yes") in said and ("radio", "No answer") in said
    assert ("spinbutton", "How many hours do you work in a week?") in said
    assert ("combobox", "country") in said
    assert ("checkbox", "tennis") in said
    assert ("heading", "Health survey") in said and ("button", WORDS["blur"]) in said
    assert any(role == "status" for role, _ in said)
