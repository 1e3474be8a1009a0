"""Sets of labelled texts that train a classifier, in a run or by a command.

    files    good.jsonl, pages.parquet, train.txt     by their suffix; .txt: lines, also fastText's __label__hq a text
    source   {type: warc, paths: …}                   a source with its settings, as in conf/source
    run      runs/clean/b8e44e9d7440                  what a stage of an earlier run kept, or dropped
    texts                                             the readable documents of the run itself

All texts of a set have its label, or each has its own in a field. Records without a text, those that a source drops,
and those that ``share`` does not draw are left out and counted.
"""

import abc
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import xxhash
from datatrove.data import Document
from pydantic import Field

from headrace.data_prep.classifiers.linear_training import LabelledText
from headrace.data_prep.document import DOCUMENTS, read_documents
from headrace.data_prep.sources import AnySource
from headrace.data_prep.sources.fields import FASTTEXT, value_at
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.html import MODEL_FILE
from headrace.data_prep.sources.source import ListedFile, Record, Source
from headrace.pipeline.core.artifact import Artifact, is_whole, shard_name
from headrace.pipeline.core.compression import bare_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import Kinds
from headrace.pipeline.core.progress import count
from headrace.pipeline.core.settings import AnyText, FilePath, by_content, settings
from headrace.pipeline.core.stage import STORING, Inputs, RawFile

SETTING = "classifier.examples"
KINDS = {"kept": "documents", "dropped": "dropped"}
"""The kinds of documents of a stage, and their folders."""
NOT_DRAWN = "not_drawn"
"""The reason of a text that the share of its set leaves out."""


READERS = Kinds(
    "text_file",
    FileSource,
    {
        "jsonl": "headrace.data_prep.sources.jsonl:Jsonl",
        "parquet": "headrace.data_prep.sources.tables:Parquet",
        "arrow": "headrace.data_prep.sources.tables:Arrow",
        "warc": "headrace.data_prep.sources.warc:Warc",
        "html": "headrace.data_prep.sources.html:Html",
        "lines": "headrace.data_prep.sources.jsonl:TextLines",
    },
)
"""The sources of files, by whose suffixes a reader is chosen; JSON lines without one of them."""


@settings
class ExampleSet(abc.ABC):
    """Labelled texts of one origin. Subclasses add a ``type`` tag."""

    inputs: ClassVar[tuple[str, ...]] = ()
    """The stages of the run whose artifacts are read."""

    label: AnyText = ""
    """The label of all texts; empty: each has its own in ``label_field``."""
    label_field: AnyText = ""
    """The field with the label of a text; a dot leads into an object. Empty: the label of lines of fastText."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The share of the texts that is taken, by a hash of their ids."""

    def files(self) -> tuple[RawFile, ...]:
        """Returns the files from outside the run whose content decides the texts.

        Raises:
            ConfigError: when there is none.
        """
        return ()

    def listing(self) -> Sequence[ListedFile | RawFile]:
        """Returns ``files``, of which none is read if their names are known without that."""
        return self.files()

    @abc.abstractmethod
    def tasks(self, files: Sequence[ListedFile | RawFile], shards: Mapping[str, int]) -> list[Sequence[str]]:
        """Returns the names of what each task reads, of ``files`` and of the ``shards`` of inputs. Nothing is read."""

    @abc.abstractmethod
    def records(self, names: Sequence[str], inputs: Inputs) -> Iterator[Record]:
        """Yields the records of ``names``."""

    def check(self, names: Sequence[str]) -> None:  # noqa: B027  (most have nothing to add)
        """Refuses, before a run starts, files ``names`` that cannot be read.

        Raises:
            ConfigError: with the first record that cannot be read.
        """

    def examples(self, names: Sequence[str], inputs: Inputs, left_out: "Counter[str]") -> Iterator[LabelledText]:
        """Yields the texts of ``names``, and counts in ``left_out`` the records that give none, by reason.

        Raises:
            ConfigError: when a text has no label.
        """
        for document, drop in self.records(names, inputs):
            if drop is not None:
                left_out[drop.rule] += 1
            elif self.share < 1 and xxhash.xxh64_intdigest(f"share:{document.id}") >= self.share * 2.0**64:
                left_out[NOT_DRAWN] += 1
            else:
                yield LabelledText(document.id, document.text, self.label or self._own_label(document))

    def _own_label(self, document: Document) -> str:
        fields = document.metadata.get("extra") or {}
        value = value_at(fields, self.label_field or FASTTEXT)
        if isinstance(value, bool | int | str) and str(value):
            return str(value)
        if not self.label_field:
            remedy = f"give label, or label_field; lines of text may begin with {FASTTEXT}LABEL"
            raise ConfigError(SETTING, f"{document.id} has no label", remedy)
        shown = ", ".join(sorted(fields)) or "none"
        problem = f"{document.id} has {value!r} in {self.label_field!r} (its fields: {shown})"
        raise ConfigError(f"{SETTING}.label_field", problem, "name a field with a text or a whole number")


@settings
class ReadExamples(ExampleSet):
    """Texts that a source reads."""

    @property
    @abc.abstractmethod
    def reader(self) -> Source:
        """The source."""

    def files(self) -> tuple[RawFile, ...]:
        return (*self.reader.files(), *self.reader.model_files())

    def listing(self) -> Sequence[ListedFile | RawFile]:
        return self.reader.listing()

    def tasks(self, files: Sequence[ListedFile | RawFile], shards: Mapping[str, int]) -> list[Sequence[str]]:
        groups = self.reader.groups([file for file in files if file.name != MODEL_FILE])
        whole = ([section.name for section in group if section.number == 0] for group in groups)
        return [names for names in whole if names]

    def records(self, names: Sequence[str], inputs: Inputs) -> Iterator[Record]:
        for record in itertools.chain.from_iterable(map(self.reader.read, names)):
            count(records=1)
            yield record

    def check(self, names: Sequence[str]) -> None:
        self.reader.check([name for name in names if name != MODEL_FILE])


@settings
class FileExamples(ReadExamples):
    """Texts of files, read as their suffix asks: JSON lines, Parquet, Arrow, WARC, HTML, lines."""

    type: Literal["files"] = "files"
    path: FilePath = by_content()
    """A file, a folder, a pattern or a URL."""

    @functools.cached_property
    def reader(self) -> Source:
        candidates: list[FileSource] = [kind(paths=(self.path,)) for kind in READERS.classes]
        fitting = [source for source in candidates if bare_name(self.path).endswith(source.suffixes())]
        return [*fitting, candidates[0]][0]


@settings
class SourceExamples(ReadExamples):
    """Texts of a source with its settings."""

    type: Literal["source"] = "source"
    source: AnySource
    """The source, as in conf/source."""

    @property
    def reader(self) -> Source:
        return self.source


@settings
class RunExamples(ExampleSet):
    """The documents that a stage of an earlier run kept or dropped."""

    type: Literal["run"] = "run"
    artifact: FilePath = by_content()
    """The folder of the artifact of ``texts``, ``clean`` or ``unique``."""
    documents: Literal["kept", "dropped"] = "kept"
    """The documents of the stage that are taken."""

    def files(self) -> tuple[RawFile, ...]:
        files = self._opened.manifest["files"]
        names = (name for name in sorted(files) if name.startswith(f"{KINDS[self.documents]}/"))
        return tuple(RawFile(name, files[name]["bytes"], files[name]["sha256"]) for name in names)

    @property
    def _opened(self) -> Artifact:
        folder = Path(self.artifact)
        if not is_whole(folder) or Artifact(folder).manifest["stage"] not in STORING:
            problem = f"{self.artifact!r} is no finished artifact of {', '.join(STORING)}"
            raise ConfigError(f"{SETTING}.artifact", problem, "give its folder, like runs/clean/b8e44e9d7440")
        return Artifact(folder)

    def tasks(self, files: Sequence[ListedFile | RawFile], shards: Mapping[str, int]) -> list[Sequence[str]]:
        return [[file.name] for file in files]

    def records(self, names: Sequence[str], inputs: Inputs) -> Iterator[Record]:
        return stored(self._opened, names)


@settings
class TextExamples(ExampleSet):
    """The readable documents of the run itself, as texts of which most are not of the wanted kind."""

    inputs: ClassVar[tuple[str, ...]] = ("texts",)
    type: Literal["texts"] = "texts"

    def tasks(self, files: Sequence[ListedFile | RawFile], shards: Mapping[str, int]) -> list[Sequence[str]]:
        return [[shard_name(KINDS["kept"], shard, DOCUMENTS)] for shard in range(shards["texts"])]

    def records(self, names: Sequence[str], inputs: Inputs) -> Iterator[Record]:
        return stored(inputs["texts"], names)


AnyExampleSet = Annotated[
    FileExamples | SourceExamples | RunExamples | TextExamples,
    Field(discriminator="type"),
]


def stored(artifact: Artifact, names: Sequence[str]) -> Iterator[Record]:
    """Yields the documents of the shards ``names`` of ``artifact``."""
    for name in names:
        yield from ((document, None) for document in read_documents(artifact.path(name)))


def all_examples(sets: Sequence[ExampleSet], left_out: "Counter[str]") -> Iterator[LabelledText]:
    """Yields the texts of ``sets`` that need no run, one set after the other.

    Raises:
        ConfigError: when a set has no file, or a text no label.
    """
    for own in sets:
        for names in own.tasks(own.listing(), {}):
            yield from own.examples(names, {}, left_out)


def with_source(path: str, label: str, label_field: str, source: FileSource | None) -> ReadExamples:
    """Returns the texts of the file ``path``, read by ``source``, or as its suffix asks."""
    if source is None:
        return FileExamples(path=path, label=label, label_field=label_field)
    own = dataclasses.replace(source, paths=(path,))
    return SourceExamples(source=own, label=label, label_field=label_field)  # type: ignore[arg-type]
