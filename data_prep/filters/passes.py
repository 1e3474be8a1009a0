"""Passes: the filters between two global ones, which must see all documents.

    page_length   ONE_PAGE_PER_URL   c4_lines   UNIQUE_LINES   language   bad_words
    └─ pass 0 ──────────────────┘└─ pass 1 ──────────────┘└─ pass 2 ──────────────┘

The stage ``clean`` has a phase for each; ``judge_together`` takes documents that memory holds.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, GlobalFilter, PageFailedError
from headrace.data_prep.filters.guards import CpuLimit, TooSlow
from headrace.data_prep.filters.keys import NO_PARTS, losing_parts

ATTEMPTS = 2
"""Attempts at a page that reaches the CPU limit. Filters load lists and models at the first page that needs them."""


@dataclasses.dataclass(frozen=True)
class Pass:
    """The filters between two global ones: trims by ``opening``, judges by ``filters``, writes keys of ``closing``."""

    opening: GlobalFilter | None
    filters: tuple[Filter, ...]
    closing: GlobalFilter | None

    @property
    def judges(self) -> "tuple[Filter | GlobalFilter, ...]":
        """The filters that judge documents, in order."""
        return (() if self.opening is None else (self.opening,)) + self.filters

    def judge(self, document: Document, lost: "NDArray[np.uint32] | None") -> Drop | None:
        """Removes the parts ``lost`` from ``document``, applies the filters, and returns the reason to drop it."""
        if self.opening is not None and lost is not None:
            drop = self.opening.trim(document, lost)
            if drop is not None:
                return drop
        return next((drop for rule in self.filters if (drop := rule.judge(document))), None)

    def judge_in_time(self, document: Document, lost: "NDArray[np.uint32] | None", limit: CpuLimit) -> Drop | None:
        """Judges ``document``; one that exceeds ``limit`` on all ATTEMPTS is dropped as too slow.

        Raises:
            PageFailedError: when a class of the user fails. The document is as it was.
        """
        text, metadata = document.text, document.metadata
        for _ in range(ATTEMPTS):
            document.metadata = {
                key: dict(value) if isinstance(value, dict) else value for key, value in metadata.items()
            }
            limit.start(len(text))
            try:
                drop = self.judge(document, lost)
                limit.stop()
            except TooSlow:
                limit.cancel()
                document.text, document.metadata = text, metadata
            except PageFailedError:
                limit.cancel()
                document.text, document.metadata = text, metadata
                raise
            else:
                return drop
        return Drop("too_slow", limit.reached)


def split_passes(filters: tuple[Filter | GlobalFilter, ...]) -> list[Pass]:
    """Splits ``filters`` at the global ones, which close one pass and open the next."""
    passes: list[Pass] = []
    opening: GlobalFilter | None = None
    run: list[Filter] = []
    for rule in filters:
        if isinstance(rule, GlobalFilter):
            passes.append(Pass(opening=opening, filters=tuple(run), closing=rule))
            opening, run = rule, []
        else:
            run.append(rule)
    return [*passes, Pass(opening=opening, filters=tuple(run), closing=None)]


def judge_together(filters: tuple[Filter | GlobalFilter, ...], documents: Sequence[Document]) -> list[Drop | None]:
    """Applies ``filters`` to ``documents``, which it changes, and returns the reason to drop each, or None.

    Global filters compare these documents. No signal interrupts a page: its time is measured when it is done.
    """
    drops: list[Drop | None] = [None] * len(documents)
    left, limit, lost = [*range(len(documents))], CpuLimit(), dict[int, "NDArray[np.uint32]"]()
    for pass_ in split_passes(filters):
        for index in left:
            try:
                parts = lost.get(index, NO_PARTS) if pass_.opening else None
                drops[index] = pass_.judge_in_time(documents[index], parts, limit)
            except PageFailedError as failure:
                drops[index] = failure.drop
        left = [index for index in left if drops[index] is None]
        if pass_.closing is not None:
            parts_lost = losing_parts(pass_.closing, [documents[index] for index in left])
            lost = {left[number]: parts for number, parts in parts_lost.items()}
    return drops
