"""The base of all tokenizers that are made here: their special tokens, and the sample that most are trained on.

    unique/documents ── sample ──> texts ── learn ──> ordinary tokens ── with special tokens ──> tokenizer.json

A trained file depends only on the documents and the settings. A hash of the ids decides which documents are in the
sample, and what is learned depends only on counts, so neither order nor threads matter.
"""

import abc
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar

import tokenizers
from pydantic import Field

from headrace.data_prep.tokenization.special_tokens import PRESETS, PresetName, SpecialTokens
from headrace.data_prep.tokenization.text_sample import text_sample
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.pipeline.core.stage import RawFile

WORD_BYTES = 2000
"""Longer words are cut for training, whose time is quadratic in the longest word (135 s for 400,000 letters). The
longest word in English books, web pages and newswire has 185 bytes (a run of spaces). Encoding cuts no words."""

VocabularySize = Annotated[int, Field(ge=1, le=2**31)]


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
class Sampled(Made):
    """A tokenizer that is trained on the documents of ``unique``."""

    vocabulary_size: VocabularySize = 8192
    """Most tokens, with the special ones. Fewer if the sample does not hold enough text."""
    sample_bytes: Positive = 100_000_000
    """UTF-8 bytes of text to train on, rounded up to whole documents."""

    def __post_init__(self) -> None:
        self._check_size(self.special())

    def vocabulary(self, special_tokens: Sequence[str] = ()) -> int:
        return self.vocabulary_size

    def lacks(self, special_tokens: Sequence[str]) -> list[str]:
        """Returns no token: all ``special_tokens`` are added.

        Raises:
            ConfigError: when the vocabulary has no space for them, with the numbers that leave none.
        """
        self._check_size(self.special(special_tokens))
        return []

    def fixed_tokens(self) -> dict[str, int]:
        """Returns the tokens besides the special ones that are not learned: their description → their number."""
        return {}

    def _check_size(self, special: SpecialTokens) -> None:
        parts = {"special tokens": len(special.first) + len(special.last), **self.fixed_tokens()}
        least = sum(parts.values())
        if self.vocabulary_size < least:
            listed = ", ".join(f"{number:,} {name}" for name, number in parts.items())
            problem = f"{self.vocabulary_size:,} tokens cannot hold what every such vocabulary holds ({listed})"
            raise ConfigError("tokenizer.vocabulary_size", problem, f"give at least {least:,}, or fewer of these")

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
