"""View: what is to be seen of a result, said once.

A result says in a `View` what a reader should see of it: a title, sentences, named facts, tables,
pictures, notes. The renderers (text, HTML, JSON, Arrow, picture) take any view, so a new result
needs one description and has all five.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Values: TypeAlias = "Sequence[float] | NDArray[Any]"

# A number in words: 48,842 or 1.2e+08 or 3.1 % or 0.12 ± 0.01 or ± 0.01, or the dash of none.
_NUMBER = r"-?[\d,.]+(e[+-]?\d+)?( ?%)?"
_BOTH = rf"\[{_NUMBER}, {_NUMBER}\]|{_NUMBER} – {_NUMBER}"  # the ends of an interval
_HULL = rf"\[{_NUMBER}, ({_NUMBER}|∞)\]"
_ONE = rf"{_NUMBER}( (± {_NUMBER}|± ∞|exact|\(model\)|{_HULL}))?"
_FIGURE = re.compile(rf"|–|∞|exact|{_ONE}|± {_NUMBER}|{_BOTH}")
LISTED, DRAWN = 200, 20  # what people see at most: lines of a table, points of a picture
EXACT = 1e-9  # relative errors below are rounding, not noise


@dataclass(frozen=True)
class ColumnView:
    """What stands below one heading: values, and how people and programs read them.

    `words` writes a value, also where every error is 0; else a value with a standard error is
    written to the second digit of that error. With `level`, its interval stands beside it, and in
    HTML a sparkline; with `mark` or `ends`, a sparkline alone, on an axis that shows the mark
    dashed (and 0 where it `counts`). In frames the column is called `field`; a tuple names its
    error, low and high end as well. One without a field is for people alone, one without a head
    for programs.
    """

    head: str
    values: Sequence[Any]
    stderr: Sequence[float] | None = None
    words: Callable[[Any], str] | None = None
    level: float | None = None
    counts: bool = False
    mark: float | None = None
    ends: Sequence[tuple[float, float]] | None = None  # of its line, where not symmetric
    field: str | tuple[str, ...] = ()
    kind: str | None = None  # Arrow's word, or `names` for lists of them; else by the values

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field,) if isinstance(self.field, str) else self.field

    @property
    def reach(self) -> float:
        """Standard errors in half an interval, at 95 % unless a level is stated."""
        return NormalDist().inv_cdf((1 + (self.level or 0.95)) / 2)

    def first(self, most: int | None) -> ColumnView:
        """The beginning of the column."""
        cut = {
            name: part[:most]
            for name in ("values", "stderr", "ends")
            if (part := getattr(self, name)) is not None
        }
        return replace(self, **cut)

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """The ends of each value's interval: the normal one unless stated."""
        if self.ends is not None:
            return [*self.ends]
        assert self.stderr is not None
        halves = (self.reach * error for error in self.stderr)
        return [(v - half, v + half) for v, half in zip(self.values, halves, strict=True)]

    @property
    def cells(self) -> list[str]:
        """The values in words, each with its standard error where it has one."""
        if self.stderr is None or (self.words is not None and not any(self.stderr)):
            return [*map(self.words or shown, self.values)]
        pairs = zip(self.values, self.stderr, strict=True)
        return [with_error(value, error, counts=self.counts) for value, error in pairs]

    @property
    def interval_cells(self) -> list[str]:
        """The intervals in words; none where a value is exact or unknown, or none are shown."""
        if self.level is None or self.stderr is None:
            return []
        triples = zip(self.values, self.stderr, self.intervals, strict=True)
        return [_interval(*triple) for triple in triples]


def attribute_columns(
    items: Sequence[Any], kinds: Mapping[str, str], heads: Mapping[str, str]
) -> list[ColumnView]:
    """A column for each of these attributes of the items: its kind in frames, and its heading where
    people see it.
    """
    return [
        ColumnView(
            heads.get(name, ""), [getattr(one, name) for one in items], field=name, kind=kind
        )
        for name, kind in kinds.items()
    ]


@dataclass(frozen=True)
class TableView:
    """Columns side by side, with a caption; `rest` says what a long table leaves out."""

    columns: Sequence[ColumnView]
    caption: str = ""
    rest: str = "more"  # what the lines that are not shown are called
    total: int = 0  # all lines, where the columns hold only the first

    @classmethod
    def of(
        cls,
        heads: Sequence[str],
        lines: Sequence[Sequence[Any]],
        caption: str = "",
        fields: Sequence[str] = (),
    ) -> TableView:
        """Lines under headings, for people, and where columns have fields for programs too."""
        for place, line in enumerate(lines, start=1):
            if len(line) != len(heads):
                raise ParameterError(
                    f"row {place} has {len(line)} entries, but the table has {len(heads)} columns"
                )
        parts = list(zip(*lines, strict=True)) or [()] * len(heads)
        names: Sequence[str | tuple[()]] = fields or [()] * len(heads)
        named = zip(heads, parts, names, strict=True)
        return cls([ColumnView(head, part, field=field) for head, part, field in named], caption)

    def __len__(self) -> int:
        here = len(self.columns[0].values) if self.columns else 0
        return max(here, self.total)

    @property
    def fields(self) -> list[str]:
        """What its columns are called in frames."""
        return [name for column in self.columns for name in column.fields]

    @property
    def seen(self) -> list[ColumnView]:
        """The columns that people see."""
        return [column for column in self.columns if column.head or not column.fields]


@dataclass(frozen=True)
class Series:
    """What is drawn in one colour: a value for each place of its panel and, where they are known,
    the standard errors, or the ends of intervals that are not symmetric. Points without a name are
    called what they are: exact, or estimates.
    """

    name: str
    value: Values
    stderr: Values | None = None
    ends: NDArray[Any] | None = None  # (places, 2)


@dataclass(frozen=True)
class Panel:
    """Axes: series of points or paired bars over labels (`sideways`: the labels one below the
    other), or of lines over numbers, with 95 % intervals. `truth` stands behind points as bars;
    `mark` is a value drawn dashed, with its meaning, and `ring` a point that is ringed. `log` names
    logarithmic axes.
    """

    kind: Literal["points", "bars", "lines"]
    places: Sequence[Any]
    series: Sequence[Series]
    title: str = ""
    quantity: str = ""  # of the values
    across: str = ""  # of the numbers below lines
    truth: Values | None = None
    sideways: bool = False
    mark: tuple[float, str] | None = None
    ring: tuple[float, float] | None = None
    log: Literal["", "x", "y", "xy"] = ""
    percent: bool = False
    from_zero: bool = True  # a count is drawn so; a mean or a ratio need not be
    nothing: str = ""  # what is said where there is no place


@dataclass(frozen=True)
class Dots:
    """Dots by two shares, support across and confidence up, coloured by lift, with the standard
    errors of both shares; those that are named are numbered, and their names stand below.
    """

    support: Values
    confidence: Values
    lift: Values
    stderr: tuple[Values, Values] | None = None
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Squares:
    """How many of each true class (down) were taken for each class (across)."""

    classes: Sequence[str]
    counts: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Branch:
    """One node of a tree: what leads to it, what it says, the colour of that, how sure it is, and
    its own branches.
    """

    condition: str
    label: str
    colour: int  # the number of the label among all labels
    share: float  # of the label in this node
    rows: float
    children: Sequence[Branch] = ()


@dataclass(frozen=True)
class Chart:
    """A picture as data: axes, or a list of panels that are drawn together, so many side by side;
    its caption, and what is seen in words for those who cannot see it, unless it follows.
    """

    drawn: Panel | Dots | Squares | Branch | Sequence[Panel]
    caption: str = ""
    alt: str = ""
    columns: int = 1


@dataclass(frozen=True)
class View:
    """What is to be seen of a result, in the order in which it is read. A section that is a
    `detail` stands on pages and below commands, not at the prompt or in a notebook.
    """

    title: str = ""
    words: Sequence[str] = ()
    facts: Sequence[tuple[str, Any]] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[TableView] = ()
    code: str = ""  # lines shown as they are: a tree
    command: str = ""  # what to type
    notes: Sequence[str] = ()  # what must not be overlooked
    sections: Sequence[View] = ()
    detail: bool = False
    verdict: tuple[str, bool] | None = None  # what comes first of all, and whether it is good news

    def parts(self) -> Iterator[View]:
        """The view and its sections, as they are read."""
        yield self
        for section in self.sections:
            yield from section.parts()

    def all_notes(self) -> list[str]:
        """The notes of the view and of its sections."""
        return [note for part in self.parts() for note in part.notes]

    def brief(self) -> View:
        """The view without its details, but with their notes."""
        sections = [part.brief() for part in self.sections if not part.detail]
        noted = [note for part in self.sections if part.detail for note in part.all_notes()]
        return replace(self, sections=sections, notes=(*self.notes, *noted))


def shown(entry: Any) -> str:
    """A value in words: thousands separated, four figures of a fraction, a dash for none.

    >>> shown(48842), shown(0.123456), shown(None), shown(True)
    ('48,842', '0.1235', '–', 'yes')
    """
    if entry is None:
        return "–"
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    if isinstance(entry, Integral):
        return f"{int(entry):,}"
    if isinstance(entry, Real):
        number = float(entry)
        return f"{number:,.0f}" if 1_000 <= abs(number) < 1e15 else f"{number:.4g}"
    stderr = getattr(entry, "stderr", None)
    return str(entry) if stderr is None else with_error(entry.value, stderr)


def with_error(value: float, stderr: float, *, counts: bool = False) -> str:
    """A value and its standard error, both to the second digit of the error; a count without one is
    whole.

    >>> with_error(1312.4, 50.2), with_error(0.12345, 0.0123), with_error(7.0, 0.0)
    ('1,312 ± 50', '0.123 ± 0.012', '7 exact')
    """
    if not math.isfinite(value):
        return "–"
    if not math.isfinite(stderr):
        known = f"{round(value):,}" if counts else f"{value:,.6g}"
        return known + (" ± ∞" if stderr > 0 else "")
    if is_exact(value, stderr):
        whole = float(value).is_integer() and abs(value) < 1e15
        return f"{value:,.0f} exact" if whole else f"{value:,.12g} exact"
    digits = decimals(stderr)
    return f"{value:z,.{digits}f} ± {stderr:,.{digits}f}"


def is_exact(value: float, stderr: float) -> bool:
    """Whether nothing but rounding stands between a value and the truth."""
    return stderr < EXACT * max(1.0, abs(value))


def decimals(stderr: float) -> int:
    """How many decimals of a number are worth showing: two digits of its error, which is above 0.

    >>> decimals(143), decimals(0.0123)
    (0, 3)
    """
    return min(15, max(0, 1 - math.floor(math.log10(stderr))))


def is_figure(words: str) -> bool:
    """Whether words are a number as `shown` or `with_error` write it; it then stands to the right.

    >>> is_figure("1,312 ± 50"), is_figure("3.1 %"), is_figure("north")
    (True, True, False)
    """
    return _FIGURE.fullmatch(words) is not None


def _interval(value: float, stderr: float, ends: tuple[float, float]) -> str:
    if not math.isfinite(value) or not math.isfinite(stderr) or is_exact(value, stderr):
        return ""
    digits = decimals(stderr)
    low, high = (f"{end:z,.{digits}f}" for end in ends)
    return f"[{low}, {high}]"
