"""Decides for a global filter which documents keep an equal key, with memory bounded by the settings.

    pass k, task t     ──> keys/<t>.records, .slices      records of shard t, grouped by bucket
    bucket phase, b    ──> losers/<b>.records, .slices    losers of bucket b over all shards, grouped by shard
    pass k+1, task t   <── the slice of shard t in each losers/<b>.records

A record is one key of one document:

    key uint64 (2,) | rank uint64 (rank_words,) | shard uint32 | document uint32 | part uint32

``document`` is the index of the document among the shard's remaining documents. ``part`` is its line or span. Of the
records with equal key, the one with the lowest (rank, shard, document, part) wins. The records of a bucket are sorted,
so it is the first record of its key. No step holds more than ``memory_bytes`` of records, even if many documents have
the same key: larger buckets are sorted on disk (shuffle.external_sort).
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from datatrove.data import Document

from headrace.data_prep.filters.filter import GlobalFilter
from headrace.data_prep.shuffle.exchange import Sender, bucket_of, receive_blocks, sorting_folder
from headrace.data_prep.shuffle.external_sort import external_sort
from headrace.data_prep.shuffle.records import run_bounds, run_starts, stable_order, whole_runs
from headrace.pipeline.core.artifact import TaskOutput

LOSER = np.dtype([("shard", "<u4"), ("document", "<u4"), ("part", "<u4")])
"""A part of a document that loses."""

KEYS, LOSERS = "keys", "losers"
"""The kinds of scratch files."""

ORDER = ("key", "rank", "shard", "document", "part")
"""The order of records."""
NO_PARTS = np.empty(0, np.uint32)
END = 1 << 32
"""Above the index of every document."""


def record_dtype(rank_words: int) -> "np.dtype":
    """Returns the type of a record of one key."""
    return np.dtype([("key", "<u8", (2,)), ("rank", "<u8", (rank_words,)), *LOSER.descr])


class KeyWriter:
    """Context manager that writes the keys of one shard's documents for ``decide``."""

    def __init__(self, rule: GlobalFilter, out: TaskOutput, buckets: int, memory_bytes: int) -> None:
        self._rule, self._shard, self._buckets = rule, out.task, buckets
        self._sender = Sender(out, KEYS, record_dtype(rule.rank_words), memory_bytes)
        self._documents = 0

    def __enter__(self) -> "KeyWriter":
        self._sender.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._sender.__exit__(*error)

    def add(self, document: Document) -> None:
        """Writes the keys of the shard's next document."""
        records = key_records(self._rule, document, self._shard, self._documents)
        self._sender.add(records, bucket_of(records["key"][:, 0], self._buckets))
        self._documents += 1


def key_records(rule: GlobalFilter, document: Document, shard: int, number: int) -> "np.ndarray":
    """Returns the records of the keys of ``document``, which has this ``number`` in its ``shard``."""
    keys, rank, parts = rule.keys(document)
    records = np.empty(len(keys), record_dtype(rule.rank_words))
    records["key"], records["rank"], records["part"] = keys, rank, parts
    records["shard"], records["document"] = shard, number
    return records


def losing_parts(rule: GlobalFilter, documents: Mapping[int, Document]) -> "dict[int, np.ndarray]":
    """Returns the losing parts (uint32, ascending) among ``documents`` that memory holds, by the number of each."""
    records = [key_records(rule, document, 0, number) for number, document in documents.items()]
    keys = np.concatenate([np.empty(0, record_dtype(rule.rank_words)), *records])
    keys = keys[stable_order(keys, ORDER)]
    losers = keys[~run_starts(keys, ("key",))]
    losers = losers[stable_order(losers, ("document", "part"))]
    return dict(_by_document([losers] if losers.size else []))


def decide(rule: GlobalFilter, out: TaskOutput, phase: str, shards: int, memory_bytes: int) -> int:
    """Finds the losers in this task's bucket over all shards, writes them for ``Losers`` and returns their number.

    The keys are those that ``phase`` wrote. Half of the memory sorts the records, the other half the losers.
    """
    dtype, lost = record_dtype(rule.rank_words), 0
    records = receive_blocks(out, f"{phase}/{KEYS}", shards, out.task)
    with Sender(out, LOSERS, LOSER, memory_bytes // 2) as sender:
        last = np.empty(0, dtype)
        for block in external_sort(records, dtype, ORDER, memory_bytes // 2, sorting_folder(out)):
            first = run_starts(block, ("key",))
            first[0] = not last.size or (last["key"] != block["key"][:1]).any()
            last = block[-1:].copy()
            losers = block[~first]
            lost += losers.size
            sender.add(losers[["shard", "document", "part"]], losers["shard"])
    return lost


class Losers:
    """Reads the losing parts of one shard's documents, in ascending order of the documents."""

    def __init__(self, out: TaskOutput, phase: str, buckets: int, memory_bytes: int) -> None:
        """Reads the losers that the bucket phase ``phase`` wrote."""
        records = receive_blocks(out, f"{phase}/{LOSERS}", buckets, out.task)
        by = ("document", "part")
        self._sorted = external_sort(records, LOSER, by, memory_bytes, sorting_folder(out))
        self._rest = _by_document(self._sorted)
        self._next = next(self._rest, (END, NO_PARTS))

    def of(self, document: int) -> "np.ndarray":
        """Returns the losing parts of ``document``, uint32, ascending. Calls must have ascending documents."""
        while self._next[0] < document:
            self._next = next(self._rest, (END, NO_PARTS))
        return self._next[1] if self._next[0] == document else NO_PARTS

    def __enter__(self) -> "Losers":
        return self

    def __exit__(self, *error: object) -> None:
        self._sorted.close()


def _by_document(blocks: "Iterable[np.ndarray]") -> "Iterator[tuple[int, np.ndarray]]":
    """Yields each document of the sorted records, with its parts."""
    for block in whole_runs(blocks, ("document",)):
        documents, parts = block["document"], np.ascontiguousarray(block["part"])
        for start, end in itertools.pairwise(run_bounds(documents).tolist()):
            yield int(documents[start]), parts[start:end]
