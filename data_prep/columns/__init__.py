"""The table of scorers, which are the possible entries of ``columns.scorers``."""

from typing import Annotated

from headrace.data_prep.columns.scorer import Scorer
from headrace.pipeline.core.kinds import Kinds

SCORERS = Kinds(
    "scorer",
    Scorer,
    {
        "length": "headrace.data_prep.columns.scorers:Length",
        "filter": "headrace.data_prep.columns.scorers:FilterValue",
        "file": "headrace.data_prep.columns.scorers:FileValues",
    },
)
AnyScorer = Annotated[Scorer, SCORERS]
