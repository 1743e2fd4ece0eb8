"""Every result shows itself in a notebook: its numbers, and nothing that a label smuggles in."""

from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.notebook import MOST_LINES, html_table
from sfumato.randomness import seeded
from sfumato.table import Table

EVIL = "<script>alert(1)</script>\u202e"
PEOPLE = sf.Domain(
    (
        sf.Category("smoker", ("no", "yes")),
        sf.Category("town", ("Lyon", EVIL)),
        sf.Numeric("age", 0, 99, cuts=(30, 60)),
    )
)
RNG = np.random.default_rng(3)
TRUTH = Table(
    PEOPLE,
    (
        RNG.integers(0, 2, 4_000).astype(np.uint8),
        (RNG.random(4_000) < 0.2).astype(np.uint8),
        RNG.integers(0, 100, 4_000).astype(np.uint8),
    ),
)


class Read(HTMLParser):
    """The cells of a page and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


@pytest.fixture(scope="module")
def release() -> sf.Release:
    return sf.perturb(TRUTH, sf.Retention(PEOPLE.binned(), 0.6), seeded(1))


def shown(result: object) -> Read:
    read = Read(result._repr_html_())
    assert read.open == [] and read.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p", "b"}
    assert "\u202e" not in "".join(read.cells)
    return read


def test_estimates_show_every_cell_with_its_error(release: sf.Release) -> None:
    found = release.marginal(["smoker", "town"])
    read = shown(found)
    frame = found.to_pandas()
    assert list(frame.columns) == [
        "smoker",
        "town",
        "count",
        "count_stderr",
        "count_low",
        "count_high",
    ]
    assert all(f"{count:,.0f}" in read.cells for count in frame["count"])
    np.testing.assert_allclose(frame["count_high"] - frame["count"], 1.959964 * frame.count_stderr)
    assert found.to_polars().shape == frame.shape and len(found.to_dicts()) == len(frame)


def test_an_answer_shows_its_interval(release: sf.Release) -> None:
    answer = release.marginal(["smoker"]).where(smoker="yes")
    low, high = answer.interval()
    assert {f"{answer.value:,.0f}", f"{low:,.0f} to {high:,.0f}"} <= {*shown(answer).cells}
    assert "1,234.5" in shown(sf.Answer(1234.5, 0.0)).cells
    assert answer.to_dict()["low"] == pytest.approx(answer.interval()[0])


def test_sources_and_domains_say_what_they_are(release: sf.Release) -> None:
    assert {"retention", "4,000"} <= set(shown(release).cells)
    assert "4,000" in shown(sf.Exact(TRUTH)).cells
    assert {"smoker", "age", "100"} <= set(shown(PEOPLE).cells)


def test_what_is_mined_shows_its_numbers(release: sf.Release) -> None:
    found = sf.frequent_itemsets(release, 0.05)
    rules = sf.association_rules(found, min_confidence=0.2)
    assert f"{found.support.max():.4f}" in shown(found).cells
    assert f"{len(rules)} rules" in shown(rules).cells
    assert found.to_polars().height == len(found) and rules.to_polars().height == len(rules)


def test_plans_and_audits_show_their_words(release: sf.Release) -> None:
    plan = sf.plan_release(PEOPLE, 4_000, guarantee=sf.Guarantee(19))
    assert plan.best.name in shown(plan).cells and plan.sentences()[0] in shown(plan).cells
    audit = sf.audit_release(release, sf.Exact(TRUTH), rng=seeded(2))
    assert audit.sentences()[0] in shown(audit).cells
    with pytest.raises(sf.SfumatoError, match="not a dict"):
        sf.audit_release(release, {"smoker": ["yes"]})


def test_owners_see_what_was_done() -> None:
    rng = np.random.default_rng(5)
    frame = pa.table(
        {
            "age": rng.integers(20, 60, 200),
            "town": rng.choice(["Lyon", EVIL], 200),
            "ill": rng.choice(["no", "yes"], 200),
        }
    )
    assert "town" in shown(sf.identify(frame, confidential="ill")).cells
    swapped = sf.swap(frame, 0.2, confidential="ill", max_posterior=1.0, rng=seeded(1))
    assert "ill" in shown(swapped).cells
    baskets = [["tea", "milk"]] * 4 + [["tea"]] * 2 + [["milk"]] * 2
    hidden = sf.hide(baskets, ["tea milk"], min_count=3)
    assert "entries removed" in shown(hidden).cells


def test_long_tables_are_cut_and_say_so() -> None:
    html = html_table(["n"], [[number] for number in range(MOST_LINES + 3)])
    assert "… and 3 more" in html and html.count("<td>") == MOST_LINES
