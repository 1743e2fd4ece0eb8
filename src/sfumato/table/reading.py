"""Reading a whole table: the truth by a schema, a perturbed one by the mechanism it carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.arguments import checked
from sfumato.domain import Domain
from sfumato.errors import FileError, ParameterError
from sfumato.table.formats import reader_of
from sfumato.table.proposal import propose
from sfumato.table.readers import Reader
from sfumato.table.table import Table


@checked
def read(source: Any, schema: Domain | str | Path | None = None) -> Table:
    """The table in a file (CSV, Parquet, FIMI) or a data frame; one that Sfumato perturbed comes
    with its mechanism.

    Data without a mechanism are the truth, read by the schema (a `Domain` or its .toml file), or by
    a proposed one.

    >>> table = read({"smoker": ["no", "yes", "no"]})
    >>> table.rows, table.domain["smoker"].values
    (3, ('no', 'yes'))
    """
    reader = reader_of(source)
    if reader.provenance is None:
        if schema is not None and not isinstance(schema, Domain):
            schema = Domain.load(schema)
        return read_truth(reader, schema)
    if schema is not None:
        raise ParameterError(
            f"{reader.where} was perturbed and carries its own domain",
            hint="leave the schema out to read it",
        )
    return reader.table(reader.provenance.mechanism.reports)


def read_truth(reader: Reader, schema: Domain | None) -> Table:
    """The table read by the schema, or by a proposed one."""
    return reader.table(schema if schema is not None else propose(reader).domain)


def read_perturbed(source: Any) -> Table:
    """The perturbed table in a file or data frame that carries its mechanism."""
    reader = reader_of(source)
    if reader.provenance is None:
        raise FileError(
            f"{reader.where} carries no mechanism, so how it was perturbed, or whether, is not "
            "known",
            hint="perturb it first, or read it as the truth",
        )
    return reader.table(reader.provenance.mechanism.reports)
