"""Bytes that the backward pass needs of one layer at one position, counted from the shapes. Free of torch."""

import dataclasses
from typing import Literal

from headrace.train.config import ModelConfig
from headrace.train.parts import ACTIVATIONS, FP32, MIXERS, NORM_PLACES, NORMS, POSITIONS
from headrace.train.training_config import Recompute

Device = Literal["cpu", "cuda"]


@dataclasses.dataclass(frozen=True)
class LayerMemory:
    """Bytes of one layer at one position of a row."""

    model: ModelConfig
    value_bytes: int
    """Bytes of a value of the arithmetic."""
    row_tokens: int
    """Positions of a row that attention reads; of cross-attention, those of the encoder."""
    device: Device
    parts: int = 1
    """Ranks that compute a row together, each the positions of a part of it."""

    def kept_bytes(self, recompute: Recompute) -> int:
        """Returns the bytes that are kept from the forward to the backward pass, without cross-attention: all that is
        needed, or the layer's input and what is not computed again (train/model/execution.py)."""
        if recompute == "none":
            return self.needed_bytes()
        return self.value_bytes * self.model.width + self.product_bytes(recompute)

    def again_bytes(self, recompute: Recompute) -> int:
        """Returns the bytes that are computed again, without cross-attention."""
        return self.needed_bytes() - self.product_bytes(recompute)

    def product_bytes(self, recompute: Recompute) -> int:
        """Returns the bytes that selective recomputation keeps: queries, keys and values, the inner values, and the
        outputs of attention and of the feed-forward layer; and what fused attention returns. Otherwise 0."""
        if recompute != "selective":
            return 0
        model = self.model
        keys_and_values = 2 * model.kv_heads * model.head_width
        inner = model.mlp_width * ACTIVATIONS[model.activation].inputs
        values = model.heads * model.head_width + keys_and_values + inner + 2 * model.width
        return self.value_bytes * values + self._attention_bytes()

    def needed_bytes(self) -> int:
        """Returns the bytes that the backward pass of the layer needs, without cross-attention."""
        model, size = self.model, self.value_bytes
        width = model.width
        norm, place = NORMS[model.norm].kept_bytes(width, size), NORM_PLACES[model.norm_place]
        mlp = size * model.mlp_width * ACTIVATIONS[model.activation].kept_values
        dropped = 2 * width + self._dropped_bytes() if model.dropout else 0
        mixer = self._mixer_bytes(mlp)
        return round(place.kept_inputs * size * width + 2 * place.per_part * norm + mixer + mlp + dropped)

    def _mixer_bytes(self, mlp_bytes: int) -> float:
        """Returns the bytes that what mixes positions keeps, besides its input. A window is read side by side, and what
        reads it keeps ``mlp_bytes``, as a feed-forward layer."""
        model, size = self.model, self.value_bytes
        if model.mixer == "window_mlp":
            return size * ((model.window or 1) - 1) * model.width + mlp_bytes
        if model.mixer != "attention":
            return size * MIXERS[model.mixer].kept_vectors * model.width
        shared = model.kv_heads / model.heads
        rotated = POSITIONS[model.positions].rotates
        grouped = model.kv_heads < model.heads
        widths = (3 if rotated else 4 + 2 * shared) if grouped else (5 if rotated else 3)
        widths += self.parts > 1  # the output of attention at all positions, and at those of this rank
        attention = size * model.heads * model.head_width * (widths + 1) + FP32 * model.heads
        return attention + self._qk_norm_bytes(model.heads + model.kv_heads) + self._mask_bytes()

    def _dropped_bytes(self) -> int:
        """Returns the bytes that dropout in a feed-forward layer keeps: its mask, and of ReLU also the values before
        it, from which the gradient of ReLU is computed."""
        if "feed_forward" not in self.model.dropout_places:
            return 0
        return self.model.mlp_width * (1 + self.value_bytes * (self.model.activation == "relu"))

    def _qk_norm_bytes(self, heads: int) -> int:
        """Returns the bytes that the normalizations of the queries or keys of ``heads`` heads keep."""
        if self.model.qk_norm == "none":
            return 0
        return NORMS[self.model.norm].kept_bytes(heads * self.model.head_width, self.value_bytes)

    def gradient_bytes(self) -> int:
        """Returns the bytes of gradients that the backward pass of the layer holds at once."""
        inner = self.model.mlp_width * ACTIVATIONS[self.model.activation].kept_values
        return self.value_bytes * (inner + 2 * self.model.width)

    def _mask_bytes(self) -> int:
        """Returns the bytes of the mask, which a CPU keeps as numbers: for each head where heads have their own bias.
        Each of several ranks has the mask of whole rows.

        With dropout, the attention weights before it, in fp32, and after it are added. Capped logits without
        FlexAttention are kept as they are and as fp32 weights. A learned bias is one mask for all layers; each layer
        keeps its weights, and in a narrower precision its queries, keys and values, in fp32.
        """
        heads = self.model.heads if POSITIONS[self.model.positions].biases_logits else self.parts
        seen = self.value_bytes * self.row_tokens * heads if self.device == "cpu" else 0
        if self.model.attention_cap is not None and (self.device == "cpu" or self.model.dropout):
            seen = (self.value_bytes + FP32) * self.row_tokens * self.model.heads
        if POSITIONS[self.model.positions].biases_per_head:  # the mask has a gradient: plain matrix products
            width = 3 * self.model.head_width * (self.value_bytes < FP32)
            seen = FP32 * self.model.heads * (self.row_tokens + width)
        weights = self.model.heads * self.row_tokens * (FP32 + self.value_bytes + 1)
        return seen + (weights if self.model.dropout else 0)

    def cross_target_bytes(self) -> int:
        """Returns the bytes that a layer's cross-attention keeps of one position of the decoder: norm and residual,
        queries, what they read, and on a CPU the mask."""
        model, size = self.model, self.value_bytes
        norm = NORM_PLACES[model.norm_place].per_part * NORMS[model.norm].kept_bytes(model.width, size)
        dropped = model.width + model.heads * self.row_tokens * (FP32 + size + 1) if model.dropout else 0
        mask = size * self.row_tokens if self.device == "cpu" else 0
        norm += self._qk_norm_bytes(model.heads)
        return size * (model.width + 2 * model.heads * model.head_width) + norm + FP32 * model.heads + dropped + mask

    def cross_token_bytes(self) -> int:
        """Returns the bytes that a layer's cross-attention keeps of one position of the encoder: keys and values."""
        repeated = 2 * (self.model.heads if self.model.kv_heads < self.model.heads else 0)
        normed = self._qk_norm_bytes(self.model.kv_heads)
        return self.value_bytes * self.model.head_width * (2 * self.model.kv_heads + repeated) + normed

    def kept_cross_bytes(self, recompute: Recompute) -> tuple[int, int]:
        """Returns the bytes that cross-attention keeps, of a position of the decoder and of one of the encoder."""
        if recompute == "none":
            return self.cross_target_bytes(), self.cross_token_bytes()
        if recompute == "full":
            return 0, 0
        model, size = self.model, self.value_bytes
        of_target = size * (model.heads * model.head_width + model.width) + self._attention_bytes()
        return of_target, size * 2 * model.kv_heads * model.head_width

    def _attention_bytes(self) -> int:
        """Returns the bytes of fused attention: what it reads, and for each head the logarithm of a sum, in fp32.

        With dropout, a learned bias, and capped logits without FlexAttention all of attention is computed again.
        """
        model = self.model
        is_dense = model.attention_cap is not None and self.device == "cpu"
        if model.dropout or is_dense or POSITIONS[model.positions].biases_per_head:
            return 0
        return model.heads * (self.value_bytes * model.head_width + FP32)
