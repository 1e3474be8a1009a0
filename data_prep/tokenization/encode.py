"""Text → token ids, with the tokenizer made harmless: what it gives depends on the text alone.

    tokenizer.json ── load ──> Encoder ── encode(texts) ──> one array of ids per text

The ids are those of the tokenizers library; where gigatoken is known to give the same, it does the work (``fast_bpe``).
A tokenizer.json may cut, pad or frame what it encodes, and takes ``<|endoftext|>`` inside a page for the end of a
document. Here none of that happens: a page that talks about ``<|endoftext|>`` is text like any other, and only the
tokens stage puts the end-of-text id between documents.
"""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from headrace.data_prep.tokenization.fast_bpe import FastBpe, proven
from headrace.pipeline.core.errors import ArtifactError, ConfigError

END_OF_TEXT = "<|endoftext|>"
"""Ends one document and begins the next. GPT-2's name for it."""

BATCH_BYTES = 1_000_000
"""Texts are encoded in batches of about this many UTF-8 bytes: enough for every core, little memory."""


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
        """The encoder of the file ``path``; one and the same in a process, for the same content.

        Raises:
            ArtifactError: when it is not a tokenizer.json, or has no end-of-text token.
        """
        try:
            return _encoder(path.read_text(encoding="utf-8"), str(path))
        except ConfigError as error:
            raise ArtifactError(error.where, error.wrong, error.remedy) from None

    @functools.cached_property
    def _fast(self) -> FastBpe | str:
        return proven(self._tokenizer)

    @property
    def slow_because(self) -> str | None:
        """Why the tokenizers library has to encode; None where gigatoken does."""
        return self._fast if isinstance(self._fast, str) else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """What holds a token id on disk: little-endian uint16 for up to 65,536 of them, else uint32."""
        return np.dtype("<u2" if self.vocabulary_size <= 1 << 16 else "<u4")

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """The ids of each text, without anything added, as arrays of ``dtype``."""
        if isinstance(self._fast, FastBpe):
            return [self._fast.encode(text).astype(self.dtype) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=self.dtype) for encoding in encodings]

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """The text of ``ids``, special tokens included."""
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))


@functools.lru_cache(maxsize=2)
def _encoder(text: str, where: str) -> Encoder:
    return Encoder(parse(text, where))


def parse(text: str, where: str) -> tokenizers.Tokenizer:
    """The tokenizer that the JSON ``text`` describes, with end of text as a special token.

    Raises:
        ConfigError: at ``where``, when it is not a tokenizer.json or its vocabulary lacks end of text.
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
    """Whether end of text is one of the special tokens: one that text can never spell."""
    return any(t.content == END_OF_TEXT and t.special for t in tokenizer.get_added_tokens_decoder().values())


def batches(texts: Iterator[str]) -> Iterator[list[str]]:
    """``texts`` in lists that are closed as soon as they hold ``BATCH_BYTES``."""
    batch: list[str] = []
    room = BATCH_BYTES
    for text in texts:
        batch.append(text)
        room -= len(text.encode())
        if room <= 0:
            yield batch
            batch, room = [], BATCH_BYTES
    if batch:
        yield batch
