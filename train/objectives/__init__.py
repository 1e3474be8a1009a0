"""The union of objectives."""

from typing import Annotated, get_args

from pydantic import Field

from headrace.train.objectives.causal import Causal
from headrace.train.objectives.denoising import Denoising
from headrace.train.objectives.masked import Masked
from headrace.train.objectives.prefix import Prefix
from headrace.train.objectives.reconstruction import Reconstruction
from headrace.train.objectives.replaced_tokens import ReplacedTokens
from headrace.train.objectives.ul2 import Ul2

AnyObjective = Annotated[
    Causal | Denoising | Masked | Prefix | Reconstruction | ReplacedTokens | Ul2, Field(discriminator="type")
]
"""The settings of any objective, chosen by their ``type``."""
OBJECTIVES = get_args(get_args(AnyObjective)[0])
