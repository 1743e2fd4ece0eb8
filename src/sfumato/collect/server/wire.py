"""What goes over the wire, as types: they check requests, write answers and the OpenAPI
document.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from sfumato.collect.campaign import MOST_IDS, MOST_REPORTS

Identity = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_-]{21}[AQgw]$",
        description="128 random bits in base64url: the key under which a report is stored once.",
    ),
]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 in hexadecimal.")]
Name = Annotated[str, Meta(pattern="^[a-z0-9-]{1,64}$")]
Words = Annotated[dict[str, str], Meta(description="A text in each of its languages.")]
Code = Annotated[int, Meta(ge=0)]
Total = Annotated[int, Meta(ge=0)]


class Report(Struct, forbid_unknown_fields=True):
    """One blurred answer: a code for each column of the reports, a list of codes for a basket."""

    id: Identity
    values: list[Code | list[Code]]


class ReportBatch(Struct, forbid_unknown_fields=True):
    """Reports of one version of a campaign."""

    campaign: Hash
    reports: Annotated[list[Report], Meta(min_length=1, max_length=MOST_REPORTS)]


class Refused(Struct):
    """A report that was not stored: its place in the request, and why."""

    index: int
    kind: Literal["id", "domain", "conflict", "withdrawn"]


class Taken(Struct, omit_defaults=True):
    """What became of the reports; those stored are on disk. Where some were refused, what would do
    is said once for each kind, in words that hold nothing of what was sent.
    """

    stored: Total
    repeated: Total
    refused: list[Refused]
    hints: dict[str, str] = {}


class ReceiptsAsked(Struct, forbid_unknown_fields=True):
    """Reports whose fate is asked for."""

    ids: Annotated[list[Identity], Meta(min_length=1, max_length=MOST_IDS)]


class Receipts(Struct):
    """The ids asked for, by what the store holds of them."""

    stored: list[Identity]
    withdrawn: list[Identity]
    unknown: list[Identity]


class Withdrawal(Struct, forbid_unknown_fields=True):
    """A report to be taken back."""

    id: Identity


class Withdrawn(Struct):
    """The report is gone and cannot come back; an id that was never stored is refused for a while,
    should its report still come.
    """

    withdrawn: Literal[True]


class Promise(Struct):
    """What a respondent is promised: gamma as a fraction, and epsilon = ln(gamma)."""

    gamma: Annotated[str, Meta(pattern="^[0-9]+/[1-9][0-9]*$")]
    epsilon: float


class Budget(Struct):
    """What one browser may spend on this server, over all campaigns and rounds."""

    epsilon: float


class CampaignDocument(Struct):
    """Everything public about a campaign."""

    name: Name
    title: Words
    hash: Hash
    round: int
    open: bool
    opens: str | None
    closes: str | None
    domain: dict[str, Any]
    program: dict[str, Any]
    promise: Promise
    budget: Budget | None
    questions: dict[str, Any]
    text: dict[str, Any]


class PublishedFiles(Struct):
    """The SHA-256 of every file that is served to browsers, as they stand in the wheel, and of the
    form's page in each language, with its content policy.
    """

    manifest: Literal[1]
    version: str
    digest: Hash
    files: dict[str, Hash]
    pages: dict[str, Hash]
    policy: str


class Health(Struct):
    """Whether the server lives, and whether it takes reports."""

    status: Literal["ok", "busy"]


class Complaint(Struct):
    """What was wrong, and what would do."""

    kind: str
    message: str
    hint: str | None = None


class Failure(Struct):
    """The one shape of all errors."""

    error: Complaint


encode = msgspec.json.Encoder().encode
