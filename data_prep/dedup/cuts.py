"""Spans that a document repeats: from windows to offsets, and the text without them.

windows that are elsewhere     w3 w4 w5 . . w9          the first occurrence of each: (document 8, w40 w41 w42), …
matches                        w3–w5 of document 8 at w40, w9 of …        runs that go on in both documents
cut                            the union of the words of all matches

spans/00007.npy    (n_spans,) row uint32, start uint32, end uint32, survivor_start uint32, survivor_id S…
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.shuffle.records import Records, run_bounds
from headrace.data_prep.text.word_offsets import WordOffsets
from headrace.data_prep.text.words import word_count
from headrace.pipeline.core.artifact import Artifact

PLACE = [("document", "<u8"), ("word", "<u4")]
LOSER = np.dtype([*PLACE, ("survivor", "<u8"), ("survivor_word", "<u4")])
"""A window, and the first window that is equal to it; both are one for the first window itself."""
MATCH = np.dtype([*LOSER.descr, ("words", "<u4"), ("start", "<u4"), ("end", "<u4")])
"""A run of words, its offsets in characters, and the words of the survivor that it repeats."""

REPEATED = "repeated_text"
"""The metadata of a document out of which spans were cut, and the rule that drops one of which too little is left."""
NOT_SPACE, PARAGRAPH = re.compile(r"\S+"), re.compile(r"\n\s*\n")


def matches_of(losers: Records, window_words: int) -> Records:
    """Returns the matches of the windows of one document, LOSER sorted by word: MATCH without offsets."""
    goes_on = np.zeros(losers.size, np.bool_)
    goes_on[1:] = losers["survivor"][1:] == losers["survivor"][:-1]
    for word in ("word", "survivor_word"):
        goes_on[1:] &= np.diff(losers[word].astype(np.int64)) == 1
    firsts = np.flatnonzero(~goes_on)
    matches = np.zeros(firsts.size, MATCH)
    for name in LOSER.names or ():
        matches[name] = losers[name][firsts]
    matches["words"] = np.diff([*firsts.tolist(), losers.size]) + window_words - 1
    return matches


def place(matches: Records, text: str) -> None:
    """Writes the offsets of ``matches`` in ``text``: from the first word to the white space after the last one."""
    offsets = WordOffsets(text)
    for match in matches:
        last = int(match["word"]) + int(match["words"]) - 1
        word = NOT_SPACE.match(text, offsets.start(last), offsets.start(last + 1))
        match["start"] = offsets.start(int(match["word"]))
        match["end"] = offsets.start(last) if word is None else word.end()


def cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Returns ``text`` without ``spans`` (start, end), sorted by start. The white space around a cut becomes one break:
    that of a paragraph or of a line where the cut or the space around it has one, else a space."""
    parts, gap, end = list[str](), "", 0
    for start, stop in [*spans, (len(text), len(text))]:
        if start > end or not end:
            piece = text[end:start]
            if body := piece.strip():
                gap += piece[: len(piece) - len(piece.lstrip())]
                parts += [_break(gap), body] if parts else [body]
                gap = ""
            gap += piece[len(piece.rstrip()) :]
        if stop > end:
            gap, end = gap + text[max(start, end) : stop], stop
    return "".join(parts)


def _break(gap: str) -> str:
    return "\n\n" if PARAGRAPH.search(gap) else "\n" if "\n" in gap else " "


@dataclasses.dataclass(frozen=True)
class Cuts:
    """The spans to cut out of the documents of a shard."""

    spans: Mapping[int, Records]
    """The spans of each row that has any, sorted by start."""
    firsts: frozenset[int]
    """The rows that hold the first occurrence of a span: a short rest of these stays."""
    least_words: int
    """The fewest words of another rest that stays."""

    @classmethod
    def of(cls, repeats: Artifact, shard: int, least_words: int) -> "Cuts":
        """Reads the spans of ``shard`` from an artifact of stage ``repeats``."""
        spans, firsts = (np.load(repeats.shard(kind, shard, "npy")) for kind in ("spans", "firsts"))
        bounds = itertools.pairwise(run_bounds(spans["row"]).tolist())
        rows = {int(spans["row"][start]): spans[start:end] for start, end in bounds}
        return cls(rows, frozenset(firsts.tolist()), least_words)

    def apply(self, row: int, document: Document) -> Drop | None:
        """Cuts the spans of ``row`` out of its ``document`` and names them in its metadata; returns why it is dropped,
        or None. A document that is dropped keeps its text."""
        spans = self.spans.get(row)
        if spans is None:
            return None
        text = cut(document.text, zip(spans["start"].tolist(), spans["end"].tolist(), strict=True))
        words = word_count(text)
        document.metadata[REPEATED] = [
            {"start": start, "end": end, "survivor": survivor.decode(), "survivor_start": survivor_start}
            for _, start, end, survivor_start, survivor in spans.tolist()
        ]
        if not words or (words < self.least_words and row not in self.firsts):
            return Drop(f"{REPEATED}.{'short' if words else 'empty'}", str(words))
        document.text = text
        return None
