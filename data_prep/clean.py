"""The stage ``clean``: raw records through an ordered list of filters to documents worth keeping.

    filters:   page_length   ONE_PAGE_PER_URL   c4_lines   UNIQUE_LINES   language   bad_words
    phases:   └─ 0-filter ─┘└─ 1-one_page… ──┘└ 2-filter ┘└ 3-unique… ─┘└───── 4-filter ─────┘
    tasks:     source groups   buckets          groups      buckets       groups

Where large files are read in sections, a phase ``records`` before them counts what each section holds, so that all
know the number of their first record, and verifies each file once.

A global filter (capitals) must see every document, so it ends a pass: the pass leaves the surviving documents and
their keys in scratch, a bucket phase decides the losers (filters/keys.py), the next pass removes them and goes on.
A page that takes more CPU time than any real one (filters/cpu_limit.py) is dropped as ``too_slow``. The result:

    documents/00007.jsonl.zst   kept; metadata: language, language_score, removed_lines, ... as the filters leave them
    dropped/00007.jsonl.zst     dropped by any pass, in the order of passes; metadata.drop = {"rule", "value"}

Counts: records_in, characters_in, bytes_in, kept, characters_kept, bytes_kept, dropped:<rule>, and of kept documents
removed_lines:<rule>, removed_sentences:<rule>, masked:<kind>, language:<code>, length:<n> (n ≤ characters < 2n, n a
power of two).
"""

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from datatrove.data import Document
from numpy.typing import NDArray

from headrace.data_prep.document import LEVEL, SCRATCH_LEVEL, DocumentWriter, Drop, read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.cpu_limit import CpuLimit, TooSlow
from headrace.data_prep.filters.filter import Filter, GlobalFilter
from headrace.data_prep.filters.keys import KeyWriter, Losers, decide
from headrace.data_prep.sources import AnySource
from headrace.data_prep.sources.source import Record, Section
from headrace.pipeline.core.artifact import Balance, TaskOutput, read_json, write_json
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.handover import handed
from headrace.pipeline.core.settings import Buckets, settings, unhashed
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, counted, refuse_changes

DOCUMENTS = "jsonl.zst"
"""The suffix of shards of documents."""
RECORDS = "records"
"""The phase that counts the records of sections."""
NOTHING = contextlib.nullcontext()
"""In place of what a pass without a global filter does not need."""
ATTEMPTS = 2
"""How often a page may reach the limit on CPU time: filters load lists and models at the first page that needs them."""


@settings
class Cleaning:
    """What cleaning does, in order."""

    filters: tuple[AnyFilter, ...]
    """The filters, first to last; an empty list keeps everything that could be read."""
    buckets: Buckets = unhashed(16)
    """How many tasks a global filter's decision is split into; ``dedup.memory_gb`` bounds what each holds."""


@dataclasses.dataclass(frozen=True)
class Pass:
    """The filters between two global ones: trim by ``opening``, judge by ``filters``, write the keys of ``closing``."""

    opening: GlobalFilter | None
    filters: tuple[Filter, ...]
    closing: GlobalFilter | None

    def judge(self, document: Document, lost: "NDArray[np.uint32] | None") -> Drop | None:
        """Why ``document``, which loses the parts ``lost``, is dropped, or None."""
        if self.opening is not None and lost is not None:
            drop = self.opening.trim(document, lost)
            if drop is not None:
                return drop
        return next((drop for rule in self.filters if (drop := rule.judge(document))), None)

    def judge_in_time(self, document: Document, losers: Losers | None, number: int, limit: CpuLimit) -> Drop | None:
        """``judge`` the shard's document ``number``; or ``too_slow`` for one that is over ``limit`` twice: the first
        also pays for loading."""
        lost = None if losers is None else losers.of(number)  # reading them is not the document's cost
        text, metadata = document.text, document.metadata
        for _ in range(ATTEMPTS):
            document.metadata = {key: dict(one) if isinstance(one, dict) else one for key, one in metadata.items()}
            limit.start(len(text))
            try:
                drop = self.judge(document, lost)
                limit.stop()
            except TooSlow:
                limit.cancel()
                document.text, document.metadata = text, metadata
            else:
                return drop
        return Drop("too_slow", limit.reached)


def split_passes(filters: tuple[Filter | GlobalFilter, ...]) -> list[Pass]:
    """``filters`` cut at the global ones, which close one pass and open the next."""
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


@settings
class Clean(Stage):
    """Reads the source's records and keeps the documents that get through the filters."""

    name: ClassVar[str] = "clean"
    version: ClassVar[int] = 4
    source: AnySource
    """Where the records come from."""
    cleaning: Cleaning
    """Which of them stay."""
    memory_bytes: int = unhashed(2 * 10**9)
    """What a task may hold of the keys of global filters; the rest spills."""

    def raw_files(self) -> tuple[RawFile, ...]:
        return (*self.source.files(), *self._own_files())

    def _own_files(self) -> tuple[RawFile, ...]:
        """The files of filters."""
        return tuple(file for rule in self.cleaning.filters for file in rule.raw_files())

    def check_raw_files(self) -> None:
        """Compare the files of filters. A file of the source is compared by the task that reads it."""
        if self.planned:
            refuse_changes(self.planned[len(self._source_files) :], self._own_files())

    @functools.cached_property
    def _source_files(self) -> tuple[RawFile, ...]:
        """The planned files of the source, which come before those of filters."""
        if self.planned is None:
            return self.source.files()
        return self.planned[: len(self.planned) - len(self._own_files())]

    @functools.cached_property
    def _source_file(self) -> Mapping[str, RawFile]:
        """The planned files of the source by name."""
        return {file.name: file for file in self._source_files}

    @functools.cached_property
    def _groups(self) -> list[Sequence[Section]]:
        """The sections of each task: by the list of files of the plan, as the folder may have changed since."""
        return self.source.groups(self._source_files)

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        groups = self._groups
        tasks, buckets = len(groups), self.cleaning.buckets
        is_cut = any(group[-1].of > 1 for group in groups)
        phases = [Phase(RECORDS, tasks, self._count)] if is_cut else []
        for number, one in enumerate(split_passes(self.cleaning.filters)):
            phases.append(Phase(filter_phase(number), tasks, functools.partial(self._filter, number)))
            if one.closing is not None:
                run = functools.partial(self._decide, number, one.closing, tasks)
                phases.append(Phase(bucket_phase(number, one.closing), buckets, run))
        return tuple(phases)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        kept, dropped = counts["kept"], counted(counts, "dropped:")
        yield "records_in = kept + dropped", counts["records_in"], kept + dropped
        yield "kept = documents of all lengths", kept, counted(counts, "length:")
        yield "kept = documents of all languages", kept, counted(counts, "language:")

    def _count(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """The records of the task's section, which is the last that it reads, for the sections behind it; and the state
        that its file was read in. Who has the last section of a file has nothing to count, and verifies the file."""
        section = self._groups[task][-1]
        with out.scratch(RECORDS, "json") as path:
            if section.of == 1:
                state, records = "", 0  # nobody asks
            elif section.is_last:
                state, records = self.source.verified(self._source_file[section.name]), 0
            else:
                state = self.source.state(section.name)
                records = self.source.count(section)
                self.source.refuse_change(section.name, state)
            write_json(path, {"records": records, "state": state})
        return Counter()

    def _filter(self, number: int, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Pass ``number`` over shard ``task``."""
        passes = split_passes(self.cleaning.filters)
        one, last = passes[number], number == len(passes) - 1
        buckets, memory_bytes = self.cleaning.buckets, self.memory_bytes // 2
        decided = bucket_phase(number - 1, one.opening) if one.opening else ""
        lost = Losers(out, decided, buckets, memory_bytes) if one.opening else NOTHING
        keys = KeyWriter(one.closing, out, buckets, memory_bytes) if one.closing else NOTHING
        counts: Counter[str] = Counter()
        level = LEVEL if last else SCRATCH_LEVEL
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
            for position, (document, unreadable) in enumerate(self._records(number, task, out)):
                if number == 0:
                    unreadable = admit(document, counts) or unreadable
                drop = unreadable or one.judge_in_time(document, losers, position, limit)
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
        return counts

    def _records(self, number: int, task: int, out: TaskOutput) -> Iterator[Record]:
        """What pass ``number`` reads: the source's records, or what the pass before it kept."""
        if number == 0:
            for section in self._groups[task]:
                yield from self._section(section, task, out)
        else:
            for document in read_documents(handed(out, f"{filter_phase(number - 1)}/survivors", task, DOCUMENTS)):
                yield document, None

    def _section(self, section: Section, task: int, out: TaskOutput) -> Iterator[Record]:
        """The records of ``section``, of a file that is the planned one and stays so. Its sections are in consecutive
        tasks."""
        state = self.source.state(section.name)
        if section.of == 1:
            yield from self.source.read_section(section, 0)
            self.source.verified(self._source_file[section.name])
        else:
            earlier, last = range(task - section.number, task), task - section.number + section.of - 1
            notes = [read_json(handed(out, f"{RECORDS}/{RECORDS}", one, "json")) for one in (*earlier, last)]
            if any(note["state"] != state for note in notes):
                remedy = f"run again; if its content is what it was, remove {out.folder} before"
                raise RetryableError(section.name, "was written or replaced since its records were counted", remedy)
            yield from self.source.read_section(section, sum(note["records"] for note in notes[:-1]))
        self.source.refuse_change(section.name, state)

    def _decide(
        self, number: int, closing: GlobalFilter, shards: int, bucket: int, inputs: Inputs, out: TaskOutput
    ) -> "Counter[str]":
        """The bucket phase after pass ``number``."""
        decide(closing, out, filter_phase(number), shards, self.memory_bytes)
        return Counter()


def filter_phase(number: int) -> str:
    """The name of the phase that pass ``number`` is."""
    return f"{2 * number}-filter"


def bucket_phase(number: int, closing: GlobalFilter) -> str:
    """The name of the phase that decides for ``closing``, after pass ``number``."""
    return f"{2 * number + 1}-{closing.type}"  # type: ignore[attr-defined]


def admit(document: Document, counts: "Counter[str]") -> Drop | None:
    """Count a record that came in; text that is not Unicode (lone surrogates) is repaired and the record dropped."""
    counts["records_in"] += 1
    counts["characters_in"] += len(document.text)
    try:
        counts["bytes_in"] += len(document.text.encode("utf-8"))
    except UnicodeEncodeError as error:
        document.text = document.text.encode("utf-8", "replace").decode("utf-8")
        counts["bytes_in"] += len(document.text.encode("utf-8"))
        return Drop("not_unicode", f"character {error.start}")
    return None


def count_kept(document: Document, counts: "Counter[str]") -> None:
    """Count a document that stays."""
    characters = len(document.text)
    counts["kept"] += 1
    counts["characters_kept"] += characters
    counts["bytes_kept"] += len(document.text.encode("utf-8"))
    counts[f"length:{1 << characters.bit_length() >> 1}"] += 1
    counts[f"language:{document.metadata.get('language') or 'unknown'}"] += 1
    for unit in ("lines", "sentences"):
        for rule, number in document.metadata.get(f"removed_{unit}", {}).items():
            counts[f"removed_{unit}:{rule}"] += number
    for kind, number in document.metadata.get("masked_pii", {}).items():
        counts[f"masked:{kind}"] += number
