"""Words and sentences of a text of tokens: which tokens continue a word, and where each sentence begins.

    tokens       the  mi  ll  \u2014  na  ï  ve        GPT-2's vocabulary spells the first byte of the dash "â"
    continue     .    .   #   .  .   #  #

A token continues a word if it begins inside a character, or with a letter, a digit or a combining mark. In WordPiece
its mark decides. Other kinds of tokenizers have no parts of words: each of their tokens is a word.

    text       The  mill  turns  .  "  Who  is  it  ?  !  \\n  It  stands  in  3  .  14
    ends       .    .     .      #  .  .    .   .   #  #  #   .   .       .   .  #  .
    starts     0                    4                          11                   16

A token ends a sentence if its text has a line break, or ends with a full stop, an exclamation mark, a question mark or
an ellipsis, closing quotes, brackets and spaces after it not counted. fairseq's data code for BART takes the one token
of the full stop. There is no list of abbreviations: a sentence also ends after ``Mr.``.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

END = re.compile(r"""[\n\r\u2028\u2029]|[.!?…。！？｡]["'”’»)\]}」』\s]*\Z""")
"""The text of a token that ends a sentence."""

PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
BYTE_OF = {chr(byte): bytes([byte]) for byte in PRINTABLE} | {
    chr(0x100 + number): bytes([byte]) for number, byte in enumerate(sorted({*range(0x100)} - {*PRINTABLE}))
}
"""The character of a byte-level token → its byte (GPT-2's bytes_to_unicode)."""
ONE_BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A token of SentencePiece for one byte of a character that the vocabulary lacks."""
MIDDLE = b"\xa0" * 3
"""The bytes that complete a character of which a token has the first ones: one in the middle of those it can be."""


def continuations(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Returns for each id, (largest id + 1,), whether its token continues a word; a special token does not."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    continues_V = np.zeros(max(ids.values()) + 1, bool)
    if is_continuation := _rule(tokenizer):
        chosen = (number for token, number in ids.items() if number not in special and is_continuation(token))
        continues_V[list(chosen)] = True
    return continues_V


def _rule(tokenizer: Tokenizer) -> Callable[[str], bool] | None:
    """Returns whether a token continues a word, by the decoder of ``tokenizer``; None: each token is a word."""
    decoder = tokenizer.decoder
    description: dict[str, Any] = {} if decoder is None else json.loads(decoder.__getstate__())
    for part in description.get("decoders", [description]):
        match part:
            case {"type": "WordPiece", "prefix": prefix}:
                return lambda token: token.startswith(prefix)
            case {"type": "ByteLevel"}:
                return lambda token: _continues(
                    b"".join(BYTE_OF.get(character, character.encode()) for character in token)
                )
            case {"type": "Metaspace", "replacement": str(space)}:
                return lambda token: _continues(_spaced(token, space))
            case {"type": "Replace", "pattern": {"String": str(space)}, "content": " "}:
                return lambda token: _continues(_spaced(token, space))
    return None


def _spaced(token: str, space: str) -> bytes:
    """Returns the bytes of a token in which ``space`` is a space."""
    byte = ONE_BYTE.fullmatch(token)
    return bytes.fromhex(byte[1]) if byte else token.replace(space, " ").encode()


def _continues(text: bytes) -> bool:
    """Whether a token of these bytes of UTF-8 continues a word."""
    if text[0] & 0xC0 == 0x80:
        return True
    first = (text + MIDDLE).decode(errors="ignore")[:1]
    return not first or unicodedata.category(first)[0] in "LNM"  # none: the first byte of most Hangul syllables


def sentence_ends(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Returns for each id, (largest id + 1,), whether its token ends a sentence; a special token does not."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    ordinary = sorted({*ids.values()} - special)
    texts = tokenizer.decode_batch([[number] for number in ordinary], skip_special_tokens=False)
    ends_V = np.zeros(max(ids.values()) + 1, bool)
    ends_V[[number for number, text in zip(ordinary, texts, strict=True) if END.search(text)]] = True
    return ends_V


def sentence_starts(tokens_T: NDArray[np.int64], ends_V: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns the index of the first token of each sentence, in order; an empty text has no sentence.

    A sentence lasts to the last one of successive tokens that end it.
    """
    ends_T = ends_V[tokens_T]
    return np.flatnonzero(~ends_T & np.append(True, ends_T[:-1]) | (np.arange(len(ends_T)) == 0))
