"""Changes of the rotary frequencies, by which a model reads longer texts than those of its first training.

The names and formulas are those of ``transformers`` (modeling_rope_utils.py); train/model/positions.py
computes them. Free of torch.
"""

from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.settings import Positive, PositiveNumber, settings

Factor = Annotated[float, Field(ge=1, le=1e6)]


@settings
class LinearScaling:
    """All frequencies are divided by ``factor``: positions are interpolated (Chen et al. 2023)."""

    type: Literal["linear"] = "linear"
    factor: Factor
    """The context in multiples of the original one."""


@settings
class DynamicScaling:
    """Frequencies change beyond the context alone ("dynamic NTK"): within it, which is all that is computed, none."""

    type: Literal["dynamic"] = "dynamic"
    factor: Factor
    """Kept for exports."""


@settings
class YarnScaling:
    """Low frequencies are divided by ``factor``, high ones are kept (YaRN, Peng et al. 2023)."""

    type: Literal["yarn"] = "yarn"
    factor: Factor
    """The context in multiples of the original one."""
    original_context: Positive
    """Tokens of the texts of the first training."""
    beta_fast: PositiveNumber = 32.0
    """Frequencies with more turns than this in the original context are kept."""
    beta_slow: PositiveNumber = 1.0
    """Frequencies with fewer turns than this are divided; between both is a ramp."""
    truncate: bool = True
    """Whether the ends of the ramp are rounded to whole pairs of values."""
    attention_factor: PositiveNumber | None = None
    """The factor of rotated queries and of keys; null: 0.1 · ln(factor) + 1."""


@settings
class Llama3Scaling:
    """Low frequencies are divided by ``factor``, high ones are kept (LLaMA 3.1, Dubey et al. 2024)."""

    type: Literal["llama3"] = "llama3"
    factor: Factor
    """The divisor of low frequencies."""
    original_context: Positive
    """Tokens of the texts of the first training."""
    low_frequency_factor: PositiveNumber = 1.0
    """Frequencies with fewer turns than this in the original context are divided."""
    high_frequency_factor: PositiveNumber = 4.0
    """Frequencies with more turns than this are kept; between both they are interpolated."""


RopeScaling = Annotated[LinearScaling | DynamicScaling | YarnScaling | Llama3Scaling, Field(discriminator="type")]
