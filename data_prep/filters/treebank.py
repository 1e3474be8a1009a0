"""Words of English, exactly as nltk's ``NLTKWordTokenizer`` splits sentences (as Robert MacIntyre's sed script did).

    chunk between white space ── compiled rules ──> words       ── unsure ── nltk, remembered ──> words

nltk substitutes 26 regular expressions one after the other. What they make of a chunk depends on the character before
it, on whether it begins its sentence, and on whether only closing marks follow it there: so a chunk can be split alone.
The compiled rules know the usual chunks. nltk splits the others: several apostrophes, ``cannot``, backquotes.
"""

import functools
import re
import string
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import int64, kernel, kernel_in_place

if TYPE_CHECKING:
    from nltk.tokenize import NLTKWordTokenizer

PLAIN, LETTER, SPACE, MARK, QUOTE, APOSTROPHE, COMMA, POINT, HYPHEN, UNSURE = range(10)
"""Kinds of characters. A MARK is a word of its own anywhere; nltk splits a chunk with an UNSURE one. A LETTER is one of
ASCII, a digit of it or an underscore."""
WORD, OPENING, CLOSING, CHUNK, LAST_CHUNK, SENTENCE = range(6)
"""Kinds of results: OPENING and CLOSING are quotation marks, the last three go to nltk."""
OPENERS = "«“‘„"
BEFORE_OPENING = tuple(map(ord, f" ([{{<{OPENERS}"))
CLOSERS = tuple(map(ord, "])}>\"'»”’"))
CONTRACTIONS = ("cannot", "d'ye", "gimme", "gonna", "gotta", "lemme", "more'n", "wanna")
QUOTES = {OPENING: ["``"], CLOSING: ["''"]}
REMEMBERED = 64
"""The characters of the longest chunk whose words are remembered."""


def _kinds() -> NDArray[np.uint8]:
    kinds = np.where([chr(code).isspace() for code in range(0x3001)], SPACE, PLAIN)
    for kind, of_kind in (
        (LETTER, f"{string.ascii_letters}{string.digits}_"),
        (MARK, f"{OPENERS}»”’;@#$%&?!*[](){{}}<>‒–—―"),
        (QUOTE, '"'),
        (APOSTROPHE, "'"),
        (COMMA, ",:"),
        (POINT, "."),
        (HYPHEN, "-"),
        (UNSURE, "`İı"),  # the last two are an i to expressions that ignore case
    ):
        kinds[[*map(ord, of_kind)]] = kind
    return kinds.astype(np.uint8)


KINDS = _kinds()


@functools.cache
def treebank() -> "NLTKWordTokenizer":
    """Builds nltk's word tokenizer. It is imported here, as that takes seconds and most presets do not need it."""
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


def treebank_words(text: str, sentences: Iterable[tuple[int, int]]) -> list[str]:
    """Returns the words of ``sentences``: the positions in ``text`` where each begins and ends."""
    if any(map(text.__contains__, "\x1c\x1d\x1e\x1f")):  # white space to Python, and none to nltk's expressions
        return [word for begin, end in sentences for word in treebank().tokenize(text[begin:end])]
    codes = np.frombuffer(bytearray(text.encode("utf-32-le")), np.uint32)
    if any(map(text.lower().__contains__, CONTRACTIONS)):
        for match in re.finditer("|".join(CONTRACTIONS), text, re.IGNORECASE):
            codes[match.start()] = ord("`")  # makes the chunk unsure
    begins, ends, kinds = _split(codes, np.array([*sentences], np.int64).reshape(-1, 2)).T
    words = [text[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    result, done = list[str](), 0
    for at in np.flatnonzero(kinds).tolist():
        split = _by_nltk if len(words[at]) <= REMEMBERED else _by_nltk.__wrapped__
        result += words[done:at] + (QUOTES.get(kinds[at]) or split(words[at], int(kinds[at])))
        done = at + 1
    return result + words[done:]


@functools.lru_cache(maxsize=1 << 16)
def _by_nltk(piece: str, kind: int) -> list[str]:
    """Returns the words of ``piece``: a sentence, or a chunk of one with a character of white space around it."""
    before, after = piece[0].isspace() and kind != SENTENCE, kind == CHUNK
    words = treebank().tokenize("x" * before + piece + "x" * after)
    return list(words[before : len(words) - after])


@kernel_in_place
def _kind(code: int) -> int:
    return int64(KINDS[code]) if code < KINDS.size else int64(PLAIN)


@kernel
def _final_point(codes: NDArray[np.uint32], first: int, last: int) -> int:
    """Returns the position of the point that ends the sentence, which only closing marks and spaces follow; else -1."""
    at = last - 1
    while at > first and (codes[at] == 32 or int64(codes[at]) in CLOSERS):
        if codes[at] == 34 and codes[at - 1] == 32:  # became an opening mark
            return -1
        at -= 1
    return at if at > first and codes[at] == 46 and codes[at - 1] != 46 else -1


@kernel
def _last_chunk(codes: NDArray[np.uint32], first: int, last: int) -> int:
    """Returns where the last chunk that has other than closing marks begins."""
    at = last
    while at > first and (_kind(codes[at - 1]) == SPACE or int64(codes[at - 1]) in CLOSERS):
        at -= 1
    while at > first and _kind(codes[at - 1]) != SPACE:
        at -= 1
    return at


@kernel
def _ends_word(codes: NDArray[np.uint32], at: int, last: int, final: int) -> bool:
    """Whether nltk has a space before the character ``at`` when it looks for endings, or it is the end."""
    if at >= last or at == final:
        return True
    kind = _kind(codes[at])
    following = int64(codes[at + 1]) if at + 1 < last else 0
    if kind == COMMA:
        return not 48 <= following <= 57
    return kind in (SPACE, MARK, QUOTE) or (kind in (POINT, HYPHEN) and following == codes[at])


@kernel
def _apostrophe(codes: NDArray[np.uint32], begin: int, at: int, last: int, final: int) -> tuple[int, int]:
    """Returns what begins a word and where it ends, for an apostrophe ``at`` in a word that began at ``begin``.

    (at, at): nothing, it is a character of its word. (-1, at): nltk decides.
    """
    following = int64(codes[at + 1]) if at + 1 < last else 0
    is_letter = _kind(following) == LETTER
    if _ends_word(codes, at + 1, last, final):
        return at, at + 1
    if following >= 128:
        return -1, at
    if begin == at:  # after white space or a mark: 's, 'll and the like stay as they are
        end = at + 1
        while end < last and _kind(codes[end]) == LETTER:
            end += 1
        is_clitic = is_letter and (end - at <= 3 or (end < last and codes[end] >= 128))
        return (-1, at) if is_clitic else (at, at + is_letter)
    letter, second = following | 32, int64(codes[at + 2]) if at + 2 < last else 0
    if letter in (100, 109, 115) and _ends_word(codes, at + 2, last, final):
        return at, at + 2  # 'd 'm 's
    if letter == 116 and codes[at - 1] + 6 == following and _ends_word(codes, at + 2, last, final):
        return (at - 1, at + 2) if at - begin > 1 else (at, at)  # n't
    is_pair = (letter == 108 and second | 32 == 108) or (letter in (114, 118) and second | 32 == 101)
    if is_pair and (following < 97) == (second < 97) and _ends_word(codes, at + 3, last, final):
        return at, at + 3  # 'll 're 've
    return (-1, at) if is_letter and _kind(codes[at - 1]) != LETTER else (at, at)


@kernel
def _chunk(
    codes: NDArray[np.uint32],
    span: tuple[int, int],
    sentence: tuple[int, int],
    results: NDArray[np.int64],
    count: int,
) -> int:
    """Writes the words of the chunk ``span`` to ``results`` from the row ``count`` on, and returns the next row.

    -1: nltk decides. ``sentence`` is where the sentence begins, and its final point.
    """
    begin, last = span  # of the word that is not finished; of the chunk
    first, final = sentence
    at, apostrophes = begin, 0
    while at < last:
        kind = _kind(codes[at])
        following = int64(codes[at + 1]) if at + 1 < last else 0
        start, end, result = at, at, WORD
        if kind == MARK or at == final:
            end = at + 1
        elif kind == COMMA:
            next_kind = _kind(following)
            if next_kind == COMMA or (next_kind == PLAIN and following >= 128):
                return -1
            end = at if 48 <= following <= 57 else at + 1
        elif kind in (POINT, HYPHEN):
            if following == codes[at]:
                end = at + 2
                while kind == POINT and end < last and codes[end] == codes[at]:
                    end += 1
        elif kind == QUOTE:
            before = int64(codes[at - 1]) if at > first else 32
            is_open = before in BEFORE_OPENING or (before == codes[at] and at - 1 == first)
            end, result = at + 1, OPENING if is_open else CLOSING
        elif kind == APOSTROPHE:
            apostrophes += 1
            start, end = _apostrophe(codes, begin, at, last, final)
            if start < 0 or apostrophes > 1:
                return -1
        elif kind == UNSURE:
            return -1
        if end == start:
            at += 1
            continue
        if start > begin:
            results[count] = begin, start, WORD
            count += 1
        results[count] = start, end, result
        count += 1
        begin = at = end
    if last > begin:
        results[count] = begin, last, WORD
        count += 1
    return count


@kernel
def _split(codes: NDArray[np.uint32], spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the results for a text (characters,) with the sentences (n, 2): begin, end and kind of each (m, 3)."""
    results = np.empty((codes.size + 1, 3), np.int64)
    count = 0
    for first, last in spans:
        final, tail = _final_point(codes, first, last), _last_chunk(codes, first, last)
        before, at = count, first
        while at < last:
            end = at
            while end < last and _kind(codes[end]) != SPACE:
                end += 1
            after = _chunk(codes, (at, end), (first, final), results, count) if end > at else count
            if after < 0:
                begin, kind = at, CHUNK
                if at >= tail:
                    while count > before and results[count - 1, 0] >= tail:
                        count -= 1
                    begin, end, kind = tail, last, SENTENCE if tail == first else LAST_CHUNK
                results[count] = max(begin - 1, first), min(end + 1, last), kind
                after = count + 1
            count, at = after, end + 1
    return results[:count]
