"""Perturbing a table in memory, or a file of any size batch by batch; the noise is drawn once and
written down, in an order that says nothing of the truth's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import shown
from sfumato.domain import Columns, Domain, one_after_another
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Mechanism, rows_of
from sfumato.randomness import Keystream, drawing
from sfumato.table.formats import STANDARD_STREAM, check_free, reader_of, writer_to
from sfumato.table.limits import BATCH_ROWS
from sfumato.table.readers import Reader, batch_rows_of
from sfumato.table.round import Round
from sfumato.table.shuffling import RowForm, Shuffle, order_to, permutation
from sfumato.table.table import Provenance, Table, join_columns, new_release
from sfumato.untrusted import MOST_COPIES

Progress = Callable[
    [int, float | None], None
]  # rows read so far, and the part of the work they are, if known
READING = 0.6  # of the work, where the reports are shuffled as well


@dataclass(frozen=True)
class Written:
    """What a perturbed file holds: its rows, how they came about, and what the owner
    should know.
    """

    rows: int
    provenance: Provenance
    notes: tuple[str, ...] = ()


def perturb_table(
    table: Table,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    *,
    copies: int = 1,
    keep_order: bool = False,
    turn: Round | None = None,
) -> Table:
    """The perturbed table, its noise drawn once, from secure randomness unless an `rng` is given,
    and its rows in a random order unless that is to be kept. With a `turn` only those are asked
    whose turn it is.
    """
    rng = drawing(rng)
    if not isinstance(table, Table):
        raise ParameterError(
            f"a table of records is perturbed, and this is a {type(table).__name__}",
            hint=(
                "read it first (sfumato.read); a Spark frame, whose noise would be drawn anew at "
                "every reading, is perturbed into a folder by sfumato.engines.spark.perturb_frame"
            ),
        )
    check_truth("this table", table.provenance)
    if turn is not None:
        table = table.take(np.flatnonzero(turn.asked(0, table.rows)))
    provenance = replace(provenance_of(mechanism, rng, copies), turn=turn)
    columns = reports_of(table.recode(mechanism.domain).columns, mechanism, rng, copies)
    release = Table(mechanism.reports, columns, provenance, table.notes)
    return release if keep_order else shuffled(release, rng)[0]


def shuffled(release: Table, rng: Keystream) -> tuple[Table, NDArray[np.int64]]:
    """The same release in a random order, and the row of the truth behind each of its reports; the
    reports of one record stay side by side.
    """
    if release.provenance is None:
        raise ParameterError("only a release is shuffled; perturb the table first")
    copies = release.copies
    order = permutation(order_stream(rng), release.rows // copies)
    rows = (order[:, None] * copies + np.arange(copies)).ravel()
    provenance = replace(release.provenance, shuffled=True)
    return replace(release.take(rows), provenance=provenance), np.repeat(order, copies)


def order_stream(rng: Keystream) -> Keystream:
    """The stream that an order is drawn from: a key of its own, so that no two orders are alike and
    the noise is the same whether the order is kept or not.
    """
    return rng.branch()


def perturb_file(
    source: Any,
    target: str | Path,
    mechanism: Mechanism,
    rng: Keystream | None = None,
    *,
    schema: Domain | None = None,
    copies: int = 1,
    batch_rows: int = BATCH_ROWS,
    keep_order: bool = False,
    order: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
    turn: Round | None = None,
) -> Written:
    """Perturb a file (or data frame) into another, in memory that does not grow with it.

    The records are read by `schema`, by the mechanism's own domain if there is none. A mechanism
    that must see all rows at once (permuting) is given them all. The reports come in a random order
    unless `keep_order`; the file `order` is told which record each came from. With a `turn` only
    those are asked whose turn it is.
    """
    reader = source if isinstance(source, Reader) else reader_of(source)
    check_truth(reader.where, reader.provenance)
    check_order(order, target, keep_order=keep_order, force=force)
    rng = drawing(rng)
    provenance = provenance_of(mechanism, rng, copies)
    provenance = replace(provenance, shuffled=not keep_order, turn=turn)
    domain = mechanism.domain if schema is None else schema.project(mechanism.domain.names)
    share = 1 if keep_order else READING  # of the work, that reading and drawing are

    def drawn() -> Iterator[Columns]:
        """The reports in the order of the records."""
        done = 0
        for records in _records(reader, domain, mechanism, batch_rows, turn):
            yield reports_of(records, mechanism, rng, copies)
            done += rows_of(records)
            if progress:
                fraction = reader.fraction
                progress(done, None if fraction is None else share * fraction)

    with writer_to(target, mechanism.reports, provenance, force=force) as writer:
        if keep_order:
            for reports in drawn():
                writer.write(reports)
        else:
            form = RowForm(mechanism.reports, copies, numbered=order is not None)
            folder = None if str(target) == STANDARD_STREAM else Path(target).absolute().parent
            people, parts = _shuffled_rows(drawn(), form, rng, folder)
            secret = order_to(order, people * copies, force=force) if order else nullcontext()
            with secret as keep:
                for rows in parts:
                    writer.write(form.unpack(rows))
                    if keep is not None:
                        keep(form.numbers(rows))
                    if progress:
                        written = writer.rows // copies / people
                        progress(people, share + (1 - share) * written)
    return Written(writer.rows, provenance, reader.notes(domain))


def _records(
    reader: Reader, domain: Domain, mechanism: Mechanism, batch_rows: int, turn: Round | None
) -> Iterator[Columns]:
    """The records of those asked as the mechanism takes them, batch by batch or all at once."""
    batches = reader.batches(domain, batch_rows)
    batches = batches if turn is None else turn.among(batches)
    if mechanism.needs_all_rows:
        batches = iter([join_columns(domain, list(batches))])
    for columns in batches:
        yield Table(domain, columns).recode(mechanism.domain).columns


def _shuffled_rows(
    reports: Iterator[Columns], form: RowForm, rng: Keystream, folder: Path | None
) -> tuple[int, Iterator[NDArray[Any]]]:
    """How many records made these reports, and their rows in a random order; what memory does not
    hold of them is in the folder of the file to be written, where there is room.
    """
    shuffle, records = None, 0
    for columns in reports:
        # The first batch draws its noise as if the order were kept.
        shuffle = shuffle or Shuffle(order_stream(rng), form.dtype, folder)
        shuffle.add(form.pack(columns, records))
        records += rows_of(columns) // form.copies
    most = max(min(map(batch_rows_of, form.reports)) // form.copies, 1)
    return records, shuffle.batches(most) if shuffle else iter(())


def check_order(
    order: str | Path | None, target: str | Path, *, keep_order: bool, force: bool
) -> None:
    """Refuse an order that could not be written, before any work is done for it."""
    if order is None:
        return
    if keep_order:
        raise ParameterError(
            "the order is kept, so there is no secret one to write",
            hint="use --order or --keep-order",
        )
    if Path(order).absolute() == Path(target).absolute():
        raise ParameterError("the reports and their order need a file each")
    check_free(Path(order), force)


def provenance_of(mechanism: Mechanism, rng: Keystream, copies: int) -> Provenance:
    """How a table comes about that this mechanism perturbs from this randomness."""
    if isinstance(copies, bool) or not isinstance(copies, int | np.integer) or copies < 1:
        raise ParameterError(
            f"copies={shown(copies)}; a record is reported at least once, a whole number of times"
        )
    if copies > MOST_COPIES:
        raise ParameterError(f"copies={copies:,}; at most {MOST_COPIES:,} reports of a record")
    return Provenance(mechanism, rng.secure, copies, release=new_release())


def check_truth(where: str, provenance: Provenance | None) -> None:
    """Refuse to perturb what was perturbed before."""
    if provenance is not None:
        raise ParameterError(
            f"{where} was perturbed already, by {provenance.mechanism.name}; noise is drawn once",
            hint="perturb the true records instead",
        )


def reports_of(records: Columns, mechanism: Mechanism, rng: Keystream, copies: int) -> Columns:
    """The reports of these records, the copies of one record side by side."""
    drawn = [mechanism.perturb(records, rng) for _ in range(copies)]
    if copies == 1:
        return drawn[0]
    order = np.arange(copies * rows_of(drawn[0])).reshape(copies, -1).T.ravel()
    columns = (one_after_another(column) for column in zip(*drawn, strict=True))
    return tuple(column.take(order) for column in columns)
