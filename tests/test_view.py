"""Any view as text, HTML, Arrow and picture: everything escaped, nothing from outside, pages
written whole or not at all.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import FileError, MissingExtraError, ParameterError
from sfumato.estimation.answer import Answer
from sfumato.renderers import picture
from sfumato.renderers.frames import arrow, json_value
from sfumato.renderers.html import MOST_LINES, fragment, page
from sfumato.renderers.picture import bars, draw, estimates, image, in_words
from sfumato.renderers.text import SCREEN, Paper, lines_of, screen_of, table_lines, width_of
from sfumato.result import save_view, write_whole
from sfumato.view import Chart, ColumnView, TableView, View, shown

pytest.importorskip("matplotlib")

NASTY = "<script>alert(\"x\")</script> & 'quoted'"
REST = "the rest: to_dict(), and in a notebook"


class Balance(HTMLParser):
    """Fails on a tag that is closed out of order, collects tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def risk(caption: str = "") -> Chart:
    return replace(bars("records", ["unique"], [3], [0], caption=caption), alt=caption)


def tabled(*table: object) -> str:
    return fragment(View(tables=[TableView.of(*table)]))


def test_every_word_is_escaped() -> None:
    table = TableView.of([NASTY], [[NASTY]], NASTY)
    nasty = View(
        NASTY,
        words=[NASTY],
        facts=[(NASTY, NASTY)],
        charts=[risk(NASTY)],
        tables=[table],
        code=NASTY,
        command=NASTY,
        notes=[NASTY],
    )
    for html in (page(View(NASTY, sections=[nasty])), fragment(nasty)):
        assert "<script" not in html
        parser = Balance()
        parser.feed(html)
        assert not parser.open
    assert dict(tags_of(page(nasty)))["img"]["alt"] == NASTY


def tags_of(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Balance()
    parser.feed(html)
    return parser.seen


def test_a_page_is_self_contained_and_fits_a_phone() -> None:
    html = page(View("Page", charts=[risk("one"), risk("two")]))
    assert re.findall(r'(?:src|href)="(.{10})', html) == ["data:image", "data:image"]
    assert "url(" not in html
    assert 'name="viewport"' in html
    assert "prefers-color-scheme: dark" in html


def test_a_table_puts_numbers_to_the_right_and_shows_errors() -> None:
    html = tabled(
        ["who", "count", "95 % interval"],
        [["men", Answer(32650.12, 41.3), "[32,569, 32,731]"], ["women", 16192, "[-3, 1.5e+04]"]],
        "Sex",
    )
    assert '<td class="number">32,650 ±\N{NO-BREAK SPACE}41</td>' in html
    assert '<td class="number">16,192</td>' in html
    assert '<td class="number">[32,569, 32,731]</td>' in html
    assert "95\N{NO-BREAK SPACE}% interval" in html
    assert "<td>men</td>" in html
    assert '<th scope="col" class="number">count</th>' in html


def test_an_estimate_has_its_interval_and_a_sparkline_beside_it() -> None:
    column = ColumnView("n", [10.0, 20.0], [1.0, 2.0], level=0.9, field=("n", "e", "low", "high"))
    html = fragment(View(tables=[TableView([column])]))
    assert html.count("<svg") == 2 and "90\N{NO-BREAK SPACE}% interval" in html
    found = arrow(TableView([column])).to_pydict()
    assert found["n"] == [10.0, 20.0] and found["e"] == [1.0, 2.0]
    assert found["high"][0] == pytest.approx(10 + 1.644854)


def test_what_is_undefined_is_null_in_frames_and_a_dash_for_people() -> None:
    column = ColumnView("n", [np.nan, 3.0], [np.nan, np.inf], field=("n", "e"))
    assert arrow(TableView([column])).to_pydict() == {"n": [None, 3.0], "e": [None, None]}
    assert column.cells == ["–", "3 ± ∞"]


def test_names_in_frames_are_numbered_where_they_are_taken() -> None:
    columns = [ColumnView("", ["a"], field="n"), ColumnView("", [1], field="n")]
    assert arrow(TableView(columns)).column_names == ["n", "n_2"]


def test_only_long_words_take_room_on_a_phone_and_endless_ones_break() -> None:
    html = tabled(["town", "count"], [["a" * 90, 3], ["workclass=Private", 4]])
    assert '<td class="long endless">aaa' in html and '<td class="long">workclass=' in html
    assert "td.endless { overflow-wrap: anywhere; }" in page(View("p"))
    assert "long" not in tabled(["sex", "count"], [["female", "3"]])


def test_what_stands_for_a_number_stands_to_the_right_and_stays_with_its_sign() -> None:
    html = tabled(
        ["a", "b", "c", "d"],
        [["∞", "0.4 (model)", "49.8 % – 52.4 %", "40.1 %"], ["3", "–", "1 – 2", "middle"]],
    )
    assert html.count('<td class="number">') == 6
    assert "<td>40.1\N{NO-BREAK SPACE}%</td>" in html


def test_a_command_goes_on_below_before_an_option_and_not_within_it() -> None:
    command = 'sfumato query r.parquet "SELECT a - b" -o out.csv --seed 1'
    html = fragment(View(command=command))
    assert "<span>-o</span> out.csv <span>--seed</span> 1" in html and "a - b" in html
    assert unescape(re.sub("<.*?>", "", html)) == command


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(ParameterError, match="row 2 has 1 entries"):
        TableView.of(["a", "b"], [[1, 2], [3]])


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (np.int64(1200), "1,200"),
        (np.float64(1234567.8), "1,234,568"),
        (0.5, "0.5"),
        (True, "yes"),
        (Answer(0.28123, 0.00412), "0.2812 ± 0.0041"),
        (Answer(-3.0, 120.0), "-3 ± 120"),
        (Answer(7.0, 0.0), "7 exact"),
        ("word", "word"),
    ],
)
def test_entries_are_shown_to_their_precision(entry: object, text: str) -> None:
    assert shown(entry) == text


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.HTML", b"<!doctype html>")]
)
def test_a_view_is_saved_by_extension_the_same_each_time(
    tmp_path: Path, name: str, start: bytes
) -> None:
    save_view(View("v", charts=[risk()]), tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save_view(View("v", charts=[risk()]), tmp_path / name)
    assert first.startswith(start)
    assert (tmp_path / name).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_list_of_axes_stands_for_their_figure() -> None:
    panel = estimates("sex", ["f", "m"], [1.0, 2.0], [0.1, 0.1])
    axes = draw(Chart([panel] * 2))
    assert image(axes, "svg") == image(axes[1], "svg") == image(axes[0].figure, "svg")


@pytest.mark.parametrize("name", ["figure", "figure.jpeg"])
def test_other_extensions_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match=r"end it in \.png, \.svg or \.html"):
        save_view(View("v", charts=[risk()]), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_drawn_is_said_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise MissingExtraError("figures need matplotlib", extra="plot")

    monkeypatch.setattr(picture, "draw", missing)
    assert "figures need matplotlib" in page(View("v", charts=[risk()]))


def test_bars_are_told_in_words() -> None:
    chart = bars("records", ["unique"], [3], [0])
    assert in_words(chart) == "Paired bars of records: unique: 3 before, 0 after"


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*: no such file or directory"):
        save_view(View("Page"), tmp_path / "nowhere" / "page.html")


def test_a_full_disk_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "page.html"
    target.write_text("old")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(FileError, match="no space left"):
        write_whole(target, b"new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


# As text.


def test_a_sentence_at_the_prompt_is_there_whole_or_not_at_all() -> None:
    """An audit broke off in the middle of one."""
    table = TableView.of(["n"], [[f"line {n}"] for n in range(10)])
    short = ["short"] * (SCREEN - 13)
    long = "what is told at length " * 10
    shown_lines = screen_of(View(tables=[table], notes=[*short, long])).splitlines()
    assert shown_lines[-2:] == ["short", REST] and len(shown_lines) <= SCREEN
    whole = screen_of(View(tables=[table], notes=[*short, "also short"])).splitlines()
    assert whole[-1] == "also short"


def test_a_long_table_is_cut_and_says_so() -> None:
    table = TableView.of(["n"], [[number] for number in range(MOST_LINES + 3)])
    assert "… and 3 more" in fragment(View(tables=[table]))
    assert table_lines(table, Paper(most=5))[-1] == f"… and {MOST_LINES - 2} more"
    assert screen_of(View(tables=[table])).splitlines()[-1] == REST


def test_wide_letters_take_two_places_and_cells_are_cut_at_the_prompt() -> None:
    labels = ["tea", "お茶", "te\u0301" * 40, "お" * 60]
    lines = table_lines(TableView.of(["item", "count"], [[each, 7] for each in labels]), Paper())
    assert len({width_of(line) for line in lines if line.endswith("7")}) == 1
    cut = table_lines(
        TableView.of(["item", "count"], [[each * 3, 7] for each in labels]), Paper(cut=True)
    )
    assert len(cut) == 5 and max(map(width_of, cut)) <= 80 and "…" in cut[-1]


def test_labels_that_begin_alike_and_empty_ones_are_seen_at_the_prompt() -> None:
    """Cut without a mark two groups looked the same, and a column of empty labels was left out."""
    long = "A label that begins the same as another one, and then ends in " * 2
    table = TableView.of(["c", "a\nb"], [[long + "one", ""], ["", ""]])
    lines = table_lines(table, Paper(cut=True))
    assert lines[0].split() == ["c", "a", "b"]
    assert lines[1].endswith("…") and len(lines[1]) <= 80


def test_figures_without_room_go_on_below_with_the_words_said_again() -> None:
    heads = ["item", *(f"figure {n}" for n in range(12))]
    lines = table_lines(TableView.of(heads, [["tea", *range(10_000_000, 10_000_012)]]), Paper())
    assert sum(line.startswith("tea") for line in lines) == 2 and max(map(len, lines)) <= 80


def test_estimates_without_room_stand_one_below_the_other() -> None:
    columns = [ColumnView("sex", ["f", "m"])]
    columns += [ColumnView("n" * 30 + str(n), [1.0, 2.0], [0.1, 0.1]) for n in range(3)]
    lines = table_lines(TableView(columns), Paper())
    assert lines[0].split()[:2] == ["sex", "answer"] and len(lines) == 7


def test_a_label_cannot_move_the_terminal() -> None:
    view = View("a\x1b[31m", words=["b\u202e"], facts=[("c\x07", "d\ne")], notes=["f\x00"])
    assert not re.search("[\x00-\x09\x1b\u202e]", screen_of(view))
    assert lines_of(view, Paper())[2].endswith("d e")


def test_a_dataclass_is_json_by_its_fields() -> None:
    assert json_value(ColumnView("n", (1, np.int64(2)), words=None))["values"] == [1, 2]
    assert json_value({"a": np.array([0.5, np.nan])}) == {"a": [0.5, None]}
