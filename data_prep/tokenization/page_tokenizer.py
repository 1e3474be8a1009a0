"""Tokenizes pages: a text that spells a special token is text.

    text ── as the library does ──> ids ── none of a special token ──> the result
                                     └──── one of them ──> once more, with a model that does not have these tokens

The library can leave special tokens in a text unsplit. A model of words or parts of words may still find them in its
vocabulary. Everything else of a tokenizer is kept, its added tokens above all: the library numbers them in their order,
from the size of the vocabulary on, so a list without some of them has other ids.

Before anything is encoded, the ids are compared with the library's (``check_ids``), on texts that would show a
difference:

    added tokens    each alone, twice, inside words and brackets, at both ends, in other cases, cut; all in one text
    special tokens  the text of one that the model has, as its decoder writes it
    characters      all kinds that normalizers and splitters treat differently
"""

import contextlib
import functools
import hashlib
import json
import random
from collections import defaultdict
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


PROBE_CHARACTERS = (
    " \t\n\r\x0b\x0c\x1c\x85\xa0\u1680\u2003\u2028\u202f\u3000"  # white space
    "'sStTmMdDlLrRvVeE\u017f"  # contractions; the last folds to s
    "09\u0660\u00b2\u2167\u3007"  # numbers: Nd, No, Nl
    "zZ\u00e9e\u0301\u01c5\u02b0\u4e2d\ud55c\u0e33\U00010400"  # letters: Ll, Mn, Lt, Lm, Lo, beyond 16 bits
    ".,-_/<|>\u2019\u20ac\U0001f600\u200b\u200d\ufeff\x00\u0378\ue000\U0010ffff"  # P, S, Cf, Cc, Cn, Co
)
PROBES = 2_000
PROBE_LENGTH = 24
CHARACTER_PROBES = 100
"""The first of these texts, which every tokenizer encodes."""
AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")
"""The fields of a model with the text before a token inside a word, and after one at its end."""


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


def check_numbers(ids: Mapping[str, int], where: str) -> None:
    """Checks that no two tokens of a vocabulary share one of its ``ids``.

    The library numbers added tokens from the size of the vocabulary on, so a vocabulary with unused ids can have a
    token there.

    Raises:
        ConfigError: at ``where``, naming the tokens and their id.
    """
    if len({*ids.values()}) == len(ids):
        return
    tokens = defaultdict[int, list[str]](list)
    for token, number in ids.items():
        tokens[number].append(token)
    number, shared = min(item for item in tokens.items() if len(item[1]) > 1)
    problem = f"the tokens {' and '.join(map(repr, sorted(shared)))} have one id, {number}"
    raise ConfigError(where, problem, "number the tokens of model.vocab without unused ids, and save it again")


def check_texts(tokenizer: tokenizers.Tokenizer, where: str) -> None:
    """Checks that no ids are random: each added token has a normalized text, no two have the same, no merge is dropped.

    Of two, special ones too, the library takes one at random, and keeps it for the life of a process. Without a text it
    may never end.

    Raises:
        ConfigError: at ``where``, naming the tokens and their text.
    """
    if dropout := getattr(tokenizer.model, "dropout", None):
        problem = f"its model leaves out merges at random (dropout {dropout})"
        raise ConfigError(where, problem, "set model.dropout to null, so that a text always has the same ids")
    if tokenizer.normalizer is None:
        return
    tokens = defaultdict[str, list[tokenizers.AddedToken]](list)
    for token in tokenizer.get_added_tokens_decoder().values():
        if token.normalized:
            tokens[tokenizer.normalizer.normalize_str(token.content)].append(token)
    if empty := tokens.get(""):
        problem = f"the added token {empty[0].content!r} has no text after its normalizer"
        raise ConfigError(where, problem, 'set "normalized" of it to false, or leave it out')
    for text, same in sorted(tokens.items()):
        if len(same) > 1:
            named = " and ".join(sorted(repr(token.content) for token in same))
            problem = f"the added tokens {named} have one text after its normalizer, {text!r}"
            raise ConfigError(where, problem, 'set "normalized" of them to false, or leave one out')


def check_ids(pages: PageTokenizer, library: tokenizers.Tokenizer, where: str) -> None:
    """Compares the ids of ``pages`` with those of the ``library``.

    Args:
        pages: the tokenizer of pages.
        library: the tokenizer as the library reads it; it neither cuts nor pads, and leaves special tokens unsplit.
        where: names it in errors.

    Raises:
        ConfigError: naming the text with other ids, or the text that the library cannot encode.
    """
    texts = probe_texts(library)
    expected = [library_ids(library, text, where) for text in texts]
    ids = [encoding.ids for encoding in pages.encode(texts)]
    special = {number: token for number, token in library.get_added_tokens_decoder().items() if token.special}
    unknown = unknown_id(library)
    unknown_text = library.id_to_token(unknown) if unknown in special else None  # the library finds it, too
    special = {number: token for number, token in special.items() if number != unknown}
    for text, theirs, ours in zip(texts, expected, ids, strict=True):
        for token in (special[number] for number in dict.fromkeys(theirs) if number in special):
            if not _is_spelled(token, text, library):
                problem = f"its special token {token.content!r} is also a token of {_cut(text)!r}"
                raise ConfigError(where, problem, 'set "special" of it to false in its added_tokens')
        is_comparable = special.keys().isdisjoint(theirs) and (unknown_text is None or unknown_text not in text)
        if not special.keys().isdisjoint(ours) or (ours != theirs and is_comparable):
            problem = f"gives {_cut(text)!r} the ids {_cut(str(ours))}, the tokenizers library {_cut(str(theirs))}"
            raise ConfigError(where, problem, "give a tokenizer.json that the installed version of the library saved")


def probe_texts(tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Returns texts with the added tokens of ``tokenizer`` at all kinds of places, and texts of all characters."""
    added = tokenizer.get_added_tokens_decoder()
    tokens = [token.content for token in added.values()]
    forms = [
        f" {token}  a{token}b{token}{token} ({token})\n"
        f"{token.upper()} {token.lower()} {token.title()}{token[:-1]} {token[1:]}é{token}1 "
        for token in tokens
    ]
    parts = [part for number, token in added.items() for part in _parts(tokenizer, number, token.content)]
    together = ["".join(tokens), " ".join(tokens), "".join(reversed(tokens)), "a".join(tokens)]
    return [*tokens, *forms, *parts, *together, *PROBE_CHARACTERS, *probes()[:CHARACTER_PROBES]]


def library_ids(tokenizer: tokenizers.Tokenizer, text: str, where: str) -> list[int]:
    """Returns the ids that the library gives to ``text``, without added ones.

    Raises:
        ConfigError: at ``where``, if it cannot encode it.
    """
    try:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)
    except BaseException as error:
        if not is_of_library(error):
            raise
        problem = f"the tokenizers library cannot encode {text!r} with it ({error})"
        raise ConfigError(where, problem, "give a tokenizer with a token for unknown text, and no empty one") from None


def unknown_id(tokenizer: tokenizers.Tokenizer) -> int | None:
    """Returns the id that the model gives to text without a token."""
    if isinstance(tokenizer.model, models.Unigram):
        number: int | None = json.loads(tokenizer.to_str())["model"]["unk_id"]
        return number
    return None if tokenizer.model.unk_token is None else tokenizer.token_to_id(tokenizer.model.unk_token)


def _parts(tokenizer: tokenizers.Tokenizer, number: int, content: str) -> list[str]:
    """Returns texts for which the model, if it has the added token ``content``, may take it without its spelling."""
    if tokenizer.model.token_to_id(content) is None:
        return []
    decoded = tokenizer.decode([number], skip_special_tokens=False)
    prefix, suffix = (getattr(tokenizer.model, name, None) or "" for name in AFFIXES)
    texts = {decoded, content.removeprefix(prefix), content.removesuffix(suffix), content.replace("▁", " ")}
    return [form for text in sorted(texts - {content}) for form in (text, f"a{text}", f" {text}")]


def _is_spelled(token: tokenizers.AddedToken, text: str, tokenizer: tokenizers.Tokenizer) -> bool:
    """Whether ``text`` spells the added ``token``, as it is or after the normalizer."""
    if token.content in text or tokenizer.normalizer is None:
        return token.content in text
    normalized = tokenizer.normalizer.normalize_str(text)
    return token.content in normalized or tokenizer.normalizer.normalize_str(token.content) in normalized


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


@functools.cache
def probes() -> list[str]:
    """Returns random texts, always the same, with all kinds of characters that matter for splitting into words."""
    choice = random.Random(0)
    return ["".join(choice.choices(PROBE_CHARACTERS, k=PROBE_LENGTH)) for _ in range(PROBES)]
