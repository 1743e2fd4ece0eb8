"""The source that a command works on: a release where the file carries its mechanism, else the truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.source import Exact, Release, Source


def read_source(file: str, schema: Path | None, items: Path | None) -> Source:
    """The source in a file; true data are read by the schema, or by a proposed one."""
    from sfumato.cli.perturb import read_domain
    from sfumato.errors import ParameterError
    from sfumato.source import Exact, Release
    from sfumato.table import reader_of

    reader = reader_of(file)
    if reader.provenance is None:
        return Exact(reader.table(read_domain(reader, schema, items)))
    if schema is not None or items is not None:
        raise ParameterError(f"'{file}' was perturbed and carries its own domain", hint="leave --schema and --items out")
    return Release(reader.table(reader.provenance.mechanism.reports))


def read_truth(truth: str, release: Release) -> Exact:
    """The true records of a release, read by the release's own domain."""
    from sfumato.errors import DataError, ParameterError
    from sfumato.source import Exact
    from sfumato.table import reader_of

    reader = reader_of(truth)
    if reader.provenance is not None:
        raise ParameterError(f"--truth '{truth}' is itself a perturbed file", hint="give the true records")
    table = reader.table(release.domain)
    if table.rows != release.rows:
        raise DataError(
            f"--truth '{truth}' holds {table.rows:,} records, but the release was made from {release.rows:,}",
            hint="give the true records of this very release",
        )
    return Exact(table)
