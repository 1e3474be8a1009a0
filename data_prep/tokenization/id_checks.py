"""Checks of a tokenizer before anything is encoded: its ids are those of the tokenizers library, on texts that would
show a difference.

    added tokens    each alone, twice, inside words and brackets, at both ends, in other cases, cut; all in one text
    special tokens  the text of one that the model has, as its decoder writes it
    characters      all kinds that normalizers and splitters treat differently (fast_bpe)
"""

import json
from collections import defaultdict
from collections.abc import Mapping

import tokenizers

from headrace.data_prep.tokenization.fast_bpe import PROBE_CHARACTERS, probes
from headrace.data_prep.tokenization.page_tokenizer import PageTokenizer, is_of_library
from headrace.pipeline.core.errors import ConfigError

CHARACTER_PROBES = 100
"""Random texts of ``fast_bpe`` that every tokenizer encodes."""
AFFIXES = ("continuing_subword_prefix", "end_of_word_suffix")
"""The fields of a model with the text before a token inside a word, and after one at its end."""


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

    Of two the library takes one at random, and keeps it for the life of a process. Without a text it may never end.

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
        if len(same) > 1 and not all(token.special for token in same):
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
    if isinstance(tokenizer.model, tokenizers.models.Unigram):
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
