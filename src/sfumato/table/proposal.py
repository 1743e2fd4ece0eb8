"""Reading by a schema: the one that is given, that of the mechanism that perturbed the data, or one
proposed from them (categories, numbers with cuts at round quantiles) with what the owner should
check.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.domain import Attribute, Category, Domain, Items, Numeric
from sfumato.domain.attributes import NO_VALUE, number_words, plain_values
from sfumato.errors import DataError, FileError, ParameterError, SchemaError, listing
from sfumato.table.formats import reader_of
from sfumato.table.readers import FLAG_WORDS, ITEMS_NAME, BasketsReader, Reader, RecordReader
from sfumato.table.table import Table, plain_array
from sfumato.untrusted import MOST_ATTRIBUTES, MOST_WHOLE

FEW_NUMBERS = 10  # a column of numbers with no more different values than this is a category
# a column of words with more different values than this keeps the most frequent and lumps the rest
FEW_WORDS = 20
KEPT_WORDS = 12
FEW_PEOPLE = 5  # rows: a value that fewer hold may tell of them
FEWEST_FLAGS = 3  # columns of yes and no that are the items of baskets, not answers of records
ZERO_HEAVY = 0.4  # of a column: with so many zeros the first cut parts them from the rest
# A column of nearly as many values as rows names its rows; so many rows show it without a name.
ALL_DIFFERENT, ROWS_TO_TELL, ID_SHARE = 0.95, 1000, 0.5
ID_WORDS = ("id", "nbr", "no", "nr", "key", "uuid", "guid", "ssn", "index", "number", "code")
COUNTED_WORDS = (
    10_000  # different words counted a column; beyond, the rarest are forgotten now and then
)
SAMPLED_NUMBERS = 1 << 16  # numbers kept a column to place the cuts
QUANTILES = (0.2, 0.4, 0.6, 0.8)
MOST_DECIMALS = 6


@dataclass(frozen=True)
class Proposal:
    """A proposed domain, and notes on what it rests on."""

    domain: Domain
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()  # what to mend in it before a release, which tells all of it


@checked
def propose_schema(data: Any) -> Domain:
    """A domain that the records of a file or data frame fit; its bounds and values come from the
    data, so look it over.

    >>> proposed = propose_schema({"smoker": ["yes", "no"] * 50, "age": list(range(18, 118))})
    >>> [(each.name, each.size) for each in proposed]
    [('smoker', 2), ('age', 100)]
    """
    return propose(data).domain


def propose(data: Any) -> Proposal:
    """The proposed domain of a file, a data frame or a reader, from one pass over all rows."""
    reader = data if isinstance(data, Reader) else reader_of(data)
    if reader.provenance is not None:
        return Proposal(
            reader.provenance.mechanism.reports,
            (f"{reader.where} was perturbed; this is its own domain",),
        )
    if isinstance(reader, BasketsReader):
        items = f"{reader.found.attributes[0].size} items ({reader.way})"
        return Proposal(reader.found, (_basket_note(reader, items),) if reader.way else ())
    if not isinstance(reader, RecordReader):
        raise DataError(f"cannot propose a schema for {reader.where}")
    return _propose_records(reader)


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


def _basket_note(reader: Reader, found: str) -> str:
    """How baskets were told from records, where the kind of the file does not say so."""
    return f"{reader.where} was read as baskets of {found}; --form records reads it otherwise"


def _propose_records(reader: RecordReader) -> Proposal:
    names = reader.columns
    if len(names) > MOST_ATTRIBUTES:
        raise SchemaError(
            f"{reader.where} has {len(names):,} columns; a domain may have {MOST_ATTRIBUTES:,}",
            hint="name those that you need in a schema",
        )
    summaries = {name: Summary(name) for name in names}
    rows = 0
    for batch in reader.arrow_batches(names):
        rows += batch.num_rows
        for name, summary in summaries.items():
            summary.add(batch.column(name))
        reader.told()
    if not rows:
        raise DataError(f"{reader.where} has no rows")
    strange = [name for name, column in summaries.items() if not column.flags]
    if reader.flags or (reader.flags is None and not strange and len(summaries) >= FEWEST_FLAGS):
        return _propose_flags(reader, names, strange)
    attributes, notes = [], []
    for summary in summaries.values():
        attribute, note = summary.attribute()
        attributes += [attribute] if attribute is not None else []
        said = (note, summary.unsaid_note(attribute), summary.spelt_note(attribute))
        notes += [f"column '{summary.name}' {each}" for each in said if each]
    if not attributes:
        raise SchemaError(
            f"no column of {reader.where} can be perturbed", hint="; ".join(notes) or None
        )
    told = _told_note([summaries[attribute.name] for attribute in attributes], attributes)
    return Proposal(Domain(tuple(attributes)), tuple(notes), tuple(told))


def _told_note(summaries: Sequence[Summary], attributes: Sequence[Attribute]) -> Iterator[str]:
    """What a schema made of the data tells of single people, since every release tells it, or
    keeps from being asked.
    """
    pairs = list(zip(summaries, attributes, strict=True))
    ends = [f"'{a.name}'" for _, a in pairs if isinstance(a, Numeric) and not _has_round_ends(a)]
    rare = [f"'{a.name}'" for s, a in pairs if isinstance(a, Category) and s.names_few(a)]
    if ends:
        yield (
            f"every release tells the least and the largest value of {listing(ends)}, which are "
            "some person's own: round them outward in the schema"
        )
    first = [f"'{a.name}'" for s, a in pairs if s.cuts_at_a_value(a)]
    if first:
        yield (
            f"the first cut of {listing(first)} is the least value above zero, which is some "
            "person's own: lower it to a round number in the schema"
        )
    alone = [f"'{a.name}'" for s, a in pairs if isinstance(a, Category) and s.alone]
    if alone:
        yield (
            f"{listing(alone)} {'holds' if len(alone) == 1 else 'hold'} one value only, about "
            "which there is nothing to ask: leave it out of the schema, or state what else it may "
            "hold"
        )
    if rare:
        yield (
            f"every release tells all values of {listing(rare)}, some of them those of fewer than "
            f"{FEW_PEOPLE} rows: give them a common name (`other`) in the schema"
        )


def _has_round_ends(number: Numeric) -> bool:
    """Whether its ends could have been chosen without a look at the data: one digit and zeros, or,
    of whole numbers, one below.
    """
    low, high = float(number.min), float(number.max)
    unit = 10.0 ** math.floor(math.log10(max(high - low, 1e-300)))
    ends = (low, high, high + 1) if number.whole else (low, high)
    first, *last = (abs(end / unit - round(end / unit)) < 1e-9 for end in ends)
    return first and any(last)


def _propose_flags(reader: RecordReader, names: Sequence[str], strange: Sequence[str]) -> Proposal:
    """Baskets whose items have a column each that says yes or no."""
    if strange:
        raise DataError(
            f"column '{strange[0]}' of {reader.where} holds more than yes and no, so it is no item",
            hint="a column of flags holds 0 and 1, or true and false; leave --form out for records",
        )
    domain = Domain((Items(ITEMS_NAME, tuple(names)),))
    return Proposal(domain, (_basket_note(reader, f"{len(names)} items, a column each"),))


# A day, with or without its time: 2026-11-16, 16.11.2026, 11/16/26.
DATE = re.compile(r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))\b")


@dataclass
class Summary:
    """What one pass over a column finds out about it, in bounded memory."""

    name: str
    rows: int = 0
    nulls: int = 0
    unsaid: Counter[str] = field(default_factory=Counter)  # words that stand for nothing
    told: int = 0  # rows of which every different word was counted
    different: int = 0  # words among them
    words: Counter[str] = field(default_factory=Counter)
    forgotten: bool = False  # whether there were too many different words to count them all
    numeric: bool = True
    baskets: bool = False
    strange: str | None = None  # a type that no attribute can hold
    low: float = math.inf
    high: float = -math.inf
    decimals: int = 0
    sample: list[NDArray[np.float64]] = field(default_factory=list)
    stride: int = 1

    def add(self, column: pa.Array) -> None:
        """Take in the next batch."""
        column = plain_array(column)
        if _is_strange(column.type):
            self.strange = str(column.type)
            return
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            self.baskets, column = True, column.flatten()
        column = plain_values(column)
        self.rows += len(column)
        self._count(self._said(column.cast(pa.string())))
        if self.numeric:
            self._measure(column)

    def _said(self, words: pa.Array) -> pa.Array:
        """The words without those that stand for nothing, which are counted with the nulls."""
        plain = pc.utf8_trim_whitespace(words)
        nothing = pc.or_(pc.is_in(plain, value_set=pa.array(NO_VALUE)), plain.is_null())
        for entry in pc.value_counts(plain.filter(nothing).drop_null()).to_pylist():
            self.unsaid[entry["values"]] += entry["counts"]
        said = words.filter(pc.invert(nothing))
        self.nulls += len(words) - len(said)
        return said

    def _count(self, words: pa.Array) -> None:
        for entry in pc.value_counts(words.drop_null()).to_pylist():
            self.words[entry["values"]] += entry["counts"]
        if not self.forgotten:
            self.told, self.different = self.told + len(words), len(self.words)
        if len(self.words) > COUNTED_WORDS and not self.baskets:
            self.words = Counter(dict(self.words.most_common(COUNTED_WORDS // 2)))
            self.forgotten = True

    def _measure(self, column: pa.Array) -> None:
        numbers = _numbers(column)
        if numbers is None:
            self.numeric = False
            self.sample.clear()
            return
        if len(numbers):
            self.low, self.high = (
                min(self.low, float(numbers.min())),
                max(self.high, float(numbers.max())),
            )
            self.decimals = max(self.decimals, _decimals(numbers))
            self.sample.append(numbers[:: self.stride])
        if sum(map(len, self.sample)) > 2 * SAMPLED_NUMBERS:
            self.sample = [np.concatenate(self.sample)[::2]]
            self.stride *= 2

    def attribute(self) -> tuple[Attribute | None, str | None]:
        """The proposed attribute (None where the column is better left out), and what to say of
        the column.
        """
        if self.strange:
            return None, f"holds {self.strange} and was left out"
        if not self.words:
            return None, "is empty and was left out"
        if self.baskets:
            return Items(self.name, tuple(sorted(self.words, key=_numeric_order))), None
        if self.dates:
            return None, (
                "holds dates, each of which few rows share, and was left out; put the year or the "
                "month into a column of its own"
            )
        if self.names_rows:
            return None, (
                "has nearly as many different values as rows: it names the rows (an identifier), "
                "and was left out"
            )
        if self.alone:
            return self._category(list(self.words)), None
        if self.numeric and (self.forgotten or len(self.words) > FEW_NUMBERS):
            return self._number()
        if self.forgotten or (
            len(self.words) > FEW_WORDS and 2 * len(self.words) > self.rows - self.nulls
        ):
            return None, "has too many different values to be a category and was left out"
        return self._words()

    @property
    def alone(self) -> bool:
        """Whether every row holds the same value."""
        return len(self.words) == 1 and not self.nulls

    @property
    def flags(self) -> bool:
        """Whether the column says yes or no of each row, and nothing else."""
        plain = not (self.nulls or self.strange or self.baskets)
        return plain and bool(self.words) and set(self.words) <= set(FLAG_WORDS)

    @property
    def dates(self) -> bool:
        """Whether the values are days, more than a category has values."""
        return len(self.words) > FEW_WORDS and all(map(DATE.match, self.words))

    @property
    def names_rows(self) -> bool:
        """Whether the values tell the rows apart and no more: whole numbers or words, nearly all
        different, or mostly so under a name that says it.
        """
        if (self.numeric and self.decimals) or self.told <= FEW_WORDS:
            return False
        words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", self.name).casefold())
        share = self.different / self.told
        if words and words[-1] in ID_WORDS:
            return share > ID_SHARE
        return share >= ALL_DIFFERENT and self.told >= ROWS_TO_TELL

    def names_few(self, category: Category) -> bool:
        """Whether some value that it would have is that of few rows."""
        return any(0 < self.words[value] < FEW_PEOPLE for value in category.values)

    def unsaid_note(self, attribute: Attribute | None) -> str | None:
        """Which words were taken for missing."""
        if attribute is None or not self.unsaid:
            return None
        found = ", ".join(f"'{word}'" for word in sorted(self.unsaid))
        return f"has {_fields(sum(self.unsaid.values()))} of {found}, read as missing"

    def spelt_note(self, attribute: Attribute | None) -> str | None:
        """Which values may be one that is spelt in several ways."""
        if not isinstance(attribute, Category):
            return None
        alike: dict[str, list[str]] = {}
        for word in self.words:
            alike.setdefault(" ".join(word.casefold().split()), []).append(f"'{word}'")
        twice = next((sorted(words) for words in alike.values() if len(words) > 1), None)
        if twice is None:
            return None
        return (
            f"has values that differ in capitals or blanks only ({listing(twice)}), each counted "
            "as a value of its own: make them one in the data"
        )

    def _words(self) -> tuple[Attribute, str | None]:
        if len(self.words) <= FEW_WORDS:
            return self._category(sorted(self.words, key=_numeric_order)), None
        kept = [word for word, _ in self.words.most_common(KEPT_WORDS)]
        other = next((word for word in self.words if word.casefold() == "other"), "other")
        values = [*sorted(set(kept) - {other}, key=_numeric_order), other]
        note = f"has {len(self.words)} different values; the rarer ones are '{other}'"
        return self._category(values, other), note

    def _category(self, values: list[str], other: str | None = None) -> Category:
        missing = None
        if self.nulls:
            missing = "missing" if "missing" not in values else "(missing)"
            values = [*values, missing]
        return Category(self.name, tuple(values), other, missing)

    def cuts_at_a_value(self, attribute: Attribute) -> bool:
        """Whether the first cut parts zeros from the least value above them; of whole numbers above
        zero anyone knows that 1 may be the least.
        """
        if not isinstance(attribute, Numeric) or attribute.min != 0 or not attribute.cuts:
            return False
        numbers, first = np.concatenate(self.sample), attribute.cuts[0]
        least = float(numbers[numbers > 0].min(initial=np.inf))
        return first == least and not (attribute.whole and first == 1)

    def _number(self) -> tuple[Attribute | None, str | None]:
        if max(-self.low, self.high) > MOST_WHOLE or (
            self.decimals == 0 and self.high - self.low >= 1 << 32
        ):
            return None, "holds numbers too large or too far apart and was left out"
        numbers = np.sort(np.concatenate(self.sample))
        low, high, step = self._grid()
        cuts = _cuts(numbers, low, high, whole=step is None and isinstance(low, int))
        if not self.nulls:
            return Numeric(self.name, low, high, cuts, step), None
        middle = numbers[len(numbers) // 2]
        missing = int(middle) if isinstance(low, int) and step is None else float(middle)
        found = _fields(self.nulls, "missing ")
        note = f"has {found}, read as {missing:g}, its median; see `missing`"
        return Numeric(self.name, low, high, cuts, step, missing=missing), note

    def _grid(self) -> tuple[float, float, float | None]:
        """min, max and step: whole numbers, a decimal step where the grid stays small, else the
        finest default.
        """
        if self.decimals == 0:
            return int(self.low), int(self.high), None
        step = 10.0**-self.decimals
        if self.decimals > MOST_DECIMALS or (self.high - self.low) / step >= 1 << 31:
            return self.low, self.high, None
        low, high = round(self.low, self.decimals), round(self.high, self.decimals)
        low = low if low <= self.low else round(low - step, self.decimals)
        high = high if high >= self.high else round(high + step, self.decimals)
        return low, high, round(step, self.decimals)


def _fields(count: int, kind: str = "") -> str:
    return f"{count} {kind}{'field' if count == 1 else 'fields'}"


def _is_strange(kind: pa.DataType) -> bool:
    """Whether no attribute can hold such values: structures, lists of lists, bytes."""
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    return pa.types.is_nested(inner) or pa.types.is_binary(inner) or pa.types.is_large_binary(inner)


def _numbers(column: pa.Array) -> NDArray[np.float64] | None:
    """The finite numbers of a column; None where some value is not a number."""
    if pa.types.is_boolean(column.type) or pa.types.is_temporal(column.type):
        return None
    try:
        numbers = number_words(column) if pa.types.is_string(column.type) else column
        floats = np.asarray(numbers.cast(pa.float64()).drop_null().to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    floats = floats[~np.isnan(floats)]
    return floats if np.isfinite(floats).all() else None


def _decimals(numbers: NDArray[np.float64]) -> int:
    """How many decimals the numbers are written with; one more than the most where there are too
    many.
    """
    if (numbers == np.rint(numbers)).all():
        return 0
    for decimals in range(1, MOST_DECIMALS + 1):
        if (
            np.abs(numbers - np.round(numbers, decimals)) <= 1e-9 * np.maximum(1, np.abs(numbers))
        ).all():
            return decimals
    return MOST_DECIMALS + 1


def _cuts(
    numbers: NDArray[np.float64], low: float, high: float, *, whole: bool
) -> tuple[float, ...]:
    """Two to four cuts at round numbers near the quantiles; of the different values, where most are
    the same, and behind the zeros, where they are many.
    """
    above = numbers[numbers > 0]
    if low == 0 and len(above) and 1 - len(above) / len(numbers) >= ZERO_HEAVY:
        first = int(above.min()) if whole else float(above.min())
        rest = _round_quantiles(above, first, high, whole=whole)
        return (first, *(cut for cut in rest if cut > first))
    for values in (numbers, np.unique(numbers), np.linspace(low, high, 101)):
        cuts = _round_quantiles(values, low, high, whole=whole)
        if len(cuts) >= 2:
            return cuts
    return cuts or (high,)


def _round_quantiles(
    numbers: NDArray[np.float64], low: float, high: float, *, whole: bool
) -> tuple[float, ...]:
    places = np.quantile(numbers, QUANTILES)
    spread = places[-1] - places[0] or high - low
    unit = _round_unit(spread / 4)
    unit = max(unit, 1) if whole else unit
    digits = max(0, -math.floor(math.log10(unit)))
    cuts = sorted({round(round(place / unit) * unit, digits) for place in places.tolist()})
    inside = [int(cut) if whole else cut for cut in cuts if low < cut <= high]
    return tuple(inside)


def _round_unit(width: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not above the width."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(unit * power for unit in (5, 2, 1) if unit * power <= width * (1 + 1e-9))


def _numeric_order(word: str) -> tuple[int, float, str]:
    """Numbers by size, then words by letter."""
    try:
        number = float(word)
    except ValueError:
        return 1, 0.0, word
    return (0, number, word) if math.isfinite(number) else (1, 0.0, word)
