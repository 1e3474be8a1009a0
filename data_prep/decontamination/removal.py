"""Removes benchmark items from training documents: drops the document or masks the matches.

    document ── search ──> no hit: unchanged
                     └──> drop: {"rule": "contaminated", "value": "lambada/lambada_openai.jsonl.zst:17"}
                     └──> mask: the text without the matches, metadata.masked = [item, …]; drop if too little is left

Masking cuts out each match and the text around it:

    … piece | 200 characters | match | 200 characters | piece …      ->      piece, blank line, piece

GPT-3 (appendix C) makes a document of each piece. Here the pieces stay one document with its id.
"""

import dataclasses
from collections.abc import Sequence

from datatrove.data import Document

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import Overlap, items_in, overlaps
from headrace.data_prep.decontamination.search import Hits, Search
from headrace.data_prep.document import Drop
from headrace.data_prep.text.word_offsets import WordOffsets

RULE = "contaminated"

PIECE_CHARACTERS = 200
"""Least length of a piece to keep (GPT-3, appendix C)."""
MOST_PIECES = 10
"""A document that would be cut into more pieces is dropped (GPT-3, appendix C)."""
JOINT = "\n\n"

NgramRun = tuple[int, int]
"""Index of the first word of a run, and of the word after its last one."""


@dataclasses.dataclass(frozen=True)
class Removal:
    """Decides about single documents."""

    search: Search
    settings: Decontamination

    def __call__(self, document: Document) -> tuple[Drop | None, list[Overlap]]:
        """Returns the reason to drop ``document``, or None, and its overlaps. With ``mask`` it changes the text."""
        hits = self.search.hits(document.text)
        if not hits.size:
            return None, []
        text = self._masked(document.text, hits) if self.settings.action == "mask" else None
        ngrams = self.search.ngrams
        overlapping = overlaps(items_in(hits, ngrams), ngrams, document.id, "masked" if text else "dropped")
        if text is None:
            return Drop(RULE, _value(overlapping)), overlapping
        document.text = text
        document.metadata["masked"] = [overlap.item for overlap in overlapping]
        return None, overlapping

    def _masked(self, text: str, hits: Hits) -> str | None:
        """Returns ``text`` without matches, also without those that a cut creates; None if too little is left."""
        lengths = self.search.ngrams.lengths
        rest: str | None = text
        for _ in range(MOST_PIECES):
            if rest is None or not hits.size:
                return rest
            runs = [(first, first + int(lengths[ngram])) for first, ngram in hits.tolist()]
            rest = masked(rest, runs, self.settings.window_characters)
            hits = self.search.hits(rest or "")
        return None if hits.size else rest


def _value(overlapping: Sequence[Overlap]) -> str:
    """Returns the item with the most n-grams found, and the number of other items."""
    most = max(overlapping, key=lambda overlap: overlap.found)
    return most.item + f" and {len(overlapping) - 1:,} more" * (len(overlapping) > 1)


def masked(text: str, runs: Sequence[NgramRun], window_characters: int) -> str | None:
    """Returns ``text`` without the words of ``runs`` and without ``window_characters`` on each side of them.

    A word on the edge of a window is removed, too.

    Args:
        text: the text of a document.
        runs: words to remove, sorted by first word.
        window_characters: characters to remove on each side of a run.

    Returns:
        The remaining pieces, or None if too little is left or there are too many pieces.
    """
    words, cuts = WordOffsets(text), list[tuple[int, int]]()
    for first, last in runs:
        start, _ = words.word_across(max(0, words.start(first) - window_characters))
        _, end = words.word_across(min(len(text), words.end(last) + window_characters))
        if cuts and start <= cuts[-1][1]:
            cuts[-1] = cuts[-1][0], max(end, cuts[-1][1])
        else:
            cuts.append((start, end))
    edges = [0, *(edge for cut in cuts for edge in cut), len(text)]
    pieces = [piece for start, end in zip(edges[::2], edges[1::2], strict=True) if (piece := text[start:end].strip())]
    kept = [piece for piece in pieces if len(piece) >= PIECE_CHARACTERS]
    return JOINT.join(kept) if kept and len(pieces) <= MOST_PIECES else None
