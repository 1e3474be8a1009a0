"""The settings of decontamination: conf group ``decontamination``, and what a benchmark must tell for it.

After GPT-3 (Brown et al., "Language Models are Few-Shot Learners", 2020, appendix C): a benchmark item and a document
overlap when they share a run of 13 words; what overlaps is taken out of the training text, or the item counts as dirty
when scores are read. The paper's own choices are ``decontamination=gpt3``. Different from it: punctuation separates
words (``dedup.shingles``), so that "don't", "don 't" and "don’t" are the same two words; and of an item that is shorter
than an n-gram, all words are searched as one, down to the paper's minimum of 8, where the paper takes a smaller n for
the whole benchmark.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Protocol

from pydantic import Field

from headrace.pipeline.core.settings import LARGEST, Natural, Positive, settings
from headrace.pipeline.core.stage import RawFile

SHORTEST_WORDS = 8
"""Fewer words in common say nothing: GPT-3's minimum, "due to spurious collisions at lower values"."""


class Benchmark(Protocol):
    """The texts of a benchmark: a dataclass whose hashed fields and raw files decide what ``texts`` gives."""

    @property
    def dirty_share(self) -> float:
        """An item is dirty when more than this share of its n-grams is in training documents."""
        ...

    def raw_files(self) -> tuple[RawFile, ...]:
        """The files that the items come from."""
        ...

    def texts(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """The name of each item and its texts: what a model that is tested on it must not have seen."""
        ...


@settings
class Decontamination:
    """What is done about training documents that hold texts of the run's benchmarks."""

    action: Literal["none", "report", "drop", "mask"] = "report"
    """``drop`` the documents, ``mask`` the passages (take them out, keep the rest), or only ``report`` the overlaps,
    which scores are split by; ``none`` does not search at all."""
    ngram_words: Annotated[int, Field(ge=SHORTEST_WORDS, le=LARGEST)] = 13
    """A run of so many words in common is an overlap."""
    common_documents: Positive | None = None
    """An n-gram that occurs in more documents than this is a common phrase and removes nothing (GPT-3: 10). Beware: a
    benchmark that leaked to more pages than that is common too. None ignores nothing."""
    window_characters: Natural = 200
    """``mask`` also takes so much of the text on either side of a match (GPT-3: 200)."""

    @property
    def removes(self) -> bool:
        """Whether training documents change."""
        return self.action in ("drop", "mask")


NOTHING = Decontamination(action="none")
