"""Tokenizers that are made here: trained on a sample of ``unique``, or of the 256 bytes.

    train, byte    bytes: byte-level BPE (Radford et al. 2019), ByT5 (Xue et al. 2022)     they encode any text
    bpe            ▁un believ able      ▁ is the space before a word      Sennrich et al. 2016; LLaMA
    wordpiece      un ##believ ##able   ## continues a word               Schuster and Nakajima 2012; BERT
    word           whole words          the others are unknown, which the stage ``tokens`` counts
    character      single characters    likewise

    unique/documents ── sample ──> texts ── learn ──> ordinary tokens ── with special tokens ──> tokenizer.json

A trained file depends only on the documents and the settings. A hash of the ids decides which documents are in the
sample, and what is learned depends only on counts, so neither order nor threads matter.
"""

import abc
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headrace.data_prep.tokenization.special_tokens import PRESETS, PresetName, SpecialTokens, unknown_of
from headrace.data_prep.tokenization.text_sample import text_sample
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.pipeline.core.stage import RawFile

BYTES = pre_tokenizers.ByteLevel.alphabet()
"""The 256 characters that stand for the 256 bytes."""
WORD_BYTES = 2000
"""Longer words are cut for training, whose time is quadratic in the longest word (135 s for 400,000 letters). The
longest word in English books, web pages and newswire has 185 bytes (a run of spaces). Encoding cuts no words."""
LEAST_OCCURRENCES = 2
"""Pairs that occur once are not merged. A word that occurs once is unknown, so that the unknown token is trained."""
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for a space in tokens, as in SentencePiece."""
WORD = rf"{SPACE}?[\p{{L}}\p{{M}}]+|{SPACE}?\p{{N}}+|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}"
"""A word: letters, digits or other characters, with the space before them. No token goes beyond one."""
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
"""The tokens of bytes, under SentencePiece's names."""
CONTINUES = "##"
"""The beginning of a token that continues a word."""


@settings
class Made(abc.ABC):
    """A tokenizer that is made here, with the special tokens of a family."""

    type: str
    """The tag in settings."""
    has_unknown: ClassVar[bool] = True
    """Whether some text has no token but the unknown one."""

    special_tokens: PresetName = "gpt"
    """The family whose special tokens it has: gpt (end of text), bert, roberta (also BART) or t5. Those that the
    objective needs are added. The last three also give a text the family's form when transformers reads the exported
    tokenizer, such as [CLS] text [SEP]; a decoder needs gpt."""

    def raw_files(self) -> tuple[RawFile, ...]:
        return ()

    @abc.abstractmethod
    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        """Returns the largest possible number of tokens, if the objective needs ``special_tokens``."""

    def lacks(self, special_tokens: Sequence[str]) -> list[str]:
        """Returns no token: all ``special_tokens`` are added."""
        return []

    def special(self, needed: Sequence[str] = ()) -> SpecialTokens:
        """Returns the special tokens: those of the preset, the unknown token, and those ``needed`` besides."""
        unknown = ("[UNK]",) if self.has_unknown else ()
        return PRESETS[self.special_tokens].including((*unknown, *needed))

    @abc.abstractmethod
    def build(self, unique: Artifact, counts: "Counter[str]", special_tokens: Sequence[str] = ()) -> str:
        """Returns the tokenizer.json, with the ``special_tokens`` that the objective needs."""


@settings
class Bytes(Made):
    """The 256 bytes, and nothing to learn. With the special tokens of T5, the ids are those of ByT5."""

    has_unknown: ClassVar[bool] = False
    type: Literal["byte"] = "byte"

    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        special = self.special(special_tokens)
        return len(special.first) + len(BYTES) + len(special.last)

    def build(self, unique: Artifact, counts: "Counter[str]", special_tokens: Sequence[str] = ()) -> str:
        return self.make(special_tokens)

    def make(self, special_tokens: Sequence[str] = ()) -> str:
        """Returns the tokenizer.json: first special tokens, bytes in the order of their values, last special tokens."""
        special = self.special(special_tokens)
        tokens = [*special.first, *sorted(BYTES, key=byte_of)]
        model = models.BPE({token: number for number, token in enumerate(tokens)}, [])
        return str(special.added_to(byte_level(model)).to_str())


@settings
class Sampled(Made):
    """A tokenizer that is trained on the documents of ``unique``."""

    vocabulary_size: Annotated[int, Field(ge=1, le=2**31)] = 8192
    """Most tokens, with the special ones. Fewer if the sample does not hold enough text."""
    sample_bytes: Positive = 100_000_000
    """UTF-8 bytes of text to train on, rounded up to whole documents."""

    def __post_init__(self) -> None:
        self.lacks(())

    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        return self.vocabulary_size

    def lacks(self, special_tokens: Sequence[str]) -> list[str]:
        """Returns no token: all ``special_tokens`` are added.

        Raises:
            ConfigError: when the vocabulary has no space for them, with the numbers that leave none.
        """
        special = self.special(special_tokens)
        parts = {"special tokens": len(special.first) + len(special.last), **self.fixed_tokens()}
        least = sum(parts.values())
        if self.vocabulary_size < least:
            listed = ", ".join(f"{number:,} {name}" for name, number in parts.items())
            problem = f"{self.vocabulary_size:,} tokens cannot hold what every such vocabulary holds ({listed})"
            raise ConfigError("tokenizer.vocabulary_size", problem, f"give at least {least:,}, or fewer of these")
        return []

    def fixed_tokens(self) -> dict[str, int]:
        """Returns the tokens besides the special ones that are not learned: their description → their number."""
        return {}

    def build(self, unique: Artifact, counts: "Counter[str]", special_tokens: Sequence[str] = ()) -> str:
        """Trains on a sample of ``unique`` and returns the tokenizer.json."""
        return self.train(text_sample(unique.shards("documents"), self.sample_bytes, counts), special_tokens)

    def train(self, texts: Iterable[str], special_tokens: Sequence[str] = ()) -> str:
        """Trains on ``texts`` and returns the tokenizer.json, with the ``special_tokens`` that the objective needs."""
        special = self.special(special_tokens)
        learned = self.learn(texts, special.first, self.vocabulary_size - len(special.last))
        return str(special.added_to(learned).to_str())

    @abc.abstractmethod
    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        """Returns a tokenizer of at most ``size`` tokens; the special tokens ``first`` have the first ids."""


@settings
class Trained(Sampled):
    """Byte-level BPE trained on the documents of ``unique``. End of text has id 0."""

    has_unknown: ClassVar[bool] = False
    type: Literal["train"] = "train"
    vocabulary_size: Annotated[int, Field(gt=len(BYTES), le=2**31)] = 8192
    """Most tokens, including the 256 bytes and end of text. Fewer if no pair of tokens occurs twice."""

    def fixed_tokens(self) -> dict[str, int]:
        return {"bytes": len(BYTES)}

    def learn(self, texts: Iterable[str], first: Sequence[str], size: int) -> tokenizers.Tokenizer:
        trainer = trainers.BpeTrainer(**_usual(size, first), initial_alphabet=BYTES)
        return trained_on_cut_words(byte_level(models.BPE()), texts, trainer)


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
        tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(**_usual(size, first)))
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
        texts = list(texts)
        leading = [*first, *(BYTE_TOKENS if self.byte_fallback else ())]
        characters = {SPACE, *alphabet((text.replace(" ", SPACE) for text in texts), self.alphabet_size - 1)}
        model = models.BPE(unk_token=unknown_of(first), byte_fallback=self.byte_fallback)
        tokenizer = spaced(tokenizers.Tokenizer(model), self.byte_fallback)
        letters, number = sorted(characters), len(characters)
        trainer = trainers.BpeTrainer(**_usual(size, leading), initial_alphabet=letters, limit_alphabet=number)
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
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=self.lower_case)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
        words = ("".join(tokenizer.normalizer.normalize_str(text).split()) for text in texts)
        characters = alphabet(words, self.alphabet_size)
        leading = [*first, *characters, *(CONTINUES + character for character in characters)]
        usual, number = _usual(size, leading), len(characters)
        trainer = trainers.WordPieceTrainer(**usual, initial_alphabet=characters, limit_alphabet=number)
        return with_ordinary_tokens(trained_on_cut_words(tokenizer, texts, trainer))


def _usual(size: int, special: Sequence[str]) -> dict[str, Any]:
    """Returns what every trainer is given: the size, the tokens with the first ids, the least occurrences."""
    return {
        "vocab_size": size,
        "min_frequency": LEAST_OCCURRENCES,
        "special_tokens": list(special),
        "show_progress": False,
    }


def byte_level(model: models.Model) -> tokenizers.Tokenizer:
    """Returns ``model`` with GPT-2's pre-tokenization (regular expression, bytes as characters) and its inverse."""
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_of(character: str) -> int:
    """Returns the byte that ``character`` stands for: itself if it is printable Latin-1, else the next one in order."""
    code = ord(character)
    invisible = [*range(0x21), *range(0x7F, 0xA1), 0xAD]
    return invisible[code - 0x100] if code >= 0x100 else code


def alphabet(texts: Iterable[str], size: int) -> list[str]:
    """Returns the ``size`` most frequent characters of ``texts``, in the order of their code points."""
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    return sorted(frequent[:size])


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


def trained_on_cut_words(tokenizer: tokenizers.Tokenizer, texts: Iterable[str], trainer: Any) -> tokenizers.Tokenizer:
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
