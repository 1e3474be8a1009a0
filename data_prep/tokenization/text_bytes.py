"""The UTF-8 bytes of text that each token of a document stands for.

    text       "Ünique  text"            13 bytes
    tokens     unique     text    E      of a tokenizer that folds case and drops spaces
    offsets    (0, 6)     (8, 12)        characters of the text
    bytes      7          6       0      from the end of the token before to its own end

In a byte-level vocabulary a token always stands for the same bytes: a table by its id is enough. All other tokenizers
may drop or replace text, so that the bytes of a token differ from text to text.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from headrace.data_prep.tokenization.fast_bpe import BYTES

SPLITTERS = ("ByteLevel", "Split", "Digits", "Punctuation", "FixedLength", "UnicodeScripts")
"""Pre-tokenizers that drop and replace no character, unless ``behavior`` removes what they find."""


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
