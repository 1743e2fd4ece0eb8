"""How many people it takes to keep a share within a wanted error (OLAP theorem 1)."""

from __future__ import annotations

import math

from sfumato.errors import ParameterError
from sfumato.privacy.probability import check_strictly_between


def retention_rows(keep: float, deviation: float, failure: float) -> int:
    """The rows after which a reconstructed share is off by more than `deviation` with probability
    below `failure`.

    n >= 4 ln(2/δ) / (pε)²  (OLAP theorem 1; keep p, deviation ε, failure δ), one retention-replaced
    column.

    >>> retention_rows(keep=0.2, deviation=0.01, failure=0.05)
    3688880
    """
    if not 0 < keep <= 1:
        raise ParameterError(
            f"keep={keep} replaces every record, so nothing can be reconstructed; use 0 < keep <= "
            "1",
            keep=keep,
        )
    check_strictly_between("deviation", deviation)
    check_strictly_between("failure", failure)
    return math.ceil(4 * math.log(2 / failure) / (keep * deviation) ** 2)
