"""Domain: which values a record may hold, how they are coded, how cells are merged."""

from sfumato.domain.attributes import (
    FINE_GRID,
    Attribute,
    Bins,
    Category,
    Distinct,
    Items,
    Numeric,
)
from sfumato.domain.cells import (
    Cells,
    Codes,
    Column,
    Columns,
    as_bits,
    coarsened,
    code_dtype,
    codes_of,
    gathered,
    merged,
    one_after_another,
    same_rows,
    spread,
)
from sfumato.domain.domain import Axis, Domain

__all__ = [
    "FINE_GRID",
    "Attribute",
    "Axis",
    "Bins",
    "Category",
    "Cells",
    "Codes",
    "Column",
    "Columns",
    "Distinct",
    "Domain",
    "Items",
    "Numeric",
    "as_bits",
    "coarsened",
    "code_dtype",
    "codes_of",
    "gathered",
    "merged",
    "one_after_another",
    "same_rows",
    "spread",
]
