"""Limits: how much one neighbourhood of the network may send, kept in memory under a key that
changes every hour.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address

PER_MINUTE = 60  # reports of one prefix: /24 of IPv4, /56 of IPv6
MOST_PREFIXES = 100_000  # remembered at once; beyond, strangers wait for the next minute
HOUR, MINUTE = 3600.0, 60.0


@dataclass
class RateLimit:
    """Reports counted by address prefix for a minute; only a keyed hash of the prefix is held, and
    the key is thrown away within the hour.
    """

    per_minute: int = PER_MINUTE
    clock: Callable[[], float] = time.monotonic
    _key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    _keyed: float = field(default=0.0, repr=False)
    _started: float = field(default=0.0, repr=False)
    _counts: dict[bytes, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._keyed = self._started = self.clock()

    def take(self, address: str | None, reports: int) -> int:
        """Count these reports; how many seconds to wait where they are too many, else 0.

        What is refused is not counted.
        """
        now = self.clock()
        if now - self._started >= MINUTE:
            self._begin(now)
        mark = self._mark(address)
        counted = self._counts.get(mark, 0)
        if counted + reports > self.per_minute or (
            not counted and len(self._counts) >= MOST_PREFIXES
        ):
            return max(1, int(self._started + MINUTE - now) + 1)
        self._counts[mark] = counted + reports
        return 0

    def _begin(self, now: float) -> None:
        self._started = now
        self._counts.clear()
        if now - self._keyed >= HOUR:
            self._key, self._keyed = os.urandom(32), now

    def _mark(self, address: str | None) -> bytes:
        return blake2b(prefix(address), key=self._key, digest_size=8).digest()


def prefix(address: str | None) -> bytes:
    """The part of an address that a household or office shares: /24 of IPv4, /56 of IPv6.

    >>> prefix("192.0.2.77") == prefix("192.0.2.1") != prefix("192.0.3.1")
    True
    >>> prefix("2001:db8::1") == prefix("2001:db8:0:ff::2"), prefix("no address")
    (True, b'')
    >>> prefix("[2001:db8::1]:443") == prefix("2001:db8::1"), prefix("192.0.2.1:80").hex()
    (True, 'c00002')
    """
    if address is None:
        return b""
    if address.startswith("["):  # as some proxies write it, with its port behind
        address = address[1:].partition("]")[0]
    elif address.count(":") == 1:
        address = address.partition(":")[0]
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return b""
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return parsed.packed[:3] if isinstance(parsed, IPv4Address) else parsed.packed[:7]
