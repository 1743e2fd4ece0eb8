"""Linkage: how far the public columns alone single people out in a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.audit.paired import Paired


@dataclass(frozen=True)
class Linkage:
    """How many people stand alone with their public values, and how likely a person with known
    public values is found.
    """

    columns: tuple[str, ...]
    people: int
    unique: int
    groups: int

    @property
    def found(self) -> float:
        """The chance to pick the right person among those with the same public values: groups /
        people.
        """
        return self.groups / self.people

    def to_dict(self) -> dict[str, Any]:
        return {
            "public_columns": list(self.columns),
            "people": self.people,
            "unique": self.unique,
            "groups": self.groups,
            "found": self.found,
        }


def linkage(paired: Paired) -> Linkage:
    """The groups of people with the same public values; one group of all where nothing
    is public.
    """
    public = [attribute.name for attribute in paired.release.domain if attribute.public]
    if not public:
        return Linkage((), paired.people, int(paired.people == 1), 1)
    group = np.zeros(paired.people, dtype=np.int64)
    for name in public:
        codes = np.asarray(paired.release.column(name))[:: paired.copies].astype(np.int64)
        # Renumbered after each column, so that the product of many columns never overflows.
        _, group = np.unique(group * (int(codes.max()) + 1) + codes, return_inverse=True)
    sizes = np.bincount(group)
    return Linkage(tuple(public), paired.people, int((sizes == 1).sum()), len(sizes))
