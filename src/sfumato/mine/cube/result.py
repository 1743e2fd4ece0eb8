"""CubeResult: the answer to a question, a table of labels and of estimates with their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.errors import ParameterError
from sfumato.estimation.estimate import Answer

Row = dict[str, Any]


@dataclass(frozen=True)
class CubeResult:
    """The rows of an answered query; estimates are `Answer`s, everything else is a label of its group."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    method: str  # "invert" or "em"
    population: int  # the rows of the table
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The JSON shape of `sfumato query`."""
        rows = [{name: _plain(value, level) for name, value in row.items()} for row in self.rows]
        return {"columns": list(self.columns), "rows": rows, "method": self.method, "level": level, "notes": list(self.notes)}

    def to_arrow(self) -> Any:
        """A table with a column for each output, and for each estimate one more with its standard error."""
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
        """How many rows would bring every count of the answer within this relative error, at this level (normal law).

        Errors fall with the square root of the rows. None where an answer is not above 0.
        """
        if not 0 < within < 1:
            raise ParameterError(f"within={within:g} must lie strictly between 0 and 1")
        answers = [value for row in self.rows for value in row.values() if isinstance(value, Answer)]
        if not answers or any(answer.value <= 0 for answer in answers):
            return None
        worst = max((answer.interval(level)[1] - answer.value) / answer.value for answer in answers)
        return math.ceil(self.population * (worst / within) ** 2)


def _plain(value: Any, level: float) -> Any:
    if not isinstance(value, Answer):
        return value
    if not math.isfinite(value.value):
        return {"value": None, "stderr": None, "low": None, "high": None}
    low, high = value.interval(level)
    return {"value": value.value, "stderr": value.stderr, "low": low, "high": high}
