"""Bits per byte: the negative log-likelihood of a text for each of its bytes.

    loss          = sum of NLL (nats) / number of target tokens
    bits per byte = sum of NLL / ln 2 / UTF-8 bytes of the text that the targets spell

It compares models with different tokenizers (The Pile, Gao et al. 2020, section 3.1). The end of a document is a target
as any other: its bits count, and it has no bytes. Sums can be added over micro-batches, ranks and rows; means cannot.
"""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer


def bits_per_byte(nll_nats: float, text_bytes: float) -> float:
    """Returns the bits per byte of a text of ``text_bytes`` bytes."""
    return nll_nats / math.log(2) / text_bytes


def token_bytes(tokenizer_file: Path) -> npt.NDArray[np.int64]:
    """Returns the UTF-8 bytes that each token stands for, (vocabulary,) int64; 0 for special tokens.

    In a byte-level vocabulary every character of a token's name stands for one byte (GPT-2's bytes_to_unicode).
    """
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    special, numbers = tokenizer.get_added_tokens_decoder(), tokenizer.get_vocab(with_added_tokens=True)
    lengths = np.zeros(max(numbers.values()) + 1, np.int64)
    for token, number in numbers.items():
        lengths[number] = 0 if number in special else len(token)
    return lengths
