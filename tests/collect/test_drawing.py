"""The pictures of the dashboard: numbers stand under their heads and beside their labels."""

from __future__ import annotations

import re
from types import SimpleNamespace

from sfumato.collect.drawing import CELL_HEIGHT, heat_map
from sfumato.collect.language import Language


def test_the_cells_of_a_heat_map_stand_under_their_heads() -> None:
    pair = SimpleNamespace(values=[[0.1, 0.2, 0.3], [0.2, 0.1, 0.1]], stderrs=[[0.01] * 3] * 2)
    drawn = heat_map(pair, ["f", "m"], ["a", "b", "c"], Language.load("en"), "both")
    texts = re.findall(r'class="head" x="([\d.-]+)" y="(\d+)">([^<]*)<', drawn)
    heads, cells = texts[:3], texts[3:]
    assert [word for *_, word in heads] == ["a", "b", "c"]
    assert [x for x, *_ in cells] == [x for x, *_ in heads] * 2
    assert int(cells[3][1]) - int(cells[0][1]) == CELL_HEIGHT
    assert [word.split("\xa0")[0] for *_, word in cells][:3] == ["10.0", "20.0", "30.0"]
    left = [float(x) for x in re.findall(r'class="cell" x="([\d.-]+)"', drawn)]
    assert left[:3] == sorted(left[:3]) and float(heads[0][0]) > left[0] > 0
