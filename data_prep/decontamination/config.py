"""Settings of decontamination: conf group ``decontamination``, and the protocol of a benchmark.

After GPT-3 (Brown et al., "Language Models are Few-Shot Learners", 2020, appendix C): a benchmark item and a document
overlap when they share a run of 13 words. The overlap is then removed from the training text, or the item counts as
dirty in the scores. ``decontamination=gpt3`` has the choices of the paper. Two things differ from it. Punctuation
separates words (``text.words``), so "don't", "don 't" and "don’t" are the same two words. And all words of an item that
is shorter than an n-gram are searched as one n-gram, down to the paper's minimum of 8 words; the paper takes a smaller
n for the whole benchmark.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Protocol

from pydantic import Field

from headrace.pipeline.core.settings import LARGEST, Natural, Positive, settings
from headrace.pipeline.core.stage import RawFile

SHORTEST_WORDS = 8
"""Least words of an overlap: GPT-3's minimum, "due to spurious collisions at lower values"."""


class ItemTexts(Protocol):
    """The texts of a benchmark: a dataclass whose hashed fields and raw files determine the result of ``texts``."""

    @property
    def dirty_share(self) -> float:
        """Share of an item's n-grams. The item is dirty when more of them are in training documents."""
        ...

    def raw_files(self) -> tuple[RawFile, ...]:
        """Returns the files with the items."""
        ...

    def texts(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Returns name and texts of each item. A model tested on the item must not have seen these texts."""
        ...


@settings
class Decontamination:
    """The action on training documents that hold texts of the run's benchmarks."""

    action: Literal["none", "report", "drop", "mask"] = "report"
    """``drop`` removes the documents; ``mask`` removes only the passages; ``report`` reports the overlaps, by which
    scores are split; ``none`` does not search."""
    ngram_words: Annotated[int, Field(ge=SHORTEST_WORDS, le=LARGEST)] = 13
    """Number of words of an n-gram. A common n-gram is an overlap."""
    common_documents: Positive | None = None
    """An n-gram in more documents than this is a common phrase and is ignored (GPT-3: 10). Note that the n-grams of a
    benchmark that leaked to more pages are then ignored, too. None ignores nothing."""
    window_characters: Natural = 200
    """``mask`` also removes this much text on each side of a match (GPT-3: 200)."""

    @property
    def removes(self) -> bool:
        """Whether training documents change."""
        return self.action in ("drop", "mask")


NO_DECONTAMINATION = Decontamination(action="none")
