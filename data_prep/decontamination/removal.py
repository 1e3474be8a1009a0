"""Takes benchmark items out of training documents, as the settings say.

document ── search ──> no hit: as it is
                 └──> drop: {"rule": "contaminated", "value": "lambada/lambada_openai.jsonl.zst:17"}
                 └──> mask: the text without the matches, metadata.masked = [item, …]; drop where too little is left

Takes matches out of a text, with what stands around them.

    … piece | 200 characters | match | 200 characters | piece …      ->      piece, blank line, piece

GPT-3 (appendix C) makes a document of each piece; here they stay one document, with the id they have.
"""

import bisect
import dataclasses
import functools
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import Overlap, items_in, overlaps
from headrace.data_prep.decontamination.search import Hits, Search, word_count
from headrace.data_prep.document import Drop
from headrace.data_prep.text.words import ALONE, SEPARATOR, character_classes

RULE = "contaminated"


@dataclasses.dataclass(frozen=True)
class Removal:
    """Decides about one document after the other."""

    search: Search
    settings: Decontamination

    def __call__(self, document: Document) -> tuple[Drop | None, list[Overlap]]:
        """Why ``document`` goes, if it does, and its overlaps; masks its text where that is asked for."""
        hits = self.search.hits(document.text)
        if not hits.size:
            return None, []
        text = self._masked(document.text, hits) if self.settings.action == "mask" else None
        ngrams = self.search.ngrams
        found = overlaps(items_in(hits, ngrams), ngrams, document.id, "masked" if text else "dropped")
        if text is None:
            return Drop(RULE, _value(found)), found
        document.text = text
        document.metadata["masked"] = [overlap.item for overlap in found]
        return None, found

    def _masked(self, text: str, hits: Hits) -> str | None:
        """``text`` without any match, also without those that a cut has made; None when it is not worth keeping."""
        lengths = self.search.ngrams.lengths
        rest: str | None = text
        for _ in range(MOST_PIECES):
            if rest is None or not hits.size:
                return rest
            runs = [(first, first + int(lengths[number])) for first, number in hits.tolist()]
            rest = masked(rest, runs, self.settings.window_characters)
            hits = self.search.hits(rest or "")
        return None if hits.size else rest


def _value(found: Sequence[Overlap]) -> str:
    """The item of which most was found, and how many others."""
    most = max(found, key=lambda overlap: overlap.found)
    return most.item + f" and {len(found) - 1:,} more" * (len(found) > 1)


PIECE_CHARACTERS = 200
"""Shorter pieces are not kept (GPT-3, appendix C)."""
MOST_PIECES = 10
"""A document that is cut into more pieces is contaminated as a whole (GPT-3, appendix C)."""
JOINT = "\n\n"

Run = tuple[int, int]
"""The first word of a run, and the word after its last."""


def masked(text: str, runs: Sequence[Run], window_characters: int) -> str | None:
    """``text`` without the words of ``runs`` (sorted by first word) and ``window_characters`` on each side of them.

    A word that a window cuts goes too. None when too little is left, or too many pieces.
    """
    places, cuts = Places(text), list[tuple[int, int]]()
    for first, last in runs:
        start, _ = places.word_across(max(0, places.start(first) - window_characters))
        _, end = places.word_across(min(len(text), places.end(last) + window_characters))
        if cuts and start <= cuts[-1][1]:
            cuts[-1] = cuts[-1][0], max(end, cuts[-1][1])
        else:
            cuts.append((start, end))
    edges = [0, *(edge for cut in cuts for edge in cut), len(text)]
    pieces = [piece for start, end in zip(edges[::2], edges[1::2], strict=True) if (piece := text[start:end].strip())]
    kept = [piece for piece in pieces if len(piece) >= PIECE_CHARACTERS]
    return JOINT.join(kept) if kept and len(pieces) <= MOST_PIECES else None


class Places:
    """Where the words of ``text`` lie in it: folding may change the number of characters, so they are counted."""

    def __init__(self, text: str) -> None:
        begins = chunk_beginnings()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")]
        begins[:1] = True
        self._text = text
        self._starts = np.flatnonzero(begins).tolist()
        chunks = (text[start:end] for start, end in pairwise([*self._starts, len(text)]))
        self._words = [0, *accumulate(map(word_count, chunks))]

    def start(self, word: int) -> int:
        """The character that word number ``word`` begins at; the end of the text beyond its last word."""
        if word >= self._words[-1]:
            return len(self._text)
        chunk = bisect.bisect_right(self._words, word) - 1
        first = self._starts[chunk]
        length = (self._starts[chunk + 1] if chunk + 1 < len(self._starts) else len(self._text)) - first
        within = word - self._words[chunk]
        return first + bisect.bisect_right(
            range(length), within, key=lambda i: word_count(self._text[first : first + i + 1])
        )

    def end(self, word: int) -> int:
        """The character after the word before number ``word`` (not the first) and the punctuation that follows it."""
        start = self.start(word - 1)
        return start + len(self._text[start : self.start(word)].rstrip())

    def word_across(self, character: int) -> tuple[int, int]:
        """Beginning and end of the word on both sides of ``character``; the character itself where there is none."""
        chunk = bisect.bisect_right(self._starts, character) - 1
        word = self._words[chunk] + word_count(self._text[self._starts[chunk] : character]) if chunk >= 0 else 0
        if word and self.end(word) > character:
            return self.start(word - 1), self.end(word)
        return character, character


@functools.cache
def chunk_beginnings() -> NDArray[np.bool_]:
    """(0x110000,): the characters that begin a chunk, such as white space, punctuation and Han.

    Folding changes nothing across such a boundary: none of them joins what stands before it. And a word that goes on
    after it was no word before it. So chunks can be counted one by one, and hold two words at most.
    """
    table = np.isin(character_classes(), (SEPARATOR, ALONE))
    table[[code for code in np.flatnonzero(table).tolist() if unicodedata.category(chr(code))[0] == "M"]] = False
    return table
