"""The table of scorers, which are the possible entries of ``columns.scorers``."""

from typing import Annotated

from headrace.data_prep.columns.scorer import Scorer
from headrace.pipeline.core.kinds import Kinds

SCORERS = Kinds(
    "scorer",
    Scorer,
    {
        "length": "headrace.data_prep.columns.length_scorer:Length",
        "filter": "headrace.data_prep.columns.filter_scorer:FilterValue",
        "perplexity": "headrace.data_prep.columns.perplexity_scorer:Perplexity",
        "file": "headrace.data_prep.columns.file_scorer:FileValues",
    },
)
AnyScorer = Annotated[Scorer, SCORERS]
