"""Vertically partitioned data: columns of the same people, perturbed apart, joined on a
public key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.arguments import checked
from sfumato.bits import Bits
from sfumato.channels.channel import has_known_laws
from sfumato.counting.sql import Relation, SqlCounter
from sfumato.domain import Domain, Items
from sfumato.errors import DataError, EstimationError, SchemaError
from sfumato.mechanisms.combined import report_names, side_by_side
from sfumato.release import Release
from sfumato.table import Provenance, Table
from sfumato.table.readers import flat_names


@checked
def join(left: Release, right: Release, key: str) -> Release:
    """The people that both releases hold, with the columns of both; each column is undone by the
    mechanism that made it.

    The key is a public column of both that tells people apart; it is left out of the result.
    Columns were perturbed independently, so the channel is the product of the two, and so is gamma
    for whoever is in both.

    >>> from sfumato.domain import Category, Domain
    >>> from sfumato.mechanisms.gamma_diagonal import GammaDiagonal
    >>> from sfumato.release import perturb
    >>> who = Category("id", ("a", "b", "c"), public=True)
    >>> smoker, member = (Category(name, ("no", "yes")) for name in ("smoker", "member"))
    >>> data = {"id": ["a", "b", "c"], "smoker": ["no", "yes", "no"], "member": ["yes"] * 3}
    >>> parts = [GammaDiagonal(Domain((who, column)), 3) for column in (smoker, member)]
    >>> both = join(*(perturb(data, part) for part in parts), "id")
    >>> both.domain.names, both.mechanism.guarantee
    (('smoker', 'member'), Guarantee(gamma=9))
    """
    for source in (left, right):
        if not source.domain[key].public:
            raise SchemaError(
                f"'{key}' was perturbed, so it tells nobody apart", hint="join on a public column"
            )
        if source.copies > 1:
            raise EstimationError(
                f"a record has {source.copies} reports, and the key fits each of them; join takes "
                "one"
            )
    attributes = [a for source in (left, right) for a in source.domain if a.name != key]
    mechanism = side_by_side(Domain(tuple(attributes)), (left.mechanism, right.mechanism))
    provenance = Provenance(mechanism, left.provenance.secure and right.provenance.secure)
    if left.in_memory and right.in_memory:
        return _join_tables(left, right, key, provenance)
    if isinstance(left.counter, SqlCounter) and isinstance(right.counter, SqlCounter):
        return _join_relations(left, right, key, provenance)
    raise EstimationError(
        "releases to join must be counted by the same engine",
        hint="open both with the same --engine",
    )


def _join_tables(left: Release, right: Release, key: str, provenance: Provenance) -> Release:
    keys = _keys(left.table, key), _keys(right.table, key)
    _, *places = np.intersect1d(keys[0], keys[1], assume_unique=True, return_indices=True)
    _check_partners(left, right, len(places[0]))
    columns: dict[str, Any] = {}
    names = report_names(provenance.mechanism, (left.mechanism, right.mechanism))
    for source, rows, new in zip((left, right), places, names, strict=True):
        taken = source.table.take(rows)
        shown = (new.get(name, name) for name in taken.domain.names)
        columns |= zip(shown, taken.columns, strict=True)
    reports = provenance.mechanism.reports
    joined = Table(reports, tuple(columns[name] for name in reports.names), provenance)
    return Release.of(joined)


def _keys(table: Table, key: str) -> NDArray[Any]:
    column, attribute = table.column(key), table.domain[key]
    if isinstance(column, Bits):
        raise SchemaError(f"'{key}' holds baskets, which tell nobody apart")
    if len(np.unique(column)) < len(column):
        raise _not_unique(key)
    words = attribute.decode(column)
    return np.asarray(words.cast(pa.string()) if pa.types.is_dictionary(words.type) else words)


def _not_unique(key: str) -> DataError:
    return DataError(
        f"'{key}' has the same value in several rows, so it does not tell people apart"
    )


def _check_partners(left: Release, right: Release, found: int) -> None:
    if not found:
        raise DataError("no row of one release has a partner in the other")
    for source in (left, right):
        if found < source.rows and not has_known_laws(source.mechanism.private_channel):
            raise EstimationError(
                f"{source.rows - found:,} of {source.rows:,} rows have no partner, and "
                f"{source.mechanism.name} replaced values "
                "by the distribution of the whole column, which the rest does not show",
                hint="join releases of the same people, or replace values uniformly",
            )


def _joined(
    sides: Sequence[Relation], key: str, columns: Sequence[Sequence[str]], flags: bool
) -> Relation:
    """These columns of each of two relations of one engine, joined by it where their keys are the
    same.
    """
    quoted = sides[0].dialect.quoted
    selected = [
        f"{side}.{quoted(name)}"
        for side, names in zip("lr", columns, strict=True)
        for name in names
    ]
    tables = " JOIN ".join(
        f"{each.rows_from} AS {side}" for each, side in zip(sides, "lr", strict=True)
    )
    same = f"l.{quoted(key)} = r.{quoted(key)}"
    rows_from = f"(SELECT {', '.join(selected)} FROM {tables} ON {same}) AS joined"
    return sides[0].over(rows_from, flags)


def _join_relations(left: Release, right: Release, key: str, provenance: Provenance) -> Release:
    assert isinstance(left.counter, SqlCounter) and isinstance(right.counter, SqlCounter)
    first = left.counter.relation
    second = right.counter.relation.beside(first, right.mechanism.reports)
    if second is None:
        raise EstimationError(
            "no statement reaches both releases",
            hint="put both into one database, or use --engine memory",
        )
    relations = first, second
    for relation in relations:
        counts = f"COUNT(*) AS n, COUNT(DISTINCT {relation.dialect.quoted(key)}) AS d"
        statement = f"SELECT {counts} FROM {relation.rows_from}"
        rows, different = relation.row(statement)
        if rows != different:
            raise _not_unique(key)
    baskets = [
        any(isinstance(a, Items) for a in source.mechanism.reports) for source in (left, right)
    ]
    flags = [relation.flags for relation in relations]
    if all(baskets) and flags[0] != flags[1]:
        raise EstimationError(
            "baskets in CSV and baskets in Parquet cannot be joined", hint="write both as .parquet"
        )
    columns = _columns_of(left, key, flags[0]), _columns_of(right, key, flags[1])
    joined = _joined(relations, key, columns, flags[0] if baskets[0] else flags[1])
    counter = SqlCounter(provenance.mechanism.reports, joined)
    _check_partners(left, right, counter.rows)
    return Release(counter, provenance)


def _columns_of(source: Release, key: str, flat: bool) -> list[str]:
    """The columns of a release but its key, by name; those of flags one by one where it is flat."""
    return [
        name
        for a in source.mechanism.reports
        if a.name != key
        for name in (flat_names(a) if flat else (a.name,))
    ]
