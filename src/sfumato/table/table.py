"""Table: encoded columns over a domain, and where they come from if a mechanism made them."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato import __version__
from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.domain import (
    Attribute,
    Bins,
    Cells,
    Codes,
    Column,
    Columns,
    Distinct,
    Domain,
    Items,
    Numeric,
    code_dtype,
    one_after_another,
)
from sfumato.errors import (
    DataError,
    FileError,
    ParameterError,
    SchemaError,
    first_line,
    listing,
    near_miss,
)
from sfumato.mechanisms.base import Mechanism, rows_of, spec_of
from sfumato.mechanisms.registry import from_spec
from sfumato.privacy.guarantee import Guarantee
from sfumato.renderers.html import MOST_LINES
from sfumato.result import Tabular
from sfumato.table.round import RANDOM_NAME, Round
from sfumato.untrusted import MOST_COPIES, Untrusted, refuse_malformed, shown
from sfumato.view import View

METADATA_KEY = b"sfumato"
RELEASE_KEY = b"sfumato.release"  # what the rows of a Parquet file carry of their own
DESCRIPTION_FORMAT = 2  # of the JSON that travels with a perturbed file
FIRST_FORMAT = 1  # of version 0.1.0: no release id, and the order of the truth


@dataclass(frozen=True)
class Provenance:
    """How a table was perturbed: by which mechanism, whether from secure randomness, how many
    reports a record made, and whether they stand in a random order.

    `release` is a random name that stands with the rows as well, so that no description is taken
    for that of other rows; None for rows that were changed, or written by version 0.1.0.
    `told` is what the place that holds the rows adds to what the promise does not cover; `turn`
    is the round of those who are asked in rounds.
    """

    mechanism: Mechanism
    secure: bool
    copies: int = 1
    shuffled: bool = False
    release: str | None = None
    told: tuple[str, ...] = ()
    turn: Round | None = None  # where people are asked in rounds

    @property
    def guarantee(self) -> Guarantee:
        """What each respondent was promised, all copies of their record taken together."""
        return self.mechanism.guarantee.repeated(self.copies)

    def describe(self) -> dict[str, Any]:
        """The JSON description that travels with a perturbed file."""
        head = {"format": DESCRIPTION_FORMAT, "version": __version__, "release": self.release}
        how = {"secure": self.secure, "copies": self.copies, "shuffled": self.shuffled}
        turn = {} if self.turn is None else {"turn": self.turn.to_dict()}
        return head | spec_of(self.mechanism) | how | turn

    @property
    def unnamed(self) -> Provenance:
        """How rows came about that were made of these, but are not the same rows."""
        return replace(self, release=None)

    @property
    def named(self) -> Provenance:
        """The same, with a release id where there is none."""
        return self if self.release is not None else replace(self, release=new_release())

    def check_rows(self, found: str | None, where: str) -> None:
        """Refuse rows that carry another release id than their description."""
        if self.release is not None and found != self.release:
            raise FileError(
                f"the rows of {where} are not those that its description speaks of",
                hint="they were replaced or written again after they were perturbed",
            )

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Provenance:
        """The provenance that a perturbed file describes."""
        given = Untrusted(description, "this file's description")
        form = given["format"].value
        if form not in (FIRST_FORMAT, DESCRIPTION_FORMAT):
            raise FileError(
                f"this file's description has format {shown(form)}; this Sfumato "
                f"({__version__}) reads {FIRST_FORMAT} to {DESCRIPTION_FORMAT}",
                hint="read it with the version that wrote it",
            )
        secure, copies = given["secure"].flag(), given["copies"].whole(1, MOST_COPIES)
        shuffled, release = False, None
        if form != FIRST_FORMAT:
            shuffled, release = given["shuffled"].flag(), _release_in(given)
        with refuse_malformed("this file's description"):
            mechanism = from_spec(description)
        turn = Round.from_dict(given["turn"]) if "turn" in description else None
        return cls(mechanism, secure, copies, shuffled, release, turn=turn)


def new_release() -> str:
    """A random name for a release; it is no noise, so that it comes from no stream of noise."""
    return secrets.token_hex(16)


def _release_in(given: Untrusted) -> str | None:
    """The release id of a description; a table whose rows were chosen from another's has none."""
    if given["release"].value is None:
        return None
    found = given["release"].word()
    if not RANDOM_NAME.fullmatch(found):
        raise FileError("this file's description names no release id as Sfumato writes it")
    return found


@checked
@dataclass(frozen=True, eq=False)
class Table(Tabular):
    """Records over a domain: one array of codes an attribute (for items: packed bits), and the
    provenance of a perturbed one.

    Where `copies` is above 1, the reports of one record stand in consecutive rows.

    >>> from sfumato.domain import Category
    >>> table = Table.from_arrow(pa.table({"sex": ["F", "M"], "name": ["Ann", "Bob"]}),
    ...     Domain((Category("sex", ("F", "M")),)))
    >>> table.rows, table.column("sex").tolist(), table.notes
    (2, [0, 1], ("column 'name' is not in the schema and was dropped",))
    """

    domain: Domain
    columns: Columns
    provenance: Provenance | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        kind = "true" if self.provenance is None else "perturbed"
        return f"{self.rows:,} {kind} records of {listing(self.domain.names)}"

    def view(self) -> View:
        """What is known of the records, and none of them."""
        facts: list[tuple[str, Any]] = [
            ("rows", self.rows),
            ("columns", listing(self.domain.names, most=MOST_LINES)),
        ]
        if self.provenance is None:
            return View("True records", facts=facts)
        facts.append(("mechanism", self.provenance.mechanism.name))
        facts.append(("guarantee", str(self.provenance.guarantee)))
        return View("Perturbed records", facts=facts)

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.domain):
            raise DataError(
                f"{len(self.columns)} columns were given for the {len(self.domain)} attributes of "
                "the domain"
            )
        checked = tuple(
            _checked(attribute, column)
            for attribute, column in zip(self.domain, self.columns, strict=True)
        )
        lengths = {len(column) for column in checked}
        if len(lengths) > 1:
            raise DataError(
                f"columns must have the same number of rows; found {listing(sorted(lengths))}"
            )
        object.__setattr__(self, "columns", checked)

    @property
    def rows(self) -> int:
        """The number of rows: records, or reports of a perturbed table."""
        return rows_of(self.columns)

    def __len__(self) -> int:
        return self.rows

    @property
    def mechanism(self) -> Mechanism | None:
        """The mechanism that perturbed this table; None for the truth."""
        return self.provenance.mechanism if self.provenance else None

    @property
    def secure(self) -> bool:
        """Whether the noise came from secure randomness; False for an experiment, and for the
        truth.
        """
        return self.provenance is not None and self.provenance.secure

    @property
    def copies(self) -> int:
        """How many rows each record has."""
        return self.provenance.copies if self.provenance else 1

    def column(self, name: str) -> Codes | Bits:
        """The codes of one attribute."""
        return self.columns[self.domain.index(name)]

    @classmethod
    def from_arrow(cls, data: Any, domain: Domain) -> Table:
        """The table that an Arrow table, or any data frame that speaks the Arrow C
        stream, holds.
        """
        reader = arrow_stream(data)
        check_names(domain.names, reader.schema.names, "these data")
        parts, first_row = [], 1
        for batch in reader:
            parts.append(encode_batch(batch, domain, first_row))
            first_row += batch.num_rows
        return cls(
            domain, join_columns(domain, parts), notes=dropped_notes(domain, reader.schema.names)
        )

    def to_arrow(self) -> pa.Table:
        """The values as Arrow columns; a perturbed table carries its description in the schema's
        metadata.
        """
        arrays = [
            attribute.decode(column)
            for attribute, column in zip(self.domain, self.columns, strict=True)
        ]
        return pa.table(arrays, schema=arrow_schema(self.domain, self.provenance, self.rows))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow C stream, so that pandas, polars and DuckDB read a table directly."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def recode(self, domain: Domain) -> Table:
        """The same rows over another domain: attributes left out, reordered, or cut into bins."""
        columns = tuple(
            _recoded(self.domain[attribute.name], self.column(attribute.name), attribute)
            for attribute in domain
        )
        return self._other(columns, domain)

    def slice(self, start: int, stop: int) -> Table:
        """The rows start..stop-1."""
        return self._other(tuple(column[start:stop] for column in self.columns))

    def take(self, rows: Codes) -> Table:
        """The rows with these numbers, in this order, repeats allowed."""
        rows = np.asarray(rows)
        if rows.size and (rows.dtype.kind not in "iu" or rows.max() >= self.rows):
            raise ParameterError(f"rows are whole numbers below {self.rows:,}")
        rows = rows.astype(np.int64, copy=False)
        return self._other(tuple(column.take(rows) for column in self.columns))

    def _other(self, columns: Columns, domain: Domain | None = None) -> Table:
        """A table of rows that were made of these, but are not the same rows."""
        origin = self.provenance and self.provenance.unnamed
        return replace(self, domain=domain or self.domain, columns=columns, provenance=origin)


def arrow_stream(data: Any) -> pa.RecordBatchReader:
    """Arrow batches of whatever holds them: an Arrow table or reader, or a data frame that speaks
    the Arrow C stream.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except (TypeError, pa.ArrowInvalid) as error:
            if hasattr(
                data, "fetch_arrow_reader"
            ):  # DuckDB before 1.2 does not take the argument that the protocol knows
                return data.fetch_arrow_reader()
            if hasattr(data, "to_frame"):
                raise DataError(
                    f"a {type(data).__name__} is one column without a table around it",
                    hint="give a data frame, as in data.to_frame()",
                ) from None
            raise DataError(
                f"these data are not columns of one type each: {first_line(error)}"
            ) from None
    raise DataError(
        f"cannot read records from {type(data).__name__}",
        hint="give a file name, an Arrow table, or a data frame of pandas, polars or DuckDB",
    )


def arrow_schema(
    domain: Domain, provenance: Provenance | None, rows: int | None = None
) -> pa.Schema:
    """The Arrow types of a domain's columns, with the description of a perturbed table in the
    metadata, and how many rows it speaks of where that is known.
    """
    # No value of a schema is ever missing; to say so lets engines compare three times faster.
    fields = [
        pa.field(
            each.name,
            each.decode(_empty_column(each)).type,
            nullable=isinstance(each, Distinct),
        )
        for each in domain
    ]
    if provenance is None:
        return pa.schema(fields)
    description = provenance.describe() | ({} if rows is None else {"rows": rows})
    return pa.schema(fields, metadata={METADATA_KEY: json.dumps(description)})


def encode_batch(batch: pa.RecordBatch, domain: Domain, first_row: int) -> Columns:
    """The codes of a batch; `first_row` is the number that errors give to its first row."""
    return tuple(encode_column(batch.column(each.name), each, first_row) for each in domain)


def encode_column(array: pa.Array, attribute: Attribute, first_row: int) -> Codes | Bits:
    """The codes of a column; of one that lists its different words, those are encoded once."""
    column = plain_array(array)
    _check_kind(attribute, column)
    if pa.types.is_dictionary(column.type) and not column.null_count:
        with suppress(DataError):  # which row is wrong is known by looking at every row
            codes = np.asarray(attribute.encode(column.dictionary))
            return codes[column.indices.to_numpy(zero_copy_only=False)]
    return attribute.encode(column, first_row)


def _check_kind(attribute: Attribute, column: pa.Array) -> None:
    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if isinstance(attribute, Items) and not lists:
        raise DataError(
            f"column '{attribute.name}' should hold baskets, that is lists of items; it holds "
            f"{column.type}"
        )
    if not isinstance(attribute, Items) and pa.types.is_nested(column.type):
        raise DataError(
            f"column '{attribute.name}' should hold single values; it holds {column.type}"
        )


def plain_array(array: pa.Array) -> pa.Array:
    """The same values without string views, which polars hands over and much of Arrow cannot
    compute with.
    """
    kind = array.type
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.DictionaryArray.from_arrays(array.indices, plain_array(array.dictionary))
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_string_view(
        kind.value_type
    ):
        lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        return lists.from_arrays(
            array.offsets,
            plain_array(array.values),
            mask=array.is_null() if array.null_count else None,
        )
    if not pa.types.is_string_view(kind):
        return array
    try:
        return array.cast(pa.string())
    except pa.ArrowNotImplementedError:  # before Arrow 18
        return pa.array(array.to_pylist(), pa.string())


def join_columns(domain: Domain, parts: Sequence[Columns]) -> Columns:
    """The columns of all batches, one after the other."""
    if not parts:
        return tuple(map(_empty_column, domain))
    return tuple(map(one_after_another, zip(*parts, strict=True)))


def _empty_column(attribute: Attribute) -> Column:
    if isinstance(attribute, Items):
        return Bits.zeros(0, attribute.size)
    return np.zeros(0, dtype=code_dtype(attribute.size))


def check_names(wanted: Iterable[str], names: Sequence[str], where: str) -> None:
    """Refuse data that lack a wanted column, or have one twice."""
    times = Counter(names)
    for name in wanted:
        if not times[name]:
            raise SchemaError(
                f"no column '{name}' in {where} ({listing(names)})", hint=near_miss(name, names)
            )
        if times[name] > 1:
            raise DataError(f"{where} has more than one column '{name}'")


def dropped_notes(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """A note that names the columns a domain leaves out."""
    # pandas hands its row labels over as a column of this name; nobody meant them as data.
    known = set(domain.names)
    dropped = [
        name for name in names if name not in known and not name.startswith("__index_level_")
    ]
    if not dropped:
        return ()
    if len(dropped) == 1:
        return (f"column '{dropped[0]}' is not in the schema and was dropped",)
    return (f"{len(dropped)} columns are not in the schema and were dropped: {listing(dropped)}",)


def _checked(attribute: Attribute, column: Codes | Bits) -> Codes | Bits:
    if isinstance(attribute, Items) != isinstance(column, Bits):
        raise DataError(
            f"attribute '{attribute.name}' is held by "
            f"{'bits' if isinstance(attribute, Items) else 'codes'}"
        )
    found = (
        column.items if isinstance(column, Bits) else int(column.max()) + 1 if len(column) else 0
    )
    if found > attribute.size or (isinstance(column, Bits) and found != attribute.size):
        raise DataError(
            f"column '{attribute.name}' holds more than the {attribute.size} values of its "
            "attribute"
        )
    return column


def _recoded(have: Attribute, column: Codes | Bits, want: Attribute) -> Codes | Bits:
    """The column over another attribute of the same name: as it is, cut into bins, or through its
    values.
    """
    if replace(have, public=want.public) == want:
        return column
    if isinstance(have, Numeric | Bins) and isinstance(want, Bins) and _cuts_fit(have, want):
        return _merged(have.cells_by_cuts(want.edges[1:-1]), column)
    if isinstance(want, Bins) and isinstance(have, Bins):
        raise SchemaError(
            f"the bins of '{have.name}' ({listing(have.labels)}) cannot be cut again to "
            f"{listing(want.labels)}"
        )
    return want.encode(have.decode(column))


def _merged(cells: Cells, column: Codes | Bits) -> Codes:
    """The cell of each row, looked up by its code where there are more rows than codes."""
    if cells.attribute.size > len(column):
        return cells.assign(column).astype(code_dtype(cells.size))
    return cells.assign(np.arange(cells.attribute.size)).astype(code_dtype(cells.size))[
        np.asarray(column)
    ]


def _cuts_fit(have: Numeric | Bins, want: Bins) -> bool:
    """Whether the bins span the whole range that the column can hold, so that merging codes gives
    them.
    """
    if isinstance(have, Bins):
        return (
            have.edges[0] == want.edges[0]
            and have.edges[-1] == want.edges[-1]
            and set(want.edges) <= set(have.edges)
        )
    return (
        want.edges[0] <= have.min
        and have.max <= want.edges[-1]
        and all(have.min < cut <= have.max for cut in want.edges[1:-1])
    )
