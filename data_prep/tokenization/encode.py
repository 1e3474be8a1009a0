"""Encodes texts to token ids that depend only on the text.

    tokenizer.json ── load ──> Encoder ── encode(texts) ──> one array of ids per text

The ids are those of the tokenizers library, which ``check_ids`` compares before the first text. gigatoken computes them
if it is known to give the same ids (``fast_bpe``). A tokenizer.json may truncate, pad, or add tokens to its input, and
treats ``<|endoftext|>`` inside a page as the end of a document. All of this is switched off here: a special token in a
page is text like any other (``page_tokenizer``), and an ordinary added token keeps its id. A token of one byte is text,
too, where its file marks it as special. Only the stage ``tokens`` writes the end-of-text id between documents.

The UTF-8 bytes of text that each token of a document stands for follow from the offsets:

    text       "Ünique  text"            13 bytes
    tokens     unique     text    E      of a tokenizer that folds case and drops spaces
    offsets    (0, 6)     (8, 12)        characters of the text
    bytes      7          6       0      from the end of the token before to its own end

In a byte-level vocabulary a token always stands for the same bytes: a table by its id is enough. All other tokenizers
may drop or replace text, so that the bytes of a token differ from text to text.
"""

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from headrace.data_prep.tokenization.fast_bpe import BYTES, FastBpe, verified_fast_bpe
from headrace.data_prep.tokenization.page_tokenizer import (
    PageTokenizer,
    check_ids,
    check_numbers,
    check_texts,
    is_of_library,
    unknown_id,
)
from headrace.data_prep.tokenization.special_tokens import (
    END_OF_TEXT,
    TOKENIZER_CONFIG,
    document_end,
    end_of_documents,
    known_tokens,
    spelling,
)
from headrace.pipeline.core.errors import ArtifactError, ConfigError

SPLITTERS = ("ByteLevel", "Split", "Digits", "Punctuation", "FixedLength", "UnicodeScripts")
"""Pre-tokenizers that drop and replace no character, unless ``behavior`` removes what they find."""


ONE_BYTE = re.compile("<0x[0-9A-F]{2}>")
"""A token of one byte of a character that the vocabulary lacks (``byte_fallback``)."""


def token_bytes(tokenizer: tokenizers.Tokenizer) -> NDArray[np.int64] | None:
    """Returns the UTF-8 bytes of text of each token, (vocabulary,), 0 for special tokens; None if they are not fixed.

    In a byte-level vocabulary every character of a token's name stands for one byte (GPT-2's bytes_to_unicode).
    """
    if not _is_byte_level(json.loads(tokenizer.to_str())):
        return None
    added, numbers = tokenizer.get_added_tokens_decoder(), tokenizer.get_vocab(with_added_tokens=True)
    lengths = np.zeros(max(numbers.values()) + 1, np.int64)
    for token, number in numbers.items():
        lengths[number] = len(token)
    for number, added_token in added.items():
        lengths[number] = 0 if added_token.special else len(added_token.content.encode())
    return lengths


def covered_bytes(text: str, offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Returns the UTF-8 bytes of ``text`` from the end of the token before to the end of each token, and after them.

    Args:
        text: the document.
        offsets: the characters of ``text`` from which each token was made: beginning and end, (n,).

    Returns:
        (n + 1,): the last number is that of the end of the document. Their sum is the number of bytes of ``text``.
    """
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    lengths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    bytes_before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    ends = np.array(offsets, dtype=np.int64).reshape(-1, 2)[:, 1]
    seen = np.maximum.accumulate(np.concatenate([[0], ends, [len(codes)]]))
    return np.diff(bytes_before[seen])


def _is_byte_level(description: dict[str, Any]) -> bool:
    """Whether a tokenizer.json keeps each byte of a text, and each of its tokens always stands for the same bytes."""
    model, added = description["model"], description["added_tokens"]
    if model["type"] != "BPE" or description["normalizer"] is not None:
        return False
    if model["continuing_subword_prefix"] or model["end_of_word_suffix"]:
        return False
    parts = description["pre_tokenizer"] or {}
    parts = parts.get("pretokenizers", [parts])
    levels = [part for part in parts if part.get("type") == "ByteLevel"]
    if not levels or any(part["add_prefix_space"] for part in levels):
        return False
    if not all(part.get("type") in SPLITTERS and part.get("behavior") != "Removed" for part in parts):
        return False
    ordinary = [token for token in added if not token["special"]]
    keep_spaces = not any(token["lstrip"] or token["rstrip"] for token in ordinary)
    has_two_meanings = any(token["content"] in model["vocab"] and not token["content"].isascii() for token in ordinary)
    has_bytes = model["vocab"].keys() - {token["content"] for token in added} >= BYTES
    return keep_spaces and not has_two_meanings and has_bytes


BATCH_BYTES = 1_000_000
"""UTF-8 bytes of a batch of texts, approximately: enough for all cores, but little memory."""


NO_END = -1
"""The end of text of a tokenizer that has none. It only encodes."""


class Encoder:
    """Encodes and decodes with a tokenizer.json. A stage needs one that has a token that ends a document."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, where: str = "tokenizer.json", end: str | None = None) -> None:
        """Takes what ``parse`` returns, and compares the ids of its texts with those of the library.

        A document ends with the token ``end``; None: the one with such a name.

        Raises:
            ConfigError: at ``where``, naming a text that would get other ids, or has none.
        """
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._pages = PageTokenizer(tokenizer, where)
        check_ids(self._pages, tokenizer, where)
        ids = tokenizer.get_vocab(with_added_tokens=True)
        self.end: int | None = ids.get(end or document_end(ids) or END_OF_TEXT)
        """The token that ends a document: end of text, or ``</s>`` or ``[SEP]`` in a tokenizer without it."""
        self.end_of_text: int = NO_END if self.end is None else self.end
        unknown = unknown_id(tokenizer)
        self.unknown: int | None = ids.get(spelling("[UNK]", ids) or "") if unknown is None else unknown
        """The token of text that has no other one; None if the tokenizer has none."""
        self.vocabulary_size: int = max(ids.values()) + 1

    @classmethod
    def load(cls, path: Path, needs_end: bool = True) -> "Encoder":
        """Returns the encoder of the file ``path``. A process shares one encoder for the same content.

        Raises:
            ArtifactError: if it is no tokenizer.json, has no token that ends a document (which ``needs_end`` demands),
                or cannot encode every text.
        """
        try:
            text, where = path.read_text(encoding="utf-8"), str(path)
            is_alone = not (path.parent / TOKENIZER_CONFIG).is_file()
            end = None if is_alone else end_of_documents(path, parsed(text, where).get_vocab(with_added_tokens=True))
            return _encoder(text, where, end, needs_end)
        except ConfigError as error:
            raise ArtifactError(error.where, error.problem, error.remedy) from None

    @property
    def backend(self) -> tokenizers.Tokenizer:
        """The tokenizer of the tokenizers library."""
        return self._tokenizer

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

    @functools.cached_property
    def token_bytes(self) -> NDArray[np.int64] | None:
        """The UTF-8 bytes of text of each token, (vocabulary,); None if they differ from text to text."""
        return token_bytes(self._tokenizer)

    def encode(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """Returns the ids of each text, without added tokens, as arrays of ``dtype``."""
        if isinstance(self._fast, FastBpe):
            return [self._fast.encode(text).astype(self.dtype) for text in texts]
        encodings = self._pages.encode(texts, with_offsets=False)
        return [np.array(encoding.ids, dtype=self.dtype) for encoding in encodings]

    def encode_with_bytes(self, texts: Sequence[str]) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Returns the ids of each text, (n,), and the UTF-8 bytes of text of each of its tokens and of the end of the
        document, (n + 1,). The sum of these is the number of bytes of the text: bytes without a token, such as dropped
        spaces, count for the next one."""
        encodings = self._pages.encode(texts)
        return [
            (np.array(encoding.ids, dtype=self.dtype), covered_bytes(text, encoding.offsets))
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """Returns the ids of a text, and the first character of each token and the one after its last."""
        (encoding,) = self._pages.encode([text])
        return np.array(encoding.ids, np.int64), list(encoding.offsets)

    def decode(self, ids: Sequence[int] | NDArray[Any], skip_special_tokens: bool = False) -> str:
        """Returns the text of ``ids``, with special tokens or without."""
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens))


@functools.lru_cache(maxsize=2)
def _encoder(text: str, where: str, end: str | None, needs_end: bool) -> Encoder:
    return Encoder(read(text, where, end, needs_end)[1], where, end)


def parse(text: str, where: str, end: str | None = None) -> tokenizers.Tokenizer:
    """Returns the tokenizer of the JSON ``text``. The token that ends a document is a special one; see ``read``."""
    return read(text, where, end)[1]


def read(text: str, where: str, end: str | None = None, needs_end: bool = True) -> tuple[str, tokenizers.Tokenizer]:
    """Returns the tokenizer.json ``text`` and its tokenizer. The token that ends a document is a special one in both:
    ``end``, or the one with such a name; tokens of one byte are not.

    Raises:
        ConfigError: at ``where``, if it is not a tokenizer.json, its vocabulary lacks such a token (which ``needs_end``
            demands) or has two tokens of one id, or its ids are random.
    """
    tokenizer = parsed(text, where)
    if (changed := with_ordinary_bytes(text)) is not text:
        text, tokenizer = changed, parsed(changed, where)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    end = end or document_end(ids)
    if end not in ids and needs_end:
        remedy = "name another token (tokenizer.end_of_text=TOKEN), or train a tokenizer here (tokenizer=train)"
        raise ConfigError(where, f"the tokenizer has no token {end or END_OF_TEXT!r}, which ends a document", remedy)
    check_numbers(ids, where)
    check_texts(tokenizer, where)
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    if end is None or end not in ids or end in special:
        return text, tokenizer
    changed = _with_special_end(text, ids, end)
    return changed, parsed(changed, where)


def with_ordinary_bytes(text: str) -> str:
    """Returns the tokenizer.json ``text`` in which no token of one byte is special, as trainers may mark them.

    Characters without a token of their own are made of these. The library gives them the same ids either way.
    """
    if '"<0x' not in text:
        return text
    description = json.loads(text)
    added = description.get("added_tokens") or []
    marked = [token for token in added if token["special"] and ONE_BYTE.fullmatch(token["content"])]
    if not marked or not description["model"].get("byte_fallback"):
        return text
    for token in marked:
        token["special"] = False
    return json.dumps(description, ensure_ascii=False)


def _with_special_end(text: str, ids: Mapping[str, int], end: str) -> str:
    """Returns the tokenizer.json ``text`` in which ``end`` is special, and those ``ids`` that are so by their names."""
    description = json.loads(text)
    added = {token["content"]: token for token in description.get("added_tokens") or []}
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for token in dict.fromkeys((*known_tokens(sorted(ids, key=ids.__getitem__)), end)):
        added[token] = {"id": ids[token], "content": token, **plain, **added.get(token, {}), "special": True}
    return json.dumps(description | {"added_tokens": [*added.values()]}, ensure_ascii=False)


def parsed(text: str, where: str) -> tokenizers.Tokenizer:
    """Returns the tokenizer of the JSON ``text``, as the library reads it.

    Raises:
        ConfigError: at ``where``, if it is not a tokenizer.json.
    """
    try:
        return tokenizers.Tokenizer.from_str(text)
    except BaseException as error:
        if not is_of_library(error):
            raise
        problem = f"is not a tokenizer.json ({error})"
        raise ConfigError(where, problem, "give one that the tokenizers library saved") from None


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
