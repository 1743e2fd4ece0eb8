"""Notebook: results as small HTML tables where they are looked at (as text where there is no
notebook), and as frames where they go on.

Every label is escaped: it comes from a file, and files may hold anything. Only a `Glance` is not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterable, Sequence
from html import escape
from html.parser import HTMLParser
from textwrap import wrap
from typing import Any

from sfumato.errors import MissingExtraError
from sfumato.printable import json_number, plain
from sfumato.renderers.sparkline import Glance

MOST_LINES = 40  # of a table in a notebook
SCREEN = 24  # lines of a result as text, and of its tables
TABLE = 14
LETTERS, CELL = 80, 40  # of a line of words, of a cell
PICTURE = "\0"  # a cell that is drawn; no label has it, since labels are made printable


def html_table(
    heads: Sequence[str],
    lines: Iterable[Sequence[Any]],
    *,
    title: str | None = None,
    notes: Iterable[str] = (),
) -> str:
    """A table of HTML; long ones are cut, and say so.

    >>> html_table(["item"], [["<b>"]])
    '<table><thead><tr><th>item</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    rows = [list(line) for line in lines]
    named = "".join(f"<th>{_text(name)}</th>" for name in heads)
    head = f"<thead><tr>{named}</tr></thead>" if any(heads) else ""
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in line) + "</tr>"
        for line in rows[:MOST_LINES]
    )
    rest = len(rows) - MOST_LINES
    remarks = [*([f"… and {rest:,} more"] if rest > 0 else []), *notes]
    return (
        ("" if title is None else f"<p><b>{_text(title)}</b></p>")
        + f"<table>{head}<tbody>{body}</tbody></table>"
        + "".join(f"<p>{_text(remark)}</p>" for remark in remarks)
    )


def html_facts(title: str, facts: Iterable[tuple[str, Any]], notes: Iterable[str] = ()) -> str:
    """A few named facts as a table of two columns."""
    return html_table(
        ["", ""], [line for line in facts if line[1] is not None], title=title, notes=notes
    )


def text_table(heads: Sequence[str], lines: Iterable[Sequence[Any]]) -> list[str]:
    """A table as lines of text; of a long one the beginning.

    >>> text_table(["item", "count"], [["tea", "1,204"], ["jam", "7"]])
    ['item  count', 'tea   1,204', 'jam       7']
    """
    rows = [[cell if cell == PICTURE else _short(cell) for cell in line] for line in lines]
    columns = list(zip(map(_short, heads), *rows[:TABLE], strict=True))
    aligned, labels = list[list[str]](), True  # which come before the figures, and may be empty
    for column in columns:
        if PICTURE in column or not (labels or any(column[1:])):
            continue
        width = max(map(width_of, column))
        figures = any(column[1:]) and all(cell[:1] in "0123456789-–±*" for cell in column[1:])
        labels = labels and not figures
        room = [" " * (width - width_of(cell)) for cell in column]
        sides = zip(room, column, strict=True) if figures else zip(column, room, strict=True)
        aligned.append(["".join(pair) for pair in sides])
    shown = ["  ".join(cells).rstrip() for cells in zip(*aligned, strict=True)]
    return [*shown[not any(heads) :], *(["…"] if len(rows) > TABLE else [])]


def _short(cell: Any) -> str:
    """A cell as one line; what is left out of it is marked.

    >>> _short("one\\ntwo"), _short("a" * 50)[-3:], len(_short("茶" * 50))
    ('one two', 'aa…', 20)
    """
    from rich.cells import set_cell_size

    words = " ".join(plain(str(cell)).split())
    return words if width_of(words) <= CELL else f"{set_cell_size(words, CELL - 1).rstrip()}…"


def width_of(words: str) -> int:
    """How many places of a terminal the words take: East Asian letters two each, a mark on a letter
    none.

    >>> width_of("tea"), width_of("お茶"), width_of("te\u0301")
    (3, 4, 2)
    """
    from rich.cells import cell_len  # here, so that what shows nothing does not load it

    return cell_len(words)


def screen(parts: Iterable[str | Sequence[str]]) -> str:
    """Sentences and tables as one screen of text; what does not fit is said to be elsewhere. Tables
    may end anywhere, a sentence is there whole or not at all.
    """
    shown, whole = list[str](), True
    for part in parts:
        lines = (wrap(part, LETTERS) or [""]) if isinstance(part, str) else part
        if len(shown) + len(lines) > SCREEN and isinstance(part, str):
            whole = False
            break
        shown += [line for line in lines if line != "…"]
        whole = whole and "…" not in lines
    if len(shown) > SCREEN or not whole:
        shown = [*shown[: SCREEN - 1], "the rest: to_dict(), and in a notebook"]
    return "\n".join(shown)


class _Seen(HTMLParser):
    """The sentences and tables of what a notebook shows, without its pictures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.parts: list[str | list[str]] = []
        self._rows: list[list[str]] = []
        self._heads: list[str] = []
        self._words = ""
        self._drawn = 0  # how deep inside a picture
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "svg":
            self._drawn += 1
            self._words += PICTURE
        if tag in ("p", "th", "td"):
            self._words = ""
        elif tag == "tr":
            self._rows.append([])
        elif tag == "table":
            self._rows, self._heads = [], []

    def handle_data(self, data: str) -> None:
        if not self._drawn:
            self._words += data

    def handle_endtag(self, tag: str) -> None:
        self._drawn -= tag == "svg"
        if tag == "th":
            self._heads.append(self._words)
        elif tag == "td":
            self._rows[-1].append(PICTURE if PICTURE in self._words else self._words)
        elif tag == "p":
            words = self._words.replace(PICTURE, "")
            self.parts.append("…" if words.startswith("… and ") else words)
        elif tag == "table":
            lines = [line for line in self._rows if line]
            heads = self._heads or [""] * max(map(len, lines), default=0)
            self.parts.append(text_table(heads, lines) if lines else [])


def as_polars(table: Any) -> Any:
    """An Arrow table as a Polars data frame."""
    try:
        import polars
    except ImportError:
        raise MissingExtraError(
            "Polars is not installed", extra="polars", instead="use to_arrow()"
        ) from None
    return polars.from_arrow(table)


def arrow_table(rows: Iterable[Sequence[Any]], **kinds: str) -> Any:
    """An Arrow table of these rows; each column has a name and a kind: Arrow's own word, or `names`
    for lists of them.

    >>> arrow_table([["tea", 3]], item="string", count="int64").to_pylist()
    [{'item': 'tea', 'count': 3}]
    """
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    types = {"names": pa.list_(pa.string())}
    parts = zip(kinds.items(), columns, strict=True)
    return pa.table(
        {
            name: pa.array(column, types.get(kind) or pa.type_for_alias(kind))
            for (name, kind), column in parts
        }
    )


def free_name(name: str, taken: Container[str]) -> str:
    """The name, or the first numbered one that is free: a column may be called count_low itself.

    >>> free_name("n", ["n", "n_2"])
    'n_3'
    """
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


class Framed:
    """What can be had as a table: `to_arrow` says how, the other frames follow. Where it is shown
    as text it says what it says in a notebook, unless it has words of its own.
    """

    def __repr__(self) -> str:
        show = getattr(self, "_repr_html_", None)
        return object.__repr__(self) if show is None else screen(_Seen(show()).parts)

    @abstractmethod
    def to_arrow(self) -> Any:
        """The result as an Arrow table."""

    def to_pandas(self) -> Any:
        """The same as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The same as a Polars data frame."""
        return as_polars(self.to_arrow())

    def to_dicts(self) -> list[dict[str, Any]]:
        """The same as one dictionary a row."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The same as one list a column, as JSON may hold it: what is no number there is None."""
        columns = self.to_arrow().to_pydict()
        return {name: [_json_value(each) for each in values] for name, values in columns.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_value(each) for each in value]
    if isinstance(value, float):
        return json_number(value)
    return value if isinstance(value, str | int | None) else str(value)


def _text(value: Any) -> str:
    return value if isinstance(value, Glance) else escape(plain(str(value)))
