"""Figures: what is drawn is what was given, nothing more, and no window or global state is left
behind.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from sfumato import plots
from sfumato.errors import MissingExtraError, ParameterError

pytest.importorskip("matplotlib")

AGE = plots.Marginal("age", ["[18,45)", "[45,90]"], [110.0, 90.0], [5.0, 4.0], [100, 100])
SEX = plots.Marginal("sex", ["female", "male"], [101.0, -3.0], [5.0, np.nan])


def drawn(axes: Any) -> np.ndarray:
    """The points of the first error-bar series."""
    return np.asarray(axes.containers[-1].lines[0].get_xydata())


def whiskers(axes: Any) -> np.ndarray:
    """The two ends of every error bar of the first series."""
    return np.array(axes.containers[-1].lines[2][0].get_segments())


def rendered(axes: Any) -> Any:
    axes.figure.canvas.draw()
    return axes


def test_marginal_shows_truth_as_bars_and_estimates_with_their_interval() -> None:
    axes = rendered(plots.marginal(AGE))
    assert [bar.get_height() for bar in axes.patches] == [100, 100]
    assert drawn(axes)[:, 1].tolist() == [110, 90]
    assert whiskers(axes)[0][:, 1] == pytest.approx([110 - 9.8, 110 + 9.8], abs=0.01)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["[18,45)", "[45,90]"]


def test_marginal_keeps_negative_estimates_and_skips_unknown_errors() -> None:
    axes = rendered(plots.marginal(SEX))
    assert drawn(axes)[1, 1] == -3
    assert whiskers(axes)[1][:, 1].tolist() == [-3, -3]


def test_marginals_are_small_multiples() -> None:
    axes = plots.marginals([AGE, SEX, AGE, SEX])
    rendered(axes[0])
    assert [place.get_title(loc="left") for place in axes] == ["age", "sex", "age", "sex"]
    assert len({place.figure for place in axes}) == 1


def test_supports_are_listed_from_the_top_and_cut() -> None:
    axes = rendered(
        plots.supports(["a", "b", "c"], [0.3, 0.2, 0.1], [0.01] * 3, truth=[0.31, 0.2, 0.1], top=2)
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert drawn(axes)[:, 0].tolist() == [0.3, 0.2]


def test_rules_are_dots_coloured_by_lift() -> None:
    axes = rendered(plots.rules([0.1, 0.2], [0.9, 0.5], [3.0, 1.0], names=["a → b"]))
    dots = axes.collections[0]
    assert dots.get_offsets().tolist() == [[0.2, 0.5], [0.1, 0.9]]
    assert dots.get_array().tolist() == [1, 3]
    assert [text.get_text() for text in axes.texts] == ["a → b"]


def test_errors_by_length_have_a_panel_a_kind_and_a_line_a_mechanism() -> None:
    lines = [
        plots.Series("MASK", [5.0, 9.0], [1.0, 1.0]),
        plots.Series("gamma-diagonal", [2.0, 3.0]),
    ]
    axes = plots.errors_by_length([1, 2], {"support error": lines, "false negatives": lines[:1]})
    rendered(axes[0])
    assert [place.get_title(loc="left") for place in axes] == ["support error", "false negatives"]
    assert [len(place.containers) for place in axes] == [2, 1]


def test_error_by_privacy_is_on_logarithmic_axes() -> None:
    axes = rendered(plots.error_by_privacy([0.5, 1, 3], [plots.Series("MASK", [0.3, 0.2, 0.1])]))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.5", "1", "3"]


def test_risk_shows_before_and_after_with_figures() -> None:
    axes = rendered(plots.risk(["unique", "collective"], [1200, 40], [3, 0]))
    assert [bar.get_height() for bar in axes.patches] == [1200, 40, 3, 0]
    assert [text.get_text() for text in axes.texts] == ["1,200", "40", "3", "0"]


@pytest.mark.parametrize(
    "axes", [plots.supports([], [], []), plots.rules([], [], [])], ids=["supports", "rules"]
)
def test_nothing_found_is_said(axes: Any) -> None:
    assert rendered(axes).texts[0].get_text().startswith("no ")


def test_given_axes_are_drawn_on() -> None:
    own = plots.marginal(AGE)
    assert plots.risk(["a"], [1], [0], axes=own) is own


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.marginal(plots.Marginal("age", ["a", "b"], [1.0], [1.0])),
        lambda: plots.supports(["a"], [0.1, 0.2], [0.1, 0.1]),
        lambda: plots.error_by_privacy([1, 2], [plots.Series("MASK", [1.0])]),
        lambda: plots.marginals([]),
        lambda: plots.errors_by_length([1], {}),
    ],
)
def test_arrays_that_do_not_fit_are_refused(draw: Any) -> None:
    with pytest.raises(ParameterError):
        draw()


def test_user_settings_are_left_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.marginals([AGE])
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
    with pytest.raises(MissingExtraError, match=r"sfumato\[plot\]"):
        plots.marginal(AGE)


def test_a_tree_has_a_dot_a_node_and_words_at_its_leaves() -> None:
    leaf = plots.Branch("age < 60", "healthy", 0, 0.9, 70)
    deep = plots.Branch(
        "age >= 60", "ill", 1, 0.7, 30, [plots.Branch("sex = male", "ill", 1, 0.8, 20), leaf]
    )
    root = plots.Branch("", "healthy", 0, 0.7, 100, [leaf, deep])
    axes = rendered(plots.decision_tree(root))
    words = [text.get_text() for text in axes.texts]
    assert "ill (80 % of 20)" in words and words.count("age < 60") == 2 and "sex = male" in words
    assert len(axes.collections) == 5
    short = [text.get_text() for text in rendered(plots.decision_tree(root, most_leaves=2)).texts]
    assert "ill (70 % of 30) …" in short and "sex = male" not in short
