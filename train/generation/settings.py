"""How the next token is chosen, and when a text ends; free of torch.

temperature 0              greedy: the likeliest token
temperature 1              ancestral: a token with the model's own probability
temperature t              probabilities of logits / t
top_k, then top_p          only the k likeliest; only the fewest whose probabilities sum to p
"""

import math

from pipeline.core.errors import ConfigError
from pipeline.core.settings import settings


@settings
class Sampling:
    """How texts go on."""

    max_tokens: int = 128
    """A text gets at most so many new tokens."""
    temperature: float = 0.0
    """Divides the logits; 0 takes the likeliest token."""
    top_k: int | None = None
    """Only the so many likeliest tokens (Fan et al. 2018, section 5.2); null: all."""
    top_p: float | None = None
    """Only the fewest tokens whose probabilities sum to at least this (Holtzman et al. 2020); null: all."""
    seed: int = 0
    """With the prompt it decides every choice, whatever other prompts there are."""
    stops: tuple[str, ...] = ()
    """A text ends before the first of these."""

    def __post_init__(self) -> None:
        checks = (
            ("max_tokens", self.max_tokens >= 1, "give 1 or more"),
            ("temperature", 0 <= self.temperature < math.inf, "give 0 (greedy) or more"),
            ("top_k", self.top_k is None or self.top_k >= 1, "give 1 or more"),
            ("top_p", self.top_p is None or 0 < self.top_p <= 1, "give a number above 0 and at most 1"),
            ("stops", "" not in self.stops, "give texts that are not empty"),
        )
        for name, is_right, remedy in checks:
            if not is_right:
                raise ConfigError(f"generation.{name}", f"is {getattr(self, name)!r}", remedy)
