"""The memory and the greatest speed of writing a text with a decoder, before it exists. Free of torch.

    memory         s · N + rows · tokens · s · V         N parameters of s bytes, V cached values of a token
    decode         a step reads the weights once, and the keys and values that its rows see; it computes 2 N + 4 a K
                   operations for each row: a values of all heads, K keys of all layers. The slower of both decides.
    prefill        the prompt's tokens at once: operations alone decide

V = 2 · layers · key/value heads · head width, as train/model/cache.py has it. The cache keeps all tokens also in layers
with a window, where a step reads only those in the window; a model without attention has a state of one size instead.
Both speeds are bounds: a chip at its full bandwidth or peak FLOP/s, without the time of starting kernels, and with the
weights divided over the chips at no cost.
"""

import dataclasses

from headrace.train.config import ModelConfig
from headrace.train.cost.flops import flops_per_token

FORWARD = 1 / 3
"""The share of the forward pass in the operations of training."""


@dataclasses.dataclass(frozen=True)
class InferenceCost:
    """The cost of writing with ``model`` on chips of this memory, bandwidth and peak, all together."""

    model: ModelConfig
    vocabulary: int
    value_bytes: int
    memory_bytes: float
    bandwidth: float
    peak_flops: float

    @property
    def weight_bytes(self) -> int:
        return self.value_bytes * self.model.parameters(self.vocabulary)

    @property
    def read_weight_bytes(self) -> int:
        """The weights that each step reads: all but an embedding that is not the output layer."""
        width = self.model.embedding_width or self.model.width
        return self.weight_bytes - self.value_bytes * (not self.model.tied) * self.vocabulary * width

    def cache_bytes(self, tokens: int) -> int:
        """Returns the bytes of keys and values of one row of ``tokens``, or of its state."""
        return self.value_bytes * self.model.cache_values(tokens)

    def read_cache_bytes(self, tokens: int) -> int:
        """Returns the bytes of keys and values, or of the state, that the next token of such a row reads."""
        per_key = 2 * self.model.kv_heads * self.model.head_width
        of_states = self.model.layers * self.model.layer_state_values
        return self.value_bytes * (per_key * self.model.seen_tokens(tokens) + of_states)

    def most_rows(self, tokens: int) -> int:
        """Returns the number of rows of ``tokens`` whose cache fits in memory with the weights."""
        return max(0, int((self.memory_bytes - self.weight_bytes) // self.cache_bytes(tokens)))

    def forward_flops(self, tokens: int) -> float:
        """Returns the operations of one token that sees ``tokens`` positions."""
        return FORWARD * flops_per_token(self.model, self.vocabulary, tokens)

    def decode_tokens_per_second(self, rows: int, tokens: int) -> float:
        """Returns the most new tokens in a second, of all ``rows`` together."""
        read = self.read_weight_bytes + rows * self.read_cache_bytes(tokens)
        return rows / max(read / self.bandwidth, rows * self.forward_flops(tokens) / self.peak_flops)

    def prefill_tokens_per_second(self, tokens: int) -> float:
        """Returns the most tokens of prompts in a second."""
        return self.peak_flops / self.forward_flops(tokens)
