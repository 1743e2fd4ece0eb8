"""The page for developers: what it shows works, and its figures are those of the files."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pytest
from tests.collect.browser.collector import ROOT, STATIC, Collector
from tests.collect.browser.scripts import run, wait_for_text
from tests.collect.browser.surveys import health
from tests.collect.browser.test_form import HEALTH, answer_and_send

pytestmark = pytest.mark.xdist_group("browser")
PAGE = (ROOT / "docs" / "collector" / "embed.md").read_text(encoding="utf-8")


def block(language: str, collector: Collector) -> str:
    """The first block of code in a language, with the addresses of the test in it."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    address = f"{collector.origin}/health"
    return str(text.replace("https://collector.example/health-2027", address)).replace(
        "/sfumato/", "/static/"
    )


def test_the_element_as_the_page_shows_it(chromium: Any) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        host.pages["/"] = b'<!doctype html><html lang="en">' + block("html", collector).encode()
        chromium.get(host.origin)
        wait_for_text(chromium, "Do you smoke?")


def test_the_element_under_the_policy_that_the_page_shows(chromium: Any) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        policy = " ".join(block("csp", collector).split()).replace(
            "https://collector.example", collector.origin
        )
        meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        page = f'<!doctype html><html lang="en">{meta}{block("html", collector)}'
        host.pages["/"] = page.encode()
        chromium.get(host.origin)
        wait_for_text(chromium, "Do you smoke?")
        answer_and_send(chromium, *HEALTH)
        assert len(collector.stored) == 1
        refused = run(
            chromium,
            "try { document.body.innerHTML = '<b>x</b>'; return 'taken' }"
            " catch (error) { return error.name }",
        )
        assert refused == "TypeError", "Trusted Types are required"


def test_the_client_as_the_page_shows_it(chromium: Any) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        host.pages["/"] = b"<!doctype html>"
        chromium.get(host.origin)
        text = re.sub(r'import (\{.*\}) from ("\S+");', r"const \1 = await import(\2);",
                      block("js", collector))  # fmt: skip
        said = run(
            chromium,
            f"const said = []; const console = {{ log: (...all) => said.push(...all) }};{text}; "
            "return said;",
        )
        assert said[0] == f"sends {len(collector.posted()[0].body)} bytes, true in 63 % of cases"
        assert said[2]["id"] in collector.stored and said[3] == "stored"


def test_the_sizes_are_those_of_the_files() -> None:
    for name, size in re.findall(r"^\| `(\w+\.js)` \|.*\| ([\d.]+) KB \|$", PAGE, re.M):
        found = len(gzip.compress((STATIC / name).read_bytes(), 9)) / 1000
        assert abs(found - float(size)) < 0.35, name


def test_every_kind_of_error_is_named() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in STATIC.glob("*.js"))
    kinds = set(re.findall(r'SfumatoError\(\s*"(\w+)"', text))
    kinds |= set(re.findall(r'\d{3}: "(\w+)"', text)) | {"busy", "refused", "withdrawn"}
    assert (
        kinds - {word for line in PAGE.splitlines() for word in re.findall(r"`(\w+)`", line)}
        == set()
    )
