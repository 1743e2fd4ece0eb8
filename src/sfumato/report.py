"""Results as one HTML page that needs nothing else: no script, no outside file, readable on a
phone, light and dark.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sfumato import files
from sfumato.errors import FileError, ParameterError
from sfumato.estimation.estimate import Answer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawing: TypeAlias = (
    "Axes | Figure | Sequence[Axes]"  # a list of axes stands for the figure they share
)

# A number in words: 48,842 or 1.2e+08 or 3.1 % or 0.12 ± 0.01 or ± 0.01, or the dash of none.
_NUMBER = r"-?[\d,.]+(e[+-]?\d+)?( ?%)?"
_BOTH = rf"\[{_NUMBER}, {_NUMBER}\]|{_NUMBER} – {_NUMBER}"  # the ends of an interval
_ONE = rf"(\* )?{_NUMBER}( (± {_NUMBER}|exact|\(model\)))?"  # a mark may stand before it
_FIGURE = re.compile(rf"–|∞|exact|{_ONE}|± {_NUMBER}|{_BOTH}")
_OPTION = re.compile(r"(?<= )-[^ ]+")
LONG = 12  # letters from which on the first column's words need room on a phone
ENDLESS = 24  # letters of one word from which on it may be broken there
NARROW = 5.0  # inches up to which a picture is readable on a phone as it is
MEDIA = {"png": "image/png", "svg": "image/svg+xml"}

_SHEET = """
:root { color-scheme: light dark;
  --ink: #22262e; --faint: #667; --paper: #fff; --line: #dfe2e8; --tint: #f5f6f9;
    --accent: #0072b2; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ee; --faint: #99a1b0; --paper: #15181e; --line: #333a46; --tint: #1e232c;
    --accent: #56b4e9; }
  figure img { filter: invert(0.91) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1.1rem 4rem; background: var(--paper);
  color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
    overflow-wrap: anywhere; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 0.6rem; padding-top: 0.9rem;
  border-top: 1px solid var(--line); }
p { max-width: 44rem; }
.lead { color: var(--faint); font-size: 1.1rem; margin-top: 0; }
.note { border-left: 3px solid var(--accent); background: var(--tint); padding: 0.6rem 0.9rem; }
.wide { overflow-x: auto; margin: 1rem 0; background: /* a shadow where more is to be had */
  linear-gradient(90deg, var(--paper) 40%, transparent) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(90deg, var(--line), transparent) 0 0 / 0.8rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--line), transparent) 100% 0 / 0.8rem 100% no-repeat scroll; }
table { min-width: 17rem; border-collapse: collapse; font-variant-numeric: tabular-nums;
  font-size: 0.94rem; }
caption { text-align: left; color: var(--faint); padding-bottom: 0.4rem; }
th, td { padding: 0.32rem 0.8rem; text-align: left; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
th { font-weight: 600; vertical-align: top; }
thead th { vertical-align: bottom; }
.number { text-align: right; }
td.number { white-space: nowrap; }
tbody tr:hover { background: var(--tint); }
figure { margin: 1.2rem 0; overflow-x: auto; }
figure img { display: block; width: 36rem; max-width: 100%; height: auto; background: #fff;
  border-radius: 8px; padding: 6px; }
figure.wide img { width: auto; }
figcaption { color: var(--faint); font-size: 0.94rem; margin-top: 0.4rem; max-width: 44rem; }
pre { overflow-x: auto; background: var(--tint); padding: 0.8rem; border-radius: 6px;
  font-size: 0.88rem; overflow-wrap: normal; }
pre.command { white-space: pre-wrap; overflow-wrap: anywhere; }
pre.command span { white-space: nowrap; }
@media (max-width: 36rem) {
  figure.wide img { max-width: none; }
  table { font-size: 0.85rem; }
  th, td { padding: 0.3rem 0.42rem; }
  td.number { white-space: normal; }
  td.long { min-width: 7rem; }
  td.endless { overflow-wrap: anywhere; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure, tr, .facts, pre { break-inside: avoid; }
  figure img, figure.wide img { max-width: 100%; width: auto; padding: 0; }
  .wide, figure { overflow: visible; background: none; }
  table { font-size: 8pt; }
  th, td { padding: 0.15rem 0.3rem; overflow-wrap: anywhere; }
  pre { white-space: pre-wrap; }
  h2 { break-after: avoid; }
}
""".strip()


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str

    def html(self) -> str:
        return f"<h2>{_words(self.text)}</h2>"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of plain words."""

    text: str

    def html(self) -> str:
        return f"<p>{_words(self.text)}</p>"


@dataclass(frozen=True)
class Note:
    """A paragraph that must not be overlooked: a guarantee, a caveat."""

    text: str

    def html(self) -> str:
        return f'<p class="note">{_words(self.text)}</p>'


@dataclass(frozen=True)
class Code:
    """Lines shown as they are: a tree, or a command, whose long lines go on below."""

    text: str
    command: bool = False

    def html(self) -> str:
        if not self.command:
            return f"<pre>{escape(self.text)}</pre>"
        whole = _OPTION.sub(r"<span>\g<0></span>", escape(self.text))  # no line ends in "--"
        return f'<pre class="command">{whole}</pre>'


@dataclass(frozen=True)
class Listing:
    """Rows under named columns; numbers stand to the right, an Answer as its value ± standard
    error.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise ParameterError(
                    f"row {place} has {len(row)} entries, but the table has {len(self.columns)} "
                    "columns"
                )

    def html(self) -> str:
        numeric = [
            all(_is_number(row[place]) for row in self.rows) for place in range(len(self.columns))
        ]
        caption = f"<caption>{_words(self.caption)}</caption>" if self.caption else ""
        head = "".join(
            _cell("th", name, right) for name, right in zip(self.columns, numeric, strict=True)
        )
        long = not numeric[0] and any(len(shown(row[0])) > LONG for row in self.rows)
        lines = (
            "".join(
                _cell("td", *pair, long and not place)
                for place, pair in enumerate(zip(row, numeric, strict=True))
            )
            for row in self.rows
        )
        body = "\n".join(f"<tr>{line}</tr>" for line in lines)
        return (
            f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>"
        )


@dataclass(frozen=True)
class Picture:
    """An image inside the page, with words for those who cannot see it: what is seen (`alt`), which
    is the caption unless said.
    """

    image: bytes
    form: str
    caption: str
    alt: str = ""
    wide: bool = False  # more than a narrow screen can show at a readable size

    def __post_init__(self) -> None:
        if self.form not in MEDIA:
            raise ParameterError(f"a picture is {' or '.join(MEDIA)}, not '{self.form}'")

    @classmethod
    def of(cls, drawing: Drawing, caption: str, *, alt: str = "", form: str = "svg") -> Picture:
        """The picture of a figure, or of the figure that these axes belong to."""
        wide = _figure_of(drawing).get_figwidth() > NARROW
        return cls(_image(drawing, form), form, caption, alt, wide)

    def html(self) -> str:
        source = f"data:{MEDIA[self.form]};base64,{base64.b64encode(self.image).decode('ascii')}"
        words = escape(self.caption, quote=True)
        seen = escape(self.alt, quote=True) or words
        look = ' class="wide"' if self.wide else ""
        image = f'<img src="{source}" alt="{seen}">'
        return f"<figure{look}>{image}<figcaption>{_words(self.caption)}</figcaption></figure>"


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for, one pair a line."""

    pairs: Sequence[tuple[str, Any]]

    def html(self) -> str:
        lines = "\n".join(
            f'<tr><th scope="row">{_words(name)}</th><td>{_words(shown(value))}</td></tr>'
            for name, value in self.pairs
        )
        return f'<div class="wide facts"><table><tbody>{lines}</tbody></table></div>'


Block = Facts | Heading | Paragraph | Note | Code | Listing | Picture


@dataclass(frozen=True)
class Page:
    """One self-contained HTML page; every word in it is escaped.

    >>> page = Page("Smokers & others", [Paragraph("24.7 % ± 0.9 %")])
    >>> "<title>Smokers &amp; others</title>" in page.html()
    True
    """

    title: str
    blocks: Sequence[Block]
    lead: str = ""

    def html(self) -> str:
        """The whole page as text."""
        lead = f'<p class="lead">{_words(self.lead)}</p>\n' if self.lead else ""
        body = "\n".join(block.html() for block in self.blocks)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{_SHEET}\n</style>\n</head>\n"
            f"<body>\n<h1>{escape(self.title)}</h1>\n{lead}{body}\n</body>\n</html>\n"
        )

    def save(self, path: str | Path) -> None:
        """Write the page; an existing file stays whole until the new one is complete."""
        write_whole(path, self.html().encode("utf-8"))


def save_figure(drawing: Drawing, path: str | Path, *, title: str = "Sfumato") -> None:
    """Write a figure as .png, .svg or (inside a page) .html, as the file's name says."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form == "html":
        Page(title, [Picture.of(drawing, title)]).save(path)
    elif form in MEDIA:
        write_whole(path, _image(drawing, form))
    else:
        found = f"'.{form}'" if form else "no extension"
        raise ParameterError(
            f"cannot tell which picture '{path}' should be ({found})",
            hint="end it in .png, .svg or .html",
        )


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that nobody ever sees half of it."""
    try:
        files.write_whole(Path(path), content)
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"cannot write '{path}': {(error.strerror or str(error)).lower()}"
        ) from None


def shown(entry: Any) -> str:
    """A table entry in words: thousands separated, four figures of a fraction, value ± standard
    error of an Answer.

    >>> shown(48842), shown(0.123456), shown(Answer(1312.4, 50.2)), shown(None)
    ('48,842', '0.1235', '1,312 ± 50', '–')
    """
    if entry is None:
        return "–"
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, Answer):
        return _with_error(entry)
    if isinstance(entry, Integral):
        return f"{int(entry):,}"
    if isinstance(entry, Real):
        return (
            f"{float(entry):,.0f}" if 1_000 <= abs(float(entry)) < 1e15 else f"{float(entry):.4g}"
        )
    return str(entry)


def _with_error(answer: Answer) -> str:
    """Both numbers to the second figure of the error."""
    if not 0 < answer.stderr < float("inf"):
        return f"{shown(answer.value)} ± {answer.stderr:g}"
    digits = max(0, 1 - int(f"{answer.stderr:e}".partition("e")[2]))
    return f"{answer.value:z,.{digits}f} ± {answer.stderr:,.{digits}f}"


def _is_number(entry: Any) -> bool:
    if isinstance(entry, str):
        return _FIGURE.fullmatch(entry) is not None
    return entry is None or (isinstance(entry, Real | Answer) and not isinstance(entry, bool))


def _cell(tag: str, entry: Any, right: bool, long: bool = False) -> str:
    endless = long and max(map(len, shown(entry).split()), default=0) > ENDLESS
    kind = "number" if right else "long endless" if endless else "long" if long else ""
    named = f' class="{kind}"' if kind else ""
    look = (' scope="col"' if tag == "th" else "") + named
    words = _words(shown(entry))
    if right and tag == "td":  # where a phone breaks it, it breaks before the error
        words = words.replace("± ", "±\N{NO-BREAK SPACE}").replace("* ", "*\N{NO-BREAK SPACE}")
    return f"<{tag}{look}>{words}</{tag}>"


def _words(text: str) -> str:
    """A text made safe; no line ends between a number and its per cent.

    >>> _words("5 % & more").replace("\N{NO-BREAK SPACE}", "_")
    '5_% &amp; more'
    """
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _figure_of(drawing: Drawing) -> Figure:
    """The whole figure: one is its own figure, and a part of one knows the whole."""
    first: Any = drawing[0] if isinstance(drawing, Sequence) else drawing
    whole: Figure = first.figure.figure
    return whole


def _image(drawing: Drawing, form: str) -> bytes:
    """The drawing as bytes that do not change from run to run: no date, no random ids."""
    from matplotlib import rc_context

    figure = _figure_of(drawing)
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "sfumato"}):
        figure.savefig(
            buffer, format=form, dpi=160, metadata={"Date" if form == "svg" else "Software": None}
        )
    return buffer.getvalue()
