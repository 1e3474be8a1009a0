"""Sentences of a text of tokens: where each begins.

    text       The  mill  turns  .  "  Who  is  it  ?  !  \\n  It  stands  in  3  .  14
    ends       .    .     .      #  .  .    .   .   #  #  #   .   .       .   .  #  .
    starts     0                    4                          11                   16

A token ends a sentence if its text has a line break, or ends with a full stop, an exclamation mark, a question mark or
an ellipsis, closing quotes, brackets and spaces after it not counted. fairseq's data code for BART takes the one token
of the full stop. There is no list of abbreviations: a sentence also ends after ``Mr.``.
"""

import re

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

END = re.compile(r"""[\n\r\u2028\u2029]|[.!?…。！？｡]["'”’»)\]}」』\s]*\Z""")
"""The text of a token that ends a sentence."""


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
