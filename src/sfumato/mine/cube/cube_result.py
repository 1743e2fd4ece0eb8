"""CubeResult: the answer to a question, a table of labels and of estimates with their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato.arguments import checked
from sfumato.errors import ParameterError
from sfumato.estimation.answer import Answer
from sfumato.privacy.samples import retention_rows
from sfumato.renderers.frames import arrow, as_polars
from sfumato.renderers.picture import estimates
from sfumato.result import Result
from sfumato.view import Chart, ColumnView, TableView, View

Row = dict[str, Any]


@dataclass(frozen=True, repr=False)
class CubeResult(Result):
    """The rows of an answered query; estimates are `Answer`s, everything else is a label of its
    group.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    method: str  # "invert" or "em"
    population: int  # the rows of the table
    notes: tuple[str, ...] = ()
    keep: float | None = None  # of the one perturbed column, where the question is about one
    counts: frozenset[str] = frozenset()  # the outputs that count, and so are whole if exact

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def estimates(self) -> tuple[str, ...]:
        """The outputs that are estimates."""
        first = self.rows[0] if self.rows else {}
        return tuple(name for name in self.columns if isinstance(first.get(name), Answer))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The JSON shape of `sfumato query`; what is undefined is null."""
        rows = [{name: _plain(value, level) for name, value in row.items()} for row in self.rows]
        return {
            "columns": list(self.columns),
            "rows": rows,
            "method": self.method,
            "level": level,
            "notes": list(self.notes),
        }

    @checked
    def view(self, level: float = 0.95) -> View:
        """A line for each group: its labels, and each estimate with its error and interval."""
        columns = [self._column(name, level) for name in self.columns]
        words = () if self.rows else ("no group is left",)
        charts = (self._chart(),) if self.estimates else ()
        return View(words=words, charts=charts, tables=(TableView(columns),), notes=self.notes)

    def _column(self, name: str, level: float) -> ColumnView:
        values = [row[name] for row in self.rows]
        if name not in self.estimates:
            return ColumnView(name, values, words=_label, field=name)
        return ColumnView(
            name,
            [value.value for value in values],
            [value.stderr for value in values],
            level=level,
            counts=name in self.counts,
            ends=[value.interval(level) for value in values],
            field=(name, f"{name}_stderr", f"{name}_low", f"{name}_high"),
        )

    def _chart(self) -> Chart:
        """One panel per estimate, the groups across, with 95 % intervals."""
        labels = [", ".join(self.labels_of(row)) or "all" for row in self.rows]
        panels = [
            estimates(
                name,
                labels,
                [row[name].value for row in self.rows],
                [row[name].stderr for row in self.rows],
                from_zero=name in self.counts,
            )
            for name in self.estimates
        ]
        exact = all(answer.stderr == 0 for answer in self._answers)
        caption = "Exact: no noise is in these" if exact else "Estimates with 95 % intervals"
        return Chart(panels, caption)

    def to_arrow(self, level: float = 0.95) -> Any:
        """A table with a column for each output, and for each estimate three more: `n_stderr`,
        `n_low` and `n_high` for `n`. What is undefined is null; exact counts are whole.
        """
        return arrow(self.view(level).tables[0])

    def to_pandas(self, level: float = 0.95) -> Any:
        """A data frame of the same columns."""
        return self.to_arrow(level).to_pandas()

    def to_polars(self, level: float = 0.95) -> Any:
        """A Polars data frame of the same columns."""
        return as_polars(self.to_arrow(level))

    @checked
    def labels_of(self, row: Row) -> list[str]:
        """What a group is called."""
        parts = (value for name, value in row.items() if name not in self.estimates)
        return [_label(value) for value in parts]

    @checked
    def rows_needed(self, within: float, level: float = 0.95) -> int | None:
        """How many rows would bring every count of the answer within this relative error, at this
        level (normal distribution).

        Errors fall with the square root of the rows. None where an answer is not above 0, or has no
        error.
        """
        if not 0 < within < 1:
            raise ParameterError(f"within={within:g} must lie strictly between 0 and 1")
        answers = self._answers
        if not answers or not all(
            0 < answer.value < math.inf and math.isfinite(answer.stderr) for answer in answers
        ):
            return None
        worst = max((answer.interval(level)[1] - answer.value) / answer.value for answer in answers)
        return math.ceil(self.population * (worst / within) ** 2)

    @checked
    def rows_guaranteed(self, within: float, level: float = 0.95) -> int | None:
        """The rows after which a count is within this relative error for sure at this level, by
        OLAP theorem 1.

        n ≥ 4 ln(2/δ) / (pε)², ε the error as a share of all rows; None unless the question is about
        one perturbed column.
        """
        answers = self._answers
        if (
            self.keep is None
            or not answers
            or not all(0 < answer.value <= self.population for answer in answers)
        ):
            return None
        least = min(answer.value for answer in answers) / self.population
        return retention_rows(self.keep, within * least, 1 - level)

    @property
    def _answers(self) -> list[Answer]:
        return [value for row in self.rows for value in row.values() if isinstance(value, Answer)]


def _plain(value: Any, level: float) -> Any:
    if not isinstance(value, Answer):
        return value
    known = value.to_dict(level)
    return known if value.assumes is None else known | {"assumes": value.assumes}


def _label(value: Any) -> str:
    return "all" if value is None else str(value)
