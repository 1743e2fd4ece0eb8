"""Horizontally partitioned data: each site sends a release of its own people, and they are asked as
one source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.arguments import checked
from sfumato.domain import Cells, Domain
from sfumato.errors import EstimationError, ParameterError, SchemaError, listing
from sfumato.estimation.estimate import Estimate
from sfumato.estimation.moments import PowerSums
from sfumato.estimation.pooled import SummedMoments, SummedSupports, pooled, summed
from sfumato.estimation.supports.base import Supports
from sfumato.estimation.supports.tabulated import TabulatedSupports
from sfumato.source import MINED_TABLE, Source
from sfumato.view import TableView, View


@dataclass(frozen=True, eq=False, repr=False)
class CombinedSource(Source):
    """Several sources of different people over one domain, each undone by its own mechanism, then
    added.
    """

    sources: tuple[Source, ...]
    alike: bool = False

    def __post_init__(self) -> None:
        if not self.sources:
            raise ParameterError("there is nothing to combine; give at least one release")
        for other in self.sources[1:]:
            _check_domain(self.sources[0].domain, other.domain)

    @property
    def domain(self) -> Domain:
        return self.sources[0].domain

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)

    def __repr__(self) -> str:
        return f"{self.rows:,} people's records of {listing(self.domain.names)}, in {self._told}"

    def view(self) -> View:
        """The sites and their people."""
        lines = [(place, repr(each)) for place, each in enumerate(self.sources, 1)]
        title = f"{self.rows:,} people in {self._told}"
        return View(title, tables=(TableView.of(("site", "records"), lines),))

    @property
    def _told(self) -> str:
        return f"{len(self.sources)} {'releases' if len(self.sources) > 1 else 'release'}"

    def _estimate(self, cells: tuple[Cells, ...]) -> Estimate:
        return self._added([source._estimate(cells) for source in self.sources])

    def _estimates(self, questions: Sequence[tuple[Cells, ...]]) -> list[Estimate]:
        by_source = [source._estimates(questions) for source in self.sources]
        return [self._added(estimates) for estimates in zip(*by_source, strict=True)]

    def _added(self, estimates: Sequence[Estimate]) -> Estimate:
        return pooled(estimates) if self.alike else summed(estimates)

    def moments(self, cells: Sequence[Cells], axis: int) -> PowerSums:
        if self.alike:
            raise EstimationError(
                "sums are added over releases, not pooled", hint="combine them without alike"
            )
        return SummedMoments(tuple(source.moments(cells, axis) for source in self.sources))

    def supports(self) -> Supports:
        if self.domain.private.baskets:
            return SummedSupports(tuple(source.supports() for source in self.sources))
        columns = tuple(self.cells(axis.name) for axis in self.domain.axes)
        small = math.prod(part.size for part in columns) <= MINED_TABLE
        return TabulatedSupports(
            columns, self.rows, (self.condensed(columns) if small else self).marginal, exact=False
        )


@checked
def combine(sources: Sequence[Source], *, alike: bool = False) -> Source:
    """One source of releases over the same domain that are about different people, whatever their
    mechanisms and keeps.

    Counts of the union are sums of counts, and the noises are independent, so estimates and
    covariances add; nothing is assumed about how the sites differ. With `alike` the people of all
    sites are taken as samples of one population, and each site's shares are weighted by 1 / their
    variance: smaller errors where the keeps differ, but wrong if the sites differ.

    >>> from sfumato.source import Exact
    >>> from sfumato.table import read
    >>> towns = [Exact(read({"smoker": ["no", "yes", smokes]})) for smokes in ("yes", "no")]
    >>> combine(towns).marginal(["smoker"]).where(smoker="yes").value
    3.0
    """
    return CombinedSource(tuple(sources), alike)


def _check_domain(first: Domain, other: Domain) -> None:
    if set(first.names) != set(other.names):
        strange = sorted(set(first.names) ^ set(other.names))
        raise SchemaError(
            f"releases to combine must have the same columns; '{strange[0]}' is not in all of them"
        )
    for attribute in first:
        if attribute != other[attribute.name]:
            raise SchemaError(
                f"releases to combine must have the same domain; '{attribute.name}' has other "
                "values in one of them"
            )
