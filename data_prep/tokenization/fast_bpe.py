"""Byte-level BPE by gigatoken, about a hundred times as fast as the tokenizers library, if both give the same ids.

    tokenizer ── verified_fast_bpe ──> FastBpe ── encode(text) ──> ids
                                  └──> the reason why gigatoken cannot be used

The tokenizers library is the reference. ``verified_fast_bpe`` allows gigatoken only for the forms of a tokenizer.json
that are listed here, and only if both give the same ids for texts that would show a difference: each token of the
vocabulary, and mixtures of all characters that matter for the splitting into words.
"""

import itertools
import json
from typing import Any

import numpy as np
import tokenizers
from gigatoken import Tokenizer as Gigatoken
from numpy.typing import NDArray

from headrace.data_prep.tokenization.page_tokenizer import PROBE_LENGTH, probes, spelled

BYTES = frozenset(tokenizers.pre_tokenizers.ByteLevel.alphabet())
"""The 256 characters that stand for the 256 bytes."""

GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
"""GPT-2's splitting into words, by the library's own expression."""

LLAMA3_EXPRESSION = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Splits a text into words, in the tokenizer.json of Llama 3 and later models."""

LLAMA3 = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": LLAMA3_EXPRESSION}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
    ],
}

RENEW_BYTES = 1 << 27
"""gigatoken 0.10 caches every distinct word. It is replaced by a new instance after this many characters of text, so
the cache stays below 1 GB even if no word occurs twice."""


class FastBpe:
    """Encodes with a tokenizer.json. Its special tokens are text like any other."""

    def __init__(self, description: dict[str, Any]) -> None:
        """Builds the encoder from a parsed tokenizer.json, which ``verified_fast_bpe`` must have accepted."""
        self._json = json.dumps(description | {"added_tokens": []})
        self._renew()

    def encode(self, text: str) -> NDArray[np.uint32]:
        """Returns the ids of ``text``, without added tokens: (n_tokens,)."""
        self._left -= len(text)
        if self._left < 0:
            self._renew()
        ids: NDArray[np.uint32] = self._gigatoken.backend.encode(text)
        return ids

    def _renew(self) -> None:
        self._gigatoken = Gigatoken.from_json(self._json)
        self._left = RENEW_BYTES


def verified_fast_bpe(tokenizer: tokenizers.Tokenizer) -> FastBpe | str:
    """Returns a FastBpe that encodes like ``tokenizer``, or the reason why there is none.

    Args:
        tokenizer: a tokenizer that does not truncate or pad, and encodes special tokens as text
            (``encode_special_tokens``).
    """
    description = json.loads(tokenizer.to_str())
    reason = _unknown_form(description)
    if reason is not None:
        return reason
    fast = FastBpe(description)
    return _difference(fast, tokenizer) or fast


def _unknown_form(description: dict[str, Any]) -> str | None:
    model = description["model"]
    if model["type"] != "BPE":
        return f"its model is {model['type']}, not BPE"
    absent = (None, False, 0, "")
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model[name] not in absent:
            return f"its model has {name} {model[name]!r}"
    if description["normalizer"] is not None:
        return f"it has a normalizer, {description['normalizer']['type']}"
    if _without(description["pre_tokenizer"], "trim_offsets") not in (GPT2, LLAMA3):
        return "its pre-tokenizer is neither GPT-2's nor Llama 3's"
    ordinary = [token["content"] for token in description["added_tokens"] if not token["special"]]
    if ordinary:
        return f"it has added tokens that are not special, such as {ordinary[0]!r}"
    added = {token["content"] for token in description["added_tokens"]}
    if spelled_token := min(spelled(model, added), default=None):
        return f"its model finds the special token {spelled_token!r} in a text"
    return _unknown_vocabulary(model["vocab"].keys() - added, model["merges"])


def _unknown_vocabulary(tokens: set[str], merges: list[list[str]]) -> str | None:
    if not tokens >= BYTES:
        return f"its vocabulary lacks {len(BYTES - tokens)} of the 256 bytes"
    other = min((token for token in tokens if not BYTES.issuperset(token)), default=None)
    if other is not None:
        return f"its token {other!r} is not made of bytes"
    # gigatoken uses the id of the merged token as rank of the merge if ids increase with ranks.
    if any("".join(a) == "".join(b) for a, b in itertools.pairwise(merges)):
        return "two successive merges give the same token"
    return None


def _without(value: Any, name: str) -> Any:
    """Returns ``value`` without the keys ``name`` at any depth."""
    if isinstance(value, dict):
        return {key: _without(item, name) for key, item in value.items() if key != name}
    return [_without(item, name) for item in value] if isinstance(value, list) else value


def _difference(fast: FastBpe, slow: tokenizers.Tokenizer) -> str | None:
    texts = probes() + _all_tokens(slow)
    for text, encoding in zip(texts, slow.encode_batch_fast(texts, add_special_tokens=False), strict=True):
        if fast.encode(text).tolist() != encoding.ids:
            return f"gigatoken gives different ids for {text!r}"
    return None


def _all_tokens(tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Returns the texts of all tokens, in the order of their ids, ``PROBE_LENGTH`` tokens in a text."""
    texts = tokenizer.decode_batch([[token] for token in range(max(tokenizer.get_vocab().values()) + 1)])
    return ["\n".join(texts[first : first + PROBE_LENGTH]) for first in range(0, len(texts), PROBE_LENGTH)]
