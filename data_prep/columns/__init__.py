"""The union of all scorers, which are the possible entries of ``columns.scorers``."""

from typing import Annotated

from pydantic import Field

from headrace.data_prep.columns.file_scorer import FileValues
from headrace.data_prep.columns.filter_scorer import FilterValue
from headrace.data_prep.columns.length_scorer import Length
from headrace.data_prep.columns.perplexity_scorer import Perplexity

AnyScorer = Annotated[Length | FilterValue | Perplexity | FileValues, Field(discriminator="type")]
