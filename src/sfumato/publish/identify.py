"""Which records of a table can be told apart by their keys, and which columns give them away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arguments import checked, shown
from sfumato.domain import Codes
from sfumato.errors import ParameterError
from sfumato.privacy.probability import check_count
from sfumato.progress import Progress, silent
from sfumato.publish.former import taking_microdata
from sfumato.publish.owned import (
    Keyed,
    attribute_of,
    cut_column,
    joined,
    numbers_of,
    patterns,
)
from sfumato.publish.population import PopulationRisk, population_risk, sampling_weights
from sfumato.publish.verdict import Judged, guesses_of
from sfumato.renderers.frames import json_fields, json_value
from sfumato.renderers.picture import bars, draw
from sfumato.view import Chart, TableView, View, attribute_columns

_MEASURES = {  # of risk, as people read them
    "records": "records",
    "unique": "unique",
    "collective": "collective (sharing keys and value)",
    "groups": "groups of these",
    "identifiable": "identifiable",
    "unidentifiable": "not identifiable",
    "sample_uniques": "sample uniques",
    "k_anonymity": "k-anonymity",
    "l_diversity": "l-diversity",
    "entropy_l_diversity": "entropy l-diversity",
    "mean_group": "mean group",
}
# What those are called whose value follows from their keys.
ALONE, TOGETHER = "unique records", "records of groups that shared one value"


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
    def told(self) -> tuple[tuple[str, NDArray[np.bool_]], ...]:
        """Those whose value follows from their keys, by how they are called."""
        return (ALONE, self.unique), (TOGETHER, self.collective)

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

    also = ("identifiable",)  # in JSON, beside the fields

    @property
    def identifiable(self) -> int:
        """Unique and collective records together."""
        return self.unique + self.collective


@dataclass(frozen=True)
class ColumnRole:
    """What one key column contributes: identifiable records if it were dropped, or cut into a few
    bins.
    """

    name: str
    values: int
    identifiable_if_dropped: int
    saved_by_dropping: int
    identifiable_if_binned: int | None = None
    saved_by_binning: int | None = None
    bins: int | None = None


@dataclass(frozen=True, repr=False)
class Identification(Judged):
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
        return draw(self._chart(most), axes)

    def view(self) -> View:
        """The risk by confidential column, what each key gives away, and the risk in the
        population.
        """
        risks = dict(zip(self.confidential, self.risks, strict=True))
        words = [
            f"{name}: of {risk.records:,} records {risk.identifiable:,} can be told apart, "
            f"{risk.unique:,} unique and {risk.collective:,} in {risk.groups:,} groups"
            for name, risk in risks.items()
        ]
        if self.population is not None:
            words.append(str(self.population))
        return View(
            "Identification",
            words,
            verdict=self.verdict.lead,
            charts=(self._chart(),),
            tables=(risk_table(risks, "Risk"), self._keys()),
            sections=() if self.population is None else (self.population.view(),),
        )

    def _chart(self, most: int = 8) -> Chart:
        drawn = self.columns[:most]
        return bars(
            "identifiable records",
            [f"without {role.name}" for role in drawn],
            [self.risk.identifiable] * len(drawn),
            [role.identifiable_if_dropped for role in drawn],
            caption="Identifiable records with every key, and without one of them",
            called=("with all keys", "without this one"),
        )

    def _keys(self) -> TableView:
        """A line for each key, by what it gives away."""
        heads = {
            **{"name": "key", "values": "values", "bins": "bins"},
            **{"saved_by_dropping": "saved if dropped", "saved_by_binning": "saved if binned"},
        }
        kinds = dict.fromkeys((each.name for each in fields(ColumnRole)), "int64")
        columns = attribute_columns(self.columns, kinds | {"name": "string"}, heads)
        return TableView(columns, "Identifiable records that each key would save")

    @property
    def remains(self) -> tuple[str, ...]:
        """What can still be learned, in sentences."""
        return (
            f"{self.risk.identifiable:,} of {self.risk.records:,} records have keys that determine "
            f"{self.confidential[-1]}; nothing was changed.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the last risk at the top, all of them under `by_confidential`."""
        return {
            **json_fields(self.risk),
            "by_confidential": json_value(dict(zip(self.confidential, self.risks, strict=True))),
            "columns": json_value(self.columns),
            "verdict": json_value(self.verdict),
            **({} if self.population is None else {"population": self.population.to_dict()}),
        }


@taking_microdata
@checked
def identify(
    data: Any,
    *,
    confidential: str | Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    bins: Mapping[str, str] | None = None,
    weights: str | None = None,
    population: float | None = None,
    try_bins: int = 4,
    progress: Progress = silent,
) -> Identification:
    """Which records can be told apart for each confidential column (and their combination), and by
    which keys.

    `data` is a file, an Arrow table, a data frame or a table. `try_bins` is the number of
    equal-frequency classes tried for each column of numbers when asking what binning would save.
    Where the records are a sample, `weights` names the column that says how many people each stands
    for, or `population` says how many there are; the answer then has the risk in the population
    too.

    >>> people = {"age": [31, 31, 52], "town": ["Lyon", "Lyon", "Turin"], "ill": ["no", "yes",
    ...     "no"]}
    >>> found = identify(people, confidential="ill", population=300)
    >>> found.risk.unique, found.population.fraction
    (1, 0.01)
    """
    beside = [] if weights is None else [weights]
    keyed = Keyed.of(data, confidential, keys=keys, bins=bins, beside=beside)
    if isinstance(try_bins, bool) or not isinstance(try_bins, int) or try_bins < 2:
        raise ParameterError(f"a column is cut into 2 bins or more; found {shown(try_bins)}")
    weighed = sampling_weights(keyed.records, weights, population)
    views = keyed.views(False) + ([keyed.secret] if len(keyed.secret) > 1 else [])
    called, judged = zip(*(joined(keyed.table, names)[:2] for names in views), strict=True)
    risks = tuple(risk_of(keyed.pattern, codes) for codes in judged)
    roles = []
    for place, name in enumerate(keyed.keys):
        progress(f"without {name}", place / len(keyed.keys))
        roles.append(_role(keyed, place, judged[-1], risks[-1].identifiable, try_bins))
    return Identification(
        tuple(attribute.name for attribute in called),
        risks,
        tuple(sorted(roles, key=lambda role: -role.saved_by_dropping)),
        None if weighed is None else population_risk(keyed.known, weighed),
        guesses=tuple(
            guess
            for attribute, codes in zip(called, judged, strict=True)
            for guess in guesses_of(
                attribute.name, codes, status_of(keyed.pattern, codes).told, np.ones(len(codes))
            )
        ),
    )


def status_of(pattern: NDArray[np.int64], codes: Codes) -> Status:
    """Unique and collective records, by the number of their keys' pattern and the codes of one
    confidential column.
    """
    size = np.bincount(pattern)
    low, high = extremes(pattern, codes)
    pure = (low == high)[pattern]
    alone = (size == 1)[pattern]
    return Status(pattern, size, alone, pure & ~alone)


def risk_of(pattern: NDArray[np.int64], codes: Codes) -> Risk:
    """The risk measures for one confidential column.

    k-anonymity is the smallest group sharing a pattern, l-diversity the fewest confidential values
    in a group, entropy l-diversity exp of the smallest entropy of a group (Machanavajjhala et al.
    2007), sample uniques the groups of one.
    """
    status = status_of(pattern, codes)
    values = int(codes.max()) + 1
    cells, counts = np.unique(pattern * values + codes, return_counts=True)
    group = cells // values
    share = counts / status.size[group]
    entropy = np.zeros(len(status.size))
    np.add.at(entropy, group, -share * np.log(share))
    unique, collective = int(status.unique.sum()), int(status.collective.sum())
    return Risk(
        records=len(pattern),
        unique=unique,
        collective=collective,
        groups=status.groups,
        unidentifiable=len(pattern) - unique - collective,
        sample_uniques=int((status.size == 1).sum()),
        k_anonymity=int(status.size.min()),
        l_diversity=int(np.bincount(group).min()),
        entropy_l_diversity=float(np.exp(entropy.min())),
        mean_group=float(status.size.mean()),
    )


def risk_table(risks: Mapping[str, Risk], caption: str) -> TableView:
    """The measures of several risks side by side."""
    lines = [
        (words, *(getattr(risk, name) for risk in risks.values()))
        for name, words in _MEASURES.items()
    ]
    return TableView.of(("measure", *risks), lines, caption)


def extremes(
    pattern: NDArray[np.int64], codes: Codes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # (patterns,) each
    """The smallest and the largest code of each pattern."""
    low, high = (np.full(int(pattern.max()) + 1, end) for end in (codes.max(), codes.min()))
    np.minimum.at(low, pattern, codes)  # of one type: else NumPy takes thrice as long
    np.maximum.at(high, pattern, codes)
    return low.astype(np.int64), high.astype(np.int64)


def _role(keyed: Keyed, place: int, secret: Codes, identifiable: int, bins: int) -> ColumnRole:
    """What one key gives away: how many records stay identifiable without it, or with its numbers
    in bins of equal frequency.
    """
    name, attribute = keyed.keys[place], attribute_of(keyed.table, keyed.keys[place])
    others = keyed.known[:place] + keyed.known[place + 1 :]

    def left(keys: list[Codes]) -> int:
        return int(status_of(patterns(keys), secret).identifiable.sum()) if keys else 0

    dropped = left(others)
    role = ColumnRole(name, attribute.size, dropped, identifiable - dropped)
    if attribute.size <= bins or numbers_of(attribute) is None:
        return role
    coarse, codes = cut_column(keyed.table, name, f"frequency:{bins}")
    binned = left([*others, codes])
    return replace(
        role,
        identifiable_if_binned=binned,
        saved_by_binning=identifiable - binned,
        bins=coarse.size,
    )
