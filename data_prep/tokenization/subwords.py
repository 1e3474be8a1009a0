"""Tokenizers whose tokens are parts of words, from characters up: BPE and WordPiece.

    BPE          ▁un believ able      ▁ is the space before a word              Sennrich et al. 2016; LLaMA
    WordPiece    un ##believ ##able   ## marks a part that continues a word     Schuster and Nakajima 2012; BERT

The tokenizers library trains both by merging the most frequent pair of neighbours.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headrace.data_prep.tokenization.made_tokenizer import WORD_BYTES, Sampled
from headrace.data_prep.tokenization.special_tokens import unknown_of
from headrace.data_prep.tokenization.symbols import alphabet
from headrace.pipeline.core.settings import Positive, settings

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for a space in tokens, as in SentencePiece."""

WORD = rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}"
"""A word: letters, digits or other characters, with the space before them. No token goes beyond one."""

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
"""The tokens of bytes, under SentencePiece's names."""

CONTINUES = "##"
"""The beginning of a token that continues a word."""

LEAST_OCCURRENCES = 2
"""Pairs that occur once are not merged."""


@settings
class WithAlphabet(Sampled):
    """A tokenizer whose tokens are made of the most frequent characters."""

    forms: ClassVar[int] = 1
    """The number of tokens that each character has."""

    alphabet_size: Positive = 1000
    """Most characters that have a token, the most frequent ones."""

    def fixed_tokens(self) -> dict[str, int]:
        return {f"for tokenizer.alphabet_size = {self.alphabet_size:,}": self.forms * self.alphabet_size}


@settings
class Bpe(WithAlphabet):
    """BPE over characters. A space is part of the word after it, so decoding restores all known characters."""

    type: Literal["bpe"] = "bpe"
    byte_fallback: bool = True
    """Whether rarer characters become their UTF-8 bytes, as in LLaMA; so none is unknown. Bytes take 256 tokens."""

    def fixed_tokens(self) -> dict[str, int]:
        return super().fixed_tokens() | ({"tokens of bytes": 256} if self.byte_fallback else {})

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Trains on ``texts``, whose words are cut to WORD_BYTES characters."""
        texts = list(texts)
        leading = [*first, *(BYTE_TOKENS if self.byte_fallback else ())]
        characters = alphabet((text.replace(" ", SPACE) for text in texts), self.alphabet_size - 1)
        model = models.BPE(unk_token=unknown_of(first), byte_fallback=self.byte_fallback)
        tokenizer = spaced(tokenizers.Tokenizer(model), self.byte_fallback)
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=LEAST_OCCURRENCES,
            special_tokens=leading,
            initial_alphabet=sorted({*characters, SPACE}),
            limit_alphabet=len({*characters, SPACE}),
            show_progress=False,
        )
        return with_ordinary_tokens(trained_on_cut_words(tokenizer, texts, trainer))


@settings
class WordPiece(WithAlphabet):
    """WordPiece as in BERT: the longest match from the left. A word that cannot be spelled is unknown as a whole."""

    forms: ClassVar[int] = 2
    type: Literal["wordpiece"] = "wordpiece"
    lower_case: bool = True
    """Whether upper case is folded to lower case and accents are removed, as in BERT's uncased models."""

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Trains on ``texts``.

        The library's trainer numbers the ``##`` forms in the order in which it meets them, which differs from run to
        run (tokenizers issue 1794). They are given to it in a fixed order, as special tokens; afterwards they are not.
        """
        texts = list(texts)
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token=unknown_of(first)))
        bert_form(tokenizer, self.lower_case)
        characters = alphabet(_words(tokenizer, texts), self.alphabet_size)
        trainer = trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=LEAST_OCCURRENCES,
            special_tokens=[*first, *characters, *(CONTINUES + character for character in characters)],
            initial_alphabet=characters,
            limit_alphabet=len(characters),
            show_progress=False,
        )
        return with_ordinary_tokens(trained_on_cut_words(tokenizer, texts, trainer))


def spaced(
    tokenizer: tokenizers.Tokenizer, byte_fallback: bool, before: Sequence[normalizers.Normalizer] = ()
) -> tokenizers.Tokenizer:
    """Gives ``tokenizer`` SentencePiece's spaces: one before the text, and each a part of the word after it.

    The normalizers ``before`` come first.
    """
    spaces = [*before, normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    tokenizer.normalizer = normalizers.Sequence(spaces)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(WORD), "isolated")
    bytes_of = [decoders.ByteFallback()] if byte_fallback else []
    parts = [decoders.Replace(SPACE, " "), *bytes_of, decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(parts)
    return tokenizer


def bert_form(tokenizer: tokenizers.Tokenizer, lower_case: bool) -> None:
    """Gives ``tokenizer`` BERT's normalization, its splitting into words and punctuation, and its decoder."""
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)


def trained_on_cut_words(tokenizer: tokenizers.Tokenizer, texts: list[str], trainer: Any) -> tokenizers.Tokenizer:
    """Trains ``tokenizer`` on ``texts``; words of more than WORD_BYTES characters are cut for it."""
    whole_words = tokenizer.pre_tokenizer
    cut = pre_tokenizers.FixedLength(WORD_BYTES)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([whole_words, cut])
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.pre_tokenizer = whole_words
    return tokenizer


def with_ordinary_tokens(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Returns ``tokenizer`` without added tokens: those of its trainer are ordinary tokens of the vocabulary."""
    return tokenizers.Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_str()) | {"added_tokens": []}))


def _words(tokenizer: tokenizers.Tokenizer, texts: Iterable[str]) -> Iterator[str]:
    """Yields ``texts`` as ``tokenizer`` normalizes them, without white space."""
    for text in texts:
        yield "".join(tokenizer.normalizer.normalize_str(text).split())
