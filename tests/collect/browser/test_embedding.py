"""The form on other people's pages, and as a file on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.collect.browser.collector import Collector
from tests.collect.browser.scripts import console, find, run, text_of, wait_for_text
from tests.collect.browser.surveys import health, questionnaire
from tests.collect.browser.test_form import HEALTH, answer_and_send, entries

from sfumato.collect.form import single_file, strings

pytestmark = pytest.mark.xdist_group("browser")


def page_of(origin: str) -> bytes:
    return f"""<!doctype html><html lang="de"><title>My page</title>
    <link rel="stylesheet" href="/static/form.css">
    <script type="module" src="/static/sfumato.js"></script>
    <h1>My page</h1><sfumato-survey campaign="{origin}/health"></sfumato-survey>""".encode()


def test_the_element_works_on_a_page_of_another_origin(chromium: Any) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        host.pages["/"] = page_of(collector.origin)
        chromium.get(host.origin)
        words = strings("de")
        wait_for_text(chromium, "Gesundheitsumfrage")
        assert chromium.title == "My page"
        assert [each.text for each in chromium.find_elements("css selector", "h1")] == ["My page"]
        for place, code in HEALTH:
            find(chromium, f"input[name=sfumato-{place}][value='{code}']").click()
        find(chromium, "form button").click()
        wait_for_text(chromium, words["report_title"])
        find(chromium, ".buttons .first").click()
        wait_for_text(chromium, words["sent_title"])
        assert len(collector.stored) == 1
        (entry,) = entries(chromium)
        assert entry["server"] == collector.origin  # the budget is that of the collector


def test_a_program_of_ones_own_uses_the_client(chromium: Any) -> None:
    """What the page for developers shows."""
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        host.pages["/"] = b"<!doctype html>"
        chromium.get(host.origin)
        body = """
        const { Survey } = await import("/static/sfumato.js");
        const survey = await Survey.open(given[0], { public: ["region"] });
        const { values, bytes, share } =
          await survey.answer({ smoker: "yes", age: 40, region: "north" });
        const before = await survey.status();
        await survey.send();
        const after = await survey.status();
        const left = await survey.left();
        await survey.withdraw();
        const last = await survey.status();
        await survey.forget();
        return { values, share, length: bytes.length, before, after, last, left,
                 asked: survey.asked, epsilon: survey.epsilon, report: survey.report ?? null };
        """
        found = run(chromium, body, f"{collector.origin}/v1/campaigns/health")
        assert (found["before"], found["after"], found["last"]) == (
            "unknown",
            "stored",
            "withdrawn",
        )
        assert found["share"] == pytest.approx(19 / 30) and found["asked"] == [0, 1, 2]
        assert found["left"] == pytest.approx(6 - 2.9444, abs=1e-3) and found["report"] is None
        assert found["length"] == len(collector.posted()[0].body)


def test_what_is_sent_as_it_is_is_named_by_the_program_that_allows_it(chromium: Any) -> None:
    """Also what a dealt question sends so; unless it is named, nothing is even dealt."""
    cut = {"step": "cut", "columns": [0], "reports": [1, 2], "items": 1, "cutoff": 1,
           "insert": 32768}  # fmt: skip
    deal = {"step": "deal", "columns": [0], "reports": [0, 1, 2], "weights": [1 << 32],
            "questions": [cut]}  # fmt: skip
    sizes = health(
        domain={"attribute": [{"name": "hiv", "type": "items", "values": ["positive"]}]},
        program={"version": 1, "steps": [deal]},
        promise={"gamma": "19/1", "epsilon": 2.944, "sizes": ["hiv"]},
        name="sizes",
    )
    silent = {**sizes, "name": "silent", "promise": {"gamma": "19/1", "epsilon": 2.944}}
    campaigns = {"health": health(), "sizes": sizes, "silent": silent}
    with Collector(campaigns) as collector, Collector({}, policy=None) as host:
        host.pages["/"] = b"<!doctype html>"
        chromium.get(host.origin)
        body = """
        const { Survey } = await import("/static/sfumato.js");
        const open = (limits) => Survey.open(given[0], limits).then(
          (survey) => survey.sentAsIs, (error) => [error.kind, error.facts.names]);
        const refused = [await open(), await open({ public: ["age"] })];
        return [...refused, await indexedDB.databases(), await open({ public: given[1] })];
        """
        for name, column in (("health", "region"), ("sizes", "hiv")):
            found = run(chromium, body, f"{collector.origin}/{name}", [column])
            assert found[0] == found[1] == ["public", column] and found[3] == [column]
            assert name == "sizes" or found[2] == []
        found = run(chromium, body, f"{collector.origin}/silent", ["hiv"])
        assert found[0][0] == found[3][0] == "promise"  # the campaign does not say so


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"smoker": "maybe", "age": 40, "region": "north"},
        {"smoker": "yes", "age": 12, "region": "north"},
    ],
    ids=["none", "no value", "out of range"],
)
def test_an_answer_that_does_not_fit_is_refused_and_costs_nothing(
    chromium: Any, answers: dict[str, Any]
) -> None:
    with Collector({"health": health()}) as collector:
        chromium.get(f"{collector.origin}/health")
        find(chromium, "form")
        body = """
        const { Survey } = await import("/static/sfumato.js");
        const survey = await Survey.open("/health", { public: ["region"] });
        const kind = await survey.answer(given[0]).then(() => "drawn", (error) => error.kind);
        return [kind, await survey.left()];
        """
        assert run(chromium, body, answers) == ["answer", 6]


def test_a_second_element_on_a_page_shares_the_ledger(chromium: Any) -> None:
    with Collector({"health": questionnaire()}) as collector, Collector({}, policy=None) as host:
        host.pages["/"] = page_of(collector.origin) + page_of(collector.origin)
        chromium.get(host.origin)
        for place in ("first", "last"):  # whichever comes later
            find(chromium, f"sfumato-survey:{place}-of-type form")
        first, second = (
            each.text for each in chromium.find_elements("css selector", "sfumato-survey form")
        )
        assert first == second and len(entries(chromium)) == 1


@pytest.mark.parametrize("where", ["disk", "another origin"])
def test_the_single_file_sends_to_its_collector_alone(
    chromium: Any, tmp_path: Path, where: str
) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        page = single_file(collector.campaigns["health"], collector.origin)
        (tmp_path / "form.html").write_text(page, encoding="utf-8")
        host.pages["/form.html"] = page.encode()
        console(chromium)
        address = (
            (tmp_path / "form.html").as_uri() if where == "disk" else f"{host.origin}/form.html"
        )
        chromium.get(f"{address}?lang=en")
        wait_for_text(chromium, "Do you smoke?")
        answer_and_send(chromium, *HEALTH)
        assert len(collector.stored) == 1
        assert [each.method for each in collector.requests] == ["POST"], "it carries the campaign"
        blocked = run(chromium, """
            const seen = [];
            addEventListener("securitypolicyviolation",
              (event) => seen.push(event.violatedDirective));
            await fetch(given[0]).catch(() => {});
            try { document.body.innerHTML = "<b>x</b>"; } catch (error) { seen.push(error.name); }
            await new Promise((resolve) => setTimeout(resolve, 100));
            return seen;
            """, f"{host.origin}/elsewhere")  # fmt: skip
        assert "connect-src" in blocked and "TypeError" in blocked
        assert not [each for each in host.requests if each.path == "/elsewhere"]


def test_a_changed_single_file_does_not_run(chromium: Any) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        page = single_file(collector.campaigns["health"], collector.origin)
        host.pages["/form.html"] = page.replace(
            "const PATIENCE = 14", "const PATIENCE = 15"
        ).encode()
        chromium.get(f"{host.origin}/form.html")
        assert any("Content Security Policy" in line for line in console(chromium))
        assert text_of(chromium) == ""


def test_the_single_file_takes_the_language_of_the_browser(chromium: Any) -> None:
    with Collector({"health": health()}) as collector, Collector({}, policy=None) as host:
        host.pages["/form.html"] = single_file(
            collector.campaigns["health"], collector.origin
        ).encode()
        chromium.execute_cdp_cmd("Emulation.setLocaleOverride", {"locale": "de-AT"})
        source = (
            "Object.defineProperty(Navigator.prototype, 'languages', { value: ['pt', 'de-AT'] });"
        )
        made = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        chromium.get(f"{host.origin}/form.html")
        wait_for_text(chromium, strings("de")["promise_title"])
        assert chromium.execute_script("return document.documentElement.lang") == "de"
        chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)
        chromium.execute_cdp_cmd("Emulation.setLocaleOverride", {})
        assert collector.requests == []


def test_a_campaign_under_another_hash_is_refused(chromium: Any) -> None:
    """What is shown as the version is computed on the device, not taken from the server."""
    with Collector({"health": health()}) as collector:
        chromium.get(f"{collector.origin}/health")
        body = """
        const { Survey } = await import("/static/sfumato.js");
        return Survey.open("/health", { campaign: given[0], public: null }).then(
          () => "open", (error) => error.kind);
        """
        assert run(chromium, body, health()) == "open"
        for change in ({"hash": "ab" * 32}, {"round": 2}, {"name": ["health"]}):
            assert run(chromium, body, health() | change) == "program"
