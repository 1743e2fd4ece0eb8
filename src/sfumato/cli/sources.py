"""The source that a command works on: a release where the file carries its mechanism, else the
truth. Engines and models are loaded where one is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from sfumato.cli.options import Engine, Form, Items, Options, Schema, option
from sfumato.cli.printing import print_notes
from sfumato.domain import Domain
from sfumato.errors import DataError, ParameterError
from sfumato.model.format import is_model
from sfumato.progress import Progress, silent
from sfumato.release import Exact, Release
from sfumato.source import Source
from sfumato.table import Reader, propose, read_items, reader_of
from sfumato.table.baskets import BasketReader
from sfumato.table.round import Round

if TYPE_CHECKING:
    from sfumato.engines.several import RoundSeries

READ_OFF = (
    "the values, ranges and cuts were read off the true data and are published with a release, "
    "outside the guarantee; state them yourself with --schema (baskets: --items)"
)


@dataclass(frozen=True)
class Described(Options):
    """What true data hold: the values of a schema, the items of baskets, or what is proposed; and
    how baskets stand in them.
    """

    schema: Schema = None
    items: Items = None
    form: Form = None

    def domain(self, reader: Reader) -> Domain:
        """The domain to read true data by: the schema's, the items', or a proposed one."""
        if self.items is not None and not reader.baskets:
            raise ParameterError("--items is for basket files", hint="use --schema for records")
        if self.items is not None and self.schema is not None:
            raise ParameterError(
                "--items and --schema both say what baskets may hold", hint="give one of them"
            )
        if self.items is not None:
            return read_items(self.items, named=not isinstance(reader, BasketReader))
        if self.schema is not None:
            return Domain.load(self.schema)
        proposal = propose(reader)
        print_notes(proposal.notes)
        return proposal.domain


@dataclass(frozen=True)
class Reading(Described):
    """How a file is read and counted: a release by its own domain, a model as it is, and the truth
    as it is described.
    """

    engine: Engine = None
    fit: Annotated[
        bool,
        option("Fit a model to the release first and ask that: any columns, errors say so."),
    ] = False
    by_model: Annotated[
        bool,
        option("Answer by the model alone: narrower, right on average and not at every truth."),
    ] = False
    no_cache: Annotated[
        bool,
        option(
            "Count anew, and keep no counts in the cache folder (SFUMATO_CACHE, or the system's)."
        ),
    ] = False

    def source(self, file: str, tell: Progress = silent, *, in_place: bool = False) -> Source:
        """The source in a file or a database's table; a release is fitted where that is asked for.

        `in_place` leaves the rows of a perturbed file where they are (DuckDB counts them) unless
        another engine is asked for. What an engine counts is kept in the cache.
        """
        if is_model(file):
            from sfumato.model.model_file import open_model

            return replace(open_model(file), by_model=self.by_model)
        counted = self.engine is not None or "://" in file
        found = self._counted(file) if counted else self._read(file, tell, in_place)
        if not self.fit or not isinstance(found, Release):
            if self.by_model:
                raise ParameterError("--by-model is for models", hint="add --fit, or name a model")
            return found
        from sfumato.model.fitted import alone, fit_release

        model = fit_release(found, tell=tell)
        fitted = f"a model of order {model.fitted_order} was fitted to {model.rows:,} reports"
        print_notes([fitted, *alone(found)])
        return replace(model, by_model=self.by_model)

    def _counted(self, file: str) -> Source:
        """What an engine counts."""
        from sfumato.engines import open_source

        if self.form is not None:
            raise ParameterError(
                "--form is for files that are read here", hint="leave --engine out"
            )
        domain = None if self.schema is None else Domain.load(self.schema)
        wanted = domain if self.items is None else read_items(self.items)
        return open_source(file, self.engine, schema=wanted, cache=not self.no_cache)

    def _read(self, file: str, tell: Progress, in_place: bool) -> Source:
        """What is read here."""
        reader = reader_of(file, self.form)
        reader.tell = tell
        if reader.provenance is None:
            return Exact(reader.table(self.domain(reader)))
        if self.schema is not None or self.items is not None or self.form is not None:
            raise ParameterError(
                f"'{file}' was perturbed and carries its own domain",
                hint="leave --schema, --items and --form out",
            )
        if in_place:
            from sfumato.engines import release_in

            return release_in(reader, cache=not self.no_cache)
        return Release.of(reader.table(reader.provenance.mechanism.reports))


def read_truth(
    file: str, truth: str, source: Source, form: str | None = None, tell: Progress = silent
) -> Exact:
    """The true records behind the source in a file, read by its own domain; of rounds, those of the
    people whom they asked.
    """
    if isinstance(source, Exact):
        raise ParameterError(
            f"'{file}' is itself the truth", hint="--truth goes with a perturbed file"
        )
    reader = reader_of(truth, form)
    reader.tell = tell
    if reader.provenance is not None:
        raise ParameterError(
            f"--truth '{truth}' is itself a perturbed file", hint="give the true records"
        )
    table = reader.table(source.domain)
    turns = _turns(source)
    if turns and sum(turn.people(table.rows) for turn in turns) == source.rows:
        asked = np.logical_or.reduce([turn.asked(0, table.rows) for turn in turns])
        table = table.take(np.flatnonzero(asked))
    if table.rows != source.rows:
        raise DataError(
            f"--truth '{truth}' holds {table.rows:,} records, but the release was made from "
            f"{source.rows:,}",
            hint="give the true records of this very release",
        )
    return Exact(table)


def _turns(source: Source) -> tuple[Round, ...]:
    """The rounds that a source is made of, if any."""
    from sfumato.engines.several import RoundSeries

    if isinstance(source, RoundSeries):
        return source.turns
    turn = source.provenance.turn if isinstance(source, Release) else None
    return () if turn is None else (turn,)


def earlier(paths: Sequence[str]) -> RoundSeries:
    """The rounds in these files."""
    from sfumato.engines.several import RoundSeries
    from sfumato.rounds import opened_rounds

    return RoundSeries.of(opened_rounds(paths))


def rounds_up_to(file: str, source: Source) -> list[str]:
    """The addresses of all rounds of a campaign whose latest this source is; else its own."""
    turn = source.provenance.turn if isinstance(source, Release) else None
    campaign = file.partition("#")[2]
    if turn is None or not campaign or "/" in campaign:
        return [file]
    return [f"{file}/{number}" for number in range(1, turn.round + 1)]
