"""The form in Chromium: what a person sees and does, what leaves the device, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from tests.collect.browser.collector import STATIC, Collector, document, hashed
from tests.collect.browser.scripts import (
    click,
    console,
    find,
    run,
    text_of,
    wait,
    wait_for_text,
)
from tests.collect.browser.surveys import (
    AGE,
    HOURS,
    NUMBERS,
    SMOKER,
    SPORTS,
    coin,
    everything,
    health,
    questionnaire,
)

from sfumato.collect.canonical import digest
from sfumato.collect.form import strings
from sfumato.collect.language import LANGUAGES
from sfumato.domain import Category, Domain
from sfumato.mechanisms.bitflip import BitFlip
from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
from sfumato.mechanisms.joint import SubsetSelection
from sfumato.mechanisms.matrix import UserMatrix
from sfumato.mechanisms.program import Program
from sfumato.mechanisms.steps import Collide, Kary, Own, Window
from sfumato.mechanisms.steps.symbol_steps import buckets_of
from sfumato.privacy.guarantee import Guarantee

pytestmark = pytest.mark.xdist_group("browser")
WORDS = strings("en")


@contextmanager
def opened(chromium: Any, campaign: dict[str, Any], query: str = "") -> Iterator[Collector]:
    """A collector with one campaign, its form in the browser; the console must stay clean."""
    with Collector({campaign["name"]: campaign}) as collector:
        console(chromium)
        chromium.get(f"{collector.origin}/{campaign['name']}{query}")
        yield collector
        assert [line for line in console(chromium) if "Content Security" in line] == []


@contextmanager
def before_every_page(chromium: Any, source: str) -> Iterator[None]:
    """A script that runs before any of the page's own."""
    made = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    yield
    chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


def choose(chromium: Any, place: int, code: int) -> None:
    """Choose an answer by its column and code."""
    find(chromium, f"input[name=sfumato-{place}][value='{code}']").click()


def blur(chromium: Any) -> None:
    click(chromium, WORDS["blur"])
    wait_for_text(chromium, WORDS["report_title"])


def answer_and_send(chromium: Any, *answers: tuple[int, int]) -> None:
    for place, code in answers:
        choose(chromium, place, code)
    blur(chromium)
    click(chromium, WORDS["send"])
    wait_for_text(chromium, WORDS["sent_title"])


HEALTH = ((0, 0), (1, 1), (2, 1))  # yes, 35 to under 55, south


def entries(chromium: Any) -> list[dict[str, Any]]:
    """What stands in the ledger of this origin."""
    body = """
    return new Promise((resolve, reject) => {
      const asked = indexedDB.open("sfumato", 1);
      asked.onerror = () => reject(asked.error);
      asked.onsuccess = () => {
        const all = asked.result.transaction("ledger").objectStore("ledger").getAll();
        all.onsuccess = () => { asked.result.close(); resolve(all.result); };
      };
    });
    """
    return list(run(chromium, body))


def nothing_kept(chromium: Any) -> bool:
    """Whether this origin has not even a ledger."""
    return not run(chromium, "return indexedDB.databases();")


# --- the path


def test_a_person_answers_sees_the_bytes_and_sends_them(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        wait_for_text(chromium, "Do you smoke?")
        assert "63%" in text_of(chromium) and "50%" in text_of(chromium)
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        shown = text_of(chromium, "pre.bytes")
        assert not collector.posted(), "nothing may leave before it is told to"
        click(chromium, WORDS["send"])
        wait_for_text(chromium, WORDS["sent_title"])
        (request,) = collector.posted()
        assert request.body.decode().rstrip(" ") == shown
        (report,) = json.loads(request.body)["reports"]
        assert report["values"][2] == 1 and report["values"][0] < 3 and report["values"][1] < 4
        assert sha256(request.body).hexdigest() in text_of(chromium)
        assert report["id"] in text_of(chromium)


def test_only_the_campaign_its_files_and_the_report_are_asked_of_the_server(chromium: Any) -> None:
    """No event per question, no draft, no third party."""
    chromium.get_log("performance")  # what earlier pages asked for is not this one's
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        answer_and_send(chromium, *HEALTH)
        asked = {f"{each.method} {each.path}" for each in collector.requests}
        files = {f"GET /static/{each}" for each in (
            "form.css", "form.js", "icon.svg", "program.js", "sfumato.js", "steps.js",
            "strings/en.json",
        )}  # fmt: skip
        assert asked - files == {
            "GET /health", "GET /v1/campaigns/health", "GET /v1/manifest",
            "POST /v1/campaigns/health/reports",
        }  # fmt: skip
        (request,) = collector.posted()
        assert not {"cookie", "authorization", "referer"} & set(request.headers)
        log = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
        urls = [
            each["params"]["request"]["url"]
            for each in log
            if each["method"] == "Network.requestWillBeSent"
        ]
        page = [url for url in urls if url.startswith("http")]
        assert [url for url in page if not url.startswith("http://127.0.0.1:")] == []


def test_the_ledger_holds_the_report_and_never_the_answer(chromium: Any) -> None:
    with opened(chromium, health()):
        find(chromium, "form")
        answer_and_send(chromium, *HEALTH)
        (entry,) = entries(chromium)
        assert set(entry) == {"server", "campaign", "round", "hash", "spent", "report"}
        assert set(entry["report"]) == {"id", "values", "body", "at", "state"}
        assert entry["report"]["state"] == "sent"
        assert entry["spent"] == pytest.approx(2.9444, abs=1e-4)


def test_the_browser_is_asked_not_to_remember_what_is_typed(chromium: Any) -> None:
    with opened(chromium, everything()):
        assert find(chromium, "form").get_attribute("autocomplete") == "off"
        find(chromium, "#sfumato-2").send_keys("37")
        chromium.refresh()
        assert find(chromium, "#sfumato-2").get_attribute("value") == ""


def test_a_permission_prompt_left_open_does_not_hold_up_the_answer(chromium: Any) -> None:
    never = "StorageManager.prototype.persist = () => new Promise(() => {});"
    with before_every_page(chromium, never), opened(chromium, health()):
        find(chromium, "form")
        answer_and_send(chromium, *HEALTH)


def test_a_reload_repeats_the_report_and_draws_no_other(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        drawn = text_of(chromium, "pre.bytes")
        for _ in range(3):
            chromium.refresh()
            wait_for_text(chromium, WORDS["report_title"])
            assert text_of(chromium, "pre.bytes") == drawn
        click(chromium, WORDS["send"])
        wait_for_text(chromium, WORDS["sent_title"])
        chromium.refresh()
        wait_for_text(chromium, WORDS["sent_title"])
        assert len(collector.posted()) == 1
        assert entries(chromium)[0]["spent"] == pytest.approx(2.9444, abs=1e-4)


def test_the_person_can_ask_withdraw_and_not_bring_it_back(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        answer_and_send(chromium, *HEALTH)
        click(chromium, WORDS["stored"])
        wait_for_text(chromium, WORDS["status_stored"])
        (identity,) = collector.stored
        click(chromium, WORDS["withdraw"])
        wait_for_text(chromium, WORDS["withdraw_sure"])
        assert chromium.switch_to.active_element.text == WORDS["withdraw_sure"]
        click(chromium, WORDS["no"])
        assert collector.stored
        click(chromium, WORDS["withdraw"])
        click(chromium, WORDS["yes"])
        wait_for_text(chromium, WORDS["withdrawn_title"])
        assert collector.withdrawn == {identity} and not collector.stored
        (request,) = collector.posted("withdrawals")
        assert identity not in request.path and json.loads(request.body) == {"id": identity}
        assert entries(chromium)[0]["report"]["state"] == "withdrawn"
        click(chromium, WORDS["forget"])
        wait_for_text(chromium, "What the server holds stays there.")  # it has it no more
        click(chromium, WORDS["no"])
        late = run(chromium, """
            const { Survey } = await import("/static/sfumato.js");
            const survey = await Survey.open("/health", { public: ["region"] });
            return survey.send().then(() => "sent", (error) => error.kind);
            """)  # fmt: skip
        assert late == "withdrawn" and not collector.stored


def test_a_receipt_works_on_another_device(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        collector.stored["A" * 22] = [0, 0, 0]
        click(chromium, WORDS["receipt_have"])
        field = find(chromium, "#sfumato-id")
        field.send_keys("too short")
        click(chromium, WORDS["stored"])
        wait_for_text(chromium, WORDS["receipt_wrong"])
        field.clear()
        field.send_keys("A" * 22)
        click(chromium, WORDS["stored"])
        wait_for_text(chromium, WORDS["status_stored"])
        click(chromium, WORDS["withdraw"])
        click(chromium, WORDS["yes"])
        wait(lambda: collector.withdrawn == {"A" * 22}, "the withdrawal")


def test_the_saved_receipt_is_what_was_sent(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        answer_and_send(chromium, *HEALTH)
        saved = run(chromium, """
            const link = document.querySelector("a[download]");
            const survey = (await import("/static/sfumato.js")).Survey;
            return { name: link.download, href: link.href,
                     receipt: await (await survey.open("/health", { public: null })).receipt() };
            """)  # fmt: skip
        (request,) = collector.posted()
        assert saved["name"] == "sfumato-health.json" and saved["href"].startswith("blob:")
        assert saved["receipt"] == {
            "campaign": f"{collector.origin}/v1/campaigns/health",
            "hash": health()["hash"],
            "id": json.loads(request.body)["reports"][0]["id"],
            "sha256": sha256(request.body).hexdigest(),
        }


# --- the budget


def test_forgetting_keeps_the_cost_and_a_third_answer_is_refused(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        for time in (1, 2):
            find(chromium, "form")
            answer_and_send(chromium, *HEALTH)
            click(chromium, WORDS["forget"])
            wait_for_text(chromium, WORDS["forget_sure"])
            click(chromium, WORDS["yes"])
            wait_for_text(chromium, "Do you smoke?" if time == 1 else WORDS["error_title"])
            (entry,) = entries(chromium)
            assert "report" not in entry and entry["spent"] == pytest.approx(
                2.9444 * time, abs=1e-3
            )
        told = text_of(chromium)  # before anything is asked in vain
        assert "2.9" in told and "0.11" in told
        assert not chromium.find_elements("css selector", "form")
        assert len(collector.posted()) == 2 and "report" not in entries(chromium)[0]


def test_the_budget_is_one_for_all_campaigns_and_rounds_of_a_server(chromium: Any) -> None:
    other = coin(19, name="other")
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        answer_and_send(chromium, *HEALTH)
        collector.campaigns["other"] = other
        collector.campaigns["health"] = health(round=2)
        chromium.get(f"{collector.origin}/other")
        find(chromium, "form")
        answer_and_send(chromium, (0, 1))
        chromium.get(f"{collector.origin}/health")  # a new round asks again, and costs again
        wait_for_text(chromium, WORDS["error_title"])
        assert sum(entry["spent"] for entry in entries(chromium)) == pytest.approx(5.889, abs=1e-3)


def test_what_an_answer_costs_and_what_is_left_are_said_before_it_is_given(chromium: Any) -> None:
    def told(left: str) -> str:
        said = WORDS["promise_budget"].replace("{cost}", "2.945")
        return said.replace("{left}", left).replace("{budget}", "6")

    with opened(chromium, coin(19, budget=None, page="")) as collector:
        find(chromium, ".promise summary").click()
        wait_for_text(chromium, told("6"))
        choose(chromium, 0, 1)
        click(chromium, WORDS["blur"])
        wait_for_text(chromium, WORDS["report_title"])
        collector.campaigns["health"]["round"] = 2
        chromium.get(f"{collector.origin}/health")
        find(chromium, ".promise summary").click()
        wait_for_text(chromium, told("3.055"))


@pytest.mark.parametrize(
    ("gamma", "shown", "posterior"),
    [(19, "19", "50%"), (Fraction(17), "17", "47.3%"), (Fraction(135, 10), "13.5", "41.6%")],
)
def test_the_form_shows_what_the_program_states(
    chromium: Any, gamma: Fraction, shown: str, posterior: str
) -> None:
    with opened(chromium, coin(gamma, page="")):
        find(chromium, ".promise summary").click()
        kept = Guarantee(gamma)
        assert (kept.gamma_words, kept.posterior_words().replace(" ", "")) == (shown, posterior)
        wait_for_text(chromium, f"γ = {shown}, ε = {kept.epsilon_words}")
        wait_for_text(chromium, posterior)


def test_two_tabs_draw_one_report(chromium: Any) -> None:
    with opened(chromium, health()):
        find(chromium, "form")
        bodies = run(chromium, """
            const { Survey } = await import("/static/sfumato.js");
            const open = () => Survey.open("/health", { public: ["region"] });
            const tabs = await Promise.all(Array.from({ length: 8 }, open));
            const record = { smoker: "yes", age: 40, region: "south" };
            const drawn = await Promise.all(tabs.map((tab) => tab.answer(record)));
            return drawn.map(({ bytes }) => new TextDecoder().decode(bytes));
            """)  # fmt: skip
        assert len(bodies) == 8 and len(set(bodies)) == 1
        assert entries(chromium)[0]["spent"] == pytest.approx(2.9444, abs=1e-4)


@pytest.mark.parametrize("locks", [True, False])
def test_two_real_tabs_draw_one_report(chromium: Any, locks: bool) -> None:
    """With the Web Lock, and by the transaction alone where a browser has none."""
    away = (
        ""
        if locks
        else "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined });"
    )
    draw = """
        const { Survey } = await import("/static/sfumato.js");
        const survey = await Survey.open("/health", { public: ["region"] });
        const { bytes } = await survey.answer({ smoker: "yes", age: 40, region: "south" });
        return new TextDecoder().decode(bytes);
        """
    with before_every_page(chromium, away), opened(chromium, health()) as collector:
        find(chromium, "form")
        first = chromium.current_window_handle
        script = f"window.drawn = (async () => {{ {draw} }})();"
        chromium.execute_script(script)
        chromium.switch_to.new_window("tab")
        chromium.get(f"{collector.origin}/health")
        second = run(chromium, draw)
        chromium.close()
        chromium.switch_to.window(first)
        assert run(chromium, "return window.drawn;") == second


# --- the server's moods


def test_the_same_bytes_are_sent_until_they_arrive(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        collector.refusals[:] = [503, 0]
        click(chromium, WORDS["send"])
        wait_for_text(chromium, "will be sent again in")
        wait_for_text(chromium, WORDS["sent_title"])
        requests = collector.posted()
        assert len(requests) == 3 and len({request.body for request in requests}) == 1
        assert len(collector.stored) == 1


def test_what_was_told_to_go_is_sent_by_the_next_page(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        drawn = text_of(chromium, "pre.bytes")
        collector.refusals[:] = [503] * 4  # for long enough that a busy machine sees it said
        click(chromium, WORDS["send"])
        wait_for_text(chromium, "will be sent again in")
        collector.refusals.clear()
        chromium.refresh()
        wait_for_text(chromium, WORDS["sent_title"])
        assert {each.body.decode().strip() for each in collector.posted()} == {drawn}


@pytest.mark.parametrize(
    ("status", "key"), [(409, "changed"), (410, "closed"), (413, "refused"), (422, "refused")]
)
def test_a_refusal_is_told_and_not_repeated(chromium: Any, status: int, key: str) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        collector.refusals[:] = [status]
        click(chromium, WORDS["send"])
        wait_for_text(chromium, WORDS[f"error_{key}"])
        assert len(collector.posted()) == 1 and not collector.stored


def test_a_changed_campaign_asks_again_and_never_draws_by_itself(chromium: Any) -> None:
    with opened(chromium, health()) as collector:
        find(chromium, "form")
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        changed = health(domain=health()["domain"] | {"title": "Another version"})
        collector.campaigns["health"] = changed
        collector.refusals[:] = [409]
        click(chromium, WORDS["send"])
        wait_for_text(chromium, WORDS["error_changed"])
        click(chromium, WORDS["again"])
        wait_for_text(chromium, "Do you smoke?")
        (entry,) = entries(chromium)
        # What was drawn for the other version is still there, and counts; it is not sent.
        assert entry["hash"] == health()["hash"] and len(collector.posted()) == 1
        answer_and_send(chromium, *HEALTH)
        assert json.loads(collector.posted()[-1].body)["campaign"] == changed["hash"]
        assert entries(chromium)[0]["spent"] == pytest.approx(2 * 2.9444, abs=1e-3)


def test_a_closed_campaign_asks_nothing(chromium: Any) -> None:
    with opened(chromium, health(open=False)):
        wait_for_text(chromium, WORDS["error_closed"])
        assert not chromium.find_elements("css selector", "form")


def test_an_address_without_a_campaign_says_so(chromium: Any) -> None:
    with Collector({}) as collector:
        collector.pages["/nothing"] = (STATIC / "form.html").read_bytes()
        chromium.get(f"{collector.origin}/nothing")
        wait_for_text(chromium, WORDS["error_unknown"])


# --- what the page refuses


def too_generous() -> dict[str, Any]:
    """The integers of γ = 20 under a promise of 19."""
    wrong = GammaDiagonal(Domain((SMOKER,)), 20).program().to_dict()
    return coin(19, program=wrong)


@pytest.mark.parametrize(
    ("campaign", "key"),
    [
        (too_generous(), "promise"),
        (coin(promise={"gamma": "3", "epsilon": 1}), "promise"),
        (coin(promise=None), "promise"),
        (coin(program={"version": 2, "steps": []}), "program"),
        (coin(program=health()["program"]), "program"),
        (health(program=coin()["program"]), "program"),
        (
            coin(
                program={
                    "version": 1,
                    "steps": [{"step": "public", "columns": [0], "reports": [0], "size": 3}],
                }
            ),
            "promise",  # whatever is sent as it is makes gamma infinite
        ),
    ],
    ids=[
        "above",
        "not a fraction",
        "none",
        "version",
        "other sizes",
        "a column left out",
        "public",
    ],
)
def test_a_program_above_its_promise_or_not_of_its_questions_is_refused(
    chromium: Any, campaign: dict[str, Any], key: str
) -> None:
    with opened(chromium, campaign) as collector:
        wait_for_text(chromium, WORDS[f"error_{key}"])
        assert not chromium.find_elements("css selector", "form") and not collector.posted()


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("Object.defineProperty(Crypto.prototype, 'subtle', { value: undefined });", "crypto"),
        ("Object.defineProperty(window, 'indexedDB', { value: undefined });", "storage"),
        (
            "IDBFactory.prototype.open = function () { const asked = new EventTarget();"
            "setTimeout(() => asked.onerror()); return asked; };",
            "storage",
        ),
    ],
    ids=["no cryptography", "no storage", "storage denied"],
)
def test_a_browser_that_lacks_something_says_so_and_offers_the_command_line(
    chromium: Any, source: str, key: str
) -> None:
    with before_every_page(chromium, source), opened(chromium, health()) as collector:
        wait_for_text(chromium, WORDS[f"error_support_{key}"])
        assert f"sfumato send {collector.origin}/health" in text_of(chromium)


# --- what the page allows


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_campaign_above_the_pages_limit_is_refused_in_words(chromium: Any, language: str) -> None:
    """Without a word of the page's own the limit is 20: no campaign can raise it."""
    with opened(chromium, coin(21) | {"at_most": 99}, f"?lang={language}") as collector:
        said = strings(language)["error_limit"]
        wait_for_text(chromium, said.replace("{gamma}", "21").replace("{limit}", "20"))
        assert not chromium.find_elements("css selector", "form")
        assert nothing_kept(chromium) and not collector.posted()


@pytest.mark.parametrize(
    ("page", "gamma", "works"),
    [
        ('at-most="21"', 21, True),
        ('at-most="20.9999"', 21, False),
        ('at-most="Infinity"', 400, True),
        ('at-most="1e305"', 400, True),
        ('at-most="2"', 3, False),
        ('at-most=""', 3, False),
        ('at-most="many"', 3, False),
        ('budget="-1"', 3, False),
        ("", 20, True),
    ],
)
def test_the_page_fixes_how_much_is_given_away(
    chromium: Any, page: str, gamma: int, works: bool
) -> None:
    with opened(chromium, coin(gamma, page=page)) as collector:
        find(chromium, "form" if works else "h1")
        assert bool(chromium.find_elements("css selector", "form")) == works
        assert works or (WORDS["error_title"] in text_of(chromium) and not collector.posted())


@pytest.mark.parametrize(
    ("page", "works"),
    [("", True), ('public="region"', True), ('public="age, region"', True), ('public=""', False),
     ('public="age"', False)],
)  # fmt: skip
def test_the_page_fixes_what_may_be_sent_as_it_is(chromium: Any, page: str, works: bool) -> None:
    """Without a word of the page's own the form shows it beside the question."""
    with opened(chromium, health(page=page)) as collector:
        if works:
            find(chromium, "form")
            wait_for_text(chromium, WORDS["field_open"])
            return
        wait_for_text(chromium, WORDS["error_public"].replace("{names}", "region"))
        assert not chromium.find_elements("css selector", "form")
        assert nothing_kept(chromium) and not collector.posted()


@pytest.mark.parametrize("budget", [{"epsilon": -1}, {"epsilon": "much"}, {}, 7])
def test_a_budget_that_is_none_is_refused(chromium: Any, budget: Any) -> None:
    with opened(chromium, coin(19, budget=budget)) as collector:
        wait_for_text(chromium, WORDS["error_program"])
        assert nothing_kept(chromium) and not collector.posted()


def test_two_questions_of_one_name_are_refused(chromium: Any) -> None:
    """Both would be answered by what was said to either."""
    asked = document(GammaDiagonal(Domain((SMOKER, AGE)), 19), questions=WORDS)
    for name in ("smoker", None):
        asked["domain"]["attribute"][1]["name"] = name
        with opened(chromium, asked) as collector:
            wait_for_text(chromium, WORDS["error_program"])
            assert nothing_kept(chromium) and not collector.posted()


@pytest.mark.parametrize("kind", ["text", "numeric", "items", 7, None, {"purpose": "x"}])
def test_a_question_of_an_unknown_kind_is_refused_in_words(chromium: Any, kind: Any) -> None:
    """One of a later version, say: its form was an empty page."""
    asked = coin(19)
    asked["domain"]["attribute"][0]["type"] = kind
    asked["hash"] = digest({name: asked[name] for name in ("domain", "program", "round")})
    with opened(chromium, asked) as collector:
        wait_for_text(chromium, WORDS["error_program"])
        assert nothing_kept(chromium) and not collector.posted()


@pytest.mark.parametrize("budget", [None, {"epsilon": 1e9}])
def test_a_campaign_without_a_budget_has_that_of_the_browser(chromium: Any, budget: Any) -> None:
    with opened(chromium, coin(19, budget=budget, page="")) as collector:
        for number in (1, 2, 3):
            collector.campaigns["health"]["round"] = number
            chromium.get(f"{collector.origin}/health")
            if number == 3:
                break
            choose(chromium, 0, 1)
            click(chromium, WORDS["blur"])
            wait_for_text(chromium, WORDS["report_title"])
        wait_for_text(chromium, WORDS["error_title"])
        assert sum(entry["spent"] for entry in entries(chromium)) == pytest.approx(5.889, abs=1e-3)
        assert "ε 2.945, but 0.1111 is left of the 6" in text_of(chromium)


def test_one_server_is_one_account_however_it_is_spelt(chromium: Any) -> None:
    with opened(chromium, coin(19)) as collector:
        find(chromium, "form")
        port = collector.origin.rpartition(":")[2]
        names = ("localhost", "127.1", "[::1]", "LOCALHOST.", "0x7f.1", "[::ffff:127.0.0.1]")
        spelt = [f"http://{name}:{port}" for name in names]
        spelt += ["https://a.org", "http://A.org:80", "http://a.org.", "https://a.org:8000"]
        body = """
        const { account } = await import("/static/sfumato.js");
        return given[0].map(account);
        """
        found = run(chromium, body, [collector.origin, *spelt, "https://a.org.evil.net"])
        assert len(set(found[:7])) == 1 and len(set(found[7:10])) == 1 and len(set(found)) == 4
        # What an earlier version wrote down under another name still counts.
        put = """
        const { Survey } = await import("/static/sfumato.js");
        const survey = await Survey.open("/health");
        const open = indexedDB.open("sfumato", 1);
        await new Promise((done) => (open.onsuccess = done));
        const store = open.result.transaction("ledger", "readwrite").objectStore("ledger");
        const entry = { server: given[0], campaign: "x", round: 1, hash: "", spent: 4 };
        await new Promise((done) => (store.put(entry).onsuccess = done));
        open.result.close();
        return survey.left();
        """
        assert run(chromium, put, spelt[0]) == 2


# --- a questionnaire


def test_only_the_dealt_question_is_asked_and_no_reload_deals_another(chromium: Any) -> None:
    texts = {
        0: ["Do you smoke?"],
        1: ["How old are you?"],
        2: ["Do you smoke?", "How old are you?"],
    }
    dealt: set[int] = set()
    for times in range(40):
        if times >= 4 and len(dealt) > 1:
            break
        with opened(chromium, questionnaire()) as collector:
            wait_for_text(chromium, "You were dealt 1 of 3 questions by chance")
            (entry,) = entries(chromium)
            number = entry["question"]
            dealt.add(number)
            legends = chromium.find_elements("css selector", "legend")
            assert [each.text for each in legends] == [*texts[number], "Where do you live?"]
            assert not collector.posted()
            chromium.refresh()
            find(chromium, "form")
            assert entries(chromium)[0]["question"] == number
            wanted = [place for place, text in enumerate(("Do you smoke?", "How old are you?"))
                      if text in texts[number]]  # fmt: skip
            answer_and_send(chromium, *((place, 0) for place in (*wanted, 2)))
            (request,) = collector.posted()
            (report,) = json.loads(request.body)["reports"]
            assert report["values"][0] == number
            click(chromium, WORDS["forget"])
            click(chromium, WORDS["yes"])
            find(chromium, "form")
            assert entries(chromium)[0]["question"] == number
    assert len(dealt) > 1  # half are dealt the first: forty would be but once in 10^12


def test_a_folded_answer_names_the_answers_that_share_it(chromium: Any) -> None:
    """Nothing is hidden from the person: the group that is sent is written out."""
    campaign = questionnaire()
    deal = campaign["program"]["steps"][0]
    both = deal["questions"][2] | {"answers": 2, "map": [0, 1] * 6}
    single = {"step": "kary", "columns": [1], "reports": [1], "sizes": [4], "answers": 4}
    deal["questions"] = [both, single | {"a": 19, "b": 1}]
    deal["weights"] = [(1 << 32) - 1, 1]
    with opened(chromium, campaign):
        find(chromium, "form")
        for place, code in HEALTH:
            choose(chromium, place, code)
        blur(chromium)
        words = text_of(chromium, "dl.words")
        assert "Do you smoke? × How old are you?" in words
        groups = (
            "Yes + 15 to under 35; Yes + 55 to under 75; No + 15",
            "Yes + 35 to under 55; Yes + 75 to 95; No + 35",
        )
        assert any(f"one of: {group}" in words for group in groups)


# --- all kinds of columns


def test_every_kind_of_question_is_asked_and_coded(chromium: Any) -> None:
    """Chance is switched off: where every word drawn is the largest, every answer is kept."""
    source = "Crypto.prototype.getRandomValues = (array) => array.fill(255);"
    campaign = everything(GammaDiagonal(NUMBERS, 19))
    with before_every_page(chromium, source), opened(chromium, campaign) as collector:
        find(chromium, "form")
        choose(chromium, 0, 2)  # no answer
        choose(chromium, 1, 3)
        find(chromium, "#sfumato-2").send_keys("37")
        find(chromium, "#sfumato-3").send_keys("81.5")
        find(chromium, "#sfumato-4 option[value='17']").click()
        choose(chromium, 5, 1)
        choose(chromium, 5, 3)
        choose(chromium, 6, 0)
        blur(chromium)
        click(chromium, WORDS["send"])
        wait_for_text(chromium, WORDS["sent_title"])
        (report,) = json.loads(collector.posted()[0].body)["reports"]
        assert report["values"] == [2, 3, 37, 103, 17, [1, 3], 0]


def test_numbers_out_of_range_and_missing_answers_are_told(chromium: Any) -> None:
    with opened(chromium, everything()):
        find(chromium, "form")
        find(chromium, "#sfumato-2").send_keys("100")
        click(chromium, WORDS["blur"])
        wait(lambda: "errors" in chromium.switch_to.active_element.get_attribute("class"), "focus")
        told = text_of(chromium, ".errors")
        assert "6" in told and "Do you smoke?" in told and "What do you like?" not in told
        assert WORDS["wrong_number"] in text_of(chromium, ".field:nth-of-type(1)") + text_of(
            chromium
        )
        click(chromium, "How many hours do you work in a week?")
        assert chromium.switch_to.active_element.get_attribute("id") == "sfumato-2"
        assert chromium.switch_to.active_element.get_attribute("aria-invalid") == "true"


def test_which_numbers_are_taken_is_told(chromium: Any) -> None:
    """40.5 was refused beside "From 0 to 99" and nothing said that whole numbers are wanted."""
    with opened(chromium, everything()):
        find(chromium, "form")
        shown = text_of(chromium, "form")
        assert WORDS["whole_numbers"] in shown
        assert WORDS["in_steps"].partition("{")[0] in shown
        find(chromium, "#sfumato-2").send_keys("40.5")
        click(chromium, WORDS["blur"])
        wait(lambda: "errors" in chromium.switch_to.active_element.get_attribute("class"), "focus")
        wrong = WORDS["wrong_step"].replace("{steps}", WORDS["whole_numbers"])
        assert wrong in text_of(chromium, "form")


def test_a_long_list_of_items_can_be_searched(chromium: Any) -> None:
    from sfumato.domain import Items

    items = Items("things", tuple(f"thing {number}" for number in range(40)))
    with opened(chromium, document(BitFlip(Domain((items,)), 0.6, 0.6), budget=None)):
        find(chromium, "input[type=search]").send_keys("THING 3")
        shown = [
            each.text for each in chromium.find_elements("css selector", ".choice") if each.text
        ]
        assert shown == ["thing 3", *(f"thing 3{digit}" for digit in range(10))]


# --- words


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_form_speaks_its_languages(chromium: Any, language: str) -> None:
    words = strings(language)
    with opened(chromium, health(), f"?lang={language}"):
        wait_for_text(chromium, words["promise_title"])
        assert words["blur"] in text_of(chromium) and words["no_answer"] in text_of(chromium)
        assert chromium.execute_script("return document.documentElement.lang") == language
        title = "Gesundheitsumfrage" if language == "de" else "Health survey"
        assert chromium.title == title


def test_a_text_in_another_language_says_which(chromium: Any) -> None:
    """For those who have the page read to them: German page, a question that is only in English."""
    with opened(chromium, health(), "?lang=de"):
        find(chromium, "form")
        tongues = chromium.execute_script(
            "return [...document.querySelectorAll('h1, legend, .choice span')]"
            ".map((each) => [each.innerText, each.lang])"
        )
        assert ["Gesundheitsumfrage", ""] in tongues and ["Rauchen Sie?", ""] in tongues
        assert ["Where do you live?", "en"] in tongues and ["Ja", ""] in tongues


def test_every_language_has_every_string_with_its_blanks() -> None:
    import re

    wanted = {key: set(re.findall(r"\{\w+\}", text)) for key, text in WORDS.items()}
    for language in LANGUAGES:
        found = {key: set(re.findall(r"\{\w+\}", text)) for key, text in strings(language).items()}
        assert found == wanted, language
        assert all(text.strip() for text in strings(language).values())


def test_every_string_that_the_form_asks_for_is_there_and_used() -> None:
    import re

    source = (STATIC / "form.js").read_text(encoding="utf-8")
    stated = set(re.findall(r'say(?:_status)?\(\s*"(\w+)"', source))
    stated |= set(re.findall(r'button\(\s*"(\w+)"', source))
    stated |= set(re.findall(r'\? "(\w+)" : "(\w+)"', source)[0])
    assert stated - {"true"} <= set(WORDS) | {"checkbox", "radio"}
    families = ("error_", "status_", "receipt_", "wrong_", "range", "forget", "discard", "withdraw")
    assert [key for key in WORDS if f'"{key}"' not in source and not key.startswith(families)] == []


def test_a_text_of_the_campaign_is_never_markup(chromium: Any) -> None:
    nasty = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    words = {"smoker": {"text": {"en": nasty}, "values": {"yes": {"en": nasty}}}}
    with opened(
        chromium, coin(questions=words, title={"en": nasty}, text={"purpose": {"en": nasty}})
    ):
        find(chromium, "form")
        assert nasty in text_of(chromium, "legend")
        assert chromium.title == nasty
        assert not chromium.find_elements("css selector", "sfumato-survey :is(img, script)")


def test_writing_from_right_to_left_is_left_to_the_text(chromium: Any) -> None:
    words = {"smoker": {"text": {"en": "האם אתה מעשן?"}}}
    with opened(chromium, coin(questions=words)):
        find(chromium, "form")
        script = "return getComputedStyle(document.querySelector('legend')).direction"
        assert chromium.execute_script(script) == "rtl"


# --- what is promised, and what the report says in words


def test_a_share_is_told_beforehand_only_where_every_answer_has_it(chromium: Any) -> None:
    uneven = [[0.6, 0.05, 0.2], [0.2, 0.9, 0.2], [0.2, 0.05, 0.6]]
    even = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]
    for matrix, said in ((uneven, "promise_blurred"), (even, "promise_share")):
        campaign = document(UserMatrix(Domain((SMOKER,)), np.array(matrix)))
        with opened(chromium, campaign, "?lang=en"):
            find(chromium, "form")
            assert WORDS[said].format(share="60%") in text_of(chromium)


def test_a_report_of_several_answers_is_not_said_to_equal_one(chromium: Any) -> None:
    grades = Category("grade", tuple("abcdef"))
    with opened(chromium, document(SubsetSelection(Domain((grades,)), 3, 2)), "?lang=en"):
        find(chromium, "form")
        assert "is true of you in 60% of cases" in text_of(chromium)
        assert "equals your answer" not in text_of(chromium)


@pytest.mark.parametrize(
    ("integers", "sent", "said"),
    [
        ({"values": 100, "length": 20}, 50, "From 31 to 50"),
        ({"values": 100, "length": 20}, 5, "From 0 to 5"),
        ({"values": 100, "length": 20}, 118, "99"),
        # 16..20 of a grid of every third number, where 46 and 62 may have been rounded to it
        ({"values": 34, "length": 5, "round": 100}, 20, "From 46 to 62"),
    ],
)
def test_a_number_sent_is_told_as_the_numbers_it_may_stand_for(
    chromium: Any, integers: dict[str, int], sent: int, said: str
) -> None:
    step = Window(columns=(0,), reports=(0,), a=19, b=1, **integers)
    campaign = document(GammaDiagonal(Domain((HOURS,)), 19), program=Program((step,)).to_dict())
    with opened(chromium, campaign, "?lang=en"):
        find(chromium, "form")
        assert told_of_report(chromium, [sent]) == said


def told_of_report(chromium: Any, values: list[int]) -> str:
    """What the form says of a report that was drawn."""
    body = """
    const { Survey } = await import("/static/sfumato.js");
    const { show } = await import("/static/form.js");
    const survey = await Survey.open(location.pathname, { atMost: Infinity, public: null });
    await survey.change((entry, spent, put) => put({ ...entry, report: {
      id: "0".repeat(22), values: given[0], body: "", at: 0, state: "drawn" } }));
    await show(document.querySelector("sfumato-survey"));
    return document.querySelector(".words dd").innerText;
    """
    return str(run(chromium, body, values))


def test_values_sent_each_on_its_own_are_told_column_by_column(chromium: Any) -> None:
    campaign = document(BitFlip(Domain((SMOKER, Category("pet", ("cat", "dog")))), 0.7, 0.7))
    with opened(chromium, campaign | {"budget": None}, "?lang=en"):
        find(chromium, "form")
        assert told_of_report(chromium, [[0, 2, 4]]) == "yes, No answer"
        shown = [each.text for each in chromium.find_elements("css selector", ".words > *")]
        assert shown == ["smoker", "yes, No answer", "pet", "dog"]
        assert told_of_report(chromium, [[3]]) == "nothing"


def test_a_symbol_sent_is_told_as_the_answers_whose_own_it_is(chromium: Any) -> None:
    own = ((0, 1), (0, 2), (2, 3))
    step = Own(columns=(0,), reports=(0,), sizes=(3,), answers=3, symbols=5, own=own, a=19, b=1)
    said = {0: "one of: Yes; No", 1: "Yes", 2: "one of: No; No answer", 3: "No answer"}
    with opened(chromium, coin(19, program=Program((step,)).to_dict()), "?lang=en"):
        find(chromium, "form")
        assert "is true of you in" in text_of(chromium)
        for symbol in said:
            assert told_of_report(chromium, [symbol]) == said[symbol]
        assert told_of_report(chromium, [4]) == "nothing"


def test_a_bucket_sent_is_told_as_the_items_in_it(chromium: Any) -> None:
    step = Collide(
        columns=(0,), reports=(0, 1), items=4, buckets=3, cap=1, a=19, b=1, pool="x", seeds=9
    )
    program = Program((step,)).to_dict()
    campaign = document(GammaDiagonal(Domain((SMOKER,)), 19), program=program)
    campaign["domain"] = Domain((SPORTS,)).to_dict()
    seed = 5
    places = buckets_of(step.pool, seed, range(4), step.cap + 1, step.buckets)
    with opened(chromium, campaign, "?lang=en"):
        find(chromium, "form")
        for place in range(3):
            items = [SPORTS.values[item] for item in range(4) if places[item] == place]
            said = f"one of: {'; '.join(items)}" if items else "nothing"
            assert told_of_report(chromium, [seed, place]) == said


def test_gamma_and_epsilon_are_never_shown_smaller_than_they_are(chromium: Any) -> None:
    step = Kary(columns=(0,), reports=(0,), sizes=(3,), answers=3, a=1_900_001, b=100_000)
    changes = {"program": Program((step,)).to_dict(), "promise": {"gamma": "20/1", "epsilon": 3.0}}
    with opened(chromium, coin(19, **changes), "?lang=en"):
        find(chromium, "form")
        click(chromium, WORDS["numbers"])
        assert "γ = 19.0001, ε = 2.945" in text_of(chromium)


def asking_numbers(step: Any, size: int) -> dict[str, Any]:
    """Two numbers below a size, asked by one step."""
    program = {"version": 1, "steps": [step]}
    campaign = document(GammaDiagonal(Domain((SMOKER,)), 19), program=program)
    columns = [
        {"name": name, "type": "numeric", "min": 0, "max": size - 1, "step": 1}
        for name in ("age", "income")[: len(step["columns"])]
    ]
    return hashed(campaign | {"domain": {"attribute": columns}})


def test_cells_of_many_numbers_are_told_by_their_ends(chromium: Any) -> None:
    """A list of all pairs of numbers was tried, which no browser holds."""
    size, halves = 100_000, [0, 50_000]
    kary = {"step": "kary", "columns": [0, 1], "reports": [0], "sizes": [size, size], "answers": 4,
            "starts": [halves, halves], "a": 19, "b": 1}  # fmt: skip
    with opened(chromium, asking_numbers(kary, size), "?lang=en"):
        find(chromium, "form")
        assert told_of_report(chromium, [2]) == "50,000 to 99,999"


@pytest.mark.parametrize(
    "step",
    [
        {"step": "window", "values": 1 << 31, "length": 9, "a": 19, "b": 1},
        {"step": "retain", "size": 1 << 31, "keep": 9},
        {"step": "unary", "sizes": [1 << 31], "answers": 2, "starts": [[0, 1 << 30]],
         "ones": [40_000], "zeros": [40_000]},
    ],
    ids=lambda step: step["step"],
)  # fmt: skip
def test_a_number_of_many_values_is_asked_at_once(chromium: Any, step: dict[str, Any]) -> None:
    """All of them were gone through, which ended the page."""
    whole = step | {"columns": [0], "reports": [0]}
    with opened(chromium, asking_numbers(whole, 1 << 31), "?lang=en"):
        find(chromium, "form")
        wait_for_text(chromium, WORDS["promise_title"])
