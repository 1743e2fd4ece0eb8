"""Tables of records or baskets, and the files that carry them together with their mechanism."""

from sfumato.table.baskets import read_items
from sfumato.table.names import check_named, read_names
from sfumato.table.opening import FORMS, reader_of
from sfumato.table.perturbing import Written, perturb_file, perturb_table
from sfumato.table.proposal import Proposal, propose, propose_schema
from sfumato.table.readers import Reader
from sfumato.table.reading import read, read_perturbed
from sfumato.table.table import Provenance, Table
from sfumato.table.writing import save, writer_to

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
