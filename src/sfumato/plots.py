"""Results as figures: each function takes plain arrays, draws them and returns the axes; it
computes nothing.

Colours are those of Okabe and Ito, which stay apart for colour-blind readers; error bars are 95 %
intervals.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[Any]

TRUTH = "#c3c7cf"
INK = "#30343c"
BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)
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
LINES_SAID = 8  # of a panel, in words
# Where the number of a dot may stand, in points from its middle.
AROUND = ((10, 8), (10, -8), (-10, 8), (-10, -8), (0, 13), (0, -13), (13, 0), (-13, 0))

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#8a8f99",
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


@dataclass(frozen=True)
class Marginal:
    """One attribute's counts or shares: what was estimated, how surely, and the truth where it is
    known.
    """

    name: str
    labels: Sequence[str]
    value: ArrayLike
    stderr: ArrayLike
    truth: ArrayLike | None = None
    from_zero: bool = True  # a count is; a mean or a ratio need not be


@dataclass(frozen=True)
class Series:
    """One line of a chart: a name and, for each place on the axis, a value and (where known) its
    standard error.
    """

    name: str
    value: ArrayLike
    stderr: ArrayLike | None = None


def marginals(
    panels: Sequence[Marginal], *, columns: int = 3, quantity: str = "people"
) -> list[Axes]:
    """Small multiples, one attribute a panel: the truth as bars, the estimates as points with error
    bars.
    """
    if not panels:
        raise ParameterError("there is no marginal to draw; give at least one")
    columns = min(columns, len(panels))
    with _style():
        figure = _figure(3.3 * columns + 0.4, 2.6 * -(-len(panels) // columns) + 0.5)
        grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False)
        axes = [
            marginal(panel, axes=place) for panel, place in zip(panels, grid.flat, strict=False)
        ]
        for place in grid.flat[len(panels) :]:
            place.set_axis_off()
        for place in grid[:, 0]:
            place.set_ylabel(quantity)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=len(names))
    return axes


def marginal(panel: Marginal, *, axes: Axes | None = None) -> Axes:
    """One attribute: the truth as bars, the estimate as points with error bars."""
    value, stderr = (
        _column(panel.name, panel.value, panel.labels),
        _column(panel.name, panel.stderr, panel.labels),
    )
    with _style():
        axes, alone = _on(axes, 4.4, 3.0)
        places = np.arange(len(value))
        if panel.truth is not None:
            truth = _column(panel.name, panel.truth, panel.labels)
            axes.bar(places, truth, width=0.72, color=TRUTH, label="truth")
        _points(axes, places, value, stderr, BLUE, _meaning(stderr))
        if panel.from_zero or panel.truth is not None:
            axes.axhline(0, color="#8a8f99", linewidth=0.8)
        axes.set_title(panel.name)
        axes.grid(visible=False, axis="x")
        axes.yaxis.set_major_formatter(_figures)
        _name_places(axes, panel.labels, inches=4.0 if alone else 3.0)
        if alone:
            _legend_above(axes)
    return axes


def supports(
    itemsets: Sequence[str],
    support: ArrayLike,
    stderr: ArrayLike,
    *,
    truth: ArrayLike | None = None,
    top: int = 20,
    min_support: float | None = None,
    axes: Axes | None = None,
) -> Axes:
    """The first `top` itemsets, one a line, with the error bars of their supports and the truth
    where it is known.
    """
    shown = list(itemsets)[:top]
    value, errors = (
        _column("support", support, itemsets)[:top],
        _column("stderr", stderr, itemsets)[:top],
    )
    with _style():
        axes, _ = _on(axes, WIDTH, 1.1 + 0.31 * max(len(shown), 3))
        if not shown:
            return _nothing(axes, "no frequent itemsets")
        places = np.arange(len(shown))
        if truth is not None:
            true = _column("truth", truth, itemsets)[:top]
            axes.barh(places, true, height=0.66, color=TRUTH, label="truth")
        _points(axes, value, places, errors, BLUE, _meaning(errors), sideways=True)
        if min_support is not None:
            axes.axvline(
                min_support, color=ORANGE, linestyle="--", linewidth=1.2, label="minimum support"
            )
        _name_lines(axes, shown, "support", most=30, fontsize=8.5)
        axes.set_xlim(left=min(0.0, float(axes.get_xlim()[0])) if truth is not None else None)
        axes.xaxis.set_major_formatter(_percent)
        _legend_above(axes)
    return axes


def rules(
    support: ArrayLike,
    confidence: ArrayLike,
    lift: ArrayLike,
    *,
    stderr: tuple[ArrayLike, ArrayLike] | None = None,
    names: Sequence[str] | None = None,
    top: int = 5,
    axes: Axes | None = None,
) -> Axes:
    """Every rule a dot, support across, confidence up, coloured by lift, with the error bars of
    both where they are given; the first `top` rules are numbered and named below.
    """
    across = np.asarray(support, dtype=float)
    up, colour = _column("confidence", confidence, across), _column("lift", lift, across)
    named = [_folded(name, NAMED) for name in (names or [])[:top]]
    lines = sum(1 + name.count("\n") for name in named)
    with _style():
        axes, own = _on(axes, WIDTH, 4.0 + 0.2 * lines)
        axes.set_xlabel("support")
        axes.set_ylabel("confidence")
        axes.xaxis.set_major_formatter(_percent)
        # So few ticks that their numbers stand apart even where they have decimals.
        axes.locator_params("x", nbins=5, steps=[1, 2, 2.5, 5, 10])
        axes.yaxis.set_major_formatter(_percent)
        if not len(across):
            return _nothing(axes, "no rules")
        if stderr is not None:
            wide, high = (INTERVAL * _column("stderr", error, across) for error in stderr)
            look: dict[str, Any] = {"fmt": "none", "ecolor": TRUTH, "elinewidth": 0.9, "capsize": 0}
            axes.errorbar(across, up, xerr=wide, yerr=high, zorder=1, **look)
        order = np.argsort(colour)  # high lift is drawn last, on top
        dots = axes.scatter(
            across[order],
            up[order],
            c=colour[order],
            cmap="viridis_r",  # high lift is dark on white, and bright where a page inverts it
            s=34,
            edgecolor="#8a8f99",  # a dot of low lift is nearly as pale as the paper
            linewidth=0.6,
            zorder=3,
        )
        axes.margins(x=0.06, y=0.08)
        # Axes that were drawn on belong to a figure; a subfigure has a colorbar too.
        bar = axes.get_figure().colorbar(dots, ax=axes, pad=0.02, aspect=30)  # type: ignore[union-attr]
        bar.set_label("lift")
        bar.outline.set_visible(False)
        _number_dots(axes, across, up, named, own)
    return axes


def errors_by_length(lengths: Sequence[int], panels: Mapping[str, Sequence[Series]]) -> list[Axes]:
    """Small multiples of errors by itemset length: a panel for each kind of error, a line for each
    mechanism, in percent.
    """
    return trade_off(lengths, panels, across="itemset length", up="error (%)")


def error_by_privacy(
    epsilon: Sequence[float],
    lines: Sequence[Series],
    *,
    error: str = "standard error",
    chosen: tuple[float, float] | None = None,
    axes: Axes | None = None,
) -> Axes:
    """What privacy costs: error against ε on logarithmic axes, a line for each mechanism; strong
    privacy is on the left.

    `chosen` rings one point: the ε and the error that were decided for.
    """
    with _style():
        axes, _ = _on(axes, WIDTH, _height(lines))
        _lines(axes, epsilon, lines)
        if chosen is not None:
            ring: dict[str, Any] = {
                "marker": "o",
                "markersize": 13,
                "markerfacecolor": "none",
                "markeredgewidth": 1.6,
            }
            axes.plot(*chosen, linestyle="none", color=INK, label="chosen", **ring)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(list(epsilon), [f"{value:g}" for value in epsilon])
        axes.tick_params("x", which="minor", length=0, labelbottom=False)
        axes.set_xlabel("ε = ln γ   (smaller is more private)")
        axes.set_ylabel(error)
        axes.yaxis.set_major_formatter(_percent)
        _legend_below(axes)
    return axes


def trade_off(
    places: Sequence[float], panels: Mapping[str, Sequence[Series]], *, across: str, up: str = ""
) -> list[Axes]:
    """Small multiples of what a choice costs and buys: a panel for each quantity, one below the
    other, and a line for each method.
    """
    if not panels:
        raise ParameterError("there is nothing to draw; give at least one panel")
    with _style():
        figure = _figure(WIDTH, 0.6 + 2.2 * len(panels))
        grid = list(figure.subplots(len(panels), 1, squeeze=False)[:, 0])
        for place, (title, lines) in zip(grid, panels.items(), strict=True):
            _lines(place, places, lines)
            place.set_title(title)
            place.set_ylabel(up)
            place.set_xticks(list(places))
            place.margins(y=0.1)
            if len(places) > 1:  # where there is nothing, that is seen
                beside = 0.05 * (max(places) - min(places))
                place.set_xlim(min(places) - beside, max(places) + beside)
            if not any(np.less(line.value, 0).any() for line in lines):
                place.set_ylim(bottom=0.0)  # no cost is below nothing
        grid[-1].set_xlabel(across)
        _legend_of_panels(figure, grid)
    return grid


def _legend_of_panels(figure: Any, panels: Sequence[Axes]) -> None:
    """One legend above all panels, or below each panel its own where their lines differ."""
    found = [panel.get_legend_handles_labels() for panel in panels]
    if all(names == found[0][1] for _, names in found):
        if len(found[0][1]) > 1:
            columns = min(len(found[0][1]), 3)
            figure.legend(*found[0], loc="outside upper left", ncols=columns, fontsize=8.5)
        return
    for panel, (handles, names) in zip(panels, found, strict=True):
        if len(names) > 1:
            place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -0.3)}
            panel.legend(handles, names, **place, ncols=3, fontsize=8.5)


def curves(
    places: Sequence[float],
    lines: Sequence[Series],
    *,
    across: str,
    up: str,
    logarithmic: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Lines over one quantity, as the papers draw them; a logarithmic axis across where the places
    span it.
    """
    with _style():
        axes, _ = _on(axes, WIDTH, _height(lines))
        _lines(axes, places, lines)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        if logarithmic:
            axes.set_yscale("log")
        if min(places) > 0 and max(places) / min(places) >= 100:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(_figures)  # 1, 10, 100 and not powers of ten
        elif len(places) <= 12 and all(place == round(place) for place in places):
            axes.set_xticks(list(places))
        if len(lines) > 1:
            _legend_below(axes)
    return axes


def risk(
    labels: Sequence[str],
    before: ArrayLike,
    after: ArrayLike,
    *,
    quantity: str = "records at risk",
    stderr: ArrayLike | None = None,
    called: tuple[str, str] = ("before", "after"),
    axes: Axes | None = None,
) -> Axes:
    """Paired bars: each risk before the release and after it, with the figures written on them and
    the error bars of what is known from a sample (`stderr`, of after); many of them lie sideways,
    one below the other, so that a narrow screen can hold them.
    """
    sideways = len(labels) > UPRIGHT or _slanted(labels, WIDTH - 1)
    pairs = tuple(zip(called, (before, after), (TRUTH, BLUE), strict=True))
    with _style():
        axes, _ = _on(axes, WIDTH, 1.1 + 0.55 * len(labels) if sideways else 3.4)
        for shift, (name, values, colour) in zip((-0.2, 0.2), pairs, strict=True):
            heights = _column(name, values, labels)
            places = np.arange(len(labels)) + shift
            draw = axes.barh if sideways else axes.bar
            reach: dict[str, Any] = {}
            if stderr is not None and name == called[1]:  # their figures stand beyond the bars
                errors = INTERVAL * _column("stderr", stderr, labels)
                look = {"ecolor": INK, "elinewidth": 1.2, "zorder": 3}
                reach = {"xerr" if sideways else "yerr": errors, "error_kw": look}
            bars = draw(places, heights, 0.38, color=colour, label=name, **reach)
            axes.bar_label(
                bars, labels=[_figures(height) for height in heights], padding=4, fontsize=9
            )
        (axes.xaxis if sideways else axes.yaxis).set_major_formatter(_figures)
        if sideways:
            axes.margins(x=0.12)
            _name_lines(axes, labels, quantity)
        else:
            axes.margins(y=0.12)
            axes.set_ylabel(quantity)
            axes.grid(visible=False, axis="x")
            _name_places(axes, labels, inches=WIDTH - 1)
        if not (np.any(before) or np.any(after)):  # nothing is at risk, and not less than nothing
            (axes.set_xlim if sideways else axes.set_ylim)(0, 1)
        _legend_above(axes)
    return axes


def options(
    labels: Sequence[str],
    errors: ArrayLike,
    *,
    useless: float,
    axes: Axes | None = None,
) -> Axes:
    """The relative error of every option, one a line on a logarithmic axis, and where an answer
    stops being one.
    """
    value = _column("error", errors, labels)
    with _style():
        axes, _ = _on(axes, WIDTH, 1.1 + 0.32 * max(len(labels), 3))
        places = np.arange(len(labels))
        axes.plot(value, places, "o", color=BLUE, markeredgecolor="white", label="relative error")
        axes.axvline(useless, color=ORANGE, linestyle="--", linewidth=1.2, label="of no use beyond")
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        if high < 100 * low:  # powers of ten alone would name one place or two
            axes.locator_params("x", subs=(1.0, 2.0, 5.0))
        axes.xaxis.set_major_formatter(_percent)
        axes.xaxis.set_minor_formatter("")
        _name_lines(axes, labels, "relative standard error")
        axes.grid(visible=True)
        _legend_above(axes)
    return axes


def sizes(labels: Sequence[str], values: ArrayLike, *, axes: Axes | None = None) -> Axes:
    """How many values every column has, one a line on a logarithmic axis, the figure beside it."""
    size = _column("values", values, labels)
    with _style():
        axes, _ = _on(axes, WIDTH, 1.1 + 0.32 * max(len(labels), 3))
        places = np.arange(len(labels))
        bars = axes.barh(places, size, 0.6, color=BLUE)
        axes.bar_label(bars, labels=[f"{each:,.0f}" for each in size], padding=4, fontsize=9)
        axes.set_xscale("log")
        axes.set_xlim(0.8, 2 * max(10.0, float(size.max())))
        axes.xaxis.set_major_formatter(_figures)
        _name_lines(axes, labels, "values")
    return axes


def confusion(classes: Sequence[str], counts: ArrayLike, *, axes: Axes | None = None) -> Axes:
    """Who was taken for what: a square for each true class (down) and predicted one (across), the
    darker the more of the true class are in it, with the number of records.
    """
    number = np.asarray(counts, dtype=np.float64)
    if number.shape != (len(classes), len(classes)):
        raise ParameterError(f"counts of shape {number.shape} for {len(classes)} classes")
    share = number / np.maximum(number.sum(axis=1, keepdims=True), 1)
    with _style():
        axes, _ = _on(axes, WIDTH, 1.6 + 0.5 * len(classes))
        axes.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for (down, across), each in np.ndenumerate(number):
            colour = "white" if share[down, across] > 0.55 else INK
            axes.text(across, down, f"{each:,.0f}", ha="center", va="center", color=colour)
        _name_places(axes, classes, inches=WIDTH - 1)
        axes.set_yticks(np.arange(len(classes)), [_folded(name, 24) for name in classes])
        axes.set_xlabel("predicted")
        axes.set_ylabel("truth")
        axes.grid(visible=False)
    return axes


def evidence(
    target: str,
    classes: Mapping[str, Sequence[tuple[str, float, float]]],
    *,
    axes: Axes | None = None,
) -> Axes:
    """What speaks for each class: its values, each with how many times as common it is there as
    among everyone and the standard error of that, one a line with its 95 % interval.
    """
    labels = [value for values in classes.values() for value, _, _ in values]
    with _style():
        axes, _ = _on(axes, WIDTH, 1.4 + 0.32 * max(len(labels), 3))
        first = 0
        for number, (name, values) in enumerate(classes.items()):
            places = first + np.arange(len(values), dtype=float)
            times, stderr = np.array([each[1:] for each in values]).reshape(-1, 2).T
            colour = COLOURS[number % len(COLOURS)]
            _points(axes, times, places, stderr, colour, f"{target} = {name}", sideways=True)
            first += len(values)
        axes.axvline(1, color=INK, linestyle="--", linewidth=1.2, label="as among everyone")
        _name_lines(axes, labels, "times as common as among everyone")
        axes.set_xlim(left=0)
        _legend_below(axes)
    return axes


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


def decision_tree(root: Branch, *, most_leaves: int = 40, axes: Axes | None = None) -> Axes:
    """A tree from left to right: on each line what leads to a node, on each dot its label; dots
    grow with the rows.

    Where there are more leaves than fit, the deepest levels are left out and marked with an
    ellipsis.
    """
    depth = max(
        level
        for level in range(1, 33)
        if level == 1 or len(list(_tips(root, level))) <= most_leaves
    )
    tips = list(_tips(root, depth))
    levels = 1 + max(level for _, level in tips)
    with _style():
        axes, _ = _on(axes, 2.9 * levels + 1.2, 0.34 * len(tips) + 0.9)
        heights = iter(range(len(tips)))
        _draw_branch(axes, root, 0, depth, heights, max(root.rows, 1.0))
        axes.set_ylim(len(tips) - 0.4, -0.8)
        axes.set_xlim(-0.1, levels - 0.1)
        axes.set_axis_off()
    return axes


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
        axes.plot(
            [level, level + 0.14, level + 1],
            [height, place, place],
            color=TRUTH,
            linewidth=1.2,
            zorder=1,
        )
        axes.text(
            level + 0.18, place - 0.08, _shortened(child.condition, 30), fontsize=9.5, va="bottom"
        )
    axes.scatter(
        [level],
        [height],
        s=18 + 260 * branch.rows / everyone,
        color=colour,
        alpha=0.35 + 0.65 * branch.share,
        zorder=2,
    )
    if not shown:
        people = round(branch.rows)
        seen = f"{100 * branch.share:.0f} % of {_figures(people)}" if people > 0 else "nobody seen"
        words = f"{branch.label} ({seen})"
        axes.text(
            level + 0.08,
            height,
            words + (" …" if branch.children else ""),
            fontsize=10,
            va="center",
            color=colour,
        )
    return height


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


def in_words(axes: Sequence[Axes]) -> str:
    """What is seen of lines, in words for those who do not see them: of each panel where its lines
    begin and end, and how high or low they go between.
    """
    across = axes[-1].get_xlabel()
    return " ".join(_panel_in_words(panel, across) for panel in axes)


def _panel_in_words(panel: Axes, across: str) -> str:
    lines = [_line_in_words(each) for each in panel.containers]
    rest = len(lines) - LINES_SAID
    more = f"; and {rest} more" if rest > 0 else ""
    what = panel.get_title(loc="left") or panel.get_ylabel()
    return f"{what} by {across}: {'; '.join(lines[:LINES_SAID])}{more}."


def _line_in_words(line: Any) -> str:
    """The name of a line, and its first, lowest, highest and last points, each once."""
    x, y = (np.asarray(each, dtype=float) for each in line.lines[0].get_data())
    known = np.flatnonzero(np.isfinite(y))
    if not len(known):
        return f"{line.get_label()} nowhere defined"
    places = {known[0]: "from", known[-1]: "to"}
    for place in (known[y[known].argmin()], known[y[known].argmax()]):
        if y[place] not in y[list(places)]:
            places[place] = "over"
    points = " ".join(f"{places[p]} {_figures(y[p])} at {_figures(x[p])}" for p in sorted(places))
    return f"{line.get_label()} {points.removeprefix('to ')}"


def _on(axes: Axes | None, width: float, height: float) -> tuple[Axes, bool]:
    """The axes to draw on, and whether they were made here."""
    return (axes, False) if axes is not None else (_figure(width, height).add_subplot(), True)


def _column(name: str, values: ArrayLike, labels: Any) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (len(labels),):
        raise ParameterError(
            f"'{name}' has shape {column.shape}, but there are {len(labels)} labels to draw it at"
        )
    return column


def _points(
    axes: Axes,
    x: Floats,
    y: Floats,
    stderr: Floats,
    colour: str,
    label: str,
    *,
    sideways: bool = False,
) -> None:
    whiskers = INTERVAL * np.where(np.isfinite(stderr), stderr, 0)
    bars: dict[str, Any] = {"xerr": whiskers} if sideways else {"yerr": whiskers}
    if len(x) > CROWDED:
        bars |= {"capsize": 0, "markersize": 3}
    axes.errorbar(
        x, y, **bars, fmt="o", color=colour, elinewidth=1.5, markeredgecolor="white", label=label
    )


def _meaning(stderr: Floats) -> str:
    """What points are: estimates, unless every one of them is known exactly."""
    return "exact" if len(stderr) and not stderr.any() else "estimate, 95 % interval"


def _lines(axes: Axes, places: Sequence[float], lines: Iterable[Series]) -> None:
    """The lines with their error bars; where lines run together the earlier ones are drawn wider,
    so that all stay in sight.
    """
    drawn = list(lines)
    for number, line in enumerate(drawn):
        value = _column(line.name, line.value, places)
        stderr = _column(line.name, 0 * value if line.stderr is None else line.stderr, places)
        look: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
        }
        behind = sum(_run_together(line, later) for later in drawn[number + 1 :])
        look |= {"linewidth": 1.8 + 1.8 * behind, "markersize": 5.5 + 2.2 * behind}
        axes.errorbar(
            places,
            value,
            yerr=INTERVAL * stderr if stderr.any() else None,  # nor does the legend show a bar
            label=line.name,
            markeredgecolor="white",
            **look,
        )


def _run_together(line: Series, other: Series) -> bool:
    """Whether one line hides the other at a third of the places or more."""
    first, second = (np.asarray(each.value, dtype=float) for each in (line, other))
    near = np.isclose(first, second, rtol=0.02, atol=1e-12)
    return bool(near.sum() * 3 >= max(1, np.isfinite(first).sum()))


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


def _name_lines(
    axes: Axes, labels: Sequence[str], quantity: str, *, most: int = 24, **look: Any
) -> None:
    """Name what stands one below the other, the first on top, and the quantity across."""
    axes.set_yticks(np.arange(len(labels)), [_folded(label, most) for label in labels], **look)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlabel(quantity)
    axes.grid(visible=False, axis="y")


def _slanted(labels: Sequence[str], inches: float) -> bool:
    """Whether these labels are too long to stand side by side on so many inches."""
    return max(map(len, labels), default=0) * len(labels) > LETTERS * inches


def _number_dots(axes: Axes, across: Floats, up: Floats, names: Sequence[str], own: bool) -> None:
    """A ring and a number at each named dot; the names in a list below, where they cover none and,
    below a whole figure of our own, take no width from the dots.
    """
    if not names:
        return
    taken = axes.transData.transform(np.column_stack([across, up]))
    points = axes.get_figure().dpi / 72  # type: ignore[union-attr]
    for number, (name, x, y) in enumerate(zip(names, across, up, strict=False), 1):
        axes.scatter(x, y, s=90, facecolor="none", edgecolor=INK, linewidth=1.2, zorder=4)
        step = _roomiest(taken[number - 1], taken, points)
        taken = np.vstack([taken, taken[number - 1] + points * np.array(step)])
        axes.annotate(
            str(number),
            (x, y),
            xytext=step,
            textcoords="offset points",
            fontsize=9,
            ha="center",
            va="center",
            zorder=5,
        )
        hanging = name.replace("\n", "\n    ")  # below the name, not below its number
        axes.plot([], [], " ", label=f"{number}  {hanging}")
    look: dict[str, Any] = {"fontsize": 9, "handlelength": 0, "handletextpad": 0}
    if own:
        handles, labels = axes.get_legend_handles_labels()
        figure: Any = axes.get_figure()
        figure.legend(handles, labels, loc="outside lower left", **look)
    else:
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), **look)


def _roomiest(dot: Floats, taken: Floats, points: float) -> tuple[float, float]:
    """The step from a dot, in points, to where a number is farthest from other dots and numbers; to
    the upper right where it makes no difference.
    """

    def room(step: tuple[float, float]) -> float:
        away = np.hypot(*(taken - (dot + points * np.array(step))).T) / points
        return min(12.0, float(away.min()))  # beyond that nothing is covered

    return max(AROUND, key=room)


def _height(lines: Sequence[Series]) -> float:
    """Inches of a chart with so many lines in the legend below it."""
    return 3.6 + 0.2 * (1 + len(lines) // 2)


def _legend_below(axes: Axes) -> None:
    """Below the curves, never over them."""
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.12, -0.15),
        borderaxespad=0,
        ncols=2,
        fontsize=8,
        columnspacing=1,
    )


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2, fontsize=9)


def _nothing(axes: Axes, words: str) -> Axes:
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color="#8a8f99")
    axes.set_axis_off()
    return axes


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _folded(text: str, most: int) -> str:
    """A text on at most two lines of so many letters."""
    return "\n".join(wrap(text, most, max_lines=2, placeholder="…", break_on_hyphens=False))


def _figures(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 or value == round(value) else f"{value:.3g}"


def _percent(value: float, _: object = None) -> str:
    return f"{100 * value:,.0f} %" if abs(value) >= 10 else f"{100 * value:.4g} %"
