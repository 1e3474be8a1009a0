"""Pages by their URL: the newest of each, and those of one of C4's splits.

http://www.a.org/x/?utm_source=feed   2019-04-18T…    lost
https://a.org/x                       2019-04-20T…    stays; MD5 of a.org/x modulo 1,000: 0 validation, else train
"""

import hashlib
import re
from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, GlobalFilter, filter_settings
from headrace.pipeline.core.settings import settings

DATE_BYTES = 32
"""Dates are compared as text by their first 32 bytes: ISO 8601, as WARC-Date gives it, sorts by time."""

_SCHEME = re.compile(r"https?://(www\.)?")
_TAIL = re.compile(r"\?(utm_|ref|feed).*")


def normalize_url(url: str) -> str:
    """``url`` without scheme, ``www.``, ``?utm_…``/``?ref…``/``?feed…`` tail and trailing slashes (TFDS c4_utils)."""
    return _TAIL.sub("", _SCHEME.sub("", url)).rstrip("/")


def url_of(document: Document) -> str:
    """The document's URL as text; empty when it has none."""
    return str(document.metadata.get("url") or "")


def url_number(document: Document) -> int:
    """The MD5 of the normalized URL, or of the id where there is none, as a number: what C4 draws its lots by."""
    name = normalize_url(url_of(document)) or document.id
    return int(hashlib.md5(name.encode("utf-8", "surrogatepass")).hexdigest(), 16)


def hash_words(texts: Iterable[str]) -> "np.ndarray":
    """MD5 of each of ``texts`` as uint64 (n, 2): comparing rows from left to right is comparing the hex digests."""
    digests = b"".join([hashlib.md5(text.encode("utf-8", "surrogatepass")).digest() for text in texts])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, 2)


@settings
class OnePagePerUrl(GlobalFilter):
    """Keeps one page of each normalized URL: the newest date, then the first. Documents without URL stay.

    ``normalize_url`` and ``select_newest_page`` of TFDS text/c4_utils.py.
    """

    type: Literal["one_page_per_url"] = "one_page_per_url"
    rank_words: ClassVar[int] = DATE_BYTES // 8

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        url = url_of(document)
        keys = hash_words([normalize_url(url)] if url else [])
        date = str(document.metadata.get("date") or "").encode("utf-8", "surrogatepass")[:DATE_BYTES]
        newest_first = ~np.frombuffer(date.ljust(DATE_BYTES, b"\0"), dtype=">u8").astype(np.uint64)
        return keys, newest_first, np.zeros(len(keys), np.uint32)

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        return Drop(self.type, normalize_url(url_of(document))) if len(losers) else None


@filter_settings
class C4Split(Filter):
    """Keeps the pages of one of C4's two splits, drawn by the MD5 of the normalized URL: one of a thousand validates.

    ``_split_generators`` of TFDS text/c4.py, ``get_hashed_url_filter_fn`` of text/c4_utils.py.
    """

    type: Literal["c4_split"] = "c4_split"
    split: Literal["train", "validation"] = "train"
    """The split to keep."""

    def judge(self, document: Document) -> Drop | None:
        split = "train" if url_number(document) % 1000 else "validation"
        return None if split == self.split else Drop(self.type, split)
