"""The stage ``tokenizer``: one tokenizer.json, trained on the kept documents or made from given files.

    unique/documents ── sample ──> byte-level BPE ─┐
    tokenizer.json ────────────────────────────────┼──> tokenizer.json, with <|endoftext|> as a special token
    encoder.json + vocab.bpe (GPT-2) ──────────────┘

Byte-level BPE is GPT-2's (Radford et al. 2019, §2.2): it encodes any text, and decoding restores the text. The trained
file depends only on the documents and the settings. A hash of the ids decides which documents are in the sample, and
the trainer only counts words, so neither order nor threads matter.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import tokenizers
from pydantic import Field

from headrace.data_prep.document import read_documents
from headrace.data_prep.tokenization.encode import END_OF_TEXT, Encoder, is_special, parse
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.artifact import Artifact, TaskOutput
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, Positive, settings
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, raw_file

BYTES = tokenizers.pre_tokenizers.ByteLevel.alphabet()
"""The 256 characters that stand for the 256 bytes."""

WORD_BYTES = 2000
"""Longer words are cut for training, whose time is quadratic in the longest word (135 s for 400,000 letters). The
longest word in English books, web pages and newswire has 185 bytes (a run of spaces). Encoding cuts no words."""

READ_FACTOR = 4
"""Compressed bytes of the document shards from which a sample is drawn, as a multiple of the sample's bytes."""


@settings
class Trained:
    """Byte-level BPE trained on the documents of ``unique``. End of text has id 0."""

    type: Literal["train"] = "train"
    vocabulary_size: Annotated[int, Field(gt=len(BYTES), le=2**31)] = 8192
    """Most tokens, including the 256 bytes and end of text. Fewer if no pair of tokens occurs twice."""
    sample_bytes: Positive = 100_000_000
    """UTF-8 bytes of text to train on, rounded up to whole documents."""

    def raw_files(self) -> tuple[RawFile, ...]:
        return ()

    def vocabulary(self) -> int:
        """Returns the largest possible number of tokens, which is known before the training."""
        return self.vocabulary_size

    def build(self, unique: Artifact, counts: Counter[str]) -> str:
        """Trains on a sample of ``unique`` and returns the tokenizer.json."""
        return self.train(self._sample(unique.shards("documents"), counts))

    def train(self, texts: Iterable[str]) -> str:
        """Trains on ``texts`` and returns the tokenizer.json. Longer words are cut into words of WORD_BYTES."""
        tokenizer = byte_level(tokenizers.models.BPE())
        whole_words = tokenizer.pre_tokenizer
        cut = tokenizers.pre_tokenizers.FixedLength(WORD_BYTES)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([whole_words, cut])
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=self.vocabulary_size,
            min_frequency=2,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=BYTES,
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        tokenizer.pre_tokenizer = whole_words
        return str(tokenizer.to_str())

    def _sample(self, shards: list[Path], counts: Counter[str]) -> Iterator[str]:
        """Yields the texts whose ids have the smallest keys, up to ``sample_bytes``."""
        chosen = self._shards_to_read(shards)
        documents = (document for shard in chosen for document in read_documents(shard))
        sizes = ((key_of("sample", document.id), len(document.text.encode())) for document in documents)
        table = np.sort(np.fromiter(sizes, dtype=[("key", "<u8"), ("bytes", "<i8")]))
        wanted = int(np.searchsorted(np.cumsum(table["bytes"]), self.sample_bytes)) + 1
        last_key = int(table["key"][:wanted].max(initial=0))
        for document in (document for shard in chosen for document in read_documents(shard)):
            if key_of("sample", document.id) <= last_key:
                counts["sample_documents"] += 1
                counts["sample_bytes"] += len(document.text.encode())
                yield document.text

    def _shards_to_read(self, shards: list[Path]) -> list[Path]:
        chosen: list[Path] = []
        bytes_to_read = READ_FACTOR * self.sample_bytes
        for shard in sorted(shards, key=lambda path: key_of("sample", path.name)):
            if bytes_to_read <= 0:
                break
            chosen.append(shard)
            bytes_to_read -= shard.stat().st_size
        return chosen


@settings
class GivenFile:
    """A tokenizer.json of the tokenizers library; its vocabulary must have ``<|endoftext|>``."""

    type: Literal["file"] = "file"
    path: FilePath = dataclasses.field(metadata={"hashed": False})
    """The path of the file. Its content decides the result, not its path."""

    def raw_files(self) -> tuple[RawFile, ...]:
        parse(_read_text("tokenizer.path", self.path), self.path)
        return (raw_file("tokenizer.json", Path(self.path)),)

    def vocabulary(self) -> int:
        """Returns the number of tokens in the file."""
        return Encoder(parse(_read_text("tokenizer.path", self.path), self.path)).vocabulary_size

    def build(self, unique: Artifact, counts: Counter[str]) -> str:
        """Returns the content of the file. If end of text is an ordinary token, it is made a special one."""
        text = _read_text("tokenizer.path", self.path)
        tokenizer = parse(text, self.path)
        return text if is_special(tokenizers.Tokenizer.from_str(text)) else str(tokenizer.to_str())


@settings
class Gpt2Files:
    """GPT-2's two files as released by OpenAI. End of text has id 50256."""

    type: Literal["gpt2_files"] = "gpt2_files"
    encoder: FilePath = dataclasses.field(metadata={"hashed": False})
    """The path of encoder.json: token → id."""
    merges: FilePath = dataclasses.field(metadata={"hashed": False})
    """The path of vocab.bpe: the pairs of tokens to merge, the most frequent first."""

    def raw_files(self) -> tuple[RawFile, ...]:
        self._tokenizer()
        return (raw_file("encoder.json", Path(self.encoder)), raw_file("vocab.bpe", Path(self.merges)))

    def vocabulary(self) -> int:
        """Returns the number of tokens in the two files."""
        return Encoder(self._tokenizer()).vocabulary_size

    def build(self, unique: Artifact, counts: Counter[str]) -> str:
        """Returns the two files as tokenizer.json."""
        return str(self._tokenizer().to_str())

    def _tokenizer(self) -> tokenizers.Tokenizer:
        vocabulary = _vocabulary(self.encoder)
        tokenizer = byte_level(tokenizers.models.BPE(vocabulary, _merges(self.merges, vocabulary)))
        return parse(tokenizer.to_str(), self.encoder)


TokenizerSettings = Annotated[Trained | GivenFile | Gpt2Files, Field(discriminator="type")]
"""The origin of the tokenizer."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokenizer(Stage):
    """Makes ``tokenizer.json``; counts ``vocabulary`` and, if trained, ``sample_documents`` and ``sample_bytes``."""

    name: ClassVar[str] = "tokenizer"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("unique",)

    settings: TokenizerSettings

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the given files and checks that they are a tokenizer.

        Raises:
            ConfigError: if a file is missing or has the wrong content.
        """
        return self.settings.raw_files()

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("tokenizer", 1, self._run),)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        counts: Counter[str] = Counter()
        text = self.settings.build(inputs["unique"], counts)
        with out.file("tokenizer.json") as path:
            path.write_text(text, encoding="utf-8")
        counts["vocabulary"] = Encoder(parse(text, self.name)).vocabulary_size
        return counts


def byte_level(model: tokenizers.models.Model) -> tokenizers.Tokenizer:
    """Returns ``model`` with GPT-2's pre-tokenization (regular expression, bytes as characters) and its inverse."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


def _read_text(where: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(where, f"cannot read {path!r} ({error.strerror})", "give the path of the file") from None
    except UnicodeDecodeError:
        raise ConfigError(where, f"{path!r} is not UTF-8 text", "give the path of the right file") from None


def _vocabulary(path: str) -> dict[str, int]:
    wrong = ConfigError(
        "tokenizer.encoder", f"{path!r} is not a JSON object of token → id", "give GPT-2's encoder.json"
    )
    try:
        vocabulary = json.loads(_read_text("tokenizer.encoder", path))
    except ValueError:
        raise wrong from None
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise wrong
    return vocabulary


def _merges(path: str, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    lines = _read_text("tokenizer.merges", path).splitlines()
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("#version") or not line:
            continue
        left, _, right = line.partition(" ")
        if not {left, right, left + right} <= vocabulary.keys():
            wrong = f"line {number} of {path!r}, {line[:40]!r}, is not a merge of two tokens into a third"
            raise ConfigError("tokenizer.merges", wrong, "give the vocab.bpe that belongs to the encoder.json")
        merges.append((left, right))
    return merges
