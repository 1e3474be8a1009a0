"""The stage ``clean``: passes documents of ``texts`` through an ordered list of filters and keeps those worth keeping.

    filters:   page_length   ONE_PAGE_PER_URL   c4_lines   UNIQUE_LINES   language   bad_words
    phases:   └─ 0-filter ─┘└─ 1-one_page… ──┘└ 2-filter ┘└ 3-unique… ─┘└───── 4-filter ─────┘
    tasks:     shards          buckets          shards      buckets       shards

A global filter (in capitals) must see all documents, so it ends a pass. The pass writes the documents that remain and
their keys to scratch, a bucket phase decides which keys lose (filters/keys.py), and the next pass removes these and
continues. A page that takes more CPU time than any real page (filters/guards.py) is dropped as ``too_slow``, and one
at which a class of the user fails (likewise) as ``failed``:

    documents/00007.jsonl.zst   kept; metadata: language, language_score, removed_lines, ... as the filters set them
    dropped/00007.jsonl.zst     dropped by any pass, in the order of passes; metadata.drop = {"rule", "value"}

Counts: documents_in, kept, characters_kept, bytes_kept, dropped:<rule>, failed:<class>:<error>, hard_wrapped:<rule>
(documents whose lines the rule removed in the middle of sentences), foreign:<rule>:<language> and
routed:<language and script>:<rule or kept> (filters/language/language_codes.py); and for kept documents joined_lines,
removed_lines:<rule>, removed_sentences:<rule>, masked:<kind>, language:<code>, length:<n> (n ≤ characters < 2n, n a
power of two).
"""

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.classifier import Classifier, ClassifierTraining
from headrace.data_prep.document import DOCUMENTS, FAST_LEVEL, DocumentWriter, Drop, read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.filter import HARD_WRAPPED, Filter, GlobalFilter, PageFailedError, removed_parts
from headrace.data_prep.filters.guards import (
    CpuLimit,
    TooSlow,
    count_failure,
    refuse_failed_classes,
    refuse_failed_shard,
)
from headrace.data_prep.filters.keys import NO_PARTS, KeyWriter, Losers, decide, losing_parts
from headrace.data_prep.filters.language.language_codes import foreign_counts, language_named, routed_count
from headrace.pipeline.core.artifact import Balance, TaskOutput, handed
from headrace.pipeline.core.compression import LEVEL
from headrace.pipeline.core.settings import Buckets, settings, unhashed
from headrace.pipeline.core.stage import DocumentCounts, Inputs, Phase, RawFile, Stage, counted

NO_KEYS = contextlib.nullcontext()
"""The context of a pass without losers or keys of a global filter."""
ATTEMPTS = 2
"""Attempts at a page that reaches the CPU limit. Filters load lists and models at the first page that needs them."""


@settings
class Cleaning:
    """The settings of cleaning."""

    filters: tuple[AnyFilter, ...]
    """The filters, in order. An empty list keeps all documents."""
    buckets: Buckets = unhashed(16)
    """Number of tasks that share the decision of a global filter. ``dedup.memory_gb`` bounds the memory of each."""

    def ready(self, inputs: Inputs) -> "tuple[Filter | GlobalFilter, ...]":
        """Returns the filters with what they read of the artifacts ``inputs`` of their run."""
        return tuple(rule.ready(inputs) for rule in self.filters)


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

    def judge(self, document: Document, lost: NDArray[np.uint32]) -> Drop | None:
        """Removes the parts ``lost`` from ``document``, applies the filters, and returns the reason to drop it."""
        if self.opening is not None and (drop := self.opening.trim(document, lost)):
            return drop
        return next((drop for rule in self.filters if (drop := rule.judge(document))), None)

    def judge_in_time(
        self, document: Document, lost: NDArray[np.uint32], limit: CpuLimit, counts: "Counter[str]"
    ) -> Drop | None:
        """Judges ``document``; one that exceeds ``limit`` on all ATTEMPTS is dropped as too slow.

        One at which a class of the user fails is counted in ``counts``. Of both kinds the document is as it was.
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
            except (TooSlow, PageFailedError) as failure:
                limit.cancel()
                document.text, document.metadata = text, metadata
                if isinstance(failure, PageFailedError):
                    count_failure(failure, counts)
                    return failure.drop
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
    drops, limit, lost = list[Drop | None]([None] * len(documents)), CpuLimit(), dict[int, "NDArray[np.uint32]"]()
    left = dict(enumerate(documents))
    for pass_ in split_passes(filters):
        for number, document in left.items():
            drops[number] = pass_.judge_in_time(document, lost.get(number, NO_PARTS), limit, Counter())
        left = {number: document for number, document in left.items() if drops[number] is None}
        lost = losing_parts(pass_.closing, left) if pass_.closing else {}
    return drops


@settings
class Clean(Stage):
    """Keeps the documents that pass all filters."""

    name: ClassVar[str] = "clean"
    version: ClassVar[int] = 8
    headline: ClassVar[tuple[str, ...]] = ("documents_in", "kept")
    card_counts: ClassVar[Mapping[str, str]] = {"kept": "documents kept by cleaning"}
    describes_documents: ClassVar[bool] = True
    document_counts: ClassVar[DocumentCounts | None] = DocumentCounts(
        read="documents_in",
        unit="documents",
        text_bytes="bytes_kept",
        dropped_title="dropped",
        kept_title="kept by cleaning",
        kept_short="kept by clean",
    )
    cleaning: Cleaning
    """The filters."""
    memory_bytes: int = unhashed(2 * 10**9)
    """Memory of a task for the keys of global filters. More keys spill to disk."""

    @staticmethod
    def with_classifier(training: ClassifierTraining, cleaning: Cleaning, memory_bytes: int) -> tuple[Stage, ...]:
        """Returns the stage that trains a classifier, if there are examples, and that of ``cleaning``."""
        classifier = (Classifier(settings=training),) if training.examples else ()
        return (*classifier, Clean(cleaning=cleaning, memory_bytes=memory_bytes))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("texts", *dict.fromkeys(name for rule in self.cleaning.filters for name in rule.inputs))

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(file for rule in self.cleaning.filters for file in rule.raw_files())

    def check_start(self) -> None:
        """Refuses classes of the user that fail."""
        for rule in self.cleaning.filters:
            rule.check()

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        tasks, buckets = shards["texts"], self.cleaning.buckets
        phases = list[Phase]()
        for number, pass_ in enumerate(split_passes(self.cleaning.filters)):
            phases.append(Phase(filter_phase(number), tasks, functools.partial(self._filter, number)))
            if pass_.closing is not None:
                run = functools.partial(self._decide, number, pass_.closing, tasks)
                phases.append(Phase(bucket_phase(number, pass_.closing), buckets, run))
        return tuple(phases)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        refuse_failed_classes(counts, [rule.base_reason for rule in self.cleaning.filters], self.name)
        kept, dropped = counts["kept"], counted(counts, "dropped:")
        yield "documents_in = kept of texts", counts["documents_in"], inputs["texts"].counts["kept"]
        yield "documents_in = kept + dropped", counts["documents_in"], kept + dropped
        yield "kept = documents of all lengths", kept, counted(counts, "length:")
        yield "kept = documents of all languages", kept, counted(counts, "language:")

    def _filter(self, number: int, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Runs pass ``number`` over shard ``task``."""
        passes = split_passes(self.cleaning.ready(inputs))
        pass_, last = passes[number], number == len(passes) - 1
        buckets, memory_bytes = self.cleaning.buckets, self.memory_bytes // 2
        decided = bucket_phase(number - 1, pass_.opening) if pass_.opening else ""
        lost = Losers(out, decided, buckets, memory_bytes) if pass_.opening else NO_KEYS
        keys = KeyWriter(pass_.closing, out, buckets, memory_bytes) if pass_.closing else NO_KEYS
        counts: Counter[str] = Counter()
        level = LEVEL if last else FAST_LEVEL
        with (
            out.shard("documents", DOCUMENTS) if last else out.scratch("survivors", DOCUMENTS) as kept_path,
            out.shard("dropped", DOCUMENTS) if last else out.scratch("dropped", DOCUMENTS) as dropped_path,
            DocumentWriter(kept_path, level) as kept,
            DocumentWriter(dropped_path, level) as dropped,
            lost as losers,
            keys as writer,
            CpuLimit() as limit,
        ):
            if last:
                for earlier in range(number):
                    dropped.copy_from(handed(out, f"{filter_phase(earlier)}/dropped", task, DOCUMENTS))
            index = -1
            for index, document in enumerate(read_documents(_input(number, task, inputs, out))):
                if number == 0:
                    counts["documents_in"] += 1
                before = language_named(document)
                parts = NO_PARTS if losers is None else losers.of(index)
                drop = pass_.judge_in_time(document, parts, limit, counts)
                counts.update(foreign_counts(pass_.judges, document, before, drop))
                if drop is not None or last:
                    counts.update(filter(None, [routed_count(document, drop)]))
                    counts.update(f"{HARD_WRAPPED}:{rule}" for rule in document.metadata.get(HARD_WRAPPED, ()))
                if drop is not None:
                    counts[f"dropped:{drop.rule}"] += 1
                    document.metadata["drop"] = {"rule": drop.rule, "value": drop.value}
                    dropped.write(document)
                    continue
                kept.write(document)
                if writer is not None:
                    writer.add(document)
                if last:
                    count_kept(document, counts)
        refuse_failed_shard(counts, index + 1, f"{self.name} task {task}")
        return counts

    def _decide(
        self, number: int, closing: GlobalFilter, shards: int, bucket: int, inputs: Inputs, out: TaskOutput
    ) -> "Counter[str]":
        """Runs the bucket phase after pass ``number``."""
        decide(closing, out, filter_phase(number), shards, self.memory_bytes)
        return Counter()


def _input(number: int, task: int, inputs: Inputs, out: TaskOutput) -> Path:
    """Returns the shard that pass ``number`` reads: one of ``texts``, or the documents that the previous pass kept."""
    if number == 0:
        return inputs["texts"].shard("documents", task, DOCUMENTS)
    return handed(out, f"{filter_phase(number - 1)}/survivors", task, DOCUMENTS)


def filter_phase(number: int) -> str:
    """Returns the name of the phase of pass ``number``."""
    return f"{2 * number}-filter"


def bucket_phase(number: int, closing: GlobalFilter) -> str:
    """Returns the name of the phase that decides for ``closing``, after pass ``number``."""
    return f"{2 * number + 1}-{closing.type}"  # type: ignore[attr-defined]


def count_kept(document: Document, counts: "Counter[str]") -> None:
    """Counts a kept document."""
    characters = len(document.text)
    counts["kept"] += 1
    counts["characters_kept"] += characters
    counts["bytes_kept"] += len(document.text.encode("utf-8"))
    counts[f"length:{1 << characters.bit_length() >> 1}"] += 1
    counts[f"language:{document.metadata.get('language') or 'unknown'}"] += 1
    for unit, rule, number in removed_parts(document):
        counts[f"removed_{unit}:{rule}"] += number
    if joined := document.metadata.get("joined_lines", 0):
        counts["joined_lines"] += joined
    for kind, number in document.metadata.get("masked_pii", {}).items():
        counts[f"masked:{kind}"] += number
