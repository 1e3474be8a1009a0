"""Filters by the URL of a page: the newest page of each URL, and the pages of one of C4's splits.

http://www.a.org/x/?utm_source=feed   2019-04-18T…    dropped
https://a.org/x                       2019-04-20T…    kept; MD5 of a.org/x modulo 1,000: 0 validation, else train
"""

import hashlib
import re
from collections.abc import Iterable
from typing import ClassVar, Literal

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Explanations, Filter, GlobalFilter, filter_settings
from headrace.pipeline.core.settings import settings

DATE_BYTES = 32
"""Dates are compared by their first 32 bytes. In ISO 8601, the format of WARC-Date, text order is time order."""

_SCHEME = re.compile(r"https?://(www\.)?")
_TAIL = re.compile(r"\?(utm_|ref|feed).*")


def normalize_url(url: str) -> str:
    """Removes scheme, ``www.``, a query that begins with ``utm_``, ``ref`` or ``feed``, and trailing slashes.

    Source: ``normalize_url`` of TFDS text/c4_utils.py.
    """
    return _TAIL.sub("", _SCHEME.sub("", url)).rstrip("/")


def url_of(document: Document) -> str:
    """Returns the document's URL; empty when it has none."""
    return str(document.metadata.get("url") or "")


def url_number(document: Document) -> int:
    """Returns the MD5 of the normalized URL (of the id where there is none) as a number. C4 samples pages by it."""
    name = normalize_url(url_of(document)) or document.id
    return int(hashlib.md5(name.encode("utf-8", "surrogatepass")).hexdigest(), 16)


def md5_words(texts: Iterable[str]) -> "np.ndarray":
    """Returns the MD5 of each text as uint64 (n, 2). Rows compare from left to right as the hex digests do."""
    digests = b"".join([hashlib.md5(text.encode("utf-8", "surrogatepass")).digest() for text in texts])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, 2)


@settings
class OnePagePerUrl(GlobalFilter):
    """Keeps one page of each normalized URL: the newest, and of equally new ones the first. Pages without URL are kept.

    Source: ``normalize_url`` and ``select_newest_page`` of TFDS text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Keeps only the newest page of each URL.", "the URL {value} has a newer page"),
    }
    type: Literal["one_page_per_url"] = "one_page_per_url"
    rank_words: ClassVar[int] = DATE_BYTES // 8

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        url = url_of(document)
        keys = md5_words([normalize_url(url)] if url else [])
        date = str(document.metadata.get("date") or "").encode("utf-8", "surrogatepass")[:DATE_BYTES]
        newest_first = ~np.frombuffer(date.ljust(DATE_BYTES, b"\0"), dtype=">u8").astype(np.uint64)
        return keys, newest_first, np.zeros(len(keys), np.uint32)

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        return Drop(self.type, normalize_url(url_of(document))) if len(losers) else None


@filter_settings
class C4Split(Filter):
    """Keeps the pages of one of C4's two splits. The MD5 of the normalized URL puts one page of 1,000 in validation.

    Source: ``_split_generators`` of TFDS text/c4.py, ``get_hashed_url_filter_fn`` of text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Keeps the pages of C4's split {split}.", "the page belongs to the split {value}"),
    }
    type: Literal["c4_split"] = "c4_split"
    split: Literal["train", "validation"] = "train"
    """The split to keep."""

    def judge(self, document: Document) -> Drop | None:
        split = "train" if url_number(document) % 1000 else "validation"
        return None if split == self.split else Drop(self.type, split)
