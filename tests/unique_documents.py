"""Stands in for the stages before the tokenizer: an artifact ``unique`` that holds the given documents."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import zstandard
from datatrove.data import Document

from headrace.data_prep.document import DocumentWriter
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenDocuments(Stage):
    """One shard for each list of texts; ids are ``<shard>:<number>`` unless ``ids`` says otherwise."""

    name: ClassVar[str] = "unique"

    texts: Sequence[Sequence[str]]
    ids: Sequence[Sequence[str]] | None = None

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("unique", len(self.texts), self._run),)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        ids = self.ids[task] if self.ids else [f"{task}:{number}" for number in range(len(self.texts[task]))]
        with out.shard("documents", "jsonl.zst") as path:
            write_documents(path, (Document(text=t, id=i) for t, i in zip(self.texts[task], ids, strict=True)))
        return Counter(kept=len(ids), bytes=sum(len(text.encode()) for text in self.texts[task]))


def write_documents(path: Path, documents: Iterable[Document]) -> None:
    """Writes ``documents`` as one shard."""
    with DocumentWriter(path) as writer:
        for document in documents:
            writer.write(document)


def unique_documents(
    folder: Path, texts: Sequence[Sequence[str]], ids: Sequence[Sequence[str]] | None = None
) -> Artifact:
    """The artifact ``unique`` in ``folder``, one shard for each list of ``texts``."""
    stage = GivenDocuments(texts=texts, ids=ids)
    for task in range(len(texts)):
        out = TaskOutput(folder, "unique", task)
        out.done(stage.phases({})[0].run(task, {}, out))
    return finish(folder, {"stage": "unique"}, {"unique": len(texts)})


def json_texts(path: Path, number: int) -> list[str]:
    """The texts of the first ``number`` lines of zstd JSON lines."""
    with zstandard.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line)["text"] for line, _ in zip(stream, range(number), strict=False)]
