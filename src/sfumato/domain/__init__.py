"""Domain: which values a record may hold, how they are coded, how cells are merged."""

from sfumato.domain.attributes import FINE_GRID, Attribute, Bins, Category, Items, Numeric
from sfumato.domain.cells import Cells
from sfumato.domain.codes import Codes, Columns, code_dtype
from sfumato.domain.domain import Axis, Domain

__all__ = [
    "FINE_GRID",
    "Attribute",
    "Axis",
    "Bins",
    "Category",
    "Cells",
    "Codes",
    "Columns",
    "Domain",
    "Items",
    "Numeric",
    "code_dtype",
]
