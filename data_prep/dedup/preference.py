"""The copy that stays: the rank of each document among those that are equal or similar to it. The lowest stays.

rank, 31 bits     place in dedup.preferred, 7 bits; value by dedup.keep, 24 bits
                  equal ranks: the longest text (most_letters: the shortest), then the smallest id (corpus.py)

keep              the value
longest           0
most_letters      2^24 - 1 - letters: of two texts that differ in spaces and signs, the one that lost no letters, and of
                  those the one without doubled spaces and soft hyphens
newest, oldest    hours since 1970, backwards or forwards; documents without a date come last
highest           the upper 24 bits of the score as an ordered float32 (IEEE 754), backwards: scores that differ by less
                  than 1 in 32,768 may be equal; documents without a score come last
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.filters.urls import date_of, host_of, url_of
from headrace.data_prep.sources.fields import value_at
from headrace.pipeline.core.settings import TextList, settings

Keep = Literal["longest", "most_letters", "newest", "oldest", "highest"]
VALUE_BITS = 24
LAST = (1 << VALUE_BITS) - 1
"""The value of a document without a date or score, and of one without letters."""
MISSING: Mapping[Keep, str] = {"newest": "undated", "oldest": "undated", "highest": "unscored"}
"""The count of documents without the date or score by which ``keep`` decides."""
LARGEST_SCORE = float(np.finfo(np.float32).max)
MOST_PREFERRED = 127


@settings
class Preference:
    """The settings that decide which copy stays."""

    keep: Keep = "longest"
    score: str | None = None
    """The path of the score of ``highest`` in the metadata of a document."""
    preferred: TextList = ()
    shortest: bool = False
    """Whether the shortest text of equal rank stays: of texts with equal letters that without further signs."""

    @property
    def revision(self) -> int:
        """In revision 0, dates were of ISO 8601 alone and in UTC, and hosts of URLs without scheme were unknown."""
        return int(MISSING.get(self.keep) == "undated" or bool(self.preferred))

    @property
    def reads_documents(self) -> bool:
        """Whether ranks depend on more than the length of a text."""
        return self.keep != "longest" or bool(self.preferred)

    def ranks(self, documents: Iterable[Document]) -> NDArray[np.uint64]:
        """Returns the rank of each document, (n,)."""
        ranks = [self._place(document) << VALUE_BITS | self._value(document) for document in documents]
        return np.array(ranks, np.uint64)

    def missing(self, ranks: NDArray[np.uint64]) -> "Counter[str]":
        """Returns how many documents of ``ranks`` lack the date or score that decides, by name."""
        name = MISSING.get(self.keep)
        return Counter({name: int(np.sum(ranks & np.uint64(LAST) == LAST))} if name else {})

    def _place(self, document: Document) -> int:
        """Returns the index of the first entry of ``preferred`` that the document is of; their number for none."""
        host = host_of(url_of(document))
        places = (number for number, entry in enumerate(self.preferred) if is_of(document.id, host, entry))
        return next(places, len(self.preferred))

    def _value(self, document: Document) -> int:
        """Returns the value by ``keep``; a smaller one is better."""
        if self.keep == "longest":
            return 0
        if self.keep == "most_letters":
            return LAST - min(sum(map(str.isalpha, document.text)), LAST)
        if self.keep == "highest":
            score = number_at(document.metadata, self.score or "")
            return LAST if score is None else LAST - ordered(score)
        hours = hours_of(str(document.metadata.get("date") or ""))
        if hours is None:
            return LAST
        return hours if self.keep == "oldest" else LAST - 1 - hours


def is_of(identity: str, host: str, entry: str) -> bool:
    """Whether a document is of ``entry``: the beginning of its id, its host, or a domain above that."""
    return identity.startswith(entry) or host == entry or host.endswith(f".{entry}")


def number_at(metadata: Mapping[str, Any], path: str) -> float | None:
    """Returns the number of ``metadata`` at the dotted ``path``, in the range of float32; None if there is none."""
    value = value_at(metadata, path)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return None
    return max(-LARGEST_SCORE, min(value, LARGEST_SCORE))


def ordered(score: float) -> int:
    """Returns a number of 24 bits, above 0, that does not fall where ``score`` rises."""
    bits = int(np.float32(score + 0.0).view(np.uint32))
    return (bits ^ (0xFFFFFFFF if bits >> 31 else 1 << 31)) >> 8


def hours_of(date: str) -> int | None:
    """Returns the hours from 1970 to ``date``; None where it is no date of 1970 to 3883."""
    moment = date_of(date)
    hours = int(moment.timestamp()) // 3600 if moment else -1
    return hours if 0 <= hours < LAST else None
