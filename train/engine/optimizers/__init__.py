"""The union of optimizers."""

from typing import Annotated, get_args

from pydantic import Field

from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW

AnyOptimizer = Annotated[Adafactor | AdamW | Muon | StableAdamW, Field(discriminator="type")]
"""The settings of any optimizer, chosen by their ``type``."""
OPTIMIZERS = get_args(get_args(AnyOptimizer)[0])
"""The classes of settings of all optimizers."""
