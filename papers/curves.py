"""Curves: a figure as a table, drawn as lines along its last label."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from papers.base import Reproduction, means
from sfumato.view import Chart, Panel, Series


@dataclass(frozen=True)
class Curves(Reproduction):
    """A figure as a table: the last label goes along the axis, every quantity is a line for each
    set of the others.
    """

    error: str = field(default="reconstruction error", kw_only=True)
    drawn: tuple[str, ...] = field(default=(), kw_only=True)  # all quantities, unless stated

    def drawing(self) -> Chart | None:
        """The curves, on logarithmic axes where the quantities are."""
        places = sorted({float(row.labels[-1]) for row in self.rows})
        lines = []
        for labels, rows in groupby(self.rows, key=lambda row: row.labels[:-1]):
            cells = {float(row.labels[-1]): row.cells for row in rows}
            for quantity in self.drawn or self.quantities:
                number = self.quantities.index(quantity)
                words = [
                    label if isinstance(label, str) else f"{name} {label:g}"
                    for name, label in zip(self.labels, labels, strict=False)
                ]
                values, errors = means([cells[p][number] if p in cells else None for p in places])
                shown = [quantity] if len(self.drawn or self.quantities) > 1 or not words else []
                lines.append(Series(" ".join(words + shown), values, errors))
        drawn = Panel(
            "lines",
            places,
            lines,
            quantity=self.error,
            across=self.labels[-1],
            log="y" if self.logarithmic else "",
            from_zero=False,
        )
        return Chart(drawn)
