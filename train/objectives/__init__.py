"""The table of objectives."""

from typing import Annotated

from headrace.pipeline.core.kinds import Kinds
from headrace.train.objectives.base import Objective

OBJECTIVES = Kinds(
    "objective",
    Objective,
    {
        "causal": "headrace.train.objectives.causal:Causal",
        "denoising": "headrace.train.objectives.denoising:Denoising",
        "masked": "headrace.train.objectives.masked:Masked",
        "prefix": "headrace.train.objectives.causal:Prefix",
        "reconstruction": "headrace.train.objectives.reconstruction:Reconstruction",
    },
)
AnyObjective = Annotated[Objective, OBJECTIVES]
"""The settings of any objective, chosen by their ``type``."""
