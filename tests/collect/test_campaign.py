"""Campaign files: what they say, what is wrong with them and on which line, and what must not
change once people have answered.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collect.speaking import CAMPAIGN

from sfumato.collect.campaign_file import CampaignFile
from sfumato.collect.canonical import canonical, differences
from sfumato.collect.checking import check
from sfumato.collect.client import Survey
from sfumato.collect.lines import TomlLines
from sfumato.collect.store import open_store
from sfumato.errors import CampaignError, FileError


def load(tmp_path: Path, text: str):
    path = tmp_path / "c.toml"
    path.write_text(text, encoding="utf-8")
    return CampaignFile.load(path)


def test_a_campaign_says_what_the_browser_needs(tmp_path):
    campaign = load(tmp_path, CAMPAIGN + "[budget]\nepsilon = 6.0\nround = 2\n").campaign
    found = campaign.document(date(2027, 1, 1))
    assert set(found) == {
        "name", "title", "hash", "round", "open", "opens", "closes", "domain", "program",
        "promise", "budget", "questions", "text",
    }  # fmt: skip
    assert found["promise"]["gamma"] == "19/1"
    assert found["promise"]["epsilon"] == pytest.approx(2.944, abs=1e-3)
    assert found["budget"] == {"epsilon": 6.0} and found["round"] == 2
    assert found["domain"]["attribute"][0]["values"] == ["yes", "no", "no answer"]
    assert found["program"]["version"] == 1 and found["program"]["steps"]
    assert found["questions"]["smoker"]["text"]["de"] == "Rauchen Sie?"
    json.dumps(found, allow_nan=False)


def test_days_are_days_of_utc_both_included(tmp_path):
    text = CAMPAIGN.replace(
        "[[attribute]]", "opens = 2027-01-01\ncloses = 2027-03-31\n[[attribute]]", 1
    )
    campaign = load(tmp_path, text).campaign
    states = {day: campaign.state(date.fromisoformat(day)) for day in (
        "2026-12-31", "2027-01-01", "2027-03-31", "2027-04-01")}  # fmt: skip
    assert list(states.values()) == ["early", "open", "open", "closed"]


def test_a_number_with_cuts_may_be_declined_as_ranges(tmp_path):
    text = CAMPAIGN.replace(
        'type = "category"\nvalues = ["young", "middle", "old"]',
        'type = "numeric"\nmin = 0\nmax = 100\ncuts = [30, 60]',
    )
    campaign = load(tmp_path, text + "[question.age]\ndecline = true\n").campaign
    assert campaign.domain["age"].labels == ("[0,30)", "[30,60)", "[60,100]", "no answer")


# --- errors name the line


def changed(old: str, new: str) -> str:
    assert old in CAMPAIGN
    return CAMPAIGN.replace(old, new)


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


WRONG = {
    "a name that is no address": (
        changed('name = "health"', 'name = "Health 2027"'), 'name = "H', "part of an address"),
    "a name that is taken": (
        changed('name = "health"', 'name = "static"'), 'name = "static"', "part of an address"),
    "an unknown key": (changed("gamma = 19", "gama = 19"), "gama", "did you mean 'gamma'"),
    "two promises": (
        changed("gamma = 19", "gamma = 19\nepsilon = 1"), "[promise]", "one way"),
    "half a promise": (changed("gamma = 19", "rho1 = 0.05"), "[promise]", "belong together"),
    "a promise of nothing": (changed("gamma = 19", "gamma = 0"), "gamma = 0", "above 0"),
    "a gamma of 1": (changed("gamma = 19", "gamma = 1"), "[promise]", "gamma > 1"),
    "an unknown mechanism": (
        changed('"gamma-diagonal"', '"gama-diagonal"'), "[mechanism]", "gamma-diagonal"),
    "a parameter of another mechanism": (
        changed('"gamma-diagonal"', '"gamma-diagonal"\nspread = 1'), "spread", "no parameter"),
    "parameters above the promise": (
        changed('"gamma-diagonal"', '"retention"\nkeep = 0.99'), "keep", "above the promise"),
    "a parameter of words": (
        changed('"gamma-diagonal"', '"retention"\nkeep = { smoker = "x" }'), "[mechanism]",
        "is not a number"),
    "a mechanism nobody can run alone": (
        changed('"gamma-diagonal"', '"permuting"\nkeep = 0.5'), "keep", "permuting"),
    "a question about nothing": (
        changed("[question.smoker]", "[question.smokr]"), "[question.smokr]", "smoker"),
    "a value that is none": (
        changed("values = { yes = {", "values = { yess = {"), "values = { yess", "did you mean"),
    "an epsilon without bound": (
        changed("gamma = 19", "epsilon = 300"), "epsilon = 300", "a gamma above 1e+30"),
    "a breach without bound": (
        changed("gamma = 19", "rho1 = 1e-300\nrho2 = 0.5"), "rho1", "a gamma above 1e+30"),
    "a title without languages": (
        changed('title = { en = "Health survey", de = "Gesundheitsumfrage" }', 'title = "x"'),
        "title", "each language"),
    "an attribute without values": (
        changed('values = ["young", "middle", "old"]', ""), '[[attribute]]\nname = "age"',
        "needs values"),
    "a day with a time": (
        changed("title =", "closes = 2027-01-01T10:00:00\ntitle ="), "closes", "without a time"),
    "broken TOML": (changed("gamma = 19", "gamma = = 19"), "gamma = =", "not valid TOML"),
    "a dashboard that shows single people": (
        CAMPAIGN + "[dashboard]\npublic = true\nleast = 5\n", "least = 5", "at least 100"),
    "steps of single people": (
        CAMPAIGN + "[dashboard]\nstep = 1\n", "step = 1", "at least 50"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_error_says_on_which_line_what_was_found(tmp_path, case):
    text, place, words = WRONG[case]
    with pytest.raises(CampaignError) as raised:
        load(tmp_path, text)
    told = str(raised.value)
    assert f"c.toml, line {line_of(text, place)}: " in told, told
    assert words in told


def test_an_error_in_the_schema_names_the_schema(tmp_path):
    (tmp_path / "s.toml").write_text('[[attribute]]\nname = "a"\ntype = "categorie"\n')
    with pytest.raises(CampaignError, match=r"s\.toml, line 1: .*category"):
        load(
            tmp_path, 'name = "a"\ntitle = { en = "A" }\nschema = "s.toml"\n[promise]\ngamma = 2\n'
        )


def test_a_missing_schema_is_told(tmp_path):
    with pytest.raises((CampaignError, FileError), match="none"):
        load(tmp_path, 'name = "a"\ntitle = { en = "A" }\nschema = "none.toml"\n')


def test_a_report_that_is_too_long_is_refused(tmp_path):
    items = ", ".join(f'"{number}"' for number in range(14_000))
    text = f"""name = "long"\ntitle = {{ en = "Long" }}
[[attribute]]\nname = "items"\ntype = "items"\nvalues = [{items}]
[promise]\nepsilon = 60\n[mechanism]\nname = "mask"\nkeep_ones = 0.5002\nkeep_zeros = 0.5002\n"""
    with pytest.raises(CampaignError, match=r"bytes long; the most is 65,536"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    "promise", ["gamma = 1e30", "gamma = 1e19", "rho1 = 1e-300\nrho2 = 2e-300"]
)
def test_a_promise_at_the_edge_is_checked_all_the_same(tmp_path, promise):
    campaign = load(tmp_path, changed("gamma = 19", promise)).campaign
    found = check(campaign)
    assert Fraction(found.gamma) >= campaign.guarantee.gamma
    stated = Survey(campaign.document())
    assert stated.promise.allows(stated.guarantee)


# --- frozen once people have answered


def test_the_hash_is_of_what_people_answered_and_nothing_else(tmp_path):
    first = load(tmp_path, CAMPAIGN).campaign.hash
    assert load(tmp_path, changed("Health survey", "Another title")).campaign.hash == first
    for text in (
        changed("gamma = 19", "gamma = 9"),
        changed('"old"', '"elderly"'),
        CAMPAIGN + "[budget]\nround = 2\n",
    ):
        assert load(tmp_path, text).campaign.hash != first


def test_a_changed_campaign_with_reports_is_refused_with_the_line(tmp_path):
    from sfumato.collect.store import Batch, Work

    store = open_store(str(tmp_path / "c.db"), create=True)
    first = load(tmp_path, CAMPAIGN)
    number = store.enrol(first)
    text = changed('"old"', '"elderly"')
    assert store.enrol(load(tmp_path, text)) == number  # nobody has answered yet
    store.enrol(first)
    store.write(Work([Batch(number, [(b"i" * 16, b"\0\0")])]))
    assert store.enrol(load(tmp_path, changed("Health survey", "Another title"))) == number
    with pytest.raises(CampaignError) as raised:
        store.enrol(load(tmp_path, text))
    told = str(raised.value)
    assert f"line {line_of(text, 'values = [' + chr(34) + 'young')}" in told
    assert "1 reports" in told and '"old"' in told and '"elderly"' in told
    with pytest.raises(CampaignError, match=r"line 18: .*steps"):
        store.enrol(load(tmp_path, changed("gamma = 19", "gamma = 9")))
    assert store.enrol(load(tmp_path, CAMPAIGN + "[budget]\nround = 2\n")) != number
    store.close()


# --- canonical JSON and lines


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_canonical_numbers_read_back(number):
    text = canonical(number)
    assert float(text) == number and not text.endswith(".0")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_canonical_json_is_what_a_browser_writes():
    numbers = [0.1, 1e-7, 1e21, 123456789.5, 1e-5, 0.00012, 5e-324, 1.5e300, -0.25, 100.0, 2.0**60]
    script = f"console.log(JSON.stringify({json.dumps(numbers)}))"
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert canonical(numbers) == done.stdout.strip()


def test_differences_are_found_where_they_are():
    first = {"a": [{"b": 1, "c": [1, 2]}], "d": 1}
    assert list(differences(first, {"a": [{"b": 2, "c": [1]}]})) == [
        (("a", 0, "b"), 1, 2),
        (("a", 0, "c"), [1, 2], [1]),
        (("d",), 1, None),
    ]


def test_lines_survive_strings_comments_and_long_arrays():
    text = '''a = """
[not.a.table]
""" # [neither]
b = [ # [[nor this]]
  "]", # "
  '[',
]
[[t]]
x.y = { z = 1 }
[[t]]
x = "#"
["quoted name".deep]
'k' = 1
'''
    lines = TomlLines.of(text)
    found = {
        ("a",): 1, ("b",): 4, ("t", 0): 8, ("t", 0, "x", "y"): 9, ("t", 1): 10,
        ("t", 1, "x"): 11, ("quoted name", "deep"): 12, ("quoted name", "deep", "k"): 13,
    }  # fmt: skip
    assert {key: lines.find(key) for key in found} == found


BASKETS = """
name = "shop"
title = { en = "Shop" }

[[attribute]]
name = "bought"
type = "items"
values = ["milk", "bread", "eggs", "beer"]

[promise]
gamma = 19

[mechanism]
name = "cut-and-paste"
"""


def test_a_size_that_is_sent_as_it_is_must_be_named(tmp_path):
    with pytest.raises(CampaignError, match="the size of 'bought' as it is") as refused:
        load(tmp_path, BASKETS)
    assert refused.value.hint == 'say so by sizes = ["bought"] under [promise]'
    named = BASKETS.replace("gamma = 19", 'gamma = 19\nsizes = ["bought"]')
    campaign = load(tmp_path, named).campaign
    assert campaign.sent_as_is == {"bought": "the size of bought"}
    assert campaign.guarantee.gamma <= 19
    assert campaign.document()["promise"]["sizes"] == ["bought"]
    with pytest.raises(CampaignError, match="which is no basket"):
        load(tmp_path, named.replace('["bought"]', '["milk"]'))
