"""Honest files, changed a little in thousands of ways, end in an answer or in one clear error."""

from __future__ import annotations

import json

import pytest
from tests.hostile.fuzzer import KINDS, Kind, TooLongError, limited, try_inputs

from sfumato.errors import FileError

# 2,000 inputs here and 20,000 in `make soak`, most of them descriptions: they say the most.
SHARES = {
    "description": 0.4,
    "domain": 0.2,
    "schema": 0.1,
    "file": 0.1,
    "ledger": 0.05,
    "csv": 0.1,
    "baskets": 0.05,
}
AT_ONCE = 50


def rounds(total: int) -> list[tuple[str, int]]:
    return [
        (name, seed)
        for name, part in SHARES.items()
        for seed in range(int(total * part) // AT_ONCE)
    ]


@pytest.mark.parametrize(("name", "seed"), rounds(2000))
def test_a_changed_file_is_an_answer_or_an_error(name: str, seed: int) -> None:
    try_inputs(KINDS[name], seed, AT_ONCE)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "seed"), rounds(20_000))
def test_a_changed_file_is_an_answer_or_an_error_at_length(name: str, seed: int) -> None:
    try_inputs(KINDS[name], 1000 + seed, AT_ONCE)


def test_every_honest_file_is_an_answer() -> None:
    for kind in KINDS.values():
        for text in kind.honest:
            kind.use(text)


def test_the_fuzzer_notices_a_crash_a_hang_and_an_empty_story() -> None:
    def crash(text: bytes) -> None:
        json.loads(text)["entries"][0]["epsilon"] / 1

    def hang(text: bytes) -> None:
        while True:
            pass

    def ramble(text: bytes) -> None:
        raise FileError("")

    for use in (crash, ramble):
        with pytest.raises(AssertionError):
            try_inputs(Kind("broken", KINDS["ledger"].honest, use), 0, 100)
    with pytest.raises(TooLongError), limited(0.1):
        hang(b"")
