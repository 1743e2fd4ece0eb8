"""How many people a retained share takes (OLAP theorem 1), and what is refused."""

import math

import pytest

from sfumato.errors import ParameterError
from sfumato.privacy.samples import retention_rows


def test_olap_theorem_1() -> None:
    assert retention_rows(0.2, 0.01, 0.05) == math.ceil(4 * math.log(40) / 0.002**2)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0.0, 0.1, 0.1), "keep=0.0 replaces every record"),
        ((0.5, 0.0, 0.1), "deviation=0.0 must lie strictly between"),
        ((0.5, 0.1, 1.0), "failure=1.0 must lie strictly between"),
    ],
)
def test_bad_input_is_named(numbers: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        retention_rows(*numbers)
