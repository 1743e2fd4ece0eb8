"""The domain by which a command reads true data."""

from __future__ import annotations

from pathlib import Path

from sfumato.cli.printing import print_notes
from sfumato.domain import Domain
from sfumato.errors import ParameterError
from sfumato.table import Reader, propose, read_items
from sfumato.table.baskets import BasketReader

READ_OFF = (
    "the values, ranges and cuts were read off the true data and are told with a release, outside "
    "the guarantee; state them yourself with --schema (baskets: --items) to tell nothing"
)


def read_domain(reader: Reader, schema: Path | None, items: Path | None) -> Domain:
    """The domain to read true data by: the schema's, the items', or a proposed one."""
    if items is not None and not reader.baskets:
        raise ParameterError("--items is for basket files", hint="use --schema for records")
    if items is not None and schema is not None:
        raise ParameterError(
            "--items and --schema both say what baskets may hold", hint="give one of them"
        )
    if items is not None:
        return read_items(items, named=not isinstance(reader, BasketReader))
    if schema is not None:
        return Domain.load(schema)
    proposal = propose(reader)
    print_notes(proposal.notes)
    return proposal.domain
