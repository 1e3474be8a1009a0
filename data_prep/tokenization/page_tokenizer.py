"""Tokenizes pages: a text that spells a special token is text.

    text ── as the library does ──> ids ── none of a special token ──> the result
                                     └──── one of them ──> once more, with a model that does not have these tokens

The library can leave special tokens in a text unsplit. A model of words or parts of words may still find them in its
vocabulary. Everything else of a tokenizer is kept, its added tokens above all: the library numbers them in their order,
from the size of the vocabulary on, so a list without some of them has other ids.
"""

import contextlib
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import models

from headrace.pipeline.core.errors import ArtifactError, ConfigError

NONCHARACTER = "\U0010ffff"
"""The last code point of Unicode, which stands for no character."""

NO_PARTS: Mapping[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
}
"""A tokenizer.json without its model."""


class PageTokenizer:
    """Gives a text the ids of a tokenizer, but not those of its special tokens. It adds and cuts nothing."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, where: str) -> None:
        """Takes a ``tokenizer`` that leaves special tokens unsplit (``encode_special_tokens``); ``where`` names it.

        Raises:
            ConfigError: if a special token is also the only token of a character.
        """
        self._where = where
        added = tokenizer.get_added_tokens_decoder()
        special = {token.content for token in added.values() if token.special}
        without = _without(tokenizer, special, where)
        # Only in BPE can a token that is in no result have led to it.
        first = tokenizer.model if without is None or isinstance(tokenizer.model, models.BPE) else without
        self._first = _with_model(tokenizer, first)
        self._second = None if without is None or first is without else _with_model(tokenizer, without)
        self._special = frozenset(number for number, token in added.items() if token.special)

    def encode(self, texts: Sequence[str], with_offsets: bool = True) -> list[tokenizers.Encoding]:
        """Returns the encoding of each of ``texts``; offsets take longer.

        Raises:
            ArtifactError: when the library cannot encode one.
        """
        batch = self._first.encode_batch if with_offsets else self._first.encode_batch_fast
        with library_errors(self._where):
            encodings: list[tokenizers.Encoding] = batch(list(texts), add_special_tokens=False)
            if self._second is None:
                return encodings
            return [
                encoding
                if self._special.isdisjoint(encoding.ids)
                else self._second.encode(text, add_special_tokens=False)
                for text, encoding in zip(texts, encodings, strict=True)
            ]


def spelled(model: Mapping[str, Any], special: Collection[str]) -> set[str]:
    """Returns the ``special`` tokens that a ``model`` of a tokenizer.json may find in a text."""
    vocabulary = model["vocab"]
    present = {*special} & {*([piece for piece, _ in vocabulary] if isinstance(vocabulary, list) else vocabulary)}
    changes = ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")
    if model["type"] != "BPE" or any(model.get(name) for name in changes):
        return present
    merged = {left + right for left, right in model["merges"]}
    is_byte = "<0x" if model["byte_fallback"] else NONCHARACTER
    return {token for token in present if len(token) == 1 or token in merged or token.startswith(is_byte)}


def is_of_library(error: BaseException) -> bool:
    """Whether the Rust side of the tokenizers library raised ``error``: ``Exception``, or a panic, which is none."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


@contextlib.contextmanager
def library_errors(where: str) -> Iterator[None]:
    """Turns an error of the tokenizers library about a text into an ArtifactError at ``where``."""
    try:
        yield
    except BaseException as error:
        if not is_of_library(error):
            raise
        problem = f"the tokenizers library cannot encode a text with it ({error})"
        remedy = 'set "single_word", "lstrip" and "rstrip" of its added tokens to false, or give another tokenizer'
        raise ArtifactError(where, problem, remedy) from None


def _with_model(tokenizer: tokenizers.Tokenizer, model: models.Model) -> tokenizers.Tokenizer:
    """Returns a copy of ``tokenizer`` with this ``model``, the same added tokens, and nothing after the model."""
    added = tokenizer.get_added_tokens_decoder()
    numbers = {token.content: number for number, token in added.items()}
    copy = tokenizers.Tokenizer(models.WordLevel(numbers, unk_token=""))  # it numbers the added tokens
    copy.normalizer = tokenizer.normalizer
    copy.pre_tokenizer = tokenizer.pre_tokenizer
    copy.add_tokens([*added.values()])
    copy.model = model
    copy.encode_special_tokens = True
    return copy


def _without(tokenizer: tokenizers.Tokenizer, special: Collection[str], where: str) -> models.Model | None:
    """Returns the model of ``tokenizer``, with other names for those of its ``special`` tokens that a text may spell.

    The names hold a hash of the vocabulary: no page was written with one in it. None if no text spells one.
    """
    if not any(tokenizer.model.token_to_id(token) is not None for token in special):
        return None
    text = tokenizer.to_str()
    model = json.loads(text)["model"]
    spelled_tokens = spelled(model, special)
    if not spelled_tokens:
        return None
    _check_characters(model, spelled_tokens, where)
    digest = hashlib.sha256(text.encode()).hexdigest()
    names = {token: f"{NONCHARACTER}{digest}{number}" for number, token in enumerate(sorted(spelled_tokens))}
    renamed: models.Model = tokenizers.Tokenizer.from_str(
        json.dumps({**NO_PARTS, "model": _renamed(model, names)})
    ).model
    return renamed


def _renamed(model: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Returns ``model`` with other ``names`` of tokens, and without the merges that lead to these."""
    changed = dict(model)
    if model["type"] == "Unigram":
        changed["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        changed["vocab"] = {names.get(token, token): number for token, number in model["vocab"].items()}
    if model.get("unk_token") is not None:
        changed["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    if "merges" in model:
        cut = len(model.get("continuing_subword_prefix") or "")
        merges = [(left, right, left + right[cut:]) for left, right in model["merges"]]
        changed["merges"] = [merge[:2] for merge in merges if not names.keys() & {*merge}]
    return changed


def _check_characters(model: Mapping[str, Any], special: Collection[str], where: str) -> None:
    """Refuses a special token without which a character would have no token at all."""
    if model["type"] != "BPE" or model["unk_token"] is not None or model["byte_fallback"]:
        return
    if alone := min((token for token in special if len(token) == 1), default=None):
        problem = f"its special token {alone!r} is also the token of a character, which no text could have then"
        raise ConfigError(where, problem, "give special tokens names of their own")
