"""Overlaps: benchmark items and documents that share n-grams.

    overlaps/00007.jsonl.zst    {"item": "lambada/lambada_openai.jsonl.zst:17", "document": "crawl.warc.gz:3",
                                 "found": 61, "ngrams": 61, "words": "in my palm is a clear stone …",
                                 "action": "kept" | "dropped" | "masked"}

``found`` is how many of the item's ``ngrams`` occur in the document: all of them if it holds the whole item, one or two
if both quote the same phrase. ``words`` is the first n-gram found.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.search import Hits
from headrace.data_prep.document import DOCUMENTS
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import TaskOutput, handed
from headrace.pipeline.core.text_files import created, read_lines

Action = Literal["kept", "dropped", "masked"]
"""The action on the document."""


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
    """Returns the items with n-grams in ``hits``, in order, each with the indices of these n-grams."""
    ngrams_of_items: dict[int, list[int]] = {}
    for ngram in dict.fromkeys(hits[:, 1].tolist()):
        for item in ngrams.items_of(ngram):
            ngrams_of_items.setdefault(item, []).append(ngram)
    return dict(sorted(ngrams_of_items.items()))


def overlaps(
    ngrams_of_items: Mapping[int, Sequence[int]], ngrams: NGrams, document: str, action: Action
) -> list[Overlap]:
    """Returns the overlaps of a document, from the result of ``items_in``; ``document`` is its id."""
    return [
        Overlap(
            item=ngrams.name(item),
            document=document,
            found=len(indices),
            ngrams=int(ngrams.sizes[item]),
            words=ngrams.ngram(indices[0]).decode("utf-8", "replace"),
            action=action,
        )
        for item, indices in ngrams_of_items.items()
    ]


def write_overlaps(path: Path, overlaps: Iterable[Overlap]) -> None:
    """Writes the overlaps of one shard."""
    lines = b"".join(orjson.dumps(overlap, option=orjson.OPT_APPEND_NEWLINE) for overlap in overlaps)
    with created(path, DOCUMENTS, size=len(lines)) as file:
        file.write(lines)


def read_overlaps(path: Path) -> Iterator[Overlap]:
    """Reads the overlaps of one shard, in the order of its documents."""
    return (Overlap(**orjson.loads(line)) for line in read_lines(path))


def save_tally(out: TaskOutput, kind: str, numbers: Sequence[int]) -> None:
    """Writes how often each value occurs in ``numbers``, as this task's part of a tally."""
    with out.scratch(kind, "npy") as path:
        save_array(path, np.array(np.unique(np.array(numbers, dtype=np.int64), return_counts=True)))


def sum_tallies(out: TaskOutput, source: str, tasks: int, size: int) -> NDArray[np.int64]:
    """Sums the tallies ``<phase>/<kind>`` of all ``tasks``: (size,), how often each value below ``size`` occurs."""
    total = np.zeros(size, dtype=np.int64)
    for task in range(tasks):
        numbers, times = np.load(handed(out, source, task, "npy"))
        total[numbers] += times
    return total
