"""Baskets by name: a CSV file without a header, the items of one basket a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import pyarrow as pa

from sfumato.domain import Columns, Domain, Items
from sfumato.errors import DataError, FileError
from sfumato.received import MOST_LABELS
from sfumato.table.baskets import ITEMS_NAME, no_items
from sfumato.table.delimiters import commonest_delimiter
from sfumato.table.readers import BATCH_ROWS, TextReader, batch_rows_of


@dataclass(eq=False)
class LineReader(TextReader):
    """Baskets whose lines name their items, separated by commas, semicolons, tabs or bars; an empty
    line is an empty basket.
    """

    baskets = True

    @cached_property
    def delimiter(self) -> str:
        """What separates the names of most lines."""
        return commonest_delimiter(self.head())

    @cached_property
    def found(self) -> Domain:
        """The items of the baskets, by a first pass over the file."""
        names: set[str] = set()
        for baskets in self.passing(self._baskets(BATCH_ROWS)):
            names.update(*baskets)
            if len(names) > MOST_LABELS:
                raise DataError(
                    f"{self.where} names more than {MOST_LABELS:,} different items",
                    hint="leave out those that few baskets hold",
                )
        if not names:
            raise no_items(self.where)
        return Domain((Items(ITEMS_NAME, tuple(sorted(names))),))

    def batches(self, domain: Domain, batch_rows: int = BATCH_ROWS) -> Iterator[Columns]:
        items = domain.attributes[0]
        if not domain.baskets or not isinstance(items, Items):
            raise DataError(
                f"{self.where} holds baskets, and this schema is of records",
                hint="read it as records with --form records, or leave the schema out",
            )
        rows, held = 0, False
        for baskets in self._baskets(min(batch_rows, batch_rows_of(items))):
            yield (items.encode(pa.array(baskets, pa.list_(pa.string())), rows + 1),)
            rows, held = rows + len(baskets), held or any(baskets)
        if not held:
            raise no_items(self.where)

    def _baskets(self, most: int) -> Iterator[list[list[str]]]:
        """The names in each line, so many lines at a time."""
        delimiter = self.delimiter  # by a look at the head, which must not come between
        with self._opened() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            lines = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
            try:
                while part := list(islice(lines, most)):
                    yield [
                        sorted({name for field in row if (name := field.strip())}) for row in part
                    ]
            except csv.Error as error:
                raise FileError(
                    f"line {lines.line_num} of {self.where} is not readable: {error}",
                    hint="is a quote left open?",
                ) from None
            finally:
                text.detach()
