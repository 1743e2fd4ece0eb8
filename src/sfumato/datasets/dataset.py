"""Records: a table of true microdata together with the domain that its columns live in."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from sfumato.domain import Domain


class Records(NamedTuple):
    """True records and their schema: `table, domain = census()`."""

    table: pa.Table
    domain: Domain
