"""Overlaps: which benchmark item shares which words with which document.

    overlaps/00007.jsonl.zst    {"item": "lambada/lambada_openai.jsonl.zst:17", "document": "crawl.warc.gz:3",
                                 "found": 61, "ngrams": 61, "words": "in my palm is a clear stone …",
                                 "action": "kept" | "dropped" | "masked"}

``found`` of the item's ``ngrams`` occur in the document: all of them where it holds the whole item, one or two where
both quote the same phrase. ``words`` are the first that both have.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.search import Hits
from headrace.data_prep.document import LEVEL, read_lines
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.handover import handed

Action = Literal["kept", "dropped", "masked"]
"""What became of the document."""


@dataclasses.dataclass(frozen=True)
class Overlap:
    """An item and a document that share an n-gram."""

    item: str
    document: str
    found: int
    ngrams: int
    words: str
    action: Action


def items_in(hits: Hits, ngrams: NGrams) -> dict[int, list[int]]:
    """The items that ``hits`` belong to, in order, each with those of its n-grams that were hit."""
    found: dict[int, list[int]] = {}
    for number in dict.fromkeys(hits[:, 1].tolist()):
        for item in ngrams.items_of(number):
            found.setdefault(item, []).append(number)
    return dict(sorted(found.items()))


def overlaps(found: Mapping[int, Sequence[int]], ngrams: NGrams, document: str, action: Action) -> list[Overlap]:
    """What ``items_in`` found in the document with the id ``document``."""
    return [
        Overlap(
            item=ngrams.name(item),
            document=document,
            found=len(numbers),
            ngrams=int(ngrams.sizes[item]),
            words=ngrams.ngram(numbers[0]).decode("utf-8", "replace"),
            action=action,
        )
        for item, numbers in found.items()
    ]


def write_overlaps(path: Path, found: Iterable[Overlap]) -> None:
    lines = b"".join(orjson.dumps(overlap, option=orjson.OPT_APPEND_NEWLINE) for overlap in found)
    path.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(lines))


def read_overlaps(path: Path) -> Iterator[Overlap]:
    """The overlaps of one shard, in the order of its documents."""
    return (Overlap(**orjson.loads(line)) for line in read_lines(path))


def save_tally(out: TaskOutput, kind: str, numbers: Sequence[int]) -> None:
    """Hand on how often each number occurs in ``numbers``, as this task's part of a tally."""
    with out.scratch(kind, "npy") as path:
        save_array(path, np.array(np.unique(np.array(numbers, dtype=np.int64), return_counts=True)))


def sum_tallies(out: TaskOutput, source: str, tasks: int, size: int) -> NDArray[np.int64]:
    """(size,): how often each number below ``size`` occurs in what all ``tasks`` handed on as ``<phase>/<kind>``."""
    total = np.zeros(size, dtype=np.int64)
    for task in range(tasks):
        numbers, times = np.load(handed(out, source, task, "npy"))
        total[numbers] += times
    return total
