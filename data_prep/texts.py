"""The stage ``texts``: reads the records of a source, with extraction, and keeps the readable ones as documents.

    source groups ── texts ──> documents/00007.jsonl.zst   every readable record, unchanged by any rule of cleaning
                          └──> dropped/00007.jsonl.zst     the others; metadata.drop = {"rule", "value"}

Cleaning starts from these documents, so other rules of cleaning read and extract nothing again.

If large files are read in sections, a phase ``records`` comes first. It counts the records of each section, from which
the number of each section's first record follows, and verifies each file once.

Counts: records_in, kept, characters_kept, bytes_kept, dropped:<rule>.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from datatrove.data import Document

from headrace.data_prep.document import DOCUMENTS, FAST_LEVEL, DocumentWriter, Drop
from headrace.data_prep.sources import AnySource
from headrace.data_prep.sources.source import Record, Section
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.handover import handed
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, counted

RECORDS = "records"
"""The phase that counts the records of sections."""


@settings
class Texts(Stage):
    """Reads the source's records and keeps those that have a text."""

    name: ClassVar[str] = "texts"
    source: AnySource
    """The source of the records."""

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.source.files()

    def check_raw_files(self) -> None:
        """Does nothing: the tasks that read the files compare them with the planned ones."""

    def check_start(self) -> None:
        """Refuses a source with which most of the first records cannot be read."""
        self.source.check(list(self._files))

    @functools.cached_property
    def _files(self) -> Mapping[str, RawFile]:
        """The planned files by name."""
        return {file.name: file for file in (self.source.files() if self.planned is None else self.planned)}

    @functools.cached_property
    def groups(self) -> list[Sequence[Section]]:
        """The sections of each task. They follow from the planned files, because the folder may have changed since."""
        return self.source.groups(self._files.values())

    def shards_by_file(self) -> Mapping[str, Sequence[int]]:
        """Returns the shards that hold the records of each raw file, by its name. No raw file is read."""
        shards: dict[str, list[int]] = defaultdict(list)
        for shard, group in enumerate(self.groups):
            for section in group:
                shards[section.name].append(shard)
        return shards

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        tasks = len(self.groups)
        is_cut = any(group[-1].of > 1 for group in self.groups)
        raw_bytes = sum(file.bytes for file in self._files.values())
        counting = [Phase(RECORDS, tasks, self._count, raw_bytes)] if is_cut else []
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

    def _read(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        """Reads the sections of one task."""
        counts: Counter[str] = Counter()
        with (
            out.shard("documents", DOCUMENTS) as kept_path,
            out.shard("dropped", DOCUMENTS) as dropped_path,
            DocumentWriter(kept_path, FAST_LEVEL) as kept,
            DocumentWriter(dropped_path) as dropped,
        ):
            for document, unreadable in self.source.guarded(functools.partial(self._records, task, out)):
                counts["records_in"] += 1
                if drop := repair(document) or unreadable:
                    counts[f"dropped:{drop.rule}"] += 1
                    document.metadata["drop"] = {"rule": drop.rule, "value": drop.value}
                    dropped.write(document)
                else:
                    counts["kept"] += 1
                    counts["characters_kept"] += len(document.text)
                    counts["bytes_kept"] += len(document.text.encode("utf-8"))
                    kept.write(document)
        return counts

    def _records(self, task: int, out: TaskOutput) -> Iterator[Record]:
        """Yields the records of one task."""
        for section in self.groups[task]:
            yield from self._section(section, task, out)

    def _section(self, section: Section, task: int, out: TaskOutput) -> Iterator[Record]:
        """Yields the records of ``section`` and checks that its file is the planned one and does not change."""
        state = self.source.state(section.name)
        if section.of == 1:
            yield from self.source.read_section(section, 0)
            self.source.verified(self._files[section.name])
        else:
            # The sections of a file are in consecutive tasks.
            earlier, last = range(task - section.number, task), task - section.number + section.of - 1
            notes = [read_json(handed(out, f"{RECORDS}/{RECORDS}", one, "json")) for one in (*earlier, last)]
            if any(note["state"] != state for note in notes):
                remedy = f"run again; if its content has not changed, first remove {out.folder}"
                raise RetryableError(section.name, "was written or replaced since its records were counted", remedy)
            yield from self.source.read_section(section, sum(note["records"] for note in notes[:-1]))
        self.source.refuse_change(section.name, state)


def repair(document: Document) -> Drop | None:
    """Replaces lone surrogates in the text. A text that has some is not Unicode: the reason to drop it is returned."""
    try:
        document.text.encode("utf-8")
    except UnicodeEncodeError as error:
        document.text = document.text.encode("utf-8", "replace").decode("utf-8")
        return Drop("not_unicode", f"character {error.start}")
    return None
