"""The ledger that a device keeps by itself when it answers from the command line, as browsers do:
one for each collector, so that nobody draws twice and a budget counts over all its campaigns.

It holds blurred reports and who drew them, never an answer: not even a digest of one, which whoever
uses the device next could find by trying all answers. So people are known by a name that was given,
or by their place in a file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sfumato.collect.transport import LOOPBACK, USUAL_PORTS, Address, canonical_host
from sfumato.errors import FileError, ParameterError
from sfumato.files import user_folder
from sfumato.privacy.ledger import Ledger
from sfumato.table.formats import STANDARD_STREAM

OLDER_LOOPBACK = ("localhost", "::1", "0.0.0.0", "127.1", "::ffff:127.0.0.1")
ELSEWHERE = "use --ledger FILE, or --no-ledger to keep nothing"


def ledger_folder() -> Path:
    """The folder of this user's ledgers: SFUMATO_LEDGERS, else where the system puts what programs
    must not lose.
    """
    stated = os.environ.get("SFUMATO_LEDGERS")
    if stated:
        return Path(stated)
    data = user_folder("data")
    if data is None:
        raise FileError("there is no folder for a ledger of what is drawn", hint=ELSEWHERE)
    return data / "ledgers"


def own_ledger(address: Address) -> Ledger:
    """This user's ledger for a collector, made where there is none."""
    folder = ledger_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"no ledger can be kept in {folder}: {error.strerror}", hint=ELSEWHERE
        ) from None
    place = folder / _file_of(canonical_host(address.host), address.server)
    ledger = Ledger.ensure(place)
    for older in {folder / name for name in _older_names(address)} - {place}:
        if older.exists():
            ledger.take_in(Ledger(older))
            older.rename(f"{older}.moved")
    return ledger


def _file_of(host: str, server: str) -> str:
    letters = re.sub(r"[^a-z0-9.-]", "-", host)[:64]
    return f"{letters}-{hashlib.sha256(server.encode()).hexdigest()[:12]}.ledger"


def _older_names(address: Address) -> Iterator[str]:
    """What the ledgers of this server were called when each spelling had one of its own."""
    host = canonical_host(address.host)
    spellings = {address.host, host, *(OLDER_LOOPBACK if host == LOOPBACK else ())}
    for spelt in spellings:
        for scheme in USUAL_PORTS:
            yield _file_of(spelt, replace(address, scheme=scheme, host=spelt).origin)


def own_names(data: str, rows: int) -> Sequence[str]:
    """What the people of a file without names are called: one alone is whoever uses this device;
    several are known by the file and their place in it.
    """
    if rows <= 1:
        return [""] * rows
    if data == STANDARD_STREAM:
        raise ParameterError(
            "people who come from a pipe cannot be known again, and would draw anew",
            hint="send a file, or --no-ledger to keep nothing",
        )
    place = os.path.realpath(data) if os.path.exists(data) else data
    file = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    return [f"file {file} row {number}" for number in range(1, rows + 1)]
