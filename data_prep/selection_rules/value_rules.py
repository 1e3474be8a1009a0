"""Rules that keep a document or drop it by its own value."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from headrace.data_prep.columns.column_values import ColumnValues
from headrace.data_prep.columns.scorer import ScoreKind
from headrace.data_prep.selection_rules.selection_rule import Factors, SelectionRule
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import SomeTexts, settings

Limit = Annotated[float, Field(ge=-1e15, le=1e15)]


@settings
class Threshold(SelectionRule):
    """Keeps documents whose value is at least ``min`` and at most ``max``."""

    type: Literal["threshold"] = "threshold"
    column: str
    """The column that is read."""
    min: Limit | None = None
    """Lowest value; null: no limit."""
    max: Limit | None = None
    """Highest value; null: no limit."""

    def check(self, where: str) -> None:
        if self.min is None and self.max is None:
            raise ConfigError(where, "min and max are null", "give one of them, or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            problem = f"min = {self.min} is above max = {self.max}: every document would be dropped"
            raise ConfigError(where, problem, "exchange them")

    def factors(self, values: ColumnValues) -> Factors:
        low, high = (-np.inf if self.min is None else self.min), (np.inf if self.max is None else self.max)
        return ((values >= low) & (values <= high)).astype(float)


@settings
class AnyOf(SelectionRule):
    """Keeps documents whose value is one of ``texts``: their language, or their topic."""

    type: Literal["any_of"] = "any_of"
    column: str
    """The column that is read; its values are texts."""
    texts: SomeTexts
    """The values that are kept."""

    @property
    def kinds(self) -> tuple[ScoreKind, ...]:
        return (str,)

    def factors(self, values: ColumnValues) -> Factors:
        return np.isin(values, self.texts).astype(float)
