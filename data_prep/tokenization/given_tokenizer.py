"""A given tokenizer: a tokenizer.json of any model."""

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tokenizers

from headrace.data_prep.tokenization.encode import Encoder, parsed, read, with_ordinary_bytes
from headrace.data_prep.tokenization.special_tokens import (
    TOKENIZER_CONFIG,
    document_end,
    end_of_documents,
    spelling,
)
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError
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
class GivenFile:
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
        """Returns the file, and the tokenizer_config.json that is read, after checking that they are a tokenizer.

        Raises:
            ConfigError: if a file is missing or has the wrong content.
        """
        end, file = self.named_end(), Path(self.path)
        Encoder(self.tokenizer(), self.path, end)
        is_read = end is not None and self.end_of_text is None
        config = [raw_file(TOKENIZER_CONFIG, file.parent / TOKENIZER_CONFIG)] if is_read else []
        return (raw_file("tokenizer.json", file), *config)

    def named_end(self) -> str | None:
        """Returns the token of the setting, or that of tokenizer_config.json where no token has a known name.

        None: the one with such a name ends a document (``special_tokens.DOCUMENT_ENDS``).
        Its name becomes part of what the stage writes, and the tokenizer is refused where it has no such token.
        """
        if self.end_of_text is not None:
            return self.end_of_text
        _check_format(Path(self.path))
        ids = parsed(read_text(self.path), self.path).get_vocab(with_added_tokens=True)
        return None if document_end(ids) else end_of_documents(Path(self.path), ids)

    def tokenizer(self) -> tokenizers.Tokenizer:
        """Returns the tokenizer, with the token that ends a document as a special token."""
        return self._read()[1]

    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        """Returns the number of tokens in the file."""
        return Encoder(self.tokenizer(), end=self.named_end()).vocabulary_size

    def lacks(self, special_tokens: Sequence[str]) -> list[str]:
        """Returns the ``special_tokens`` that the file does not have under any spelling."""
        present = self.tokenizer().get_vocab(with_added_tokens=True) if special_tokens else {}
        return [token for token in special_tokens if spelling(token, present) is None]

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
        return read(read_text(self.path), self.path, end)


def read_text(path: str) -> str:
    """Returns the content of the file ``path``.

    Raises:
        ConfigError: naming the setting, if it cannot be read, is an archive or is not UTF-8.
    """
    try:
        return plain_text(Path(path))
    except OSError as error:
        problem = f"cannot read {path!r} ({error.strerror})"
        raise ConfigError("tokenizer.path", problem, "give the path of the file") from None
    except ArtifactError as error:
        raise ConfigError("tokenizer.path", f"{path!r} {error.problem}", error.remedy) from None
    except UnicodeDecodeError:
        problem = f"{path!r} is not UTF-8 text"
        raise ConfigError("tokenizer.path", problem, "give the path of the right file") from None


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
