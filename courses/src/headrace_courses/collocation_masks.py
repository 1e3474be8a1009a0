"""Masks of collocations, the n-grams of words with a high PMI, as a whole (Levine et al. 2021, PMI masking).

{"words": [["mill"], ["st", "one"]], …}        a line for each: the tokens of each word, as the tokenizer spells them
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, by_content, settings
from headrace.pipeline.core.stage import RawFile, raw_file
from headrace.train.objectives.base import OBJECTIVE_FILES, Vocabulary
from headrace.train.objectives.masked import Ids, Masked, Units, drawn_words, words_of

COLLOCATIONS = "objective.collocations"
REMEDY = "give JSON lines of collocations whose words are tokens of this tokenizer"
MOST_WORDS = 5
"""The most words of a collocation."""


@settings
class MaskedCollocations(Masked):
    """Predicts the tokens of whole collocations, and of words that are in none."""

    type: Literal["masked_collocations"] = "masked_collocations"  # type: ignore[assignment]  # an objective of its own
    collocations: FilePath = by_content()
    """The file of collocations. The result depends on its content alone."""

    @property
    def revision(self) -> int:
        return 1

    def raw_files(self) -> tuple[RawFile, ...]:
        file = Path(self.collocations)
        if not file.is_file():
            raise ConfigError(COLLOCATIONS, f"there is no file {file}", REMEDY)
        return (raw_file(f"{OBJECTIVE_FILES}/{file.name}", file),)

    def read(self, ids: Mapping[str, int]) -> frozenset[tuple[int, ...]]:
        """Returns the tokens of each collocation."""
        return read_collocations(Path(self.collocations), ids)

    def units(
        self, tokens: Ids, maskable: Ids, number: int, vocabulary: Vocabulary, generator: np.random.Generator
    ) -> Units:
        words = words_of(tokens, maskable, vocabulary)
        return drawn_words(collocations_of(words, tokens, vocabulary.files), number, generator)


def collocations_of(words: Sequence[list[int]], tokens: Ids, collocations: Collection[tuple[int, ...]]) -> Units:
    """Returns the positions of each collocation, and of each word that is in none: from left to right the longest
    n-gram of ``words`` whose tokens are one of ``collocations``."""
    units: list[list[int]] = []
    first = 0
    while first < len(words):
        unit, after = words[first], first + 1
        for end in range(min(first + MOST_WORDS, len(words)), first + 1, -1):
            positions = [position for word in words[first:end] for position in word]
            is_adjacent = positions[-1] - positions[0] == len(positions) - 1
            if is_adjacent and tuple(tokens[positions].tolist()) in collocations:
                unit, after = positions, end
                break
        units.append(unit)
        first = after
    return units


def read_collocations(file: Path, ids: Mapping[str, int]) -> frozenset[tuple[int, ...]]:
    """Reads the collocations in ``file`` as tokens of a tokenizer with these ``ids``.

    Raises:
        ConfigError: when it is no file of collocations, or one of another tokenizer.
    """
    grams, number = set[tuple[int, ...]](), 0
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):  # noqa: B007  (an error names it)
            grams.add(tuple(ids[token] for word in json.loads(line)["words"] for token in word))
    except OSError as error:
        raise ConfigError(COLLOCATIONS, f"{file} cannot be read ({error.strerror})", REMEDY) from None
    except KeyError as error:
        raise ConfigError(COLLOCATIONS, f"{file} has {error}, which the tokenizer lacks", REMEDY) from None
    except (ValueError, TypeError):
        raise ConfigError(COLLOCATIONS, f"line {number} of {file} is no collocation", REMEDY) from None
    return frozenset(grams)
