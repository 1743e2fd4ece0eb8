"""Tables of records or baskets, and the files that carry them together with their mechanism."""

from sfumato.table.baskets import check_named, read_items, read_names
from sfumato.table.formats import FORMS, reader_of, save, writer_to
from sfumato.table.perturbing import Written, perturb_file, perturb_table
from sfumato.table.proposal import Proposal, propose, propose_schema, read, read_perturbed
from sfumato.table.readers import Reader
from sfumato.table.table import Provenance, Table

__all__ = [
    "FORMS",
    "Proposal",
    "Provenance",
    "Reader",
    "Table",
    "Written",
    "check_named",
    "perturb_file",
    "perturb_table",
    "propose",
    "propose_schema",
    "read",
    "read_items",
    "read_names",
    "read_perturbed",
    "reader_of",
    "save",
    "writer_to",
]
