"""The keystream: uniform bits, and integers that are exact, not merely close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.randomness import CHUNK, Keystream, secure, seeded

REJECT = 1e-6
BOUNDS = [
    2,
    3,
    5,
    6,
    7,
    10,
    100,
    255,
    256,
    257,
    1000,
    65_535,
    65_536,
    65_537,
    1 << 24,
    (1 << 24) + 1,
    3 << 30,
    1 << 32,
]
LARGE = [(1 << 32) + 1, 10**10, 1 << 40, (1 << 40) - 1, (1 << 63) + 1, (1 << 64) - 1, 1 << 64]


class Scripted(Keystream):
    """A keystream whose bytes are chosen: the first draw gives these words, later ones the largest
    word there is.
    """

    def __init__(self, words: np.ndarray) -> None:
        super().__init__(bytes(32), secure=False)
        self.script = [words]

    def fill(self, buffer: np.ndarray) -> None:
        buffer[:] = self.script.pop() if self.script else np.iinfo(buffer.dtype).max


def uniformity(draws: np.ndarray, bound: int, cells: int = 64) -> float:
    """Chi-square p-value of "uniform below the bound", in at most so many equal cells."""
    cells = min(cells, bound)
    edges = [-(-bound * cell // cells) for cell in range(cells + 1)]
    places = np.searchsorted(
        np.array(edges[1:-1], dtype=np.uint64), draws.astype(np.uint64), side="right"
    )
    means = np.diff(np.array(edges, dtype=object)).astype(float) / bound * len(draws)
    counts = np.bincount(places, minlength=cells)
    return float(stats.chi2.sf(((counts - means) ** 2 / means).sum(), cells - 1))


@pytest.mark.parametrize("bound", BOUNDS + LARGE)
def test_integers_below_a_bound_are_uniform(bound: int) -> None:
    draws = seeded(bound).below(bound, 200_000)
    assert int(draws.max()) < bound
    assert uniformity(draws, bound) > REJECT


def test_the_judge_rejects_what_is_five_per_cent_off() -> None:
    draws = seeded(1).below(10, 200_000)
    assert (
        uniformity(np.where(draws == 3, 3 + (seeded(2).random(200_000) < 0.05), draws), 10) < REJECT
    )


@pytest.mark.parametrize("bound", range(1, 257))
def test_every_value_comes_of_equally_many_16_bit_words(bound: int) -> None:
    """All 2^16 words once; those drawn again come out as bound-1 here."""
    counts = np.bincount(Scripted(np.arange(1 << 16)).below(bound, 1 << 16), minlength=bound)
    share, rejected = divmod(1 << 16, bound)
    assert (counts[:-1] == share).all()
    assert counts[-1] == share + rejected


@given(
    bound=st.integers(257, 1 << 24),
    words=st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50),
)
def test_32_bit_words_become_what_exact_arithmetic_says(bound: int, words: list[int]) -> None:
    """Words at the edges of each value's share included: w·bound / 2^32, drawn again below 2^32 mod
    bound.
    """
    edges = [-(-value * (1 << 32) // bound) for value in (0, 1, bound // 2, bound - 1)]
    words += [word for edge in edges for word in (edge - 1, edge, edge + 1) if 0 <= word < 1 << 32]
    expected = []
    for word in words:
        value, low = divmod(word * bound, 1 << 32)
        expected.append(bound - 1 if low < (1 << 32) % bound else value)
    assert Scripted(np.array(words, dtype=np.uint32)).below(bound, len(words)).tolist() == expected


@given(
    bound=st.integers((1 << 24) + 1, (1 << 32) - 1),
    words=st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=50),
)
def test_large_bounds_are_masked_and_rejected(bound: int, words: list[int]) -> None:
    class Counted(Scripted):
        def fill(self, buffer: np.ndarray) -> None:
            buffer[:] = self.script.pop() if self.script else 7

    mask = (1 << (bound - 1).bit_length()) - 1
    words += [bound - 1, bound & mask]
    expected = [word & mask if word & mask < bound else 7 for word in words]
    assert Counted(np.array(words, dtype=np.uint32)).below(bound, len(words)).tolist() == expected


@pytest.mark.parametrize("bound", [0, -1, (1 << 64) + 1])
def test_a_bound_out_of_range_is_refused(bound: int) -> None:
    with pytest.raises(ParameterError, match="between 1 and 2\\^64"):
        seeded(1).below(bound, 3)


def test_below_one_is_always_nought() -> None:
    assert not seeded(1).below(1, 1000).any()


def test_no_draws_are_no_draws() -> None:
    assert all(len(seeded(1).below(bound, 0)) == 0 for bound in (1, 200, 70_000, 1 << 40))
    assert len(seeded(1).chance(5, 16, 0)) == 0


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.9, 0.999])
def test_chance_is_its_threshold(bits: int, share: float) -> None:
    threshold, rows = int(share * 2**bits), 400_000
    hits = int(seeded(bits).chance(threshold, bits, rows).sum())
    assert stats.binomtest(hits, rows, threshold / 2**bits).pvalue > REJECT
    assert stats.binomtest(hits, rows, min(1, 1.05 * threshold / 2**bits)).pvalue < REJECT


def test_a_rare_chance_five_per_cent_off_is_rejected_too() -> None:
    hits = int(seeded(3).chance(int(0.01 * 2**32), 32, 4_000_000).sum())
    assert stats.binomtest(hits, 4_000_000, 0.01).pvalue > REJECT
    assert stats.binomtest(hits, 4_000_000, 0.0105).pvalue < REJECT


def test_exactly_threshold_many_16_bit_words_hit() -> None:
    for threshold in (0, 1, 12_345, 65_535):
        assert int(Scripted(np.arange(1 << 16)).chance(threshold, 16, 1 << 16).sum()) == threshold
    for bits in (16, 32, 64):
        assert seeded(1).chance(1 << bits, bits, 100).all()
        assert not seeded(1).chance(0, bits, 100).any()


DRAWS: list[Callable[[Keystream], Any]] = [
    lambda rng: rng.words(1000),
    lambda rng: rng.uint32(1000),
    lambda rng: rng.uint16(1000),
    lambda rng: rng.below(19, 1000),
    lambda rng: rng.below(10**6, 1000),
    lambda rng: rng.below(10**12, 1000),
    lambda rng: rng.chance(1 << 15, 16, 1000),
    lambda rng: rng.random(1000),
    lambda rng: rng.permutation(1000),
]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_seed_repeats_itself_and_no_other(draw: Callable[[Keystream], Any]) -> None:
    assert (draw(seeded(5)) == draw(seeded(5))).all()
    assert (draw(seeded(5)) != draw(seeded(6))).any()
    stream = seeded(5)
    assert (draw(stream) != draw(stream)).any(), "the stream must move on"


@pytest.mark.parametrize("draw", DRAWS)
def test_secure_streams_differ(draw: Callable[[Keystream], Any]) -> None:
    assert (draw(secure()) != draw(secure())).any()


def test_what_a_seed_gives_does_not_change_between_versions() -> None:
    assert seeded(1).words(2).tolist() == [17018220867035624573, 2053882796255905830]
    assert seeded(1).below(6, 8).tolist() == seeded(1).below(6, 9).tolist()[:8]


def test_the_key_is_not_shown() -> None:
    stream = secure()
    assert repr(stream.key)[2:-1] not in repr(stream) and "key" not in repr(stream)


@pytest.mark.parametrize(
    "length", [0, 1, 3, 7, 15, 17, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5]
)
def test_filling_in_pieces_is_filling_at_once(length: int) -> None:
    whole = np.empty(length, dtype=np.uint8)
    seeded(4).fill(whole)
    stream, cut = seeded(4), length // 3
    left, right = np.empty(cut, dtype=np.uint8), np.empty(length - cut, dtype=np.uint8)
    stream.fill(left)
    stream.fill(right)
    assert (np.concatenate([left, right]) == whole).all()


def test_the_keystream_is_aes_256_in_counter_mode() -> None:
    """NIST SP 800-38A, F.5.5: the cipher is the standard one; here with the counter that starts at
    0.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    expected = b"".join(block.update(counter.to_bytes(16, "big")) for counter in range(4))
    assert Keystream(key, secure=False).words(8).tobytes() == expected


def test_filling_a_table_fills_every_byte() -> None:
    table = np.zeros((300, 700), dtype=np.uint16)
    seeded(8).fill(table)
    counts = np.bincount(table.view(np.uint8).ravel(), minlength=256)
    assert stats.chisquare(counts).pvalue > REJECT


def test_parts_are_independent_of_each_other_and_of_their_parent() -> None:
    parent = seeded(1)
    streams = [parent, *(parent.derive(part) for part in range(3)), parent.derive(0).derive(0)]
    draws = np.stack([stream.below(16, 100_000) for stream in streams]).astype(np.int64)
    for i in range(len(draws)):
        for j in range(i):
            table = np.bincount(draws[i] * 16 + draws[j], minlength=256).reshape(16, 16)
            assert stats.chi2_contingency(table).pvalue > REJECT
    same = np.bincount(draws[0] * 17, minlength=256).reshape(16, 16)
    assert stats.chi2_contingency(same + 1).pvalue < REJECT


def test_a_part_depends_on_key_and_number_alone() -> None:
    moved = seeded(1)
    moved.words(1000)
    assert (moved.derive(3).words(5) == seeded(1).derive(3).words(5)).all()
    assert (seeded(1).derive(3).words(5) != seeded(1).derive(4).words(5)).any()
    assert (seeded(2).derive(3).words(5) != seeded(1).derive(3).words(5)).any()
    assert secure().derive(0).secure and not seeded(1).derive(0).secure


def test_permutations_are_uniform() -> None:
    stream = seeded(6)
    places = np.array([stream.permutation(4) for _ in range(24_000)])
    assert (np.sort(places, axis=1) == np.arange(4)).all()
    codes = places @ np.array([64, 16, 4, 1])
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > REJECT
    assert stream.permutation(0).tolist() == [] and stream.permutation(1).tolist() == [0]


def test_equal_sort_keys_are_drawn_again() -> None:
    class Repeating(Keystream):
        turns = 0

        def words(self, count: int) -> Any:
            self.turns += 1
            return np.zeros(count, dtype=np.uint64) if self.turns == 1 else super().words(count)

    stream = Repeating(bytes(32), secure=False)
    assert sorted(stream.permutation(5).tolist()) == [0, 1, 2, 3, 4] and stream.turns == 2


def test_floats_lie_in_the_unit_interval() -> None:
    draws = seeded(2).random(200_000)
    assert draws.min() >= 0 and draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > REJECT
