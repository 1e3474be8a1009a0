"""The values that a filter of cleaning measures as columns; no document is dropped.

{type: filter, filter: {type: language_fasttext}, value: language_score}
{type: filter, filter: {type: gopher_repetition}, value: top_ngram_2}
"""

import dataclasses
from pathlib import Path
from typing import Literal

from headrace.data_prep.columns.scorer import ScoreKind, Scorer, Scoring
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.filter import Filter
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.stage import Inputs, RawFile


@settings
class FilterValue(Scorer):
    """One of the values that a filter measures, whatever its thresholds."""

    type: Literal["filter"] = "filter"
    filter: AnyFilter
    """The filter, with its settings. Its thresholds have no effect."""
    value: str | None = None
    """The name of the value: a rule of the filter, ``language``, ``language_score``, or a label; null: its only one."""

    def __post_init__(self) -> None:
        # Thresholds decide no value, so no address: a column is computed once, whatever they are.
        if isinstance(self.filter, Filter):
            object.__setattr__(self, "filter", self.filter.without_thresholds())

    @property
    def kind(self) -> ScoreKind:
        return self._chosen[1]

    @property
    def _chosen(self) -> tuple[str, ScoreKind]:
        """The name and the type of the value.

        Raises:
            ConfigError: when the filter measures nothing, or no value has the name.
        """
        kinds = self.filter.value_kinds if isinstance(self.filter, Filter) else {}
        if not kinds:
            remedy = "give one that does, such as gopher_quality, gopher_repetition, fineweb_quality, language"
            raise ConfigError("columns.scorers.filter", f"{self.filter.type} measures nothing of a document", remedy)
        name = self.value or (next(iter(kinds)) if len(kinds) == 1 else "")
        if name not in kinds:
            problem = f"{self.filter.type} measures {len(kinds)} values, and value is {self.value!r}"
            remedy = suggestion(name, kinds) if name else f"give one of {', '.join(kinds)}"
            raise ConfigError("columns.scorers.value", problem, remedy)
        return name, kinds[name]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.filter.inputs if isinstance(self.filter, Filter) else ()

    @property
    def run_labels(self) -> tuple[str, ...]:
        return self.filter.run_labels if isinstance(self.filter, Filter) else ()

    def ready(self, inputs: Inputs) -> "FilterValue":
        if not isinstance(self.filter, Filter):
            return self
        return dataclasses.replace(self, filter=self.filter.ready(inputs))  # type: ignore[arg-type]

    def raw_files(self) -> tuple[RawFile, ...]:
        return self.filter.raw_files()

    def check(self) -> None:
        if isinstance(self.filter, Filter):
            self.filter.check()
        _ = self._chosen

    def scoring(self, model: Path | None) -> Scoring:
        name, measure = self._chosen[0], self.filter
        assert isinstance(measure, Filter)
        return lambda document: measure.values(document).get(name)
