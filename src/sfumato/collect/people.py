"""People: the true records of a file that is to be answered from, and what they are called."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from sfumato.domain import Domain
from sfumato.errors import DataError, SchemaError, near_miss
from sfumato.table import Table, reader_of

# Letters that nobody sees (Default_Ignorable_Code_Point of Unicode, and the empty pattern of
# Braille) and that are not of category C.
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)


def known_as(name: str) -> str:
    """A person by one name, however it is typed: without regard to capitals, to blanks around it,
    to letters that nobody sees, and to which of several ways to write a letter was taken (NFKC).

    >>> known_as(" Ann\u200b") == known_as("ann"), known_as("\uff21nn  Lee")
    (True, 'ann lee')
    """
    seen = INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    letters = (each for each in seen if each.isspace() or unicodedata.category(each)[0] != "C")
    plain = unicodedata.normalize("NFKC", "".join(letters).casefold())
    return " ".join(plain.split())


def numbered(rows: int) -> list[str]:
    """What people without names are called."""
    return [f"row {number}" for number in range(1, rows + 1)]


def named_records(
    data: str, domain: Domain, key: str | None, form: str | None = None
) -> tuple[Table, Sequence[str] | None]:
    """The records of a file by a domain, and the column that names each person."""
    names = None if key is None else _names(data, key)
    try:
        table = reader_of(data, form).table(domain)
    except DataError as error:
        if "schema" in (error.hint or ""):  # which is not the respondent's to change
            raise DataError(error.message, hint="the campaign takes no other values") from None
        raise
    if names is None:
        return table, None
    if len(names) != table.rows:
        raise DataError(f"column '{key}' has {len(names)} values for {table.rows} records")
    return replace(table, notes=()), names


def _names(data: str, key: str) -> list[str]:
    """One column of a file, as words."""
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    column: pa.ChunkedArray
    try:
        table = pq.read_table(data) if data.endswith(".parquet") else pc.read_csv(data)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"column '{key}' of '{data}' cannot be read: {error}") from None
    if key not in table.column_names:
        raise SchemaError(f"no column '{key}' in '{data}'", hint=near_miss(key, table.column_names))
    column = table.column(key).cast(pa.string())
    if column.null_count:
        raise DataError(f"column '{key}' has empty values, which name nobody")
    names = [str(value) for value in column.to_pylist()]
    if not all(map(known_as, names)):
        raise DataError(f"column '{key}' has values without a letter, which name nobody")
    return names
