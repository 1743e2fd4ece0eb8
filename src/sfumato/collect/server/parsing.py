"""Parsing: the reports in the body of a request, checked against what the campaign asks."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from sfumato.collect.campaign import ID_LENGTH, MOST_REPORTS
from sfumato.collect.server.replies import RefusalError
from sfumato.domain import Items
from sfumato.errors import DataError
from sfumato.mechanisms.program import Program
from sfumato.table.packing import Packing

SHOWN = 20  # columns of which a refusal says what they hold
_ID_BYTES = 16
# base64url as base64; what base64url does not know becomes what base64 does not know.
_LETTERS = bytes.maketrans(b"-_+/", b"+/!!")


class Parsed(NamedTuple):
    """Reports as the store takes them, their places in the request, and what was refused."""

    campaign: str
    reports: list[tuple[bytes, bytes]]
    places: Sequence[int]
    refused: list[tuple[int, str]]


class _Loose(Struct, forbid_unknown_fields=True):
    id: str
    values: list[int | list[int]]


class _LooseBatch(Struct, forbid_unknown_fields=True):
    campaign: str
    reports: Annotated[list[_Loose], Meta(min_length=1, max_length=MOST_REPORTS)]


_loose = msgspec.json.Decoder(_LooseBatch).decode


@dataclass(frozen=True, eq=False)
class ReportParser:
    """The reports of one campaign: a decoder made for its domain, so that a batch without faults
    is checked while it is decoded; a batch with faults is gone through one by one. What no device
    can have drawn is a fault too: it would tell more than a report can.
    """

    packing: Packing
    program: Program
    _octets: bool = field(init=False)

    def __post_init__(self) -> None:
        narrow = all(size <= 1 << 8 for size in self.packing.sizes)
        object.__setattr__(self, "_octets", self.packing.plain and narrow)

    @cached_property
    def _strict(self) -> Any:
        """The decoder of a batch without faults; None where a column holds baskets."""
        if not self.packing.plain:
            return None
        codes = tuple(Annotated[int, Meta(ge=0, lt=size)] for size in self.packing.sizes)
        identity = Annotated[str, Meta(min_length=ID_LENGTH, max_length=ID_LENGTH)]
        values: Any = tuple.__class_getitem__(codes)
        report = msgspec.defstruct(
            "Strict", [("id", identity), ("values", values)], forbid_unknown_fields=True
        )
        reports: Any = list.__class_getitem__(report)
        several: Any = Annotated[reports, Meta(min_length=1, max_length=MOST_REPORTS)]
        batch = msgspec.defstruct(
            "StrictBatch", [("campaign", str), ("reports", several)], forbid_unknown_fields=True
        )
        return msgspec.json.Decoder(batch).decode

    @cached_property
    def wanted(self) -> str:
        """What the values of a report must be, for whoever sent others: it tells nothing of these.

        Only of the campaign, which is public.
        """
        columns = [
            f"a list of different codes from 0 to {attribute.size - 1}"
            if isinstance(attribute, Items)
            else f"a whole number from 0 to {attribute.size - 1}"
            for attribute in self.packing.domain
        ]
        shown = ", ".join(columns[:SHOWN]) + (", …" if len(columns) > SHOWN else "")
        drawn = "" if self.program.gives_all else "; and only what the campaign's program can draw"
        return f"values must have {len(columns)} in this order: {shown}{drawn}"

    def parse(self, body: bytes) -> Parsed:
        """The reports in a body."""
        if self._strict is not None:
            try:
                batch = self._strict(body)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                batch = None
            ids = None if batch is None else identities([report.id for report in batch.reports])
            if batch is not None and ids is not None and self._all_given(batch.reports):
                _check_keys(body, len(ids))
                pack = bytes if self._octets else self._pack
                bodies = [pack(report.values) for report in batch.reports]
                rows = list(zip(ids, bodies, strict=True))
                return Parsed(batch.campaign, rows, range(len(rows)), [])
        return self._one_by_one(body)

    def _all_given(self, reports: Sequence[Any]) -> bool:
        """Whether a device can have drawn each of these."""
        gives = self.program.gives
        return self.program.gives_all or all(gives(report.values) for report in reports)

    def _pack(self, values: Sequence[int]) -> bytes:
        return self.packing.pack(values)

    def _one_by_one(self, body: bytes) -> Parsed:
        batch = decoded(_loose, body)
        _check_keys(body, len(batch.reports))
        reports, places, refused = [], [], []
        for place, report in enumerate(batch.reports):
            found = identities([report.id])
            if found is None:
                refused.append((place, "id"))
                continue
            try:
                packed = self.packing.pack(report.values)
            except (DataError, TypeError):
                packed = None
            if packed is None or not self._all_given([report]):
                refused.append((place, "domain"))
                continue
            reports.append((found[0], packed))
            places.append(place)
        return Parsed(batch.campaign, reports, places, refused)


def decoded(decode: Any, body: bytes) -> Any:
    """The body by a decoder: 400 where it is not JSON, 422 where it is not of the shape."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        # msgspec's words name types and places, and never a value.
        raise RefusalError(422, "shape", f"not the shape that is asked for: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise RefusalError(400, "json", "the body is not JSON in UTF-8") from None


def identities(texts: Sequence[str]) -> list[bytes] | None:
    """The 128 bits of each id; None where one is not 22 letters of base64url whose spare bits
    are 0.

    >>> identities(["A" * 21 + "Q"])[0].hex(), identities(["A" * 21 + "B"])
    ('00000000000000000000000000000001', None)
    """
    # Each id of 22 letters and two more that stand for zeros make 18 whole bytes, so that all are
    # decoded at once; the last two bytes must be 0.
    if any(len(text) != ID_LENGTH for text in texts):
        return None
    try:
        joined = ("AA".join(texts) + "AA").encode("ascii").translate(_LETTERS)
        octets = binascii.a2b_base64(joined, strict_mode=True)
    except (UnicodeEncodeError, binascii.Error):
        return None
    step = _ID_BYTES + 2
    if any(octets[_ID_BYTES::step]) or any(octets[_ID_BYTES + 1 :: step]):
        return None
    return [octets[start : start + _ID_BYTES] for start in range(0, len(octets), step)]


def _check_keys(body: bytes, reports: int) -> None:
    """Refuse a body in which a key stands twice: who reads which is anybody's guess. Neither ids
    nor codes need an escape, so there is none that could hide a key.
    """
    if (
        b"\\" in body
        or body.count(b'"id"') != reports
        or body.count(b'"values"') != reports
        or body.count(b'"campaign"') != 1
        or body.count(b'"reports"') != 1
    ):
        raise RefusalError(422, "shape", "a key stands twice, or is written with escapes")
