"""The source that a command works on: a release where the file carries its mechanism, else the
truth. Engines and models are loaded where one is asked for.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.cli.domains import read_domain
from sfumato.cli.printing import print_notes
from sfumato.domain import Domain
from sfumato.errors import DataError, ParameterError
from sfumato.model.format import is_model
from sfumato.progress import Progress, silent
from sfumato.source import Exact, Release, Source
from sfumato.table import read_items, reader_of
from sfumato.table.round import Round


def read_source(
    file: str,
    schema: Path | None,
    items: Path | None,
    engine: str | None = None,
    *,
    in_place: bool = False,
    cache: bool = True,
    fit: bool = False,
    form: str | None = None,
    tell: Progress = silent,
) -> Source:
    """The source in a file or a database's table, counted by the engine; the truth is read by the
    schema, or a proposed one. A model is opened as it is, and a release fitted where `fit` asks
    for it.

    `in_place` leaves the rows of a perturbed file where they are (DuckDB counts them) unless
    another engine is asked for. What an engine counts is kept in the cache, unless told otherwise.
    """
    if is_model(file):
        from sfumato.model.model_file import open_model

        return open_model(file)
    found = _counted_source(file, schema, items, engine, in_place, cache, form, tell)
    if not fit or not isinstance(found, Release):
        return found
    from sfumato.model.fitted import alone, fit_release

    model = fit_release(found, tell=tell)
    fitted = f"a model of order {model.fitted_order} was fitted to {model.rows:,} reports"
    print_notes([fitted, *alone(found)])
    return model


def _counted_source(
    file: str,
    schema: Path | None,
    items: Path | None,
    engine: str | None,
    in_place: bool,
    cache: bool,
    form: str | None,
    tell: Progress,
) -> Source:
    if engine is not None or "://" in file:
        if form is not None:
            raise ParameterError(
                "--form is for files that are read here", hint="leave --engine out"
            )
        return _engine_source(file, schema, items, engine, cache)
    reader = reader_of(file, form)
    reader.tell = tell
    if reader.provenance is None:
        return Exact(reader.table(read_domain(reader, schema, items)))
    if schema is not None or items is not None or form is not None:
        raise ParameterError(
            f"'{file}' was perturbed and carries its own domain",
            hint="leave --schema, --items and --form out",
        )
    if in_place:
        from sfumato.engines import release_in

        return release_in(reader, cache=cache)
    return Release.of(reader.table(reader.provenance.mechanism.reports))


def _engine_source(
    file: str, schema: Path | None, items: Path | None, engine: str | None, cache: bool
) -> Source:
    from sfumato.engines import open_source

    domain = None if schema is None else Domain.load(schema)
    wanted = domain if items is None else read_items(items)
    return open_source(file, engine, schema=wanted, cache=cache)


def read_truth(
    truth: str, release: Source, form: str | None = None, *, tell: Progress = silent
) -> Exact:
    """The true records of a release, read by the release's own domain; of rounds, those of the
    people whom they asked.
    """
    reader = reader_of(truth, form)
    reader.tell = tell
    if reader.provenance is not None:
        raise ParameterError(
            f"--truth '{truth}' is itself a perturbed file", hint="give the true records"
        )
    table = reader.table(release.domain)
    turns = _turns(release)
    if turns and sum(turn.people(table.rows) for turn in turns) == release.rows:
        asked = np.logical_or.reduce([turn.asked(0, table.rows) for turn in turns])
        table = table.take(np.flatnonzero(asked))
    if table.rows != release.rows:
        raise DataError(
            f"--truth '{truth}' holds {table.rows:,} records, but the release was made from "
            f"{release.rows:,}",
            hint="give the true records of this very release",
        )
    return Exact(table)


def _turns(source: Source) -> tuple[Round, ...]:
    """The rounds that a source is made of, if any."""
    from sfumato.engines.series import RoundSeries

    if isinstance(source, RoundSeries):
        return source.turns
    turn = source.provenance.turn if isinstance(source, Release) else None
    return () if turn is None else (turn,)
