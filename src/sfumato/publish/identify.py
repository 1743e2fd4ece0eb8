"""Which records of a table can be told apart by their keys, and which columns give them away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from sfumato import plots
from sfumato.arguments import checked, shown
from sfumato.errors import ParameterError
from sfumato.notebook import Framed, arrow_table, html_table
from sfumato.privacy.probability import check_count, check_number
from sfumato.publish.microdata import Binning, Coded, Microdata, microdata_of, pattern_numbers
from sfumato.publish.population import PopulationRisk, population_risk, sampling_weights
from sfumato.telling import Telling, silent

__all__ = ["ColumnRole", "Identification", "Risk", "Status", "identify", "risk_of", "status_of"]


@dataclass(frozen=True, eq=False)
class Status:
    """Who is identifiable (Li and Sarkar 2004, definition 2).

    A record is identifiable if its non-confidential pattern determines its confidential value:
    `unique` when it is alone with its pattern (the paper's U), `collective` when a whole group
    shares pattern and value (V).
    """

    pattern: NDArray[np.int64]  # number of each record's non-confidential pattern
    size: NDArray[np.int64]  # records with each pattern
    unique: NDArray[np.bool_]
    collective: NDArray[np.bool_]

    @property
    def identifiable(self) -> NDArray[np.bool_]:
        """The records whose confidential value follows from their keys."""
        return self.unique | self.collective

    @property
    def groups(self) -> int:
        """How many collectively identifiable groups there are."""
        return len(np.unique(self.pattern[self.collective]))


@dataclass(frozen=True)
class Risk:
    """How exposed the records are, in the usual measures, for one confidential column."""

    records: int
    unique: int
    collective: int
    groups: int
    unidentifiable: int
    sample_uniques: int
    k_anonymity: int
    l_diversity: int
    entropy_l_diversity: float
    mean_group: float

    @property
    def identifiable(self) -> int:
        """Unique and collective records together."""
        return self.unique + self.collective

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "records": self.records,
            "unique": self.unique,
            "collective": self.collective,
            "groups": self.groups,
            "unidentifiable": self.unidentifiable,
            "identifiable": self.identifiable,
            "sample_uniques": self.sample_uniques,
            "k_anonymity": self.k_anonymity,
            "l_diversity": self.l_diversity,
            "entropy_l_diversity": self.entropy_l_diversity,
            "mean_group": self.mean_group,
        }


@dataclass(frozen=True)
class ColumnRole:
    """What one key column contributes: identifiable records if it were dropped, or cut into a few
    bins.
    """

    name: str
    values: int
    identifiable_if_dropped: int
    saved_by_dropping: int
    identifiable_if_binned: int | None
    saved_by_binning: int | None
    bins: int | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(self.__dict__)


@dataclass(frozen=True, repr=False)
class Identification(Framed):
    """The state of a table before release: risk by confidential column, and the columns in order of
    what they give away.
    """

    confidential: tuple[str, ...]
    risks: tuple[Risk, ...]
    columns: tuple[ColumnRole, ...]
    population: PopulationRisk | None = None

    @property
    def risk(self) -> Risk:
        """The risk of the only confidential column, or of their combination."""
        return self.risks[-1]

    @checked
    def plot(self, *, most: int = 8, axes: Any = None) -> Any:
        """The identifiable records with and without each of the keys that tell most; the axes they
        were drawn on.
        """
        check_count("most", most, least=1)
        shown = self.columns[:most]
        return plots.risk(
            [f"without {role.name}" for role in shown],
            [self.risk.identifiable] * len(shown),
            [role.identifiable_if_dropped for role in shown],
            quantity="identifiable records",
            called=("with all keys", "without this one"),
            axes=axes,
        )

    def to_arrow(self) -> Any:
        """A table with one row a key, by what it gives away: how many values it has, and how many
        records stay identifiable without it or with it in bins.
        """
        kinds = dict.fromkeys((each.name for each in fields(ColumnRole)), "int64")
        rows = ([role.to_dict()[name] for name in kinds] for role in self.columns)
        return arrow_table(rows, **kinds | {"name": "string"})

    def _repr_html_(self) -> str:
        """The columns by what they give away, as notebooks show them."""
        lines = (
            (role.name, f"{role.values:,}", f"{role.saved_by_dropping:,}") for role in self.columns
        )
        heads = ("column", "values", "fewer identifiable records without it")
        counted = (
            f"{name}: of {risk.records:,} records {risk.identifiable:,} can be told apart, "
            f"{risk.unique:,} unique and {risk.collective:,} collective"
            for name, risk in zip(self.confidential, self.risks, strict=True)
        )
        notes = () if self.population is None else (str(self.population),)
        return html_table(heads, lines, title="; ".join(counted), notes=notes)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the last risk at the top, all of them under `by_confidential`."""
        by_name = {
            name: risk.to_dict() for name, risk in zip(self.confidential, self.risks, strict=True)
        }
        return {
            **self.risk.to_dict(),
            "by_confidential": by_name,
            "columns": [role.to_dict() for role in self.columns],
            **({} if self.population is None else {"population": self.population.to_dict()}),
        }


@checked
def identify(
    data: Any,
    *,
    confidential: str | Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    bins: Mapping[str, Binning | str] | int | None = None,
    nulls: Literal["value", "error"] = "value",
    weights: str | None = None,
    population: float | None = None,
    try_bins: int = 4,
    progress: Telling = silent,
) -> Identification:
    """Which records can be told apart for each confidential column (and their combination), and by
    which keys.

    `data` is a file, an Arrow table, a data frame or Microdata. `try_bins` is the number of
    equal-frequency classes tried for each column of numbers when asking what binning would save.
    Where the records are a sample, `weights` names the column that says how many people each stands
    for, or `population` says how many there are; the answer then has the risk in the population
    too.

    >>> import pyarrow as pa
    >>> people = {"age": [31, 31, 52], "town": ["Lyon", "Lyon", "Turin"], "ill": ["no", "yes",
    ...     "no"]}
    >>> found = identify(pa.table(people), confidential="ill", population=300)
    >>> found.risk.unique, found.population.fraction
    (1, 0.01)
    """
    if isinstance(bins, int):  # as version 0.1.0 called what is try_bins now
        warn("identify(bins=…) is now try_bins=…", DeprecationWarning, stacklevel=2)
        try_bins, bins = bins, None
    microdata = microdata_of(
        data,
        confidential,
        keys=keys,
        bins=bins,
        nulls=None if nulls == "value" else nulls,
        beside=None if weights is None or isinstance(data, Microdata) else [weights],
    )
    if isinstance(try_bins, bool) or not isinstance(try_bins, int) or try_bins < 2:
        raise ParameterError(f"a column is cut into 2 bins or more; found {shown(try_bins)}")
    views = [microdata.alone(position) for position in range(len(microdata.confidential))]
    if len(views) > 1:
        views.append(microdata.combined())
    risks = tuple(risk_of(view.keys, view.confidential[0]) for view in views)
    roles = _roles(views[-1], risks[-1].identifiable, try_bins, progress)
    names = tuple(view.confidential[0].name for view in views)
    sampled = _population(microdata, weights, population)
    return Identification(names, risks, roles, sampled)


def _population(
    microdata: Microdata, name: str | None, population: float | None
) -> PopulationRisk | None:
    if name is None and population is None:
        return None
    if population is not None:
        check_number("population", population)
    if population is not None and not population > 0:
        raise ParameterError(f"population={population!r} is no number of people")
    if name is not None:
        microdata.check_column(name)
        if any(column.name == name for column in microdata.keys):
            raise ParameterError(
                f"'{name}' is a key here, so it cannot be the weight",
                hint="read the microdata with the weight beside the keys",
            )
    column = None if name is None else microdata.table[name]
    weights = sampling_weights(column, name, population, microdata.rows)
    return population_risk(microdata.keys, weights)


def status_of(keys: Sequence[Coded], confidential: Coded) -> Status:
    """Unique and collective records for one confidential column."""
    return _status(pattern_numbers(keys), confidential.codes)


def _status(pattern: NDArray[np.int64], codes: NDArray[np.int32]) -> Status:
    size = np.bincount(pattern)
    low, high = _extremes(pattern, codes, len(size))
    pure = (low == high)[pattern]
    alone = (size == 1)[pattern]
    return Status(pattern, size, alone, pure & ~alone)


def risk_of(keys: Sequence[Coded], confidential: Coded) -> Risk:
    """The risk measures for one confidential column.

    k-anonymity is the smallest group sharing a pattern, l-diversity the fewest confidential values
    in a group, entropy l-diversity exp of the smallest entropy of a group (Machanavajjhala et al.
    2007), sample uniques the groups of one.
    """
    status = status_of(keys, confidential)
    distinct, entropy = _diversity(status, confidential)
    unique, collective = int(status.unique.sum()), int(status.collective.sum())
    return Risk(
        records=len(status.pattern),
        unique=unique,
        collective=collective,
        groups=status.groups,
        unidentifiable=len(status.pattern) - unique - collective,
        sample_uniques=int((status.size == 1).sum()),
        k_anonymity=int(status.size.min(initial=len(status.pattern))),
        l_diversity=int(distinct.min(initial=confidential.size)),
        entropy_l_diversity=float(np.exp(entropy.min(initial=np.log(confidential.size)))),
        mean_group=float(status.size.mean()) if len(status.size) else 0.0,
    )


def _extremes(
    pattern: NDArray[np.int64], codes: NDArray[np.int32], groups: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The smallest and the largest confidential code of each pattern."""
    low = np.full(groups, np.iinfo(np.int32).max, dtype=np.int32)
    high = np.full(groups, -1, dtype=np.int32)
    np.minimum.at(low, pattern, codes)
    np.maximum.at(high, pattern, codes)
    return low, high


def _diversity(
    status: Status, confidential: Coded
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Number of confidential values in each pattern, and their entropy in nats."""
    cells, counts = np.unique(
        status.pattern * confidential.size + confidential.codes, return_counts=True
    )
    group = cells // confidential.size
    share = counts / status.size[group]
    distinct: NDArray[np.int64] = np.bincount(group, minlength=len(status.size))
    entropy = np.zeros(len(status.size))
    np.add.at(entropy, group, -share * np.log(share))
    return distinct, entropy


def _roles(
    microdata: Microdata, identifiable: int, bins: int, progress: Telling
) -> tuple[ColumnRole, ...]:
    roles = []
    for position, column in enumerate(microdata.keys):
        progress(f"without {column.name}", position / len(microdata.keys))
        roles.append(_role(microdata, position, identifiable, bins))
    return tuple(sorted(roles, key=lambda role: -role.saved_by_dropping))


def _role(microdata: Microdata, position: int, identifiable: int, bins: int) -> ColumnRole:
    column, confidential = microdata.keys[position], microdata.confidential[0]
    others = microdata.keys[:position] + microdata.keys[position + 1 :]
    dropped = int(status_of(others, confidential).identifiable.sum()) if others else 0
    coarse = _coarsened(column, bins)
    binned = int(status_of((*others, coarse), confidential).identifiable.sum()) if coarse else None
    return ColumnRole(
        column.name,
        column.size,
        dropped,
        identifiable - dropped,
        binned,
        None if binned is None else identifiable - binned,
        coarse.size if coarse else None,
    )


def _coarsened(column: Coded, bins: int) -> Coded | None:
    """The numbers of the column in `bins` classes of equal frequency, nulls in one of their own, as
    `bins` would cut it; None for words, which cannot be cut.
    """
    values = _numbers(column.values)
    if values is None or column.size <= bins:
        return None
    numbers = values[column.codes]
    present = numbers[~np.isnan(numbers)]
    if not len(present):
        return None
    # A null, which is nan here, comes after all edges: one more moves it past the last class.
    codes = np.searchsorted(Binning("frequency", bins).edges(present), numbers, side="right")
    codes = codes + np.isnan(numbers)
    occurring, codes = np.unique(codes, return_inverse=True)
    return Coded(column.name, codes.astype(np.int32), tuple(occurring.tolist()))


def _numbers(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """The values as numbers, words that read as numbers included, nulls as nan; None if one is no
    number.
    """
    try:
        return np.array([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError):
        return None
