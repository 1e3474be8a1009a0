"""Chooses near duplicates that the page shows side by side, and counts the sizes of clusters.

duplicates/removed/00007.npy    row, survivor (shard · 2^32 + row), survivor_id, jaccard, exact
clean/documents/00007.jsonl.zst    the texts of both
"""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.samples import CHARACTERS, DOCUMENTS_PER_SHARD, SHARDS, names, shard_of, spread
from headrace.pipeline.report.formatting import visible

MAX_PAIRS = 6

Location = tuple[int, int]
"""(document shard, row)."""


@dataclasses.dataclass(frozen=True)
class NearDuplicate:
    """A removed document and the document that was kept instead; ``jaccard`` compares their shingle sets."""

    jaccard: float
    removed_id: str
    removed_text: str
    survivor_id: str
    survivor_text: str


def sample(clean: Artifact, duplicates: Artifact) -> list[NearDuplicate]:
    """Returns up to ``MAX_PAIRS`` near duplicates from a few shards, the most similar first."""
    by_similarity = {round(candidate[0], 2): candidate for candidate in sorted(_candidates(duplicates), reverse=True)}
    chosen = sorted(spread(sorted(by_similarity.values()), MAX_PAIRS), reverse=True)
    texts = _documents(clean, [location for _, removed, survivor in chosen for location in (removed, survivor)])
    return [
        NearDuplicate(
            jaccard,
            visible(texts[removed].id, CHARACTERS),
            visible(texts[removed].text, CHARACTERS),
            visible(texts[survivor].id, CHARACTERS),
            visible(texts[survivor].text, CHARACTERS),
        )
        for jaccard, removed, survivor in chosen
        if removed in texts and survivor in texts
    ]


def cluster_sizes(duplicates: Artifact) -> list[tuple[str, int]]:
    """Returns the number of clusters by size: ``("2", n), ("3–4", n), ("5–8", n), …``. Kept documents count, too."""
    removed: Counter[int] = Counter()
    for name in names(duplicates, "removed"):
        survivors, numbers = np.unique(np.load(duplicates.path(name))["survivor"], return_counts=True)
        removed.update(dict(zip(survivors.tolist(), numbers.tolist(), strict=True)))
    by_power = Counter(n.bit_length() for n in removed.values())
    last = max(by_power, default=0)
    return [(_sizes(power), by_power[power]) for power in range(1, last + 1)]


def _sizes(power: int) -> str:
    low, high = (1 << (power - 1)) + 1, 1 << power
    return f"{low}–{high}" if high > low else str(low)


def _candidates(duplicates: Artifact) -> Iterable[tuple[float, Location, Location]]:
    """Yields (jaccard, removed, survivor) of near duplicates near the beginnings of their shards."""
    for name in spread(names(duplicates, "removed"), SHARDS):
        table: Any = np.load(duplicates.path(name))
        near = table[~table["exact"] & (table["row"] < DOCUMENTS_PER_SHARD)]
        for row, survivor, jaccard in zip(*(near[key].tolist() for key in ("row", "survivor", "jaccard")), strict=True):
            shard, survivor_row = divmod(survivor, 1 << 32)
            if shard < duplicates.shard_count and survivor_row < DOCUMENTS_PER_SHARD:
                yield jaccard, (shard_of(name), row), (shard, survivor_row)


def _documents(clean: Artifact, locations: Iterable[Location]) -> dict[Location, Document]:
    """Returns the documents at ``locations``; reads each shard once, and only as far as needed."""
    rows: dict[int, set[int]] = defaultdict(set)
    for shard, row in locations:
        rows[shard].add(row)
    by_location = {}
    for shard, wanted in sorted(rows.items()):
        documents = read_documents(clean.shard("documents", shard, "jsonl.zst"))
        for row, document in enumerate(itertools.islice(documents, max(wanted) + 1)):
            if row in wanted:
                by_location[shard, row] = document
    return by_location
