"""Encodes texts to token ids that depend only on the text.

    tokenizer.json ── load ──> Encoder ── encode(texts) ──> one array of ids per text

The ids are those of the tokenizers library. gigatoken computes them if it is known to give the same ids (``fast_bpe``).
A tokenizer.json may truncate, pad, or add tokens to its input, and treats ``<|endoftext|>`` inside a page as the end of
a document. All of this is switched off here: ``<|endoftext|>`` in a page is text like any other. Only the stage
``tokens`` writes the end-of-text id between documents.
"""

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from headrace.data_prep.tokenization.fast_bpe import FastBpe, verified_fast_bpe
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT, document_end, known_tokens, spelling
from headrace.data_prep.tokenization.text_bytes import covered_bytes, token_bytes
from headrace.pipeline.core.errors import ArtifactError, ConfigError

BATCH_BYTES = 1_000_000
"""UTF-8 bytes of a batch of texts, approximately: enough for all cores, but little memory."""


class Encoder:
    """Encodes and decodes with a tokenizer.json that has a token that ends a document."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        ids = tokenizer.get_vocab(with_added_tokens=True)
        self.end_of_text: int = ids[document_end(ids) or END_OF_TEXT]
        """The token that ends a document: end of text, or ``</s>`` or ``[SEP]`` in a tokenizer without it."""
        self.unknown: int | None = ids.get(spelling("[UNK]", ids) or "")
        """The token of text that has no other one; None if the tokenizer has none."""
        self.vocabulary_size: int = max(ids.values()) + 1

    @classmethod
    def load(cls, path: Path) -> "Encoder":
        """Returns the encoder of the file ``path``. A process shares one encoder for the same content.

        Raises:
            ArtifactError: if it is not a tokenizer.json, or has no token that ends a document.
        """
        try:
            return _encoder(path.read_text(encoding="utf-8"), str(path))
        except ConfigError as error:
            raise ArtifactError(error.where, error.wrong, error.remedy) from None

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """The tokenizer of the tokenizers library."""
        return self._tokenizer

    @functools.cached_property
    def _fast(self) -> FastBpe | str:
        return verified_fast_bpe(self._tokenizer)

    @functools.cached_property
    def _slow(self) -> tokenizers.Tokenizer:
        """The tokenizer without its special tokens, which no text encodes to."""
        return _of_text(self._tokenizer)

    @property
    def slow_because(self) -> str | None:
        """The reason why the tokenizers library encodes; None if gigatoken does."""
        return self._fast if isinstance(self._fast, str) else None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of token ids on disk: little-endian uint16 for up to 65,536 tokens, else uint32."""
        return np.dtype("<u2" if self.vocabulary_size <= 1 << 16 else "<u4")

    @functools.cached_property
    def token_bytes(self) -> NDArray[np.int64] | None:
        """The UTF-8 bytes of text of each token, (vocabulary,); None if they differ from text to text."""
        return token_bytes(self._tokenizer)

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """Returns the ids of each text, without added tokens, as arrays of ``dtype``."""
        if isinstance(self._fast, FastBpe):
            return [self._fast.encode(text).astype(self.dtype) for text in texts]
        encodings = self._slow.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=self.dtype) for encoding in encodings]

    def encode_with_bytes(self, texts: Sequence[str]) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Returns the ids of each text, (n,), and the UTF-8 bytes of text of each of its tokens and of the end of the
        document, (n + 1,). The sum of these is the number of bytes of the text: bytes without a token, such as dropped
        spaces, count for the next one."""
        encodings = self._slow.encode_batch(list(texts), add_special_tokens=False)
        return [
            (np.array(encoding.ids, dtype=self.dtype), covered_bytes(text, encoding.offsets))
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """Returns the ids of a text, and the first character of each token and the one after its last."""
        encoding = self._slow.encode(text, add_special_tokens=False)
        return np.array(encoding.ids, np.int64), list(encoding.offsets)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Returns the text of ``ids``, including special tokens."""
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))


@functools.lru_cache(maxsize=2)
def _encoder(text: str, where: str) -> Encoder:
    return Encoder(parse(text, where))


def parse(text: str, where: str) -> tokenizers.Tokenizer:
    """Parses the JSON ``text`` as a tokenizer, with the token that ends a document as a special token.

    Raises:
        ConfigError: at ``where``, if it is not a tokenizer.json or its vocabulary lacks such a token.
    """
    try:
        tokenizer = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001  (the Rust side raises nothing narrower)
        wrong = f"is not a tokenizer.json ({error})"
        raise ConfigError(where, wrong, "give one that the tokenizers library saved") from None
    present = tokenizer.get_vocab(with_added_tokens=True)
    if document_end(present) is None:
        remedy = "add it as a special token, or train a tokenizer here (tokenizer=train)"
        raise ConfigError(where, f"the tokenizer has no token {END_OF_TEXT!r}, which ends a document", remedy)
    if not is_special(tokenizer):
        tokenizer.add_special_tokens(known_tokens(sorted(present, key=present.__getitem__)))
    return tokenizer


def is_special(tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether the token that ends a document is a special token, which no text encodes to."""
    end = document_end(tokenizer.get_vocab(with_added_tokens=True))
    return any(t.content == end and t.special for t in tokenizer.get_added_tokens_decoder().values())


def _of_text(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Returns ``tokenizer`` with other names for its special tokens, so that text that spells one is text.

    The library never splits special tokens from the text here, but a model of words or parts of words would still find
    them in its vocabulary. The new names begin with a character that stands for nothing (Unicode's last noncharacter).
    """
    description = json.loads(tokenizer.to_str())
    special = {token["content"] for token in description["added_tokens"] if token["special"]}
    names = {token: f"\U0010ffff{number}" for number, token in enumerate(sorted(special))}
    model = description["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {names.get(token, token): number for token, number in model["vocab"].items()}
    if model.get("unk_token") is not None:
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    if "merges" in model:
        model["merges"] = [merge for merge in model["merges"] if not special & {*merge, "".join(merge)}]
    ordinary = [token for token in description["added_tokens"] if not token["special"]]
    of_text = tokenizers.Tokenizer.from_str(
        json.dumps(description | {"added_tokens": ordinary, "post_processor": None})
    )
    of_text.encode_special_tokens = True
    return of_text


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
