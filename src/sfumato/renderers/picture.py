"""Pictures of a view: charts drawn by matplotlib, said in words, embedded in a page, written as
files. A picture computes nothing.

Colours are those of Okabe and Ito, which stay apart for colour-blind readers; error bars are 95 %
intervals.
"""

from __future__ import annotations

import base64
import io
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from math import ceil
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MissingExtraError, ParameterError
from sfumato.printable import plain
from sfumato.view import Branch, Chart, Dots, Panel, Series, Squares

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[Any]

MEDIA = {"png": "image/png", "svg": "image/svg+xml"}
TRUTH, INK, FAINT = "#c3c7cf", "#30343c", "#8a8f99"
BLUE, ORANGE = "#0072b2", "#d55e00"
COLOURS = (BLUE, ORANGE, "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = "osD^vPX<>"  # as many as the colours and half again, so that both never repeat together
DASHES = ("-", "--", ":")
INTERVAL = 1.959964  # standard errors in half a 95 % interval
NAMED = 56  # letters of a rule's name on a line below its picture
WIDTH = 5.0  # inches of a picture: its letters can then be read on a phone without scrolling
UPRIGHT = 3  # paired bars that stand side by side; more lie one below the other
LETTERS = 10  # that fit side by side in an inch of axis, with some air; more are slanted
SLANTED = 3.5  # labels an inch of axis that can be read slanted; more stand on end,
UPENDED = 6  # and of more than these only some are named
CROWDED = 40  # points of a picture that have room for the caps of their error bars
TICKS = 12  # places below lines that are all named
MOST_LEAVES = 40  # of a tree that is drawn whole
SAID, LINES_SAID = 12, 8  # figures of a picture, and lines of a panel, that are said in words
# Where the number of a dot may stand, in points from its middle.
AROUND = ((10, 8), (10, -8), (-10, 8), (-10, -8), (0, 13), (0, -13), (13, 0), (-13, 0))

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e8ec",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "errorbar.capsize": 3,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
}


# Charts that several results have.


def estimates(
    title: str, labels: Sequence[str], value: Any, stderr: Any, truth: Any = None, **look: Any
) -> Panel:
    """Estimates as points over their labels, the truth where it is known as bars."""
    return Panel("points", labels, [Series("", value, stderr)], title, truth=truth, **look)


def bars(
    what: str,
    labels: Sequence[str],
    before: Sequence[float],
    after: Sequence[float],
    *,
    caption: str = "",
    called: tuple[str, str] = ("before", "after"),
    stderr: Sequence[float] | None = None,
) -> Chart:
    """Paired bars of a quantity, before and after, the figures written on them; many of them lie
    sideways, one below the other, so that a narrow screen can hold them.
    """
    pair = [Series(called[0], before), Series(called[1], after, stderr)]
    sideways = len(labels) > UPRIGHT or _slanted(labels, WIDTH - 1)
    return Chart(Panel("bars", labels, pair, quantity=what, sideways=sideways), caption)


def lines(
    places: Sequence[float],
    panels: Mapping[str, Sequence[Series]],
    *,
    across: str,
    caption: str = "",
    quantity: str = "",
) -> Chart:
    """A panel for each quantity, a line for each method."""
    return Chart(
        [
            Panel("lines", places, each, title, quantity=quantity, across=across)
            for title, each in panels.items()
        ],
        caption,
    )


# What is seen, in words.


def in_words(chart: Chart) -> str:
    """What is seen, for those who do not see it."""
    if chart.alt or isinstance(chart.drawn, Dots | Squares | Branch):
        return chart.alt or chart.caption
    panels = [chart.drawn] if isinstance(chart.drawn, Panel) else chart.drawn
    if panels[0].kind != "lines" and len(panels) == 1:
        return panel_in_words(panels[0])
    said = " ".join(f"{panel_in_words(each)}." for each in panels)
    return f"{chart.caption} {said}".strip() if panels[0].kind == "lines" else said


def panel_in_words(panel: Panel) -> str:
    """What is seen of one panel: of lines where they begin and end, and how high or low they go
    between.
    """
    what = panel.title or panel.quantity
    if panel.kind == "lines":
        found = [_line_in_words(panel.places, each) for each in panel.series]
        return f"{what} by {panel.across}: {_some(found, LINES_SAID)}"
    if panel.kind == "points":
        named = ((each.name or what, each) for each in panel.series)
        return "; ".join(
            points_in_words(name, panel.places, each.value, each.stderr)
            if each.ends is None
            else _within_in_words(name, panel.places, each)
            for name, each in named
        )
    paired = "Paired bars" if len(panel.series) > 1 else "Bars"
    figures = [
        f"{label}: {', '.join(f'{_said(e.value[at])} {e.name}'.strip() for e in panel.series)}"
        for at, label in enumerate(panel.places)
    ]
    return plain(f"{paired} of {what}: {_some(figures, SAID)}")


def points_in_words(what: str, labels: Sequence[str], value: Any, stderr: Any = None) -> str:
    """Points with their error bars in words: each with its standard error, unless all are exact.

    >>> points_in_words("Counts", ["a", "b"], [1312.4, math.nan], [50.2, math.nan])
    'Counts ± standard error, drawn with 95 % intervals: a: 1,312 ± 50.2; b: undefined'
    """
    errors = np.zeros(len(labels)) if stderr is None else stderr
    exact = not np.any(errors)
    each = [
        f"{label}: {_said(v)}" + ("" if exact or math.isnan(v) else f" ± {_said(e)}")
        for label, v, e in zip(labels, value, errors, strict=True)
    ]
    known = "" if stderr is None else ", exact"
    drawn = known if exact else " ± standard error, drawn with 95 % intervals"
    return plain(f"{what}{drawn}: {_some(each, SAID)}")


def _within_in_words(what: str, labels: Sequence[str], points: Series) -> str:
    """Points with the ends of their intervals in words."""
    assert points.ends is not None
    each = [
        f"{label}: {_said(value)} [{_said(low)}, {_said(high)}]"
        for label, value, (low, high) in zip(labels, points.value, points.ends, strict=True)
    ]
    return plain(f"{what}: {_some(each, SAID)}")


def _some(each: Sequence[str], most: int) -> str:
    rest = len(each) - most
    return "; ".join(each[:most]) + (f"; and {rest} more" if rest > 0 else "")


def _line_in_words(places: Sequence[float], line: Series) -> str:
    """The name of a line, and its first, lowest, highest and last points, each once."""
    x, y = np.asarray(places, dtype=float), np.asarray(line.value, dtype=float)
    known = np.flatnonzero(np.isfinite(y))
    if not len(known):
        return f"{line.name} nowhere defined"
    named = {known[0]: "from", known[-1]: "to"}
    for place in (known[y[known].argmin()], known[y[known].argmax()]):
        if y[place] not in y[list(named)]:
            named[place] = "over"
    found = " ".join(f"{named[p]} {_figures(y[p])} at {_figures(x[p])}" for p in sorted(named))
    return f"{line.name} {found.removeprefix('to ')}"


# Pages and files.


def figure_html(chart: Chart) -> str:
    """A chart inside a page, with words for those who cannot see it."""
    drawn = draw(chart)
    wide = figure_of(drawn).get_figwidth() > WIDTH
    source = f"data:{MEDIA['svg']};base64,{base64.b64encode(image(drawn, 'svg')).decode('ascii')}"
    caption = escape(plain(chart.caption)).replace(" %", "\N{NO-BREAK SPACE}%")
    look = ' class="wide"' if wide else ""
    img = f'<img src="{source}" alt="{escape(plain(in_words(chart)), quote=True)}">'
    return f"<figure{look}>{img}<figcaption>{caption}</figcaption></figure>"


def picture_form(path: str | Path) -> str:
    """Which picture a file's name asks for: html, png or svg."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("html", *MEDIA):
        found = f"'.{form}'" if form else "no extension"
        raise ParameterError(
            f"cannot tell which picture '{path}' should be ({found})",
            hint="end it in .png, .svg or .html",
        )
    return form


def image(drawing: Any, form: str) -> bytes:
    """The figure of these axes as bytes that do not change from run to run: no date, no random
    ids.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "sfumato"}):
        figure_of(drawing).savefig(
            buffer, format=form, dpi=160, metadata={"Date" if form == "svg" else "Software": None}
        )
    return buffer.getvalue()


def figure_of(drawing: Any) -> Figure:
    """The whole figure: one is its own figure, and a part of one knows the whole."""
    first: Any = drawing[0] if isinstance(drawing, Sequence) else drawing
    whole: Figure = first.figure.figure
    return whole


# The drawing.


def draw(chart: Chart, axes: Any = None) -> Any:
    """The axes that a chart was drawn on, those that are given or its own; a list of them where it
    has a list of panels.
    """
    with _style():
        if isinstance(chart.drawn, Sequence):
            return _together(chart.drawn, chart.columns)
        own = axes is None
        if own:
            axes = _figure(*_size(chart.drawn)).add_subplot()
        if isinstance(chart.drawn, Panel):
            _draw_panel(axes, chart.drawn, WIDTH - 1)
            _legend(axes, chart.drawn)
        elif isinstance(chart.drawn, Dots):
            _draw_dots(axes, chart.drawn, own)
        elif isinstance(chart.drawn, Squares):
            _draw_squares(axes, chart.drawn)
        else:
            _draw_tree(axes, chart.drawn)
        return axes


@contextmanager
def _style() -> Iterator[None]:
    try:
        from matplotlib import interactive, is_interactive, rc_context
    except ImportError:
        raise MissingExtraError("figures need matplotlib", extra="plot") from None
    with rc_context(STYLE):
        yield
        shows = is_interactive()
    # A notebook's first figure turns this on; with the other settings it would be turned off again,
    # and no later figure be shown.
    interactive(shows)


def _figure(width: float, height: float) -> Any:
    """A figure that belongs to no window and no global list, so nothing has to be closed; in a
    notebook one of pyplot's, which the notebook shows below the cell and closes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if in_notebook():
        from matplotlib import pyplot

        return pyplot.figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def in_notebook() -> bool:
    """Whether an IPython session runs this."""
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def _size(drawn: Panel | Dots | Squares | Branch) -> tuple[float, float]:
    """Inches of a figure of its own."""
    if isinstance(drawn, Dots):
        return WIDTH, 4.0 + 0.2 * sum(1 + name.count("\n") for name in _numbered(drawn))
    if isinstance(drawn, Squares):
        return WIDTH, 1.6 + 0.5 * len(drawn.classes)
    if isinstance(drawn, Branch):
        tips = _drawn_tips(drawn)
        return 2.9 * (1 + max(level for _, level in tips)) + 1.2, 0.34 * len(tips) + 0.9
    if drawn.kind == "lines":
        return WIDTH, 3.6 + 0.2 * (1 + len(drawn.series) // 2)
    if drawn.sideways:
        each = 0.55 if drawn.kind == "bars" and len(drawn.series) > 1 else 0.32
        return WIDTH, 1.2 + each * max(len(drawn.places), 2 if each > 0.5 else 3)
    return (WIDTH, 3.4) if drawn.kind == "bars" else (4.4, 3.0)


def _together(panels: Sequence[Panel], columns: int) -> list[Axes]:
    """Small multiples: the panels of one figure, with one legend."""
    if not panels:
        raise ParameterError("there is nothing to draw; give at least one panel")
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    is_lines = panels[0].kind == "lines"
    size = (WIDTH, 0.6 + 2.2 * rows) if is_lines else (3.3 * columns + 0.4, 2.6 * rows + 0.5)
    figure = _figure(*size)
    grid = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.flat)[: len(panels)]
    for place, panel in zip(axes, panels, strict=True):
        _draw_panel(place, panel, 3.0)
    for place in grid.flat[len(panels) :]:
        place.set_axis_off()
    for place in grid[:-1].flat:
        place.set_xlabel("")
    for place in grid[:, 1:].flat:
        place.set_ylabel("")
    found = [place.get_legend_handles_labels() for place in axes]
    handles, names = found[0]
    if not is_lines or all(each == names for _, each in found):
        if not is_lines or len(names) > 1:
            where = "outside upper left" if is_lines else "outside upper right"
            figure.legend(handles, names, loc=where, ncols=min(len(names), 3))
        return axes
    for place, (handles, names) in zip(axes, found, strict=True):
        if len(names) > 1:
            below: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -0.3)}
            place.legend(handles, names, **below, ncols=3, fontsize=8.5)
    return axes


def _draw_panel(axes: Axes, panel: Panel, inches: float) -> None:
    _check_shapes(panel)
    axes.set_title(panel.title)
    if panel.nothing and not len(panel.places):
        _say_nothing(axes, panel.nothing)
        return
    if panel.kind == "lines":
        _draw_lines(axes, panel)
        return
    (_draw_points if panel.kind == "points" else _draw_bars)(axes, panel)
    values = axes.xaxis if panel.sideways else axes.yaxis
    if panel.mark is not None:
        at, words = panel.mark
        line = axes.axvline if panel.sideways else axes.axhline
        line(at, color=ORANGE, linestyle="--", linewidth=1.2, label=words)
    if panel.log:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        if panel.kind == "bars":
            axes.set_xlim(0.8, 2 * max(10.0, high))
        elif high < 100 * low:  # powers of ten alone would name one place or two
            axes.locator_params("x", subs=(1.0, 2.0, 5.0))
        axes.xaxis.set_minor_formatter("")
    values.set_major_formatter(_percent if panel.percent else _figures)
    if panel.sideways:
        labels = [_folded(label, 28) for label in panel.places]
        axes.set_yticks(np.arange(len(labels)), labels, fontsize=9)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.set_xlabel(panel.quantity)
        axes.grid(visible=False, axis="y")
    else:
        axes.set_ylabel(panel.quantity)
        axes.grid(visible=False, axis="x")
        _name_places(axes, panel.places, inches=inches)


def _check_shapes(panel: Panel) -> None:
    named = {"truth": panel.truth} if panel.truth is not None else {}
    named |= {each.name or panel.title: each.value for each in panel.series}
    named |= {f"stderr of {e.name}": e.stderr for e in panel.series if e.stderr is not None}
    for name, column in named.items():
        if np.shape(column) != (len(panel.places),):
            raise ParameterError(
                f"'{name}' has shape {np.shape(column)}, but there are {len(panel.places)} labels "
                "to draw it at"
            )


def _draw_points(axes: Axes, panel: Panel) -> None:
    """Points with their intervals, before bars of the truth."""
    places = np.arange(len(panel.places))
    if panel.truth is not None and panel.sideways:
        axes.barh(places, panel.truth, height=0.66, color=TRUTH, label="truth")
    elif panel.truth is not None:
        axes.bar(places, panel.truth, width=0.72, color=TRUTH, label="truth")
    for number, each in enumerate(panel.series):
        value = np.asarray(each.value, dtype=float)
        look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)]}
        if each.stderr is not None:
            stderr = np.asarray(each.stderr, dtype=float)
            ends = INTERVAL * np.where(np.isfinite(stderr), stderr, 0)
            look |= {"xerr" if panel.sideways else "yerr": ends, "elinewidth": 1.5}
            exact = bool(len(stderr)) and not stderr.any()
            look["label"] = each.name or ("exact" if exact else "estimate, 95 % interval")
        if each.ends is not None:
            low, high = np.asarray(each.ends, dtype=float).T
            ends = np.maximum(np.nan_to_num([value - low, high - value], posinf=0.0), 0.0)
            look |= {"xerr" if panel.sideways else "yerr": ends, "elinewidth": 1.5}
        if len(value) > CROWDED:
            look |= {"capsize": 0, "markersize": 3}
        x, y = (value, places) if panel.sideways else (places, value)
        axes.errorbar(x, y, **({"label": each.name} | look), fmt="o", markeredgecolor="white")
    if panel.truth is not None or (panel.from_zero and not panel.log):
        if panel.sideways:
            axes.set_xlim(left=min(0.0, float(axes.get_xlim()[0])))
        else:
            axes.axhline(0, color=FAINT, linewidth=0.8)


def _draw_bars(axes: Axes, panel: Panel) -> None:
    """Bars, or pairs of them, with their figures beyond their error bars."""
    alone = len(panel.series) == 1
    looks = ((0.0, 0.6, BLUE),) if alone else ((-0.2, 0.38, TRUTH), (0.2, 0.38, BLUE))
    for each, (shift, width, colour) in zip(panel.series, looks, strict=True):
        reach: dict[str, Any] = {}
        if each.stderr is not None:
            errors = INTERVAL * np.asarray(each.stderr, dtype=float)
            look = {"ecolor": INK, "elinewidth": 1.2, "zorder": 3}
            reach = {"xerr" if panel.sideways else "yerr": errors, "error_kw": look}
        bar = axes.barh if panel.sideways else axes.bar
        places = np.arange(len(panel.places)) + shift
        drawn = bar(places, each.value, width, color=colour, label=each.name, **reach)
        axes.bar_label(drawn, labels=[*map(_figures, each.value)], padding=4, fontsize=9)
    axes.margins(x=0.12 if panel.sideways else None, y=None if panel.sideways else 0.12)
    if not any(np.any(each.value) for each in panel.series):  # nothing, and not less than nothing
        (axes.set_xlim if panel.sideways else axes.set_ylim)(0, 1)


def _draw_lines(axes: Axes, panel: Panel) -> None:
    """Lines with their error bars; where lines run together the earlier ones are drawn wider, so
    that all stay in sight.
    """
    places = np.asarray(panel.places, dtype=float)
    for number, line in enumerate(panel.series):
        stderr = None if line.stderr is None else np.asarray(line.stderr, dtype=float)
        behind = sum(_run_together(line, later) for later in panel.series[number + 1 :])
        axes.errorbar(
            places,
            np.asarray(line.value, dtype=float),
            # Where there is none, the legend shows no bar either.
            yerr=None if stderr is None or not stderr.any() else INTERVAL * stderr,
            label=line.name,
            markeredgecolor="white",
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
            linewidth=1.8 + 1.8 * behind,
            markersize=5.5 + 2.2 * behind,
        )
    if panel.ring is not None:
        ring: dict[str, Any] = {"marker": "o", "markersize": 13, "markerfacecolor": "none"}
        ring |= {"linestyle": "none", "markeredgewidth": 1.6, "label": "chosen"}
        axes.plot(*panel.ring, color=INK, **ring)
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.quantity)
    if "y" in panel.log:
        axes.set_yscale("log")
    elif panel.from_zero and not any(np.less(line.value, 0).any() for line in panel.series):
        axes.set_ylim(bottom=0.0)  # no cost is below nothing
    if panel.percent:
        axes.yaxis.set_major_formatter(_percent)
    if "x" in panel.log or (places.min() > 0 and places.max() >= 100 * places.min()):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_figures)  # 1, 10, 100 and not powers of ten
        axes.tick_params("x", which="minor", length=0, labelbottom=False)
    elif len(places) > 1:  # where there is nothing, that is seen
        beside = 0.05 * (places.max() - places.min())
        axes.set_xlim(places.min() - beside, places.max() + beside)
    if len(places) <= TICKS:
        axes.set_xticks(places, [f"{place:g}" for place in places])


def _run_together(line: Series, other: Series) -> bool:
    """Whether one line hides the other at a third of the places or more."""
    first, second = (np.asarray(each.value, dtype=float) for each in (line, other))
    near = np.isclose(first, second, rtol=0.02, atol=1e-12)
    return bool(near.sum() * 3 >= max(1, np.isfinite(first).sum()))


def _legend(axes: Axes, panel: Panel) -> None:
    """Below lines, or points of several kinds, and above all else; never over them."""
    names = axes.get_legend_handles_labels()[1]
    look: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0.2}
    look |= {"ncols": 3, "fontsize": 9}
    if panel.kind == "lines" or (panel.kind == "points" and len(panel.series) > 1):
        look = {"loc": "upper left", "bbox_to_anchor": (-0.12, -0.15), "borderaxespad": 0}
        look |= {"ncols": 2, "fontsize": 8, "columnspacing": 1}
    if len(names) > (panel.kind == "lines"):
        axes.legend(**look)


def _name_places(axes: Axes, labels: Sequence[str], *, inches: float) -> None:
    """Name the places side by side, slanted or upright, as they have room; of very many, some."""
    shown = [_shortened(label, 24) for label in labels]
    look: dict[str, Any] = {}
    every = 1
    if len(shown) > SLANTED * inches:
        shown = [_shortened(label, 16) for label in labels]
        look = {"rotation": 90}
        every = ceil(len(shown) / (UPENDED * inches))
    elif _slanted(shown, inches):
        look = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(np.arange(0, len(shown), every), shown[::every], **look)


def _slanted(labels: Sequence[str], inches: float) -> bool:
    """Whether these labels are too long to stand side by side on so many inches."""
    return max(map(len, labels), default=0) * len(labels) > LETTERS * inches


def _draw_dots(axes: Axes, dots: Dots, own: bool) -> None:
    """Every rule a dot, those of high lift on top; a list of names below covers none and, below a
    whole figure of our own, takes no width from them.
    """
    across, up, colour = (np.asarray(e) for e in (dots.support, dots.confidence, dots.lift))
    axes.set_xlabel("support")
    axes.set_ylabel("confidence")
    axes.xaxis.set_major_formatter(_percent)
    # So few ticks that their numbers stand apart even where they have decimals.
    axes.locator_params("x", nbins=5, steps=[1, 2, 2.5, 5, 10])
    axes.yaxis.set_major_formatter(_percent)
    if not len(across):
        _say_nothing(axes, "no rules")
        return
    if dots.stderr is not None:
        wide, high = (INTERVAL * np.asarray(error, dtype=float) for error in dots.stderr)
        thin: dict[str, Any] = {"fmt": "none", "ecolor": TRUTH, "elinewidth": 0.9, "capsize": 0}
        axes.errorbar(across, up, xerr=wide, yerr=high, zorder=1, **thin)
    order = np.argsort(colour)
    drawn = axes.scatter(
        across[order],
        up[order],
        c=colour[order],
        cmap="viridis_r",  # high lift is dark on white, and bright where a page inverts it
        s=34,
        edgecolor=FAINT,  # a dot of low lift is nearly as pale as the paper
        linewidth=0.6,
        zorder=3,
    )
    axes.margins(x=0.06, y=0.08)
    figure: Any = axes.get_figure()
    bar = figure.colorbar(drawn, ax=axes, pad=0.02, aspect=30)
    bar.set_label("lift")
    bar.outline.set_visible(False)
    if not dots.names:
        return
    _number_dots(axes, across, up, _numbered(dots))
    look: dict[str, Any] = {"fontsize": 9, "handlelength": 0, "handletextpad": 0}
    if own:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", **look)
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), **look)


def _numbered(dots: Dots) -> list[str]:
    return [_folded(name, NAMED) for name in dots.names]


def _number_dots(axes: Axes, across: Floats, up: Floats, names: Sequence[str]) -> None:
    """A ring and a number at each named dot, the number where it is farthest from other dots and
    numbers; to the upper right where it makes no difference.
    """
    taken = axes.transData.transform(np.column_stack([across, up]))
    points = axes.get_figure().dpi / 72  # type: ignore[union-attr]
    for number, (name, x, y) in enumerate(zip(names, across, up, strict=False), 1):
        axes.scatter(x, y, s=90, facecolor="none", edgecolor=INK, linewidth=1.2, zorder=4)
        steps = taken[number - 1] + points * np.array(AROUND)
        away = np.linalg.norm(taken - steps[:, None], axis=2).min(axis=1) / points
        best = int(np.minimum(away, 12.0).argmax())  # beyond that nothing is covered
        taken = np.vstack([taken, steps[best]])
        look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9, "zorder": 5}
        axes.annotate(str(number), (x, y), xytext=AROUND[best], ha="center", va="center", **look)
        hanging = name.replace("\n", "\n    ")  # below the name, not below its number
        axes.plot([], [], " ", label=f"{number}  {hanging}")


def _draw_squares(axes: Axes, squares: Squares) -> None:
    """A square for each pair of classes, the darker the more of the true class are in it."""
    number, classes = np.asarray(squares.counts, dtype=np.float64), squares.classes
    if number.shape != (len(classes), len(classes)):
        raise ParameterError(f"counts of shape {number.shape} for {len(classes)} classes")
    share = number / np.maximum(number.sum(axis=1, keepdims=True), 1)
    axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (down, across), each in np.ndenumerate(number):
        colour = "white" if share[down, across] > 0.55 else INK
        axes.text(across, down, f"{each:,.0f}", ha="center", va="center", color=colour)
    _name_places(axes, classes, inches=WIDTH - 1)
    axes.set_yticks(np.arange(len(classes)), [_folded(name, 24) for name in classes])
    axes.set_xlabel("predicted")
    axes.set_ylabel("truth")
    axes.grid(visible=False)


def _draw_tree(axes: Axes, root: Branch) -> None:
    """A tree from left to right: on each line what leads to a node, on each dot its label; dots
    grow with the rows. Where there are more leaves than fit, the deepest levels are left out and
    marked with an ellipsis.
    """
    tips = _drawn_tips(root)
    levels, heights = 1 + max(level for _, level in tips), iter(range(len(tips)))
    _draw_branch(axes, root, 0, _depth(root), heights, max(root.rows, 1.0))
    axes.set_ylim(len(tips) - 0.4, -0.8)
    axes.set_xlim(-0.1, levels - 0.1)
    axes.set_axis_off()


def _drawn_tips(root: Branch) -> list[tuple[Branch, int]]:
    return list(_tips(root, _depth(root)))


def _depth(root: Branch) -> int:
    """The deepest level that is drawn."""
    fits = (d for d in range(32, 1, -1) if len(list(_tips(root, d))) <= MOST_LEAVES)
    return next(fits, 1)


def _tips(branch: Branch, depth: int, level: int = 0) -> Iterator[tuple[Branch, int]]:
    """The nodes without children, or at this depth, with their levels."""
    if not branch.children or level == depth:
        yield branch, level
        return
    for child in branch.children:
        yield from _tips(child, depth, level + 1)


def _draw_branch(
    axes: Axes, branch: Branch, level: int, depth: int, heights: Iterator[int], everyone: float
) -> float:
    """Draw the children first, then the node in the middle of them; its height."""
    shown = branch.children if level < depth else ()
    below = [_draw_branch(axes, child, level + 1, depth, heights, everyone) for child in shown]
    height = (below[0] + below[-1]) / 2 if below else float(next(heights))
    colour = COLOURS[branch.colour % len(COLOURS)]
    for child, place in zip(shown, below, strict=True):
        way = [level, level + 0.14, level + 1]
        axes.plot(way, [height, place, place], color=TRUTH, linewidth=1.2, zorder=1)
        words = _shortened(child.condition, 30)
        axes.text(level + 0.18, place - 0.08, words, fontsize=9.5, va="bottom")
    size, alpha = 18 + 260 * branch.rows / everyone, 0.35 + 0.65 * branch.share
    axes.scatter([level], [height], s=size, color=colour, alpha=alpha, zorder=2)
    if not shown:
        people = round(branch.rows)
        seen = f"{100 * branch.share:.0f} % of {_figures(people)}" if people > 0 else "nobody seen"
        words = f"{branch.label} ({seen})" + (" …" if branch.children else "")
        axes.text(level + 0.08, height, words, fontsize=10, va="center", color=colour)
    return height


def _say_nothing(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=FAINT)
    axes.set_axis_off()


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _folded(text: str, most: int) -> str:
    """A text on at most two lines of so many letters."""
    return "\n".join(wrap(text, most, max_lines=2, placeholder="…", break_on_hyphens=False))


def _said(value: float) -> str:
    return "undefined" if math.isnan(value) else _figures(value)


def _figures(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 or value == round(value) else f"{value:.3g}"


def _percent(value: float, _: object = None) -> str:
    return f"{100 * value:,.0f} %" if abs(value) >= 10 else f"{100 * value:.4g} %"
