"""The dashboard: what an owner asks, drawn with a table beside every picture, in four languages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.collect.speaking import CAMPAIGN, first_token, some_reports, speaking
from tests.collect.test_figures import reports_of, tally_of

from sfumato import __version__
from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.client import Client
from sfumato.collect.dashboard import Dashboard, Inquiry
from sfumato.collect.figures import CAVEATS, Alarm, figures_of
from sfumato.collect.language import LANGUAGES, STRINGS, Language
from sfumato.collect.tally import CampaignTally

VOID = {"meta", "link", "input", "br", "hr", "img", "line", "rect", "path"}


class Checked(HTMLParser):
    """A page whose elements are closed in order, collected by their names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.seen if name == tag]


def drawn(campaign_path: Path, language: str = "en", rows: int = 3000, **more) -> str:
    campaign = CampaignFile.load(campaign_path).campaign
    tally = tally_of(campaign.mechanism, reports_of(campaign.mechanism, rows))
    figures = figures_of(campaign, tally, days=[("2027-01-01", "stored", rows)])
    return Dashboard(campaign, figures, Language.load(language), **more).page()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_picture_has_a_table_and_a_name(campaign_path, language):
    page = Checked(drawn(campaign_path, language))
    pictures = page.all("svg")
    assert len(pictures) == 4  # the days, two questions, a pair
    assert all(each["role"] == "img" and each["aria-label"] for each in pictures)
    assert all(each["aria-label"].count("\u00a0%") >= 3 for each in pictures[1:])  # what is seen
    assert len(page.all("table")) >= len(pictures)
    assert all(each.get("scope") in ("col", "row") for each in page.all("th"))
    assert page.all("html")[0]["lang"] == language
    assert len(page.all("h1")) == 1
    for control in (*page.all("select"), *page.all("textarea")):
        assert {"for": control["id"]} in [{"for": each.get("for")} for each in page.all("label")]


def test_a_telephone_shows_every_picture_whole(campaign_path):
    for picture in Checked(drawn(campaign_path)).all("svg"):
        assert "class" not in picture  # what is wide scrolls
        assert float(picture["viewbox"].split()[2]) <= 440  # letters of 14 are 11 on 390 pixels


def test_what_is_printed_from_a_dark_screen_is_dark_on_white():
    for sheet in ("dashboard.css", "form.css"):
        text = (STRINGS.parent / "static" / sheet).read_text(encoding="utf-8")
        found = re.findall(r"@media (.*)\(prefers-color-scheme: dark\)", text)
        assert found and set(found) == {"screen and "}


def test_it_answers_what_an_owner_asks_in_order(campaign_path):
    page = Checked(drawn(campaign_path))
    heads = [attrs["id"] for attrs in page.all("h2")]
    assert heads == ["working", "say", "together", "longer", "trust", "promised", "take"]
    for words in (
        "Do you smoke?", "No", "95 % interval", "100 forged answers could move a bar by up to",
        "could move it by (points)", " points.",
        "points needs", "one person, one answer", "at most 19 times", "ε = 2.945",
        "who do not see in which order", "SELECT smoker, COUNT(*)", "gamma-diagonal",
        f"Sfumato {__version__}",
    ):  # fmt: skip
        assert words in page.words, words


def test_the_example_of_a_question_in_sql_can_be_asked_of_baskets(campaign_path, tmp_path):
    text = (
        'name = "b"\ntitle = { en = "B" }\n[promise]\ngamma = 19\n[mechanism]\n'
        'name = "item-set"\n[[attribute]]\nname = "basket"\ntype = "items"\n'
        'values = ["red wine", "beer"]\n'
    )
    (tmp_path / "b.toml").write_text(text, encoding="utf-8")
    store = str(tmp_path / "b.db")
    owner = {"authorization": f"Bearer {first_token(store)}"}
    with speaking(tmp_path / "b.toml", store) as speaker:
        baskets = [{"basket": ["beer"]}] * 500 + [{"basket": ["red wine"]}] * 500
        for start in range(0, 1000, 50):
            Client(f"{speaker.address}/b", at_once=50).send(baskets[start : start + 50])
        page = speaker.ask("GET", "/b/dashboard", None, owner).body.decode()
        example = unescape(page).partition("As in: ")[2].partition("<")[0]
        assert example == 'SELECT "red wine", COUNT(*) FROM t GROUP BY "red wine"'
        found = speaker.ask("GET", f"/b/dashboard?sql={quote(example)}", None, owner)
        assert found.status == 200 and "alert" not in found.body.decode()


def test_a_number_with_its_interval_stays_in_one_line(campaign_path):
    cells = Checked(drawn(campaign_path, asked=Inquiry("q", ["a", "n"], [["x", "so many"]])))
    figures = [attrs for attrs in cells.all("td") if attrs.get("class") == "figure"]
    words = [attrs for attrs in cells.all("td") if "class" not in attrs]
    assert len(figures) >= 20 and 1 <= len(words) <= 8


def test_numbers_are_written_as_the_language_writes_them(campaign_path):
    assert re.search(r"\d,\d %", drawn(campaign_path, "de").replace("\u00a0", " "))
    assert "Rauchen Sie?" in drawn(campaign_path, "de") and "Ja" in drawn(campaign_path, "de")
    assert re.search(r"\d\.\d %", drawn(campaign_path, "en").replace("\u00a0", " "))


def test_what_is_ours_to_say_is_said_in_the_language_of_the_page(tmp_path):
    public = '[[attribute]]\nname = "region"\ntype = "category"\nvalues = ["a", "b"]\npublic = true'
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN.replace("[promise]", f"{public}\n[promise]"), encoding="utf-8")
    campaign = CampaignFile.load(path).campaign
    tally = tally_of(campaign.mechanism, reports_of(campaign.mechanism, 500))
    totals = [("2027-01-01", f"refused {kind}", 2) for kind in ("domain", "of tomorrow")]
    figures = figures_of(campaign, tally, days=totals)
    page = Dashboard(campaign, figures, Language.load("de")).page()
    english = [*CAVEATS, "no answer", "domain 2", "outside the promise"]
    assert [words for words in english if words in page] == []
    for words in (
        "keine Angabe", "keine mögliche Antwort 2", "of tomorrow 2", "Zeilen: Rauchen Sie?",
        "außerhalb des Versprechens: region", "kann nicht beweisen, dass jede Person",
    ):  # fmt: skip
        assert words.lower() in page.lower(), words


def test_every_reason_to_refuse_has_words():
    source = "".join(path.read_text() for path in (STRINGS.parent / "server").glob("*.py"))
    raised = set(re.findall(r'RefusalError\(\s*4\d\d,\s*"(\w+)"', source))
    never = {"token", "unknown", "method", "format", "headers", "http", "slow"}  # not of reports
    kinds = raised - never | {"id", "domain", "conflict", "withdrawn"}
    told = {key.removeprefix("refused_") for key in Language.load("en").words if "refused_" in key}
    assert told == kinds


def test_too_few_and_alarms_are_said_in_words(campaign_path):
    assert "Too few to tell" in drawn(campaign_path, rows=30)
    campaign = CampaignFile.load(campaign_path).campaign
    tally = tally_of(campaign.mechanism, reports_of(campaign.mechanism, 200))
    figures = figures_of(campaign, tally)
    figures.alarms.append(Alarm("impossible", ["smoker"], ""))
    page = Dashboard(campaign, figures, Language.load("en")).page()
    assert "Do you smoke?: an answer was reported more often" in page and "No alarm" not in page


def test_nothing_that_an_owner_wrote_is_taken_for_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    path = tmp_path / "c.toml"
    path.write_text(CAMPAIGN.replace("Health survey", evil).replace("Do you smoke?", evil))
    page = drawn(path, asked=Inquiry(evil, [evil], [[evil]], [evil], evil))
    assert "<script>alert" not in page and page.count("&lt;script&gt;") >= 6


def test_a_page_has_no_style_or_script_of_its_own(campaign_path):
    page = Checked(drawn(campaign_path))
    assert not page.all("style") and all(each.get("src") for each in page.all("script"))
    assert not [attrs for _, attrs in page.seen if "style" in attrs or "onclick" in attrs]
    links = [
        value for _, attrs in page.seen for key, value in attrs.items() if key in ("src", "href")
    ]
    assert all(value and value.startswith("/") for value in links)


def test_every_language_has_every_string_with_the_same_places():
    words = {name: json.loads((STRINGS / f"{name}.json").read_text()) for name in LANGUAGES}
    assert {path.stem for path in STRINGS.glob("*.json")} == set(LANGUAGES)
    for name in LANGUAGES:
        assert words[name].keys() == words["en"].keys()
        for key, text in words[name].items():
            assert text.strip()
            assert set(re.findall(r"{(\w+)}", text)) == set(
                re.findall(r"{(\w+)}", words["en"][key])
            )


def test_every_string_is_used():
    source = "".join(
        path.read_text() for path in STRINGS.parent.rglob("*.py") if "static" not in path.parts
    )
    for key in json.loads((STRINGS / "en.json").read_text()):
        used = (
            f'"{key}"' in source
            or f"'{key}'" in source
            or key.startswith(("state_", "alarm_", "watch_", "refused_"))
        )
        assert used, f"'{key}' is used nowhere"


def test_sql_is_answered_on_the_page(tmp_path, campaign_path):
    store = str(tmp_path / "c.db")
    token = first_token(store)
    with speaking(campaign_path, store) as speaker:
        speaker.send(some_reports(400))
        owner = {"authorization": f"Bearer {token}"}

        def ask(sql: str) -> str:
            asked = f"/health/dashboard?sql={sql.replace(' ', '+')}"
            return speaker.ask("GET", asked, None, owner).body.decode()

        answered = ask("SELECT smoker, COUNT(*) FROM t GROUP BY smoker")
        assert "no answer" in answered and "±" in answered
        assert "no attribute" in ask("SELECT smokr, COUNT(*) FROM t GROUP BY smokr").lower()
        pair = speaker.ask("GET", "/health/dashboard?pair=smoker,age", None, owner).body.decode()
        assert '<option value="smoker,age" selected>' in pair
        csv = speaker.ask("GET", speaker.campaign("/figures?format=csv"), None, owner)
        lines = csv.body.decode().splitlines()
        assert lines[0].startswith("question,answer,share") and len(lines) == 7


def test_what_is_promised_is_never_shown_better_than_it_is(campaign_path):
    """Costs up and budgets down, at every size."""
    found = promised(campaign_path, epsilon=0.29444, budget=10.9996, shuffled=0.15551)
    assert "(ε = 0.2945)" in found and "spend ε = 10.99 on" in found and "ε = 0.1556 (δ" in found
    many = promised(campaign_path, epsilon=14.0261, budget=123.456, gamma="1234567/1")
    assert "at most 1,234,570 times" in many and "(ε = 14.03)" in many and "ε = 123.4 on" in many


def promised(campaign_path, *, epsilon, budget, shuffled=None, gamma="19/1"):
    campaign = CampaignFile.load(campaign_path).campaign
    figures = figures_of(campaign, CampaignTally(campaign.mechanism))
    promise = replace(figures.promise, epsilon=epsilon, budget=budget, gamma=gamma)
    stated = replace(figures, promise=replace(promise, shuffled_epsilon=shuffled))
    return Checked(Dashboard(campaign, stated, Language.load("en")).page()).words
