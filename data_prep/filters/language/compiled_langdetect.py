"""langdetect's identification (seed 0) in compiled code: the same language with the same probability, bit for bit.

    text ── links, addresses out, first 10,000 characters ──> code points
         ── features ──> rows of the n-grams (1 to 3 characters) that some language's profile knows
         ── probabilities ──> mean over 7 trials of naive Bayes on n-grams drawn at random until one language is sure

The method is Shuyo's (langdetect 1.0.9, ``detector.py``, ``utils/ngram.py``), the profiles and the character tables are
read from that package. Python seeds its Mersenne Twister anew for each text, so all texts see one stream of random
words: it is drawn once. Floating point is done in langdetect's order; what could differ in the last bit (logarithm,
cosine) is computed by Python's own functions beforehand.
"""

import functools
import itertools
import math
import random
from typing import NamedTuple

import numpy as np
from langdetect.detector import Detector
from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory
from langdetect.utils.ngram import NGram

from headrace.data_prep.kernel import kernel

SEED = 0
TRIALS = 7
MAX_DRAWS = Detector.ITERATION_LIMIT + 1
CONVERGED = Detector.CONV_THRESHOLD
CODE_POINTS = 0x110000
SPACE, OTHER, OTHER_CAPITAL = 0, 1, 2
"""Numbers of a space and of characters that no profile holds; the profiles' characters follow."""
LATIN_END = 0x300
"""Letters from here on count as not Latin (Vietnamese ones too: langdetect means to spare them but does not)."""
NEAR_BITS = 6
NEAR = (1 << NEAR_BITS) - 1
FAR_PARTS = np.uint64(0x1_0001_0001 * (0xFFFF & ~NEAR))
"""The bits of a key of which one is set when a part is larger than NEAR."""
ONE, TWO, THREE = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFF)
"""The parts of a key's last one, two and three characters."""
COMPENSATED_SUM = sum([1.0, 1e100, 1.0, -1e100]) == 2.0
"""Whether Python's ``sum`` carries the rounding error along (from 3.12 on), as langdetect's result depends on it."""


class Tables(NamedTuple):
    """What the kernels read. G n-grams, L languages, C characters, H places, W random words."""

    characters: "np.ndarray"
    """uint16 (0x110000,): a code point's number after langdetect's normalization."""
    capital: "np.ndarray"
    """bool (C,): whether the numbered character is upper case."""
    keys: "np.ndarray"
    """uint64 (H,): n-grams at the places that ``_place`` names, 0 where there is none; H is a power of two."""
    rows: "np.ndarray"
    """int32 (H,): the n-gram's row in ``frequencies``."""
    near: "np.ndarray"
    """int32 (2^18,): the same, without a search, for n-grams of the first 63 characters, which hold A to z; or -1."""
    frequencies: "np.ndarray"
    """float64 (G, L): the n-gram's share of all n-grams of its length in a language."""
    words: "np.ndarray"
    """uint32 (W,): what the Mersenne Twister gives from its seed on, more than any text can use."""
    weights: "np.ndarray"
    """float64 (W, 2): the smoothing of two trials, when the first one's Gaussian is drawn from ``words[i:]``."""


def identify(text: str) -> tuple[str, float] | None:
    """The most probable language and its probability, as ``langdetect.detect_langs(text)[0]``; None without n-grams."""
    languages, tables = load()
    codes = np.frombuffer(prepared(text).encode("utf-32-le", "surrogatepass"), np.uint32)
    rows = features(codes, tables)
    if not len(rows):
        return None
    found = probabilities(rows, tables, COMPENSATED_SUM)
    best = int(found.argmax())
    return (languages[best], float(found[best])) if found[best] > Detector.PROB_THRESHOLD else None


def prepared(text: str) -> str:
    """The characters that langdetect looks at: without links and mail addresses, Vietnamese marks joined, cut."""
    if "://" in text:
        text = Detector.URL_RE.sub(" ", text)
    if "@" in text:
        text = Detector.MAIL_RE.sub(" ", text)
    if not text.isascii() and any(mark in text for mark in NGram.DMARK_CLASS):
        text = NGram.normalize_vi(text)
    return text[:10_000]


@functools.cache
def load() -> tuple[tuple[str, ...], Tables]:
    """The languages and the tables, once a process."""
    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    grams = [gram for gram in factory.word_lang_prob_map if 1 <= len(gram) <= NGram.N_GRAM and gram != " "]
    known = sorted({character for gram in grams for character in gram} - {" "})
    numbers = {" ": SPACE} | {character: number for number, character in enumerate(known, OTHER_CAPITAL + 1)}
    keys, rows, near = _tables([functools.reduce(lambda key, c: key << 16 | numbers[c] + 1, gram, 0) for gram in grams])
    frequencies = np.array([factory.word_lang_prob_map[gram] for gram in grams])
    capital = np.array([False, False, True, *(character.isupper() for character in known)])
    words, weights = _random_stream()
    tables = Tables(_characters(numbers), capital, keys, rows, near, frequencies, words, weights)
    return tuple(factory.langlist), tables


def _characters(numbers: dict[str, int]) -> "np.ndarray":
    """The number of each code point. langdetect normalizes only within the first 65,536."""
    capital = np.fromiter(map(str.isupper, map(chr, range(CODE_POINTS))), bool, CODE_POINTS)
    result = np.where(capital, OTHER_CAPITAL, OTHER).astype(np.uint16)
    for character, number in numbers.items():
        result[ord(character)] = number
    normal = [ord(NGram.normalize(chr(code))) for code in range(0x10000)]
    result[:0x10000] = result[normal]
    return result


def _tables(keys: list[int]) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    """``Tables.keys``, at most a quarter full, ``rows`` and ``near`` for ``keys`` and their positions in the list."""
    size = 4 << len(keys).bit_length()
    places, rows = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    near = np.full(1 << 3 * NEAR_BITS, -1, np.int32)
    _fill(np.array(keys, np.uint64), places, rows, near)
    return places, rows, near


def _random_stream() -> "tuple[np.ndarray, np.ndarray]":
    """``Tables.words`` and ``Tables.weights``.

    Of a draw below n, n of b bits, only words with first bit 1 can be refused. A text makes at most 7 × 1,001 draws and
    4 pairs of Gaussians of 4 words each, so it never gets past the word with that many first bits 0.
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
def _place(key: "np.uint64", size: int) -> "np.int64":
    """Where the search for ``key`` begins in a table of ``size`` places, a power of two."""
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))


@kernel
def _near_place(key: "np.uint64") -> "np.uint64":
    """The place in ``Tables.near`` of a key whose parts are at most NEAR."""
    last, before, first = key & np.uint64(NEAR), key >> np.uint64(16) & np.uint64(NEAR), key >> np.uint64(32)
    return first << np.uint64(2 * NEAR_BITS) | before << np.uint64(NEAR_BITS) | last


@kernel
def _fill(keys: "np.ndarray", places: "np.ndarray", rows: "np.ndarray", near: "np.ndarray") -> None:
    for row in range(len(keys)):
        if keys[row] & FAR_PARTS == 0:
            near[_near_place(keys[row])] = row
        place = _place(keys[row], len(places))
        while places[place] != 0:
            place = (place + 1) & (len(places) - 1)
        places[place], rows[place] = keys[row], row


@kernel
def features(codes: "np.ndarray", tables: Tables) -> "np.ndarray":
    """The rows of the n-grams of ``codes`` (uint32), in the order of langdetect's ``_extract_ngrams``: int32 (n,)."""
    codes = _without_stray_latin(codes)
    result = np.empty(3 * len(codes) + 1, np.int32)
    number = 0
    space = np.uint64(SPACE + 1)
    key = space  # the last characters, at most three, none before a space
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
            place = _near_place(key)
            number = _added(tables.near[place & np.uint64(NEAR)], result, number)
            number = _added(tables.near[place & np.uint64(NEAR << NEAR_BITS | NEAR)], result, number)
            if key > TWO:
                number = _added(tables.near[place], result, number)
        else:
            number = _added(_row(key & ONE, tables), result, number)
            number = _added(_row(key & TWO, tables), result, number)
            if key > TWO:
                number = _added(_row(key, tables), result, number)
    return result[:number]


@kernel
def _added(row: "np.int64", result: "np.ndarray", number: int) -> int:
    """Put ``row`` behind the ``number`` rows of ``result`` unless it is -1; how many there are then."""
    result[number] = row
    return number + int(row >= 0)


@kernel
def _row(key: "np.uint64", tables: Tables) -> "np.int64":
    """The row of the n-gram ``key``, or -1."""
    place = _place(key, len(tables.keys))
    while tables.keys[place] != 0:
        if tables.keys[place] == key:
            return np.int64(tables.rows[place])
        place = (place + 1) & (len(tables.keys) - 1)
    return np.int64(-1)


@kernel
def _without_stray_latin(codes: "np.ndarray") -> "np.ndarray":
    """``codes`` without A to z when other scripts have more than twice as many letters.

    langdetect also makes one space of many here; to n-grams they are one anyway.
    """
    latin = other = 0
    for code in codes:
        latin += np.uint32(65) <= code <= np.uint32(122)
        other += code >= np.uint32(LATIN_END)
    return codes[(codes < 65) | (codes > 122)] if latin * 2 < other else codes


@kernel
def probabilities(rows: "np.ndarray", tables: Tables, compensated: bool) -> "np.ndarray":
    """langdetect's probabilities of the languages, given the n-grams ``rows`` (at least one): float64 (L,)."""
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
    """Divide ``belief`` by its sum, taken as Python's ``sum`` takes it; the largest share."""
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
