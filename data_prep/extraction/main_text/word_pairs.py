"""Pairs of words that a text shares with its page's title, description or linked data.

    description "An old mill, for sale."  ── pairs ──> hashes of (an, old), (old, mill), …
    block "For sale: an old mill"         ── matched ──> 3 of its 4 pairs of words

A word is a run of letters and digits of ASCII and of two-byte characters in small letters; of others each character.
"""

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.extraction.parsing.hashes import HASH_MASK, HASH_PRIME, HASH_START
from headrace.data_prep.kernel import int64, kernel, kernel_in_place


def pair_sets(summaries: tuple[str, str, str]) -> tuple[NDArray[np.int64], ...]:
    """Returns the pairs of words of each text as a hash set: an array whose size is a power of two, 0 where free."""
    sets = []
    for text in summaries:
        data = np.frombuffer(text.encode("utf-8", "replace"), np.uint8)
        sets.append(_set_of(data, 1 << max(2 * data.size, 2).bit_length() - 1 if data.size else 1))
    return tuple(sets)


@kernel
def _set_of(text: NDArray[np.uint8], slots: int) -> NDArray[np.int64]:
    pairs = np.zeros(slots, np.int64)
    before, at = int64(0), int64(0)
    while at < text.size:
        at, word = next_word(text, at, text.size)
        if word and before:
            pair = pair_of(before, word)
            slot = pair & (slots - 1)
            while pairs[slot] != 0 and pairs[slot] != pair:
                slot = (slot + 1) & (slots - 1)
            pairs[slot] = pair
        before = word if word else before
    return pairs


@kernel_in_place
def pair_of(before: int, word: int) -> int:
    """Returns the hash of two words, never 0."""
    return ((before ^ word * 3) * HASH_PRIME & HASH_MASK) | 1


@kernel_in_place
def next_word(text: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """Returns the offset after the word that begins at or after ``at``, and its hash; 0 if there is none."""
    word = int64(0)
    while at < end:
        byte = int64(text[at])
        if byte >= 0xE0:
            if word:
                break
            size = 3 if byte < 0xF0 else 4
            word = HASH_START
            for index in range(at, min(at + size, end)):
                word = (word ^ int64(text[index])) * HASH_PRIME & HASH_MASK
            return min(at + size, end), word
        small = byte | 0x20 if 0x41 <= byte <= 0x5A else byte
        if 0x61 <= small <= 0x7A or 0x30 <= byte <= 0x39 or byte >= 0x80:
            word = ((word if word else HASH_START) ^ small) * HASH_PRIME & HASH_MASK
        elif word:
            break
        at += 1
    return at, word


@kernel_in_place
def has_pair(pairs: NDArray[np.int64], pair: int) -> bool:
    """Whether ``pairs``, a hash set, has ``pair``."""
    slot = pair & (pairs.size - 1)
    while pairs[slot] != 0:
        if pairs[slot] == pair:
            return True
        slot = (slot + 1) & (pairs.size - 1)
    return False
