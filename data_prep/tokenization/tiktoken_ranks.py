"""Tokenizers of tiktoken: a file of ranks, a regular expression, and special tokens that are in neither.

    IQ== 0          base64 of the bytes of a token, and its id, which is also its rank
    IGNhdA== 4037   " cat"

tiktoken merges the two neighbours in a word whose bytes together have the lowest rank, the leftmost ones first, until
no two have one; a whole word that has a rank is one token (openai/tiktoken, src/lib.rs, byte_pair_merge). The library
does the same with a list of merges in the order of ranks, and ``ignore_merges``.
"""

import base64
import binascii
import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, pre_tokenizers

from headrace.data_prep.tokenization.byte_level import byte_of
from headrace.data_prep.tokenization.encode import Encoder, parse
from headrace.data_prep.tokenization.fast_bpe import BYTES, LLAMA3_EXPRESSION
from headrace.data_prep.tokenization.given_tokenizer import Given, read_text
from headrace.data_prep.tokenization.page_tokenizer import is_of_library
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import LARGEST, FilePath, by_content, settings
from headrace.pipeline.core.stage import RawFile, raw_file

WHERE = "tokenizer.path"
REMEDY = "give a file of tiktoken: on each line the base64 of a token and its rank"
CHARACTER = {byte_of(character): character for character in BYTES}
"""The character that stands for each byte."""


@settings
class TiktokenRanks(Given):
    """A file of tiktoken: cl100k_base.tiktoken, qwen.tiktoken, or LLaMA 3's tokenizer.model."""

    type: Literal["tiktoken"] = "tiktoken"
    path: FilePath = by_content()
    """The path of the file. Its content decides the result, not its path."""
    expression: str = LLAMA3_EXPRESSION
    """The regular expression that splits a text into words (``pat_str``); that of LLaMA 3 unless another is given."""
    special_tokens: Annotated[tuple[str, ...], Field(min_length=1)] = (END_OF_TEXT,)
    """The special tokens in the order of their ids; one of them ends a document."""
    first_special: Annotated[int, Field(ge=256, le=LARGEST)] | None = None
    """The id of the first special token; null: the one after the last rank. Ids between are reserved tokens."""

    def raw_files(self) -> tuple[RawFile, ...]:
        Encoder(self.tokenizer(), self.path)
        return (raw_file("ranks.tiktoken", Path(self.path)),)

    def tokenizer(self) -> tokenizers.Tokenizer:
        vocabulary, merges = _vocabulary(read_text(WHERE, self.path), self.path)
        first = len(vocabulary) if self.first_special is None else self.first_special
        if first < len(vocabulary):
            problem = f"is {first}, and {self.path!r} has {len(vocabulary):,} tokens"
            raise ConfigError("tokenizer.first_special", problem, f"give {len(vocabulary)} or more")
        built = tokenizers.Tokenizer(models.BPE(vocabulary, merges, ignore_merges=True))
        split = pre_tokenizers.Split(tokenizers.Regex(self._expression()), "isolated")
        built.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
        built.decoder = decoders.ByteLevel()
        reserved = [f"<|reserved_{number}|>" for number in range(len(vocabulary), first)]
        built.add_special_tokens([*reserved, *self.special_tokens])
        return parse(built.to_str(), self.path)

    def _expression(self) -> str:
        try:
            tokenizers.Regex(self.expression)
        except BaseException as error:
            if not is_of_library(error):
                raise
            problem = f"{self.expression!r} is no regular expression ({error})"
            raise ConfigError("tokenizer.expression", problem, "give the pat_str of the tokenizer") from None
        return self.expression


@functools.lru_cache(maxsize=1)
def _vocabulary(text: str, path: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Returns the tokens, in which a character stands for a byte, with their ids, and the merges; see ``_ranks``."""
    ranks = _ranks(text, path)
    names = {token: "".join(CHARACTER[byte] for byte in token) for token in ranks}
    merges = [(names[left], names[right]) for left, right in _merges(ranks)]
    return {names[token]: rank for token, rank in ranks.items()}, merges


def _ranks(text: str, path: str) -> dict[bytes, int]:
    """Returns token → rank of the ``text`` of the file ``path``, in ascending order.

    Raises:
        ConfigError: when a line is of another kind, a byte has no token, or ranks are not all numbers from 0 on.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line:
            continue
        token, _, rank = line.partition(" ")
        try:
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (binascii.Error, ValueError):
            raise ConfigError(
                WHERE, f"line {number} of {path!r}, {line[:40]!r}, is no token and rank", REMEDY
            ) from None
    ordered = dict(sorted(ranks.items(), key=lambda item: item[1]))
    if list(ordered.values()) != list(range(len(ordered))):
        raise ConfigError(WHERE, f"the ranks of {path!r} are not all numbers from 0 to {len(ordered) - 1}", REMEDY)
    if missing := [byte for byte in range(256) if bytes([byte]) not in ordered]:
        raise ConfigError(WHERE, f"{path!r} has no token for the byte {missing[0]:#04x}", REMEDY)
    return ordered


def _merges(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Returns the pair of tokens that makes each token, in the order of ranks; none for one that no merge makes.

    What is merged within a token, before it is one, does not depend on its neighbours: there is one such pair.
    """
    parts = ((token, _parts(token, ranks)) for token in ranks if len(token) > 1)
    return [(pair[0], pair[1]) for _, pair in parts if len(pair) == 2]


def _parts(token: bytes, ranks: Mapping[bytes, int]) -> list[bytes]:
    """Returns the tokens of ``token`` where it is none itself."""
    parts, none = [token[place : place + 1] for place in range(len(token))], len(ranks)
    while len(parts) > 2:
        of_pairs = [ranks.get(left + right, none) for left, right in itertools.pairwise(parts)]
        lowest = min(of_pairs)
        if lowest == none:
            break
        place = of_pairs.index(lowest)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts
