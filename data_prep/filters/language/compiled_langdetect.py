"""Compiled language identification with the results of langdetect (seed 0), bit for bit.

    text ── remove links and addresses, first 10,000 characters ──> code points
         ── features ──> rows of the n-grams (1 to 3 characters) that occur in a language profile
         ── probabilities ──> mean over 7 trials of naive Bayes on randomly drawn n-grams, until one language is certain

The method is Shuyo's (langdetect 1.0.9, ``detector.py``, ``utils/ngram.py``). The profiles and the character tables are
read from that package. langdetect seeds Python's Mersenne Twister for each text, so all texts use the same stream of
random words, which is drawn once. Floating-point operations have langdetect's order. Logarithm and cosine, which could
differ in the last bit, are computed by Python's own functions beforehand.
"""

import functools
import itertools
import json
import math
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
from langdetect.detector import Detector
from langdetect.detector_factory import PROFILES_DIRECTORY
from langdetect.utils.ngram import NGram

from headrace.data_prep.kernel import kernel
from headrace.data_prep.text.folding import CODE_POINTS, all_characters


class Profile(TypedDict):
    """A language, as one of langdetect's files describes it."""

    name: str
    freq: dict[str, int]
    """The number of times that each n-gram was seen."""
    n_words: list[int]
    """The number of n-grams of each length that were seen."""


def profile_names() -> list[str]:
    """Returns the names of the profiles, which are the codes of the languages, in the order in which langdetect reads
    them."""
    return [name for name in os.listdir(PROFILES_DIRECTORY) if not name.startswith(".")]


def read_profiles() -> list[Profile]:
    """Reads the profiles, in the order in which langdetect reads them, without n-grams that it never uses."""
    profiles: list[Profile] = [json.loads(Path(PROFILES_DIRECTORY, name).read_bytes()) for name in profile_names()]
    for profile in profiles:
        used = {gram: times for gram, times in profile["freq"].items() if len(gram) <= NGram.N_GRAM and gram != " "}
        profile["freq"] = used
    return profiles


def frequencies_of(profiles: Sequence[Profile], grams: Sequence[str]) -> "np.ndarray":
    """Returns the fraction of each of the ``grams`` among all of its length in each language: float64 (G, L)."""
    row_of = {gram: row for row, gram in enumerate(grams)}
    frequencies = np.zeros((len(grams), len(profiles)))
    for language, profile in enumerate(profiles):
        own = profile["freq"]
        of_length = np.array(profile["n_words"], float)[np.fromiter(map(len, own), int) - 1]
        frequencies[np.fromiter(map(row_of.__getitem__, own), int), language] = list(own.values()) / of_length
    return frequencies


SEED = 0
TRIALS = 7
MAX_DRAWS = Detector.ITERATION_LIMIT + 1
CONVERGED = Detector.CONV_THRESHOLD
SPACE, OTHER, OTHER_CAPITAL = 0, 1, 2
"""The numbers of a space and of characters that occur in no profile. The characters of the profiles follow."""
LATIN_END = 0x300
"""Letters from this code point on count as not Latin. They include Vietnamese ones, which langdetect tries to exclude
without effect."""
NEAR_BITS = 6
NEAR = (1 << NEAR_BITS) - 1
FAR_PARTS = np.uint64(0x1_0001_0001 * (0xFFFF & ~NEAR))
"""Bits of a key. One of them is set if a part of the key is larger than NEAR."""
ONE, TWO, THREE = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFF)
"""Masks of the last one, two and three characters of a key."""
COMPENSATED_SUM = sum([1.0, 1e100, 1.0, -1e100]) == 2.0
"""True if Python's ``sum`` compensates rounding errors (since 3.12). The result of langdetect depends on it."""


class Tables(NamedTuple):
    """Tables that the kernels read. G n-grams, L languages, C characters, H slots, W random words."""

    characters: "np.ndarray"
    """uint16 (0x110000,): the number of each code point after langdetect's normalization."""
    capital: "np.ndarray"
    """bool (C,): whether the numbered character is upper case."""
    keys: "np.ndarray"
    """uint64 (H,): hash table of n-grams, 0 in empty slots. ``_first_slot`` is the hash; H is a power of two."""
    rows: "np.ndarray"
    """int32 (H,): the n-gram's row in ``frequencies``."""
    near: "np.ndarray"
    """int32 (2^18,): the rows, without a search, of n-grams of the first 63 characters, which include A to z; or -1."""
    frequencies: "np.ndarray"
    """float64 (G, L): the fraction of the n-gram among all n-grams of its length in a language."""
    words: "np.ndarray"
    """uint32 (W,): the output of the Mersenne Twister from its seed on, more than any text can use."""
    weights: "np.ndarray"
    """float64 (W, 2): the smoothing of two trials when the Gaussian of the first is drawn from ``words[i:]``."""


def identify(text: str) -> tuple[str, float] | None:
    """Returns the most probable language and its probability, or None if ``text`` has no n-gram of a profile.

    The result is that of ``langdetect.detect_langs(text)[0]``.
    """
    languages, tables = load()
    codes = np.frombuffer(prepared(text).encode("utf-32-le", "surrogatepass"), np.uint32)
    rows = features(codes, tables)
    if not len(rows):
        return None
    shares = probabilities(rows, tables, COMPENSATED_SUM)
    best = int(shares.argmax())
    return (languages[best], float(shares[best])) if shares[best] > Detector.PROB_THRESHOLD else None


def prepared(text: str) -> str:
    """Returns the text that langdetect examines: no links or mail addresses, Vietnamese marks composed, shortened."""
    if "://" in text:
        text = Detector.URL_RE.sub(" ", text)
    if "@" in text:
        text = Detector.MAIL_RE.sub(" ", text)
    if not text.isascii() and any(mark in text for mark in NGram.DMARK_CLASS):
        text = NGram.normalize_vi(text)
    return text[:10_000]


@functools.cache
def load() -> tuple[tuple[str, ...], Tables]:
    """Builds the languages and the tables, once per process."""
    profiles = read_profiles()
    grams = list(dict.fromkeys(itertools.chain.from_iterable(profile["freq"] for profile in profiles)))
    known = sorted(set("".join(grams)) - {" "})
    numbers = {" ": SPACE} | {character: number for number, character in enumerate(known, OTHER_CAPITAL + 1)}
    keys, rows, near = _tables(_keys(grams, numbers))
    capital = np.array([False, False, True, *(character.isupper() for character in known)])
    words, weights = _random_stream()
    frequencies = frequencies_of(profiles, grams)
    tables = Tables(_characters(numbers), capital, keys, rows, near, frequencies, words, weights)
    return tuple(profile["name"] for profile in profiles), tables


def _keys(grams: Sequence[str], numbers: Mapping[str, int]) -> "np.ndarray":
    """Returns the key of each n-gram, uint64 (G,): the numbers of its characters + 1, the last one in the low bits."""
    parts = np.zeros((len(grams), NGram.N_GRAM), np.uint64)
    for place in range(NGram.N_GRAM):  # from the end of the n-gram
        ends = (gram[-1 - place] if place < len(gram) else None for gram in grams)
        parts[:, place] = [0 if end is None else numbers[end] + 1 for end in ends]
    return parts @ np.array([1, 1 << 16, 1 << 32], np.uint64)


def _characters(numbers: Mapping[str, int]) -> "np.ndarray":
    """Returns the number of each code point. langdetect normalizes only the first 65,536."""
    capital = np.fromiter(map(str.isupper, all_characters()), bool, CODE_POINTS)
    result = np.where(capital, OTHER_CAPITAL, OTHER).astype(np.uint16)
    for character, number in numbers.items():
        result[ord(character)] = number
    normal = [ord(NGram.normalize(character)) for character in all_characters()[:0x10000]]
    result[:0x10000] = result[normal]
    return result


def _tables(keys: "np.ndarray") -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    """Builds ``Tables.keys`` (at most a quarter full), ``rows`` and ``near``. A key's row is its index in ``keys``."""
    size = 4 << len(keys).bit_length()
    slots, rows = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    near = np.full(1 << 3 * NEAR_BITS, -1, np.int32)
    _fill(keys, slots, rows, near)
    return slots, rows, near


def _random_stream() -> "tuple[np.ndarray, np.ndarray]":
    """Builds ``Tables.words`` and ``Tables.weights``.

    A draw below n rejects only words whose first bit is 1. A text makes at most 7 × 1,001 draws and 4 pairs of
    Gaussians of 4 words each, so it never needs more words than those up to that many words with first bit 0.
    """
    generator = random.Random(SEED)
    enough = TRIALS * MAX_DRAWS + 4 * (TRIALS // 2 + 1)
    words: list[int] = []
    low = 0
    while low <= enough:
        words.append(generator.getrandbits(32))
        low += words[-1] < 1 << 31
    words += [generator.getrandbits(32) for _ in range(4)]
    uniform = [((a >> 5) * 2**26 + (b >> 6)) / 2**53 for a, b in itertools.pairwise(words)]
    weights = np.zeros((len(words), 2))
    for start in range(len(words) - 3):
        angle = uniform[start] * (2.0 * math.pi)
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform[start + 2]))
        for number, turn in enumerate((math.cos, math.sin)):
            alpha = Detector.ALPHA_DEFAULT + turn(angle) * radius * Detector.ALPHA_WIDTH
            weights[start, number] = alpha / Detector.BASE_FREQ
    return np.array(words, np.uint32), weights


@kernel
def _first_slot(key: "np.uint64", size: int) -> "np.int64":
    """Returns the slot at which the search for ``key`` begins in a table of ``size`` slots, a power of two."""
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@kernel
def _near_index(key: "np.uint64") -> "np.uint64":
    """Returns the index in ``Tables.near`` of a key whose parts are at most NEAR."""
    last, before, first = key & np.uint64(NEAR), key >> np.uint64(16) & np.uint64(NEAR), key >> np.uint64(32)
    return first << np.uint64(2 * NEAR_BITS) | before << np.uint64(NEAR_BITS) | last


@kernel
def _fill(keys: "np.ndarray", slots: "np.ndarray", rows: "np.ndarray", near: "np.ndarray") -> None:
    for row in range(len(keys)):
        if keys[row] & FAR_PARTS == 0:
            near[_near_index(keys[row])] = row
        slot = _first_slot(keys[row], len(slots))
        while slots[slot] != 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot], rows[slot] = keys[row], row


@kernel
def features(codes: "np.ndarray", tables: Tables) -> "np.ndarray":
    """Returns the rows of the n-grams of ``codes`` (uint32), int32 (n,), in the order of ``_extract_ngrams``."""
    codes = _without_stray_latin(codes)
    result = np.empty(3 * len(codes) + 1, np.int32)
    number = 0
    space = np.uint64(SPACE + 1)
    key = space  # the last three characters at most, and none before a space
    after_capital = capital_word = False
    for code in codes:
        character = tables.characters[code]
        if key & ONE == space:
            if character == SPACE:
                continue
            key, after_capital, capital_word = space, False, False
        key = (key << np.uint64(16) | np.uint64(character + 1)) & THREE
        capital = tables.capital[character]
        capital_word = capital and (capital_word or after_capital)
        after_capital = capital
        if capital_word:
            continue
        if key & FAR_PARTS == 0:
            index = _near_index(key)
            number = _append(tables.near[index & np.uint64(NEAR)], result, number)
            number = _append(tables.near[index & np.uint64(NEAR << NEAR_BITS | NEAR)], result, number)
            if key > TWO:
                number = _append(tables.near[index], result, number)
        else:
            number = _append(_row(key & ONE, tables), result, number)
            number = _append(_row(key & TWO, tables), result, number)
            if key > TWO:
                number = _append(_row(key, tables), result, number)
    return result[:number]


@kernel
def _append(row: "np.int64", result: "np.ndarray", number: int) -> int:
    """Appends ``row`` to the ``number`` rows of ``result`` unless it is -1, and returns the new number."""
    result[number] = row
    return number + int(row >= 0)


@kernel
def _row(key: "np.uint64", tables: Tables) -> "np.int64":
    """Returns the row of the n-gram ``key``, or -1."""
    slot = _first_slot(key, len(tables.keys))
    while tables.keys[slot] != 0:
        if tables.keys[slot] == key:
            return np.int64(tables.rows[slot])
        slot = (slot + 1) & (len(tables.keys) - 1)
    return np.int64(-1)


@kernel
def _without_stray_latin(codes: "np.ndarray") -> "np.ndarray":
    """Removes A to z from ``codes`` when other scripts have more than twice as many letters.

    langdetect also replaces runs of spaces by one here, which makes no difference to the n-grams.
    """
    latin = other = 0
    for code in codes:
        latin += np.uint32(65) <= code <= np.uint32(122)
        other += code >= np.uint32(LATIN_END)
    return codes[(codes < 65) | (codes > 122)] if latin * 2 < other else codes


@kernel
def probabilities(rows: "np.ndarray", tables: Tables, compensated: bool) -> "np.ndarray":
    """Returns langdetect's probabilities of the languages for the n-grams ``rows`` (at least one), float64 (L,)."""
    languages = tables.frequencies.shape[1]
    result, belief = np.zeros(languages), np.empty(languages)
    shift = np.uint32(32)
    while len(rows) >> (np.uint32(32) - shift):
        shift -= np.uint32(1)
    position = gaussian = 0
    for trial in range(TRIALS):
        belief[:] = 1.0 / languages
        if trial % 2 == 0:
            gaussian, position = position, position + 4
        weight = tables.weights[gaussian, trial % 2]
        for draw in range(MAX_DRAWS):
            choice = tables.words[position] >> shift
            position += 1
            while choice >= len(rows):
                choice = tables.words[position] >> shift
                position += 1
            frequency = tables.frequencies[rows[choice]]
            for language in range(languages):
                belief[language] *= weight + frequency[language]
            if draw % 5 == 0 and _normalize(belief, compensated) > CONVERGED:
                break
        for language in range(languages):
            result[language] += belief[language] / TRIALS
    return result


@kernel
def _normalize(belief: "np.ndarray", compensated: bool) -> float:
    """Divides ``belief`` by its sum, computed as Python's ``sum`` does, and returns the largest probability."""
    total = error = 0.0
    for value in belief:
        added = total + value
        if compensated:
            error += (total - added) + value if abs(total) >= abs(value) else (value - added) + total
        total = added
    total += error
    largest = 0.0
    for language in range(len(belief)):
        belief[language] /= total
        largest = max(largest, belief[language])
    return largest
