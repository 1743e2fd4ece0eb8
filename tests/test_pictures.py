"""Figures: what is drawn is what was given, nothing more, and no window or global state is left
behind.
"""

from __future__ import annotations

import builtins
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from sfumato.errors import MissingExtraError, ParameterError
from sfumato.renderers import picture
from sfumato.renderers.picture import bars, draw, estimates, in_words, lines
from sfumato.view import Branch, Chart, Dots, Panel, Series, Squares

pytest.importorskip("matplotlib")

AGE = estimates("age", ["[18,45)", "[45,90]"], [110.0, 90.0], [5.0, 4.0], [100, 100])
SEX = estimates("sex", ["female", "male"], [101.0, -3.0], [5.0, np.nan])


def supports(names: Any, value: Any, stderr: Any, truth: Any = None) -> Any:
    """Supports one below the other, as of itemsets."""
    look: dict[str, Any] = {"sideways": True, "percent": True, "from_zero": False}
    look |= {"quantity": "support", "nothing": "no frequent itemsets"}
    return draw(Chart(estimates("", names, value, stderr, truth, **look)))


def curve(places: Any, each: list[Series], **look: Any) -> Any:
    """Lines on axes of their own."""
    return draw(Chart(Panel("lines", places, each, **look)))


def curves(places: Any, each: list[Series]) -> Any:
    """Lines in one panel of several."""
    return draw(lines(places, {"cost": each}, across="p"))[0]


def rules_drawn(*given: Any, **named: Any) -> Any:
    return draw(Chart(Dots(*given, **named)))


def drawn(axes: Any) -> np.ndarray:
    """The points of the first error-bar series."""
    return np.asarray(axes.containers[-1].lines[0].get_xydata())


def whiskers(axes: Any) -> np.ndarray:
    """The two ends of every error bar of the first series, or of the last bars."""
    last = axes.containers[-1]
    return np.array((getattr(last, "errorbar", None) or last).lines[2][0].get_segments())


def rendered(axes: Any) -> Any:
    axes.figure.canvas.draw()
    return axes


def test_marginal_shows_truth_as_bars_and_estimates_with_their_interval() -> None:
    axes = rendered(draw(Chart(AGE)))
    assert [bar.get_height() for bar in axes.patches] == [100, 100]
    assert drawn(axes)[:, 1].tolist() == [110, 90]
    assert whiskers(axes)[0][:, 1] == pytest.approx([110 - 9.8, 110 + 9.8], abs=0.01)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["[18,45)", "[45,90]"]


def test_marginal_keeps_negative_estimates_and_skips_unknown_errors() -> None:
    axes = rendered(draw(Chart(SEX)))
    assert drawn(axes)[1, 1] == -3
    assert whiskers(axes)[1][:, 1].tolist() == [-3, -3]


def test_marginals_are_small_multiples() -> None:
    axes = draw(Chart([AGE, SEX, AGE, SEX], columns=3))
    rendered(axes[0])
    assert [place.get_title(loc="left") for place in axes] == ["age", "sex", "age", "sex"]
    assert len({place.figure for place in axes}) == 1


def test_supports_are_listed_from_the_top() -> None:
    axes = rendered(supports(["a", "b"], [0.3, 0.2], [0.01] * 2, [0.31, 0.2]))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert drawn(axes)[:, 0].tolist() == [0.3, 0.2]


def test_rules_are_dots_coloured_by_lift() -> None:
    axes = rendered(rules_drawn([0.1, 0.2], [0.9, 0.5], [3.0, 1.0], names=["a → b"]))
    dots = axes.collections[0]
    assert dots.get_offsets().tolist() == [[0.2, 0.5], [0.1, 0.9]]
    assert dots.get_array().tolist() == [1, 3]
    assert [text.get_text() for text in axes.texts] == ["1"]
    (below,) = axes.figure.legends
    assert [text.get_text() for text in below.get_texts()] == ["1  a → b"]


def test_long_names_of_rules_are_read_whole_and_leave_the_dots_their_room() -> None:
    """One long name cut the picture to a third of its width, and ran over its edge itself."""
    long = "fnlwgt=[100000,200000), hours_per_week=[40,60), race=White → sex=Male, class=<=50K"
    short, wide = (
        rendered(rules_drawn([0.1, 0.9], [0.9, 0.5], [3.0, 1.0], names=["a → b", name]))
        for name in ("b → a", long)
    )
    assert wide.get_window_extent().width > 0.97 * short.get_window_extent().width
    _, name = wide.figure.legends[0].get_texts()
    assert " ".join(name.get_text().split()) == f"2 {long}"
    assert name.get_window_extent().x1 < wide.figure.bbox.x1
    given = wide.figure.__class__().add_subplot()
    draw(Chart(Dots([0.1], [0.9], [3.0], names=[long])), given)
    assert given.get_legend() is not None and not given.figure.legends  # others' figures stay


def test_a_choice_that_cannot_be_had_is_a_gap_in_what_it_costs() -> None:
    """Of one that could, the axis ran from 0.096 to 0.104."""
    axes = curves([0.1, 0.5, 0.9], [Series("optimal", [111.0, np.nan, np.nan])])
    low, high = axes.get_xlim()
    assert low <= 0.1 and high >= 0.9


@pytest.mark.parametrize("groups", [3, 24, 200])
def test_names_of_many_groups_do_not_run_into_one_another(groups: int) -> None:
    names = [f"code{group:03}, yes" for group in range(groups)]
    panel = estimates("count", names, [100.0] * groups, [5.0] * groups)
    axes = rendered(draw(Chart([panel]))[0])
    if groups > 3:
        boxes = [words.get_window_extent() for words in axes.get_xticklabels()]
        assert len(boxes) > 8
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    named = dict(zip(axes.get_xticks(), axes.get_xticklabels(), strict=True))
    assert all(words.get_text() == names[place] for place, words in named.items())


def test_numbers_of_rules_cover_neither_each_other_nor_a_dot() -> None:
    support, confidence = [0.30, 0.302, 0.31, 0.30, 0.5], [0.60, 0.602, 0.61, 0.60, 0.9]
    axes = rules_drawn(support, confidence, [2, 1.9, 1.8, 1.7, 1], names=list("abcde"))
    axes.figure.canvas.draw()
    boxes = [words.get_window_extent() for words in axes.texts]
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    dots = axes.transData.transform(list(zip(support, confidence, strict=True)))
    assert not any(box.contains(*dot) for box in boxes for dot in dots)


def test_the_highest_lift_is_the_darkest_dot() -> None:
    dots = rules_drawn([0.1, 0.2], [0.5, 0.6], [1.0, 2.0]).collections[0]
    dots.update_scalarmappable()
    low, high = (colour[:3].sum() for colour in dots.get_facecolor())
    assert high < low


def test_what_is_exact_is_not_called_an_estimate() -> None:
    exact = draw(Chart(estimates("sex", ["f", "m"], [10, 20], [0, 0])))
    assert exact.get_legend_handles_labels()[1] == ["exact"]
    assert supports(["a"], [0.5], [0.0]).get_legend_handles_labels()[1] == ["exact"]
    doubted = draw(Chart(estimates("sex", ["f", "m"], [10, 20], [0, 1])))
    assert doubted.get_legend_handles_labels()[1] == ["estimate, 95 % interval"]


def test_rules_have_both_error_bars_where_they_are_known() -> None:
    axes = rules_drawn([0.1], [0.5], [2.0], stderr=([0.01], [0.1]))
    wide, high = (np.array(bar.get_segments()) for bar in axes.containers[0].lines[2])
    assert wide[0][:, 0] == pytest.approx([0.1 - 0.0196, 0.1 + 0.0196], abs=1e-4)
    assert high[0][:, 1] == pytest.approx([0.5 - 0.196, 0.5 + 0.196], abs=1e-4)


def test_many_risks_lie_one_below_the_other() -> None:
    names = [f"column {number}" for number in range(8)]
    axes = rendered(draw(bars("records", names, [50.0] * 8, [60.0] * 8, stderr=[1.0] * 8)))
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert {bar.get_width() for bar in axes.patches} == {50, 60}
    assert whiskers(axes)[0][:, 0] == pytest.approx([60 - 1.96, 60 + 1.96], abs=0.01)
    figure = next(text for text in axes.texts if text.get_text() == "60")
    assert figure.xy[0] >= 60 + 1.95  # beyond the whisker, not over it


def test_no_risk_is_drawn_from_zero() -> None:
    assert draw(bars("records", ["age"], [0], [0])).get_ylim()[0] == 0


def test_a_narrow_logarithmic_axis_names_several_places() -> None:
    error = [Series("relative error", [0.06, 0.66])]
    look: dict[str, Any] = {"sideways": True, "log": "x", "percent": True, "mark": (0.5, "useless")}
    axes = rendered(draw(Chart(Panel("points", ["a", "b"], error, **look))))
    named = {label.get_text() for label in axes.get_xticklabels()}
    assert {"10 %", "20 %", "50 %"} <= named


@pytest.mark.parametrize("number", [2, 9])
def test_legends_stand_beside_the_curves(number: int) -> None:
    series = [Series(f"mechanism {n}", [0.3, 0.1 * (n + 1)]) for n in range(number)]
    for axes in (curve([1, 3], series, log="xy", percent=True), curve([1, 2], series)):
        rendered(axes)
        legend = axes.get_legend().get_window_extent()
        assert not legend.overlaps(axes.patch.get_window_extent())


def test_lines_that_run_together_stay_in_sight() -> None:
    axes = curves([0.1, 0.2], [Series(name, [1.0, 2.0]) for name in ("a", "b", "c")])
    widths = [line.lines[0].get_linewidth() for line in axes.containers]
    assert widths == sorted(widths, reverse=True) and len(set(widths)) == 3


def test_a_line_below_another_is_wider_only_where_they_run_together() -> None:
    names = ("alone", "inversion", "iterative")
    values = ([9.0, 8.0, 7.0], [1.0, 2.0, 3.0], [1.5, 2.0, 3.01])
    axes = curve([1, 2, 3], [Series(*pair) for pair in zip(names, values, strict=True)])
    alone, below, above = (line.lines[0].get_linewidth() for line in axes.containers)
    assert below > above == alone


def test_a_cost_of_nothing_is_drawn_from_zero() -> None:
    axes = curves([0.1, 0.2], [Series(name, [0.0, 0.0]) for name in ("a", "b")])
    assert axes.get_ylim()[0] == 0


def test_no_two_lines_look_the_same() -> None:
    axes = curve([1], [Series(str(n), [n]) for n in range(12)])
    looks = {
        (line.lines[0].get_color(), line.lines[0].get_marker(), line.lines[0].get_linestyle())
        for line in axes.containers
    }
    assert len(looks) == 12


def seen_by(colour: str, blindness: str) -> np.ndarray:
    """A colour as someone without one kind of cone sees it (Machado, Oliveira and Fernandes 2009),
    in CIE Lab.
    """
    machado = {
        "protan": (
            0.152286,
            1.052583,
            -0.204868,
            0.114503,
            0.786281,
            0.099216,
            -0.003882,
            -0.048116,
            1.051998,
        ),
        "deutan": (
            0.367322,
            0.860646,
            -0.227968,
            0.280085,
            0.672501,
            0.047413,
            -0.01182,
            0.04294,
            0.968881,
        ),
        "tritan": (
            1.255528,
            -0.076749,
            -0.178779,
            -0.078411,
            0.930809,
            0.147602,
            0.004733,
            0.691367,
            0.3039,
        ),
    }
    encoded = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.reshape(machado[blindness], (3, 3)) @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(to_xyz @ seen / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", ["protan", "deutan", "tritan"])
def test_colours_stay_apart_for_the_colour_blind(blindness: str) -> None:
    seen = [seen_by(colour, blindness) for colour in picture.COLOURS]
    apart = [np.linalg.norm(a - b) for n, a in enumerate(seen) for b in seen[:n]]
    assert min(apart) > 10  # CIE76; 2.3 can just be told apart
    red, green = seen_by("#c00000", "deutan"), seen_by("#4f7a00", "deutan")
    assert (
        np.linalg.norm(red - green)
        < 25
        < np.linalg.norm(seen_by("#c00000", "tritan") - seen_by("#4f7a00", "tritan"))
    )


def test_errors_by_length_have_a_panel_a_kind_and_a_line_a_mechanism() -> None:
    each = [Series("MASK", [5.0, 9.0], [1.0, 1.0]), Series("gamma-diagonal", [2.0, 3.0])]
    panels = {"support error": each, "false negatives": each[:1]}
    axes = draw(lines([1, 2], panels, across="itemset length", quantity="error (%)"))
    rendered(axes[0])
    assert [place.get_title(loc="left") for place in axes] == ["support error", "false negatives"]
    assert [len(place.containers) for place in axes] == [2, 1]


def test_error_by_privacy_is_on_logarithmic_axes() -> None:
    axes = rendered(curve([0.5, 1, 3], [Series("MASK", [0.3, 0.2, 0.1])], log="xy"))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "1", "3"]


def test_risk_shows_before_and_after_with_figures() -> None:
    axes = rendered(draw(bars("records", ["unique", "collective"], [1200, 40], [3, 0])))
    own = draw(bars("records", ["age"], [3], [1], called=("with", "without")))
    assert [text.get_text() for text in own.get_legend().get_texts()] == ["with", "without"]
    assert [bar.get_height() for bar in axes.patches] == [1200, 40, 3, 0]
    assert [text.get_text() for text in axes.texts] == ["1,200", "40", "3", "0"]


@pytest.mark.parametrize(
    "axes", [supports([], [], []), rules_drawn([], [], [])], ids=["supports", "rules"]
)
def test_nothing_found_is_said(axes: Any) -> None:
    assert rendered(axes).texts[0].get_text().startswith("no ")


def test_given_axes_are_drawn_on() -> None:
    own = draw(Chart(AGE))
    assert draw(bars("records", ["a"], [1], [0]), own) is own


@pytest.mark.parametrize(
    "draw",
    [
        lambda: draw(Chart(estimates("age", ["a", "b"], [1.0], [1.0]))),
        lambda: supports(["a"], [0.1, 0.2], [0.1, 0.1]),
        lambda: curve([1, 2], [Series("MASK", [1.0])]),
        lambda: draw(Chart([])),
        lambda: draw(lines([1], {}, across="")),
        lambda: draw(Chart(Squares(["a", "b"], [[1.0, 2.0]]))),
    ],
)
def test_arrays_that_do_not_fit_are_refused(draw: Any) -> None:
    with pytest.raises(ParameterError):
        draw()


def test_user_settings_are_left_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw(Chart([AGE]))
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"checkout of Sfumato, pip install '\.\[plot\]'"):
        draw(Chart(AGE))


def test_lines_are_told_by_where_they_begin_turn_and_end() -> None:
    each = [
        Series("naive", [0.2, np.nan, 0.1]),
        Series("cover", [0.1, 0.4, 0.1], [0.01, 0.01, 0.01]),
        Series("none", [np.nan] * 3),
    ]
    assert in_words(lines([0, 0.5, 1], {"cost": each, "failure": each[:1]}, across="ψ")) == (
        "cost by ψ: naive from 0.2 at 0 to 0.1 at 1; "
        "cover from 0.1 at 0 over 0.4 at 0.5 to 0.1 at 1; none nowhere defined. "
        "failure by ψ: naive from 0.2 at 0 to 0.1 at 1."
    )
    many = [Series(str(each), [each]) for each in range(10)]
    told = in_words(Chart(Panel("lines", [1], many, quantity="y", across="x")))
    assert told.startswith("y by x: 0 0 at 1; 1 1 at 1;") and told.endswith("; and 2 more.")


def test_only_a_line_that_has_errors_has_bars_in_the_legend() -> None:
    each = [Series("exact", [1, 2]), Series("estimated", [1, 3], [0.1, 0.1])]
    exact, estimated = curve([1, 2], each).containers
    assert not exact.has_yerr and estimated.has_yerr


def test_the_numbers_of_an_axis_with_decimals_stand_apart() -> None:
    axes = rendered(rules_drawn([0.0355], [0.73], [1.6], names=["a → b"]))
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_a_tree_has_a_dot_a_node_and_words_at_its_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leaf = Branch("age < 60", "healthy", 0, 0.9, 70)
    deep = Branch("age >= 60", "ill", 1, 0.7, 30, [Branch("sex = male", "ill", 1, 0.8, 20), leaf])
    root = Branch("", "healthy", 0, 0.7, 100, [leaf, deep])
    axes = rendered(draw(Chart(root)))
    words = [text.get_text() for text in axes.texts]
    assert "ill (80 % of 20)" in words and words.count("age < 60") == 2 and "sex = male" in words
    assert len(axes.collections) == 5
    monkeypatch.setattr(picture, "MOST_LEAVES", 2)
    short = [text.get_text() for text in rendered(draw(Chart(root))).texts]
    assert "ill (70 % of 30) …" in short and "sex = male" not in short
