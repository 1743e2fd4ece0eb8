"""The HTML page: everything escaped, nothing from outside, written whole or not at all."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from sfumato import plots
from sfumato.errors import FileError, ParameterError
from sfumato.estimation.estimate import Answer
from sfumato.report import (
    Code,
    Heading,
    Listing,
    Note,
    Page,
    Paragraph,
    Picture,
    save_figure,
    shown,
    write_whole,
)

pytest.importorskip("matplotlib")

NASTY = "<script>alert(\"x\")</script> & 'quoted'"


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


@pytest.fixture
def drawing() -> object:
    return plots.risk(["unique"], [3], [0])


def test_every_word_is_escaped(drawing: object) -> None:
    blocks = [
        Heading(NASTY),
        Paragraph(NASTY),
        Note(NASTY),
        Code(NASTY),
        Listing([NASTY], [[NASTY]], NASTY),
    ]
    page = Page(NASTY, [*blocks, Picture.of(drawing, NASTY)], lead=NASTY).html()
    assert "<script" not in page
    parser = Balance()
    parser.feed(page)
    assert not parser.open
    assert dict(parser.seen)["img"]["alt"] == NASTY


def test_page_is_self_contained_and_fits_a_phone(drawing: object) -> None:
    page = Page("Page", [Picture.of(drawing, "svg"), Picture.of(drawing, "png", form="png")]).html()
    assert re.findall(r'(?:src|href)="(.{10})', page) == ["data:image", "data:image"]
    assert "url(" not in page
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page


def test_table_puts_numbers_to_the_right_and_shows_errors() -> None:
    html = Listing(
        ["who", "count", "95 % interval"],
        [["men", Answer(32650.12, 41.3), "[32,569, 32,731]"], ["women", 16192, "[-3, 1.5e+04]"]],
        "Sex",
    ).html()
    assert '<td class="number">32,650 ±\N{NO-BREAK SPACE}41</td>' in html
    assert '<td class="number">16,192</td>' in html
    assert '<td class="number">[32,569, 32,731]</td>' in html
    assert "95\N{NO-BREAK SPACE}% interval" in html
    assert "<td>men</td>" in html
    assert '<th scope="col" class="number">count</th>' in html


def test_a_marked_number_is_a_number_and_only_long_words_take_room_on_a_phone() -> None:
    """One confidence above 1 put its whole column to the left, where it broke behind the ±."""
    rows = [["sex=Male → race=White", "* 1.190 ± 0.382"], ["b", "0.5 ± 0.1"]]
    html = Listing(["rule", "confidence"], rows).html()
    assert html.count('<td class="number">') == 2 and html.count('<td class="long">') == 2
    assert "*\N{NO-BREAK SPACE}1.190 ±\N{NO-BREAK SPACE}0.382" in html
    assert "long" not in Listing(["sex", "count"], [["female", "3"]]).html()


def test_long_names_break_on_a_phone() -> None:
    """A name of 90 letters left no room for its count."""
    rows = [["a" * 90, 3], ["workclass=Private", 4]]
    html = Page("p", [Listing(["town", "count"], rows)]).html()
    assert '<td class="long endless">aaa' in html and '<td class="long">workclass=' in html
    assert "td.endless { overflow-wrap: anywhere; }" in html


def test_what_stands_for_a_number_stands_to_the_right_and_stays_with_its_sign() -> None:
    html = Listing(
        ["a", "b", "c", "d"],
        [["∞", "0.4 (model)", "49.8 % – 52.4 %", "40.1 %"], ["3", "–", "1 – 2", "middle"]],
    ).html()
    assert html.count('<td class="number">') == 6
    assert "<td>40.1\N{NO-BREAK SPACE}%</td>" in html


def test_a_command_goes_on_below_before_an_option_and_not_within_it() -> None:
    command = 'sfumato query r.parquet "SELECT a - b" -o out.csv --seed 1'
    html = Code(command, command=True).html()
    assert "<span>-o</span> out.csv <span>--seed</span> 1" in html and "a - b" in html
    assert unescape(re.sub("<.*?>", "", html)) == command


def test_ragged_table_is_refused() -> None:
    with pytest.raises(ParameterError, match="row 2 has 1 entries"):
        Listing(["a", "b"], [[1, 2], [3]])


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (np.int64(1200), "1,200"),
        (np.float64(1234567.8), "1,234,568"),
        (0.5, "0.5"),
        (True, "yes"),
        (Answer(0.28123, 0.00412), "0.2812 ± 0.0041"),
        (Answer(-3.0, 120.0), "-3 ± 120"),
        (Answer(7.0, 0.0), "7 ± 0"),
        ("word", "word"),
    ],
)
def test_entries_are_shown_to_their_precision(entry: object, text: str) -> None:
    assert shown(entry) == text


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.HTML", b"<!doctype html>")]
)
def test_figure_is_saved_by_extension_the_same_each_time(
    drawing: object, tmp_path: Path, name: str, start: bytes
) -> None:
    save_figure(drawing, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    save_figure(plots.risk(["unique"], [3], [0]).figure, tmp_path / name)
    assert first.startswith(start)
    assert (tmp_path / name).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_list_of_axes_stands_for_their_figure() -> None:
    axes = plots.marginals([plots.Marginal("sex", ["f", "m"], [1.0, 2.0], [0.1, 0.1])] * 2)
    assert (
        Picture.of(axes, "both")
        == Picture.of(axes[1], "both")
        == Picture.of(axes[0].figure, "both")
    )


@pytest.mark.parametrize("name", ["figure", "figure.jpeg"])
def test_other_extensions_are_refused(drawing: object, tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match=r"end it in \.png, \.svg or \.html"):
        save_figure(drawing, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*: no such file or directory"):
        Page("Page", []).save(tmp_path / "nowhere" / "page.html")


def test_full_disk_leaves_the_old_file_and_no_litter(
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
