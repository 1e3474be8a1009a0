"""The table of optimizers."""

from typing import Annotated

from headrace.pipeline.core.kinds import Kinds
from headrace.train.engine.optimizers.base import Optimizer

OPTIMIZERS = Kinds(
    "optimizer",
    Optimizer,
    {
        "adafactor": "headrace.train.engine.optimizers.adafactor:Adafactor",
        "adamw": "headrace.train.engine.optimizers.adamw:AdamW",
        "muon": "headrace.train.engine.optimizers.muon:Muon",
        "stable_adamw": "headrace.train.engine.optimizers.stable_adamw:StableAdamW",
    },
)
AnyOptimizer = Annotated[Optimizer, OPTIMIZERS]
"""The settings of any optimizer, chosen by their ``type``."""
