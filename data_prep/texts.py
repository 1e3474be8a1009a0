"""The stage ``texts``: reads the records of a source, with extraction, and keeps the readable ones as documents.

    source groups ── texts ──> documents/00007.jsonl.zst   every readable record, unchanged by any rule of cleaning
                          ├──> dropped/00007.jsonl.zst     the others; metadata.drop = {"rule", "value"}
                          └──> left_out/00007.jsonl.zst    pages of HTML that lost least and most (extremes.py)

Cleaning starts from these documents, so other rules of cleaning read and extract nothing again.

If large files are read in sections, two phases come first. ``records`` counts the records of each section and verifies
each file once. ``numbering``, one task, adds the counts up:

    records in sections 0, 1, 2 of a file     10  12   9
    number of each section's first record      0  10  22     scratch/numbering/numbers/00000.bin, one entry a task

So a task of ``texts`` reads one entry, however many sections there are.

Counts: records_in, kept, characters_kept, bytes_kept, characters_left_out (by extraction), dropped:<rule>,
joined_lines (by ``source.unwrap``), truncated (kept, but cut by the crawler), repeated_names (kept, of
objects with one name twice).
"""

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import xxhash
from datatrove.data import Document

from headrace.data_prep.document import DOCUMENTS, FAST_LEVEL, DocumentWriter, Drop
from headrace.data_prep.extremes import LEFT_OUT, Extremes
from headrace.data_prep.shuffle.slices import checksum
from headrace.data_prep.sources import AnySource
from headrace.data_prep.sources.html import MODEL_FILE, HtmlExtraction, watched
from headrace.data_prep.sources.jsonl import REPEATED
from headrace.data_prep.sources.other_extractors import EXTRACTORS
from headrace.data_prep.sources.source import Record, Section
from headrace.data_prep.text.unwrapped_lines import unwrapped
from headrace.pipeline.core.artifact import Balance, TaskOutput, damaged, handed, repeat, unverified
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import DocumentCounts, Inputs, Phase, RawFile, Stage, counted, refuse_changes

RECORDS = "records"
"""The phase that counts the records of sections."""
NUMBERING = "numbering"
"""The phase that numbers the first records of sections."""
NUMBERS = "numbers"
"""The kind of its file: an ENTRY for the last section of each task of ``texts``, zeros if its file has one section."""
ENTRY = np.dtype([("first", "<u8"), ("state", "<u8"), ("checksum", "<u8")])
"""The number of a section's first record, the XXH3 of the state of its file, and the checksum of the entry."""


@settings
class Texts(Stage):
    """Reads the source's records and keeps those that have a text."""

    name: ClassVar[str] = "texts"
    version: ClassVar[int] = 3
    headline: ClassVar[tuple[str, ...]] = ("records_in", "kept")
    card_counts: ClassVar[Mapping[str, str]] = {"records_in": "records read"}
    describes_documents: ClassVar[bool] = True
    document_counts: ClassVar[DocumentCounts | None] = DocumentCounts(
        read="records_in",
        unit="records",
        text_bytes="bytes_kept",
        dropped_title="unreadable",
        kept_title="readable",
        kept_short="readable",
    )
    source: AnySource
    """The source of the records."""

    def raw_files(self) -> tuple[RawFile, ...]:
        return (*self.source.files(), *self.source.model_files())

    def without_raw_files(self, addresses: Mapping[str, str]) -> dict[str, Any]:
        """Leaves out the paths of the files: their names and contents decide the result."""
        described: dict[str, Any] = super().without_raw_files(addresses)
        for values in (described["settings"], described["hashed"]):
            values["source"].pop("paths", None)
        return described

    def check_raw_files(self) -> None:
        """Compares the extractor's model with the planned one. The tasks that read the other files compare those."""
        if self.planned:
            refuse_changes([file for file in self.planned if file.name == MODEL_FILE], self.source.model_files())

    def check_start(self) -> None:
        """Prints what is left out, and refuses a source with which most of the first records cannot be read."""
        if self.source.left_out:
            print(f"source.paths: left out: {self.source.left_out}", file=sys.stderr)
        self.source.check(list(self._files))

    @functools.cached_property
    def _files(self) -> Mapping[str, RawFile]:
        """The planned files by name, without that of the extractor's model."""
        planned = self.raw_files() if self.planned is None else self.planned
        return {file.name: file for file in planned if file.name != MODEL_FILE}

    @functools.cached_property
    def groups(self) -> list[Sequence[Section]]:
        """The sections of each task. They follow from the planned files, because the folder may have changed since."""
        return self.source.groups(self._files.values())

    @functools.cached_property
    def shards_by_file(self) -> Mapping[str, Sequence[int]]:
        """The shards that hold the records of each raw file, by its name. No raw file is read."""
        shards: dict[str, list[int]] = {}
        for shard, group in enumerate(self.groups):
            for section in group:
                shards.setdefault(section.name, []).append(shard)
        return shards

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        tasks = len(self.groups)
        is_cut = any(group[-1].of > 1 for group in self.groups)
        raw_bytes = sum(file.bytes for file in self._files.values())
        counting = [Phase(RECORDS, tasks, self._count, raw_bytes), Phase(NUMBERING, 1, self._number)] if is_cut else []
        return (*counting, Phase("texts", tasks, self._read, raw_bytes))

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        yield "records_in = kept + dropped", counts["records_in"], counts["kept"] + counted(counts, "dropped:")

    def _count(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Counts the records of the task's last section, for the sections after it, and notes the state of its file.

        No section follows the last one of a file, so its task verifies the file instead of counting.
        """
        section = self.groups[task][-1]
        with out.scratch(RECORDS, "json") as path:
            if section.of == 1:
                state, records = "", 0  # not needed: the file has one section
            elif section.is_last:
                state, records = self.source.verified(self._files[section.name]), 0
            else:
                state = self.source.state(section.name)
                records = self.source.count(section)
                self.source.refuse_change(section.name, state)
            write_json(path, {"records": records, "state": state})
        return Counter()

    def _number(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Numbers the first record of the last section of each task of ``texts``.

        Raises:
            RetryableError: when a file changed while its records were counted.
        """
        entries = np.zeros(len(self.groups), ENTRY)
        state, first = "", 0
        for number, group in enumerate(self.groups):
            section = group[-1]
            if section.of > 1:
                note = read_json(handed(out, f"{RECORDS}/{RECORDS}", number, "json"))
                if section.number == 0:
                    state, first = note["state"], 0
                if note["state"] != state:
                    raise self._replaced(section, out)
                entries[number] = entry(number, first, hash_of(state))
                first += note["records"]
        with out.scratch(NUMBERS, "bin") as path:
            entries.tofile(path)
        return Counter()

    def _read(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Reads the sections of one task."""
        counts: Counter[str] = Counter()
        source, extremes = self.source, None
        if isinstance(source, HtmlExtraction) and source.extracts and source.extractor not in EXTRACTORS:
            extremes = Extremes(source)
        with (
            out.shard("documents", DOCUMENTS) as kept_path,
            out.shard("dropped", DOCUMENTS) as dropped_path,
            DocumentWriter(kept_path, FAST_LEVEL) as kept,
            DocumentWriter(dropped_path) as dropped,
            watched() as pages,
        ):
            for document, unreadable in self._records(task, out):
                count(records=1)
                counts["records_in"] += 1
                if drop := repair(document) or unreadable:
                    counts[f"dropped:{drop.rule}"] += 1
                    document.metadata["drop"] = {"rule": drop.rule, "value": drop.value}
                    dropped.write(document)
                else:
                    if self.source.unwrap:
                        if joined := unwrapped(document.text):
                            document.text, document.metadata["joined_lines"] = joined
                        counts["joined_lines"] += document.metadata.get("joined_lines", 0)
                    counts["kept"] += 1
                    counts["characters_kept"] += len(document.text)
                    counts["bytes_kept"] += len(document.text.encode("utf-8"))
                    counts.update(name for name in ("truncated", REPEATED) if name in document.metadata)
                    if left_out := document.metadata.get("left_out"):
                        counts["characters_left_out"] += left_out
                    kept.write(document)
                    if extremes is not None and pages:
                        extremes.offer(document, pages[-1])
                pages.clear()
        if extremes is not None:
            with out.shard("left_out", LEFT_OUT) as path:
                extremes.write(path)
        return counts

    def _records(self, task: int, out: TaskOutput) -> Iterator[Record]:
        """Yields the records of one task."""
        for section in self.groups[task]:
            yield from self._section(section, task, out)

    def _section(self, section: Section, task: int, out: TaskOutput) -> Iterator[Record]:
        """Yields the records of ``section`` and checks that its file is the planned one and does not change."""
        source = self.source
        state = source.state(section.name)
        if section.of == 1:
            yield from source.read_section(section, 0)
            source.verified(self._files[section.name])
        else:
            first, counted_state = read_entry(out, task)
            if counted_state != hash_of(state):
                raise self._replaced(section, out)
            yield from source.read_section(section, first)
        source.refuse_change(section.name, state)

    def _replaced(self, section: Section, out: TaskOutput) -> RetryableError:
        """Returns the error for the file of ``section``, whose state is not the counted one.

        The next run counts the records of all files with another state again, and verifies their contents. Copies of
        the planned files are such files.
        """
        cut = {task: group[-1].name for task, group in enumerate(self.groups) if group[-1].of > 1}
        states = {name: self.source.state(name) for name in set(cut.values())}
        for task, name in cut.items():
            with contextlib.suppress(RetryableError):  # another task found its file changed, and removed the record
                if read_json(handed(out, f"{RECORDS}/{RECORDS}", task, "json"))["state"] != states[name]:
                    repeat(out, RECORDS, [task])
        repeat(out, NUMBERING, [0])
        problem = "was written or replaced since its records were counted"
        remedy = "run again: its records are then counted again"
        return RetryableError(self.source.location(section.name), problem, remedy)


def hash_of(state: str) -> int:
    """Returns the XXH3 (64 bits) of the state of a file."""
    return xxhash.xxh3_64_intdigest(state)


def entry(task: int, first: int, state: int) -> tuple[int, int, int]:
    """Returns the ENTRY of ``task``. Its checksum covers the number of the task, too."""
    return first, state, checksum(np.array([task, first, state], "<u8"))


def read_entry(out: TaskOutput, task: int) -> tuple[int, int]:
    """Reads and verifies the ENTRY of ``task``, without the rest of the file. Returns ``first`` and ``state``.

    Raises:
        RetryableError: when it is damaged or missing.
    """
    source = f"{NUMBERING}/{NUMBERS}"
    with contextlib.suppress(FileNotFoundError), unverified(out, source, 0, "bin").open("rb") as stream:
        stream.seek(task * ENTRY.itemsize)
        for first, state, checksum in np.fromfile(stream, ENTRY, 1).tolist():
            if (first, state, checksum) == entry(task, first, state):
                return first, state
    raise damaged(out, source, 0, "bin")


def repair(document: Document) -> Drop | None:
    """Replaces lone surrogates in the text. A text that has some is not Unicode: the reason to drop it is returned."""
    try:
        document.text.encode("utf-8")
    except UnicodeEncodeError as error:
        document.text = document.text.encode("utf-8", "replace").decode("utf-8")
        return Drop("not_unicode", f"character {error.start}")
    return None
