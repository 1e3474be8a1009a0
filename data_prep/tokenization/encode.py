"""Encodes texts to token ids that depend only on the text.

    tokenizer.json ── load ──> Encoder ── encode(texts) ──> one array of ids per text

The ids are those of the tokenizers library. gigatoken computes them if it is known to give the same ids (``fast_bpe``).
A tokenizer.json may truncate, pad, or add tokens to its input, and treats ``<|endoftext|>`` inside a page as the end of
a document. All of this is switched off here: ``<|endoftext|>`` in a page is text like any other. Only the stage
``tokens`` writes the end-of-text id between documents.
"""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from headrace.data_prep.tokenization.fast_bpe import FastBpe, verified_fast_bpe
from headrace.pipeline.core.errors import ArtifactError, ConfigError

END_OF_TEXT = "<|endoftext|>"
"""The token between two documents, under its GPT-2 name."""

BATCH_BYTES = 1_000_000
"""UTF-8 bytes of a batch of texts, approximately: enough for all cores, but little memory."""


class Encoder:
    """Encodes and decodes with a tokenizer.json that has an end-of-text token."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        ids = tokenizer.get_vocab(with_added_tokens=True)
        self.end_of_text: int = ids[END_OF_TEXT]
        self.vocabulary_size: int = max(ids.values()) + 1

    @classmethod
    def load(cls, path: Path) -> "Encoder":
        """Returns the encoder of the file ``path``. A process shares one encoder for the same content.

        Raises:
            ArtifactError: if it is not a tokenizer.json, or has no end-of-text token.
        """
        try:
            return _encoder(path.read_text(encoding="utf-8"), str(path))
        except ConfigError as error:
            raise ArtifactError(error.where, error.wrong, error.remedy) from None

    @functools.cached_property
    def _fast(self) -> FastBpe | str:
        return verified_fast_bpe(self._tokenizer)

    @property
    def slow_because(self) -> str | None:
        """The reason why the tokenizers library encodes; None if gigatoken does."""
        return self._fast if isinstance(self._fast, str) else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of token ids on disk: little-endian uint16 for up to 65,536 tokens, else uint32."""
        return np.dtype("<u2" if self.vocabulary_size <= 1 << 16 else "<u4")

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """Returns the ids of each text, without added tokens, as arrays of ``dtype``."""
        if isinstance(self._fast, FastBpe):
            return [self._fast.encode(text).astype(self.dtype) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=self.dtype) for encoding in encodings]

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Returns the text of ``ids``, including special tokens."""
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))


@functools.lru_cache(maxsize=2)
def _encoder(text: str, where: str) -> Encoder:
    return Encoder(parse(text, where))


def parse(text: str, where: str) -> tokenizers.Tokenizer:
    """Parses the JSON ``text`` as a tokenizer, with end of text as a special token.

    Raises:
        ConfigError: at ``where``, if it is not a tokenizer.json or its vocabulary lacks end of text.
    """
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001  (the Rust side raises nothing narrower)
        wrong = f"is not a tokenizer.json ({error})"
        raise ConfigError(where, wrong, "give one that the tokenizers library saved") from None
    if tokenizer.token_to_id(END_OF_TEXT) is None:
        remedy = "add it as a special token, or train a tokenizer here (tokenizer=train)"
        raise ConfigError(where, f"the tokenizer has no token {END_OF_TEXT!r}, which ends a document", remedy)
    if not is_special(tokenizer):
        tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def is_special(tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether end of text is a special token, which no text encodes to."""
    return any(t.content == END_OF_TEXT and t.special for t in tokenizer.get_added_tokens_decoder().values())


def batches(texts: Iterator[str]) -> Iterator[list[str]]:
    """Yields ``texts`` in lists. A list ends as soon as it holds ``BATCH_BYTES``."""
    batch: list[str] = []
    free_bytes = BATCH_BYTES
    for text in texts:
        batch.append(text)
        free_bytes -= len(text.encode())
        if free_bytes <= 0:
            yield batch
            batch, free_bytes = [], BATCH_BYTES
    if batch:
        yield batch
