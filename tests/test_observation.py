"""Observations beside each other: the columns that are reported as they are come first."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from sfumato.channels import Retain
from sfumato.channels.channel import Dealt
from sfumato.observation import _beside


def part(known: bool, *inputs: int) -> SimpleNamespace:
    if known:
        return SimpleNamespace(channel=Retain.identity(list(inputs)))
    noisy = Mock(spec=Dealt, inputs=inputs)
    noisy.replaced.return_value, noisy.beside.side_effect = None, lambda shape: shape
    return SimpleNamespace(channel=noisy)


@pytest.mark.parametrize(
    ("parts", "shape"),
    [
        ([part(True, 2), part(True, 3, 4), part(False, 5)], (2, 3, 4)),
        ([part(False, 5)], ()),
        ([part(False, 5), part(True, 2)], None),  # the noisy one must be the last
        ([part(True, 2), part(False, 5), part(False, 6)], None),
    ],
)
def test_one_noisy_part_stands_behind_all_that_is_known(parts, shape) -> None:
    assert _beside(parts) == shape
