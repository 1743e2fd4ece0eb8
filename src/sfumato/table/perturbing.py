"""Perturbing a table in memory, or a file of any size batch by batch; the noise is drawn once and
written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.bits import Bits
from sfumato.domain import Columns, Domain
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, rows_of
from sfumato.randomness import Keystream, secure
from sfumato.table.readers import BATCH_ROWS, Reader, reader_of
from sfumato.table.table import Provenance, Table, join_columns
from sfumato.table.writing import writer_to

Progress = Callable[
    [int, float | None], None
]  # rows read so far, and the part of the file they are, if known


@dataclass(frozen=True)
class Written:
    """What a perturbed file holds: its rows, how they came about, and what the owner
    should know.
    """

    rows: int
    provenance: Provenance
    notes: tuple[str, ...] = ()


def perturb_table(
    table: Table, mechanism: Mechanism, rng: Keystream | None = None, *, copies: int = 1
) -> Table:
    """The perturbed table, its noise drawn once; from secure randomness unless an `rng`
    is given.
    """
    if not isinstance(table, Table):
        raise ParameterError(
            f"a table of records is perturbed, and this is a {type(table).__name__}",
            hint=(
                "read it first (sfumato.read); a Spark frame, whose noise would be drawn anew at "
                "every reading, is perturbed into a folder by sfumato.engines.spark.perturb_frame"
            ),
        )
    check_truth("this table", table.provenance)
    rng = secure() if rng is None else rng
    provenance = provenance_of(mechanism, rng, copies)
    columns = reports_of(table.recode(mechanism.domain).columns, mechanism, rng, copies)
    return Table(mechanism.reports, columns, provenance, table.notes)


def perturb_file(
    source: Any,
    target: str | Path,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    *,
    schema: Domain | None = None,
    copies: int = 1,
    batch_rows: int = BATCH_ROWS,
    force: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Perturb a file (or data frame) into another, in memory that does not grow with it.

    The records are read by `schema`, by the mechanism's own domain if there is none. A mechanism
    that must see all rows at once (swapping) is given them all.
    """
    reader = source if isinstance(source, Reader) else reader_of(source)
    check_truth(reader.where, reader.provenance)
    rng = secure() if rng is None else rng
    provenance = provenance_of(mechanism, rng, copies)
    domain = mechanism.domain if schema is None else schema.project(mechanism.domain.names)
    with writer_to(target, mechanism.reports, provenance, force=force) as writer:
        done = 0
        for columns in _batches(reader, domain, mechanism, batch_rows):
            records = Table(domain, columns).recode(mechanism.domain).columns
            writer.write(reports_of(records, mechanism, rng, copies))
            done += rows_of(records)
            if progress:
                progress(done, reader.fraction)
    return Written(writer.rows, provenance, reader.notes(domain))


def _batches(
    reader: Reader, domain: Domain, mechanism: Mechanism, batch_rows: int
) -> Iterator[Columns]:
    batches = reader.batches(domain, batch_rows)
    return iter([join_columns(domain, list(batches))]) if mechanism.needs_all_rows else batches


def provenance_of(mechanism: Mechanism, rng: Keystream, copies: int) -> Provenance:
    """How a table comes about that this mechanism perturbs from this randomness."""
    if copies < 1:
        raise ParameterError(f"copies={copies}; a record is reported at least once")
    return Provenance(mechanism, rng.secure, copies)


def check_truth(where: str, provenance: Provenance | None) -> None:
    """Refuse to perturb what was perturbed before."""
    if provenance is not None:
        raise ParameterError(
            f"{where} was perturbed already, by {provenance.mechanism.name}; noise is drawn once",
            hint="perturb the true records instead",
        )


def reports_of(records: Columns, mechanism: Mechanism, rng: Keystream, copies: int) -> Columns:
    """The reports of these records, the copies of one record side by side."""
    return _interleaved([mechanism.perturb(records, rng) for _ in range(copies)])


def _interleaved(copies: Sequence[Columns]) -> Columns:
    if len(copies) == 1:
        return copies[0]
    order = np.arange(len(copies) * rows_of(copies[0])).reshape(len(copies), -1).T.ravel()
    joined = (_joined(column) for column in zip(*copies, strict=True))
    return tuple(
        column.take(order) if isinstance(column, Bits) else column[order] for column in joined
    )


def _joined(parts: Sequence[Any]) -> Any:
    return Bits.concatenate(parts) if isinstance(parts[0], Bits) else np.concatenate(parts)
