"""How the next token is chosen, and when a text ends; free of torch.

temperature 0              greedy: the likeliest token
temperature 1              ancestral: a token with the model's own probability
temperature t              probabilities of logits / t
top_k, then top_p          only the k likeliest; only the fewest whose probabilities sum to p
"""

from typing import Annotated

from pydantic import Field

from headrace.pipeline.core.settings import NaturalNumber, Positive, Seed, settings


@settings
class Sampling:
    """How texts go on."""

    max_tokens: Positive = 128
    """A text gets at most so many new tokens."""
    temperature: NaturalNumber = 0.0
    """Divides the logits; 0 takes the likeliest token."""
    top_k: Positive | None = None
    """Only the so many likeliest tokens (Fan et al. 2018, section 5.2); null: all."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Only the fewest tokens whose probabilities sum to at least this (Holtzman et al. 2020); null: all."""
    seed: Seed = 0
    """With the prompt it decides every choice, whatever other prompts there are."""
    stops: tuple[str, ...] = ()
    """A text ends before the first of these."""
