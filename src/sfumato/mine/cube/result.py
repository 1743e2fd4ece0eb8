"""CubeResult: the answer to a question, a table of labels and of estimates with their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sfumato import plots
from sfumato.arguments import checked
from sfumato.errors import ParameterError
from sfumato.estimation.estimate import Answer, decimals
from sfumato.glance import Glance, around, spans
from sfumato.notebook import Framed, as_polars, free_name, html_table
from sfumato.privacy.samples import retention_rows

Row = dict[str, Any]


@dataclass(frozen=True, repr=False)
class CubeResult(Framed):
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

    def to_arrow(self, level: float = 0.95) -> Any:
        """A table with a column for each output, and for each estimate three more: `n_stderr`,
        `n_low` and `n_high` for `n`. What is undefined is null; exact counts are whole.
        """
        import pyarrow as pa

        data: dict[str, Any] = {}
        for name in self.columns:
            values = [row[name] for row in self.rows]
            if name not in self.estimates:
                data[free_name(name, data)] = pa.array(values)
                continue
            plain = [_plain(value, level) for value in values]
            for part, ending in _PARTS.items():
                found = [each[part] for each in plain]
                data[free_name(f"{name}{ending}", data)] = pa.array(found, pa.float64())
            if name in self.counts and all(value.stderr == 0 for value in values):
                data[name] = pa.array([round(value.value) for value in values], pa.int64())
        return pa.table(data)

    def to_pandas(self, level: float = 0.95) -> Any:
        """A data frame of the same columns."""
        return self.to_arrow(level).to_pandas()

    def to_polars(self, level: float = 0.95) -> Any:
        """A Polars data frame of the same columns."""
        return as_polars(self.to_arrow(level))

    def _repr_html_(self) -> str:
        """The table as notebooks show it."""
        heads: list[str] = []
        for name in self.columns:
            heads += [name, "95 % interval", ""] if name in self.estimates else [name]
        columns = [self._column(name) for name in self.columns]
        lines = ([text for cells in line for text in cells] for line in zip(*columns, strict=True))
        return html_table(heads, lines, notes=self.notes)

    def _column(self, name: str) -> list[list[str | Glance]]:
        """The cells of an output, row by row: an estimate has three, the last a picture of it."""
        values = [row[name] for row in self.rows]
        if name not in self.estimates:
            return [["all" if value is None else str(value)] for value in values]
        ends = around([value.value for value in values], [value.stderr for value in values])
        pictures = spans(ends, zero=name in self.counts)
        counts = name in self.counts
        return [
            [*shown(value, counts=counts), seen]
            for value, seen in zip(values, pictures, strict=True)
        ]

    def plot(self) -> list[Any]:
        """One panel an estimate, the groups across, with 95 % intervals; the axes, a panel each."""
        if not self.estimates:
            raise ParameterError("there is no estimate to draw in this answer")
        labels = [", ".join(self.labels_of(row)) or "all" for row in self.rows]
        return plots.marginals(
            [
                plots.Marginal(
                    name,
                    labels,
                    [row[name].value for row in self.rows],
                    [row[name].stderr for row in self.rows],
                    from_zero=name in self.counts,
                )
                for name in self.estimates
            ],
            columns=1,
            quantity="",
        )

    @checked
    def labels_of(self, row: Row) -> list[str]:
        """What a group is called."""
        parts = (value for name, value in row.items() if name not in self.estimates)
        return ["all" if value is None else str(value) for value in parts]

    @checked
    def rows_needed(self, within: float, level: float = 0.95) -> int | None:
        """How many rows would bring every count of the answer within this relative error, at this
        level (normal law).

        Errors fall with the square root of the rows. None where an answer is not above 0, or has no
        error.
        """
        if not 0 < within < 1:
            raise ParameterError(f"within={within:g} must lie strictly between 0 and 1")
        answers = self._answers
        if not answers or not all(_is_known(answer) and answer.value > 0 for answer in answers):
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


_PARTS = {"value": "", "stderr": "_stderr", "low": "_low", "high": "_high"}


def _is_known(answer: Answer) -> bool:
    return math.isfinite(answer.value) and math.isfinite(answer.stderr)


def _plain(value: Any, level: float) -> Any:
    if not isinstance(value, Answer):
        return value
    known = value.to_dict(level)
    return known if value.assumes is None else known | {"assumes": value.assumes}


def shown(answer: Answer, level: float = 0.95, *, counts: bool = False) -> tuple[str, str]:
    """An answer in words: its value with its error, and its interval; a dash where it has none. One
    that counts is shown whole where no error says how many digits it has.
    """
    if not math.isfinite(answer.value):
        return "–", ""
    if not math.isfinite(answer.stderr):
        value = f"{round(answer.value):,}" if counts else f"{answer.value:,.6g}"
        return value + (" ± ∞" if answer.stderr > 0 else ""), ""
    if answer.stderr < 1e-9 * max(1.0, abs(answer.value)):
        whole = answer.value.is_integer() and abs(answer.value) < 1e15
        return f"{answer.value:,.0f} exact" if whole else f"{answer.value:,.12g} exact", ""
    digits = decimals(answer.stderr)
    numbers = (answer.value, answer.stderr, *answer.interval(level))
    value, error, low, high = (f"{number:z,.{digits}f}" for number in numbers)
    return f"{value} ± {error}", f"[{low}, {high}]"
