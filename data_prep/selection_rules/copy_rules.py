"""Rules that keep a document with a probability, or repeat it, by its value.

copies   value ≥ 0.9 twice, ≥ 0.5 once, else with probability 0.1       topic "news" 0.5, "science" 2.5
pareto   the sampling of Common Crawl for GPT-3
"""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.data_prep.columns.column_values import ColumnValues, holds_text
from headrace.data_prep.columns.scorer import ScoreKind
from headrace.data_prep.selection_rules.selection_rule import Factors, SelectionRule
from headrace.data_prep.selection_rules.value_rules import Limit
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import PositiveNumber, Seed, settings

MOST_COPIES = 1000
CopyCount = Annotated[float, Field(ge=0, le=MOST_COPIES)]
"""Copies of a document; the fraction is the probability of one more."""


@settings
class CopyStep:
    """The copies of documents from some value on."""

    at_least: Limit
    """The lowest value of the step."""
    copies: CopyCount
    """The copies up to the next step."""


@settings
class Copies(SelectionRule):
    """Repeats documents by steps of their value, or by their text; 0.25 copies keep a quarter of them.

    Dolma 3 upsamples pages this way by quality and topic (OLMo 3, 2025), FineWeb-Edu keeps those from a score on.
    """

    takes_missing: ClassVar[bool] = True

    type: Literal["copies"] = "copies"
    column: str
    """The column that is read."""
    steps: tuple[CopyStep, ...] = ()
    """Copies by number: the last step that is not above the value, so they ascend."""
    texts: Mapping[str, CopyCount] = dataclasses.field(default_factory=dict)
    """Copies by text, such as a language or a topic."""
    otherwise: CopyCount = 1.0
    """Copies of documents below the first step, with another text, or without a value."""
    seed: Seed = 0
    """Seed of the draw of fractions."""

    def check(self, where: str) -> None:
        if self.steps and self.texts:
            problem = f"{len(self.steps)} steps and {len(self.texts)} texts are given"
            raise ConfigError(where, problem, "give steps for numbers, or texts")
        bounds = [step.at_least for step in self.steps]
        if any(bound <= before for before, bound in itertools.pairwise(bounds)):
            raise ConfigError(f"{where}.steps", f"at_least is {bounds}, in no ascending order", "sort the steps")

    @property
    def kinds(self) -> tuple[ScoreKind, ...]:
        """Numbers for ``steps``, texts for ``texts``, both without either."""
        return (float,) if self.steps else (str,) if self.texts else (float, str)

    @property
    def described(self) -> str:
        return f"{self.type} with {'steps' if self.steps else 'texts'}"

    def factors(self, values: ColumnValues) -> Factors:
        if holds_text(values):
            return np.array([self.texts.get(text, self.otherwise) for text in values.tolist()], dtype=float)
        copies = np.array([self.otherwise, *(step.copies for step in self.steps)])
        places = np.searchsorted([step.at_least for step in self.steps], values, side="right")
        return copies[np.where(np.isnan(values), 0, places)]


@settings
class Pareto(SelectionRule):
    """Keeps a document with probability (2 - value)^-alpha: all of value 1, few of value 0.

    GPT-3 kept pages with ``np.random.pareto(9) > 1 - score`` (Brown et al. 2020, appendix A); P(X > x) of that
    distribution is (1 + x)^-alpha. Values are from 0 to 1.
    """

    type: Literal["pareto"] = "pareto"
    column: str
    """The column that is read."""
    alpha: PositiveNumber = 9.0
    """The shape of the distribution (GPT-3: 9)."""
    seed: Seed = 0
    """Seed of the draw."""

    def check_values(self, values: ColumnValues, where: str) -> None:
        outside = values[(values < 0) | (values > 1)]
        if outside.size:
            problem = f"{self.column!r} has the value {outside[0]:g}, and {self.type} samples by values from 0 to 1"
            raise ConfigError(f"{where}.column", problem, "name a column of such scores, or use copies or share")

    def factors(self, values: ColumnValues) -> Factors:
        probabilities: Factors = (2 - values) ** -self.alpha
        return probabilities
