"""The pages that keep what a filter over all documents took from another page: equal lines, equal spans, or its URL.

second.jsonl:5, dropped by unique_lines.empty ── keepers ──> first.jsonl:12 has 4 of its lines

Cleaning decides by keys (filters/keys.py) and stores no winner. So all documents of ``clean`` are read once, and the
one that wins each key is found again: it passed the filter, else it has the lowest rank of those that the filter
dropped. A page whose text a later filter changed may not be found.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.filter import GlobalFilter, is_within
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.lookup import KINDS, rule_of
from headrace.pipeline.documents.samples import names

UNCERTAIN = "too_slow"
"""A reason that does not tell which filters a page had passed."""

Key = tuple[int, ...]
Priority = tuple[bool, Sequence[int]]
"""(whether the filter dropped the page, its rank). The page of the smallest one wins a key."""


@dataclasses.dataclass(frozen=True)
class Keeper:
    """A page, and the number of parts that it keeps of another page's ``of`` parts."""

    document: Document
    parts: int
    of: int


def keepers(clean: Artifact, filters: Sequence[AnyFilter], dropped: Document) -> list[Keeper]:
    """Returns the pages that keep parts of the ``dropped`` page of ``clean``, those with most parts first.

    None if no filter that compares all documents dropped it.
    """
    rule = rule_of(dropped)
    comparing = [(number, judge) for number, judge in enumerate(filters) if isinstance(judge, GlobalFilter)]
    deciding = next(((number, judge) for number, judge in comparing if is_within(judge.base_reason, rule)), None)
    if deciding is None:
        return []
    number, judge = deciding
    keys = _keys(judge, dropped)
    first_words = np.array([key[0] for key in keys], dtype=np.uint64)
    winners: dict[Key, tuple[Priority, Document]] = {}
    for document in _compared(clean, filters[:number]):
        words, rank, _ = judge.keys(document)
        for key in map(tuple, words[np.isin(words[:, 0], first_words)].tolist()):
            priority = (is_within(judge.base_reason, rule_of(document)), rank.tolist())
            if key in keys and (key not in winners or priority < winners[key][0]):
                winners[key] = (priority, document)
    by_id: dict[str, list[Document]] = {}
    for _, winner in winners.values():
        by_id.setdefault(winner.id, []).append(winner)
    by_id.pop(dropped.id, None)  # of some lines it has the first copy itself
    pages = [Keeper(winner[0], len(winner), len(keys)) for winner in by_id.values()]
    return sorted(pages, key=lambda keeper: -keeper.parts)


def _keys(judge: GlobalFilter, document: Document) -> set[Key]:
    return set(map(tuple, judge.keys(document)[0].tolist()))


def _compared(clean: Artifact, earlier: Sequence[AnyFilter]) -> Iterator[Document]:
    """Yields the documents that no filter of ``earlier`` dropped, kept ones first."""
    for kind in KINDS:
        for name in names(clean, kind):
            for document in read_documents(clean.path(name)):
                rule = rule_of(document)
                if rule != UNCERTAIN and not any(is_within(before.base_reason, rule) for before in earlier):
                    yield document
