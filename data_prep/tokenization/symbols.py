"""Tokenizers whose tokens are whole words, or single characters: the most frequent ones of the sample.

Both are lossy: all other words or characters become the unknown token. The stage ``tokens`` counts how many.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headrace.data_prep.tokenization.made_tokenizer import Sampled
from headrace.data_prep.tokenization.special_tokens import unknown_of
from headrace.pipeline.core.settings import settings

LEAST_OCCURRENCES = 2
"""A word that occurs once is unknown, so that the unknown token is seen in training."""


@settings
class Words(Sampled):
    """Whole words: runs of letters and digits, or of other visible characters; white space is dropped."""

    type: Literal["word"] = "word"
    lower_case: bool = False
    """Whether upper case is folded to lower case."""

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Takes the most frequent words; of equally frequent ones the first in the order of code points."""
        tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token=unknown_of(first)))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        if self.lower_case:
            tokenizer.normalizer = normalizers.Lowercase()
        trainer = trainers.WordLevelTrainer(
            vocab_size=size, min_frequency=LEAST_OCCURRENCES, special_tokens=list(first), show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        return tokenizer


@settings
class Characters(Sampled):
    """Single characters (Unicode code points)."""

    type: Literal["character"] = "character"

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Takes the most frequent characters. They have ids in the order of their code points."""
        tokens = [*first, *alphabet(texts, size - len(first))]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token=unknown_of(first)))
        tokenizer.decoder = decoders.Fuse()
        return tokenizer


def alphabet(texts: Iterable[str], size: int) -> list[str]:
    """Returns the ``size`` most frequent characters of ``texts``, in the order of their code points."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted(frequent[:size])
