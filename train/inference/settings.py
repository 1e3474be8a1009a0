"""The settings of inference: how a model runs, and how it continues a text. Free of torch.

temperature 0              greedy: the most likely token
temperature 1              ancestral: a token with the model's own probability
temperature t              probabilities of logits / t
top_k, then top_p          only the k most likely tokens; only the fewest whose probabilities sum to p
"""

from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.settings import NaturalNumber, Positive, Seed, settings, unhashed


@settings
class Inference:
    """The batch size, precision and device of a model's forward passes."""

    batch_tokens: Positive = 4096
    """A batch holds as many queries of similar length as fit into this many tokens, each padded to the longest."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of weights and activations; log-probabilities are always computed in fp32."""
    device: Literal["auto", "cpu", "cuda"] = unhashed("auto")
    """The device of the model; auto takes the GPU if there is one."""


@settings
class Sampling:
    """The choice of tokens when a model continues a text."""

    max_tokens: Positive = 128
    """The maximum number of new tokens of a text."""
    temperature: NaturalNumber = 0.0
    """Divides the logits; 0 takes the most likely token."""
    top_k: Positive | None = None
    """Only this many of the most likely tokens (Fan et al. 2018, section 5.2); null: all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Only the fewest tokens whose probabilities sum to at least this (Holtzman et al. 2020); null: all."""
    seed: Seed = 0
    """Decides every random choice, together with the prompt; other prompts have no influence."""
    stops: tuple[str, ...] = ()
    """A text ends before the first of these."""
