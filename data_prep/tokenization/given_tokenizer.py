"""Tokenizers from given files: a tokenizer.json of any model, or the two files of GPT-2 and RoBERTa."""

import abc
import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import tokenizers
from tokenizers import models

from headrace.data_prep.tokenization.encode import Encoder, parse, parsed, read, with_ordinary_bytes
from headrace.data_prep.tokenization.made_tokenizers import byte_level
from headrace.data_prep.tokenization.special_tokens import (
    TOKENIZER_CONFIG,
    document_end,
    end_of_documents,
    spelling,
)
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError
from headrace.pipeline.core.json_files import RepeatedNameError, each_once
from headrace.pipeline.core.settings import FilePath, by_content, settings
from headrace.pipeline.core.stage import RawFile, file_state, raw_file
from headrace.pipeline.core.text_files import plain_text

TIKTOKEN_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n")
"""A token in base64, and its rank."""
FROM_TIKTOKEN = (
    "convert it where tiktoken is installed, with the pattern and the special tokens of its model: python -c "
    '"from transformers.convert_slow_tokenizer import TikTokenConverter as C; '
    "C('FILE', extra_special_tokens=['<|endoftext|>']).converted().save('tokenizer.json')\""
)


@settings
class Given(abc.ABC):
    """A tokenizer from files."""

    type: str
    """The tag in settings."""

    @abc.abstractmethod
    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files, after checking that they are a tokenizer.

        Raises:
            ConfigError: if a file is missing or has the wrong content.
        """

    @abc.abstractmethod
    def tokenizer(self) -> tokenizers.Tokenizer:
        """Returns the tokenizer, with the token that ends a document as a special token."""

    def named_end(self) -> str | None:
        """Returns the token that ends a document; None: the one with such a name (``special_tokens.DOCUMENT_ENDS``)."""
        return None

    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        """Returns the number of tokens in the files."""
        return Encoder(self.tokenizer(), end=self.named_end()).vocabulary_size

    def lacks(self, special_tokens: Sequence[str]) -> list[str]:
        """Returns the ``special_tokens`` that the files do not have under any spelling."""
        present = self.tokenizer().get_vocab(with_added_tokens=True) if special_tokens else {}
        return [token for token in special_tokens if spelling(token, present) is None]

    def build(self, unique: Artifact, counts: "Counter[str]", special_tokens: Sequence[str] = ()) -> str:
        """Returns the files as tokenizer.json."""
        return str(self.tokenizer().to_str())


@settings
class GivenFile(Given):
    """A tokenizer.json of the tokenizers library, of any model. It must have a token that ends a document."""

    type: Literal["file"] = "file"
    path: FilePath = by_content()
    """The path of the file. Its content decides the result, not its path."""
    end_of_text: str | None = None
    """The token that ends a document; null: the one with a known name, else eos_token of the tokenizer_config.json
    next to the file."""

    @property
    def revision(self) -> int:
        """1; 2 where tokens of one byte are marked as special, which are text since."""
        return 1 + marks_bytes(Path(self.path))

    def raw_files(self) -> tuple[RawFile, ...]:
        end, file = self.named_end(), Path(self.path)
        Encoder(self.tokenizer(), self.path, end)
        is_read = end is not None and self.end_of_text is None
        config = [raw_file(TOKENIZER_CONFIG, file.parent / TOKENIZER_CONFIG)] if is_read else []
        return (raw_file("tokenizer.json", file), *config)

    def named_end(self) -> str | None:
        """Returns the token of the setting, or that of tokenizer_config.json where no token has a known name.

        Its name becomes part of what the stage writes, and the tokenizer is refused where it has no such token.
        """
        if self.end_of_text is not None:
            return self.end_of_text
        _check_format(Path(self.path))
        ids = parsed(read_text("tokenizer.path", self.path), self.path).get_vocab(with_added_tokens=True)
        return None if document_end(ids) else end_of_documents(Path(self.path), ids)

    def tokenizer(self) -> tokenizers.Tokenizer:
        return self._read()[1]

    def build(self, unique: Artifact, counts: "Counter[str]", special_tokens: Sequence[str] = ()) -> str:
        """Returns the content of the file. If its end of text is an ordinary token, it is made a special one.

        Counts ``renumbered_tokens``: the library gives them other ids than the file. It numbers added tokens that are
        not in the vocabulary in their order, and their ids here are those that it gives them everywhere.
        """
        text, tokenizer = self._read()
        added = json.loads(text)["added_tokens"]
        renumbered = sum(token["id"] != tokenizer.token_to_id(token["content"]) for token in added)
        if renumbered:
            counts["renumbered_tokens"] = renumbered
        return text

    def _read(self) -> tuple[str, tokenizers.Tokenizer]:
        end = self.named_end()
        _check_format(Path(self.path))
        return read(read_text("tokenizer.path", self.path), self.path, end)


@settings
class Gpt2Files(Given):
    """GPT-2's two files as released by OpenAI, in which end of text has id 50256, or those of RoBERTa and BART."""

    type: Literal["gpt2_files"] = "gpt2_files"
    encoder: FilePath = by_content()
    """The path of encoder.json (vocab.json): token → id."""
    merges: FilePath = by_content()
    """The path of vocab.bpe (merges.txt): the pairs of tokens to merge, the most frequent first."""

    def raw_files(self) -> tuple[RawFile, ...]:
        Encoder(self.tokenizer(), self.encoder)
        return (raw_file("encoder.json", Path(self.encoder)), raw_file("vocab.bpe", Path(self.merges)))

    def tokenizer(self) -> tokenizers.Tokenizer:
        vocabulary = _vocabulary(self.encoder)
        built = byte_level(models.BPE(vocabulary, _merges(self.merges, vocabulary)))
        return parse(built.to_str(), self.encoder)


def read_text(where: str, path: str) -> str:
    """Returns the content of the file ``path``.

    Raises:
        ConfigError: naming the setting ``where``, if it cannot be read, is an archive or is not UTF-8.
    """
    try:
        return plain_text(Path(path))
    except OSError as error:
        raise ConfigError(where, f"cannot read {path!r} ({error.strerror})", "give the path of the file") from None
    except ArtifactError as error:
        raise ConfigError(where, f"{path!r} {error.problem}", error.remedy) from None
    except UnicodeDecodeError:
        raise ConfigError(where, f"{path!r} is not UTF-8 text", "give the path of the right file") from None


def marks_bytes(file: Path) -> bool:
    """Whether the tokenizer.json ``file`` has special tokens of one byte; what is none has not."""
    return file.is_file() and _marks_bytes(file, file_state(file))


@functools.cache
def _marks_bytes(file: Path, state: tuple[int, int, int]) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError, HeadraceError):
        text = file.read_text(encoding="utf-8")
        parsed(text, str(file))
        return with_ordinary_bytes(text) is not text
    return False


def _check_format(path: Path) -> None:
    """Checks that ``path`` is no model of SentencePiece, which begins with the message of a token, nor of tiktoken.

    Raises:
        ConfigError: with the command that converts it.
    """
    try:
        with path.open("rb") as stream:
            begin = stream.read(3)
            first_line = begin + stream.readline(1000)
    except OSError:  # read_text names the reason
        return
    if begin[:1] == begin[2:] == b"\n":
        folder = str(path.parent)
        code = f"from transformers import AutoTokenizer as T; T.from_pretrained({folder!r}).save_pretrained({folder!r})"
        remedy = f"convert it where sentencepiece is installed, python -c {code!r}, and give the tokenizer.json"
        problem = f"{str(path)!r} is a model of SentencePiece, not a tokenizer.json"
        raise ConfigError("tokenizer.path", problem, remedy)

    if TIKTOKEN_LINE.fullmatch(first_line):
        problem = f"{str(path)!r} is a file of tiktoken, not a tokenizer.json"
        raise ConfigError("tokenizer.path", problem, f"{FROM_TIKTOKEN}, and give tokenizer.json")


def _vocabulary(path: str) -> dict[str, int]:
    remedy = "give GPT-2's encoder.json"
    error = ConfigError("tokenizer.encoder", f"{path!r} is not a JSON object of token → id", remedy)
    try:
        vocabulary = json.loads(read_text("tokenizer.encoder", path), object_pairs_hook=each_once)
    except RepeatedNameError as repeated:
        raise ConfigError("tokenizer.encoder", f"{path!r}: {repeated}", remedy) from None
    except ValueError:
        raise error from None
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise error
    return vocabulary


def _merges(path: str, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    lines = read_text("tokenizer.merges", path).splitlines()
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith("#version") or not line:
            continue
        left, _, right = line.partition(" ")
        if not {left, right, left + right} <= vocabulary.keys():
            problem = f"line {number} of {path!r}, {line[:40]!r}, is not a merge of two tokens into a third"
            raise ConfigError("tokenizer.merges", problem, "give the vocab.bpe that belongs to the encoder.json")
        merges.append((left, right))
    return merges
