"""CubeResult: the answer to a question, a table of labels and of estimates with their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.errors import ParameterError
from sfumato.estimation.estimate import Answer
from sfumato.privacy.samples import retention_rows

Row = dict[str, Any]


@dataclass(frozen=True)
class CubeResult:
    """The rows of an answered query; estimates are `Answer`s, everything else is a label of its
    group.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    method: str  # "invert" or "em"
    population: int  # the rows of the table
    notes: tuple[str, ...] = ()
    keep: float | None = None  # of the one perturbed column, where the question is about one

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The JSON shape of `sfumato query`."""
        rows = [{name: _plain(value, level) for name, value in row.items()} for row in self.rows]
        return {
            "columns": list(self.columns),
            "rows": rows,
            "method": self.method,
            "level": level,
            "notes": list(self.notes),
        }

    def to_arrow(self) -> Any:
        """A table with a column for each output, and for each estimate one more with its standard
        error.
        """
        import pyarrow as pa

        data: dict[str, Any] = {}
        for name in self.columns:
            values = [row[name] for row in self.rows]
            if any(isinstance(value, Answer) for value in values):
                data[name] = [value.value for value in values]
                data[f"{name} stderr"] = [value.stderr for value in values]
            else:
                data[name] = values
        return pa.table(data)

    def to_pandas(self) -> Any:
        """A data frame of the same columns."""
        return self.to_arrow().to_pandas()

    def rows_needed(self, within: float, level: float = 0.95) -> int | None:
        """How many rows would bring every count of the answer within this relative error, at this
        level (normal law).

        Errors fall with the square root of the rows. None where an answer is not above 0.
        """
        if not 0 < within < 1:
            raise ParameterError(f"within={within:g} must lie strictly between 0 and 1")
        answers = [
            value for row in self.rows for value in row.values() if isinstance(value, Answer)
        ]
        if not answers or any(answer.value <= 0 for answer in answers):
            return None
        worst = max((answer.interval(level)[1] - answer.value) / answer.value for answer in answers)
        return math.ceil(self.population * (worst / within) ** 2)

    def rows_guaranteed(self, within: float, level: float = 0.95) -> int | None:
        """The rows after which a count is within this relative error for sure at this level, by
        OLAP theorem 1.

        n ≥ 4 ln(2/δ) / (pε)², ε the error as a share of all rows; None unless the question is about
        one perturbed column.
        """
        answers = [
            value for row in self.rows for value in row.values() if isinstance(value, Answer)
        ]
        if (
            self.keep is None
            or not answers
            or any(not 0 < answer.value <= self.population for answer in answers)
        ):
            return None
        least = min(answer.value for answer in answers) / self.population
        return retention_rows(self.keep, within * least, 1 - level)


def _plain(value: Any, level: float) -> Any:
    if not isinstance(value, Answer):
        return value
    if not math.isfinite(value.value):
        return {"value": None, "stderr": None, "low": None, "high": None}
    low, high = value.interval(level)
    return {"value": value.value, "stderr": value.stderr, "low": low, "high": high}
