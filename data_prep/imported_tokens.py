"""The stages ``tokenizer`` and ``tokens`` of a run that begins with token ids in files, without texts.

    tokenizer.json ──────────────────────┐
    corpus.idx, corpus.bin, 00.parquet ──┴──> tokens/00007.bin, bounds/00007.npy, …     a shard for each file

Ends of text in the files, inside records or after them, separate documents: our shards have one after each document,
and no document holds one. Records without another token are left out and counted. Every id must be in the vocabulary.
Bytes of text follow from the ids, so the tokenizer has to be byte-level.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.classifier import Classifier
from headrace.data_prep.column import Column
from headrace.data_prep.selected import Selected
from headrace.data_prep.shuffle.records import save_array
from headrace.data_prep.sources.token_files import TOKENS, TokenFiles, stem_of
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.given_tokenizer import Given
from headrace.data_prep.tokenization.shards import key_of
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage

SCORES = "scores"
"""The name of the stage that needs texts."""


def with_token_files(line: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Returns ``line``; if it begins with token files, from ``tokenizer`` on and without ``scores``.

    Without texts, overlaps of benchmarks with them are not known.

    Raises:
        ConfigError: when the tokenizer is not a given one, texts would be planted among the documents, or documents
            are to be selected by values of their texts.
    """
    texts = line[0]
    if not isinstance(texts, Texts) or not isinstance(texts.source, TokenFiles):
        return line
    if texts.canaries.copies:
        problem = f"is {list(texts.canaries.copies)}, but token ids have no texts"
        raise ConfigError("canaries.copies", problem, "set canaries.copies=[]")
    if of_texts := [stage.name for stage in line if isinstance(stage, Classifier | Column | Selected)]:
        remedy = "leave out classifier, columns and selection"
        raise ConfigError(of_texts[0], "is of texts, but token ids have none", remedy)
    stages: list[Stage] = []
    for stage in line:
        if isinstance(stage, Tokenizer):
            stages.append(GivenTokenizer.of(stage))
        elif isinstance(stage, Tokens):
            stages.append(ImportedTokens(source=texts.source))
        elif stages and stage.name != SCORES:
            stages.append(stage)
    return tuple(stages)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GivenTokenizer(Tokenizer):
    """A tokenizer that no documents are needed for."""

    inputs: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "GivenTokenizer":
        """Returns the stage of the same settings.

        Raises:
            ConfigError: when its tokenizer is made here: without texts none can be trained.
        """
        if not isinstance(tokenizer.settings, Given):
            kind = tokenizer.settings.type
            problem = f"tokenizer={kind} is made here, but source=token_files has ids of another one"
            raise ConfigError("tokenizer", problem, "give the tokenizer of the files: tokenizer=file tokenizer.path=…")
        return cls(settings=tokenizer.settings, special_tokens=tokenizer.special_tokens)

    def _text(self, inputs: Inputs, counts: "Counter[str]") -> str:
        if isinstance(self.settings, Given):
            return self.settings.build(None, counts, self.special_tokens)
        return super()._text(inputs, counts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportedTokens(Tokens):
    """Copies token ids from files.

    Counts as ``Tokens`` does, and ``records`` (in the files), ``empty_records``, ``read_tokens`` and ``read_ends``
    (ends of text among them).
    """

    inputs: ClassVar[tuple[str, ...]] = ("tokenizer",)
    source: TokenFiles

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.source.files()

    def without_raw_files(self, addresses: Mapping[str, str]) -> dict[str, Any]:
        """Leaves out the paths of the files: their names and contents decide the result."""
        described: dict[str, Any] = super().without_raw_files(addresses)
        for values in (described["settings"], described["hashed"]):
            values["source"].pop("paths", None)
        return described

    def check_start(self) -> None:
        self.source.check(list(self._files))

    @functools.cached_property
    def _files(self) -> Mapping[str, RawFile]:
        """The planned files by name."""
        return {file.name: file for file in (self.raw_files() if self.planned is None else self.planned)}

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        total = sum(file.bytes for file in self._files.values())
        return (Phase("tokens", len(self.source.readable(list(self._files))), self._run, total),)

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        own = counts["read_tokens"] - counts["read_ends"]
        shards = len(self.source.readable(list(self._files)))
        yield (
            "tokens = those of the files and one end for each document and shard",
            counts["tokens"],
            (own + counts["documents"] + shards),
        )

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        name = self.source.readable(list(self._files))[task]
        encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
        token_bytes = encoder.token_bytes
        if token_bytes is None:
            problem = "is not byte-level, so the bytes of text do not follow from the ids"
            raise ConfigError("tokenizer", problem, "encode the texts here, with source=jsonl or parquet")
        read = [self._files[file] for file in (name, stem_of(name) + TOKENS) if file in self._files]
        states = {file.name: self.source.verified(file) for file in read}
        counts: Counter[str] = Counter()
        lengths, text_bytes, keys = list[int](), list[int](), list[int]()
        with out.shard("tokens", "bin") as path, path.open("wb") as stream:
            end = np.array([encoder.end_of_text], encoder.dtype).tobytes()
            stream.write(end)
            for number, ids in self._documents(name, encoder, counts):
                stream.write(ids.astype(encoder.dtype).tobytes() + end)
                lengths.append(len(ids) + 1)
                text_bytes.append(int(token_bytes[ids].sum()))
                keys.append(key_of("split", f"{name}:{number}"))
        for file, state in states.items():
            self.source.refuse_change(file, state)
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype("<u8")
        columns = {"bounds": bounds, "text_bytes": np.array(text_bytes, "<u4"), "keys": np.array(keys, "<u8")}
        for kind, values in columns.items():
            with out.shard(kind, "npy") as path:
                save_array(path, values)
        return counts + Counter(documents=len(keys), tokens=int(bounds[-1]) + 1, text_bytes=sum(text_bytes))

    def _documents(
        self, name: str, encoder: Encoder, counts: "Counter[str]"
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yields the documents of the file ``name``, each with the number of its record, and counts what was read."""
        for number, stored in self.source.documents(name):
            ids = self._checked(stored, encoder.vocabulary_size, name, number)
            ends = np.flatnonzero(ids == encoder.end_of_text)
            documents = [part for part in _between(ids, ends.tolist()) if len(part)]
            counts.update(records=1, read_tokens=len(ids), read_ends=len(ends), empty_records=int(not documents))
            yield from ((number, part) for part in documents)

    def _checked(self, stored: NDArray[Any], vocabulary: int, name: str, number: int) -> NDArray[np.int64]:
        """Returns the ids of a record.

        Raises:
            ArtifactError: when one is not in the vocabulary.
        """
        outside = (stored < 0) | (stored >= vocabulary)
        if outside.any():
            place = int(np.argmax(outside))
            problem = f"has the token {stored[place]} in record {number}, but the vocabulary has {vocabulary:,}"
            raise ArtifactError(
                self.source.location(name), problem, "give the tokenizer that made the file: tokenizer=…"
            )
        return stored.astype(np.int64)


def _between(ids: NDArray[np.int64], ends: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """Yields the parts of ``ids`` before, between and after the positions ``ends``."""
    for start, stop in zip([-1, *ends], [*ends, len(ids)], strict=True):
        yield ids[start + 1 : stop]
