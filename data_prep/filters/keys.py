"""Which of equal keys stays, for all documents, with memory bounded by one bucket.

    pass k, task t     ──> keys<k>/<t>.npy, bounds           records of shard t, grouped by bucket
    bucket phase, b    ──> losers<k>/<b>.npy, bounds         of bucket b of all shards: who loses, grouped by shard
    pass k+1, task t   <── the slice of shard t in each losers<k>/<b>.npy

A record is one key of one document:

    key uint64 (2,) | rank uint64 (rank_words,) | shard uint32 | document uint32 | part uint32

``document`` numbers the shard's surviving documents; ``part`` is the line or span of the document. Of the records with
equal key, the one of least (rank, shard, document, part) stays.
"""

from pathlib import Path

import numpy as np
from datatrove.data import Document

from data_prep.filters.filter import GlobalFilter
from pipeline.core.artifact import TaskOutput

PLACE = [("shard", "<u4"), ("document", "<u4"), ("part", "<u4")]


def record_dtype(rank_words: int) -> "np.dtype":
    """The record that a global filter's keys are stored as."""
    return np.dtype([("key", "<u8", (2,)), ("rank", "<u8", (rank_words,)), *PLACE])


class KeyWriter:
    """Collects the records of one shard's documents."""

    def __init__(self, rule: GlobalFilter, shard: int) -> None:
        self._rule, self._shard = rule, shard
        self._dtype = record_dtype(rule.rank_words)
        self._records: list[np.ndarray] = []
        self._documents = 0

    def add(self, document: Document) -> None:
        """Take the keys of the shard's next document."""
        keys, rank, parts = self._rule.keys(document)
        records = np.empty(len(keys), self._dtype)
        records["key"], records["rank"], records["part"] = keys, rank, parts
        records["shard"], records["document"] = self._shard, self._documents
        self._records.append(records)
        self._documents += 1

    def save(self, out: TaskOutput, name: str, buckets: int) -> None:
        """Write the records grouped by bucket (stable) and the groups' bounds."""
        records = np.concatenate([np.empty(0, self._dtype), *self._records])
        bucket = records["key"][:, 0] % np.uint64(buckets)
        _save_grouped(out, f"{name}/{self._shard:05d}", records, bucket, buckets)


def decide(out: TaskOutput, name: str, bucket: int, shards: int) -> int:
    """Find the losers among the records of ``bucket`` in all shards, write them grouped by shard; their number."""
    parts = [_load_group(out, f"{name}/{shard:05d}", bucket) for shard in range(shards)]
    records = np.concatenate(parts)
    ranks = [records["rank"][:, word] for word in range(records.dtype["rank"].shape[0])]
    places = [records["shard"], records["document"], records["part"]]
    order = np.lexsort([*reversed(places), *reversed(ranks), records["key"][:, 1], records["key"][:, 0]])
    keys = records["key"][order]
    repeats = np.zeros(len(order), bool)
    repeats[1:] = (keys[1:] == keys[:-1]).all(axis=1)
    losers = np.sort(order[repeats])  # records lie in the order of shard, document, part
    lost = np.empty(len(losers), np.dtype(PLACE))
    for field in ("shard", "document", "part"):
        lost[field] = records[field][losers]
    _save_grouped(out, f"{name}-losers/{bucket:05d}", lost, lost["shard"], shards)
    return len(lost)


class Losers:
    """The losing parts of one shard's documents."""

    def __init__(self, out: TaskOutput, name: str, shard: int, buckets: int) -> None:
        lost = np.concatenate([_load_group(out, f"{name}-losers/{b:05d}", shard) for b in range(buckets)])
        order = np.lexsort((lost["part"], lost["document"]))
        self._documents, self._parts = lost["document"][order], lost["part"][order]

    def of(self, document: int) -> "np.ndarray":
        """The losing parts of the shard's ``document``, uint32, ascending."""
        start, end = np.searchsorted(self._documents, [document, document + 1])
        parts: np.ndarray = self._parts[start:end]
        return parts


def _save_grouped(out: TaskOutput, name: str, records: "np.ndarray", group: "np.ndarray", groups: int) -> None:
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(groups + 1, dtype=group.dtype))
    for suffix, array in (("records", records[order]), ("bounds", bounds.astype(np.uint64))):
        with out.scratch(f"{name}.{suffix}.npy") as path, path.open("wb") as stream:
            np.save(stream, array)


def _load_group(out: TaskOutput, name: str, group: int) -> "np.ndarray":
    bounds = np.load(_path(out, name, "bounds"), mmap_mode="r")
    records = np.load(_path(out, name, "records"), mmap_mode="r")
    return np.array(records[int(bounds[group]) : int(bounds[group + 1])])


def _path(out: TaskOutput, name: str, suffix: str) -> Path:
    return out.scratch_path(f"{name}.{suffix}.npy")
