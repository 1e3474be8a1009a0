"""The model that a run trains: its settings, checked, and the number of its parameters. Free of torch."""

import dataclasses

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.model_checks import checks
from headrace.train.model_shape import BelowOne, Epsilon, ModelShape
from headrace.train.parts import ACTIVATIONS, MIXERS, NORM_PLACES, NORMS, POSITIONS
from headrace.train.rope_scaling import DynamicScaling

__all__ = ["CHUNK_LOGITS", "BelowOne", "Epsilon", "ModelConfig", "chunk_positions", "padded_vocabulary"]
CHUNK_LOGITS = {"cpu": 2**27, "cuda": 2**30}
"""The maximum number of logits that the output layer holds at once on a device (train/model/head.py): on a CPU 512 MiB
in fp32, or 2,670 positions of GPT-2; on a GPU 2 GiB in bf16, or 21,248 positions, with fewer and larger products."""
GEMM_MULTIPLE = 128
"""The multiple to which the output layer pads its vocabulary and, on a GPU, rounds down the positions of a chunk. A row
of 128 bf16 logits begins at a multiple of 256 bytes; tensor cores need multiples of 16 bytes (NVIDIA, "Matrix
Multiplication Background", section 3.1)."""


def padded_vocabulary(vocabulary: int) -> int:
    """Returns ``vocabulary`` rounded up to the next multiple of ``GEMM_MULTIPLE``."""
    return -(-vocabulary // GEMM_MULTIPLE) * GEMM_MULTIPLE


def chunk_positions(vocabulary: int, device: str) -> int:
    """Returns the number of positions whose logits the output layer holds at once on a ``device`` of this type."""
    positions = CHUNK_LOGITS[device] // vocabulary
    return max(1, positions if device == "cpu" else positions // GEMM_MULTIPLE * GEMM_MULTIPLE)


@settings
class ModelConfig(ModelShape):
    """The shape of a Transformer: GPT-2, LLaMA, BERT, T5, or any mixture of their parts."""

    def __post_init__(self) -> None:
        sizes = (self.layers, self.width, self.heads, self.kv_heads, self.context, self.mlp_width)
        if min(sizes) < 1:  # the shape of a Hugging Face folder is not decoded
            raise ConfigError("model", f"has a size of {min(sizes)}", "give sizes of at least 1")
        for fails, reason in checks(self):
            if fails:
                raise ConfigError("model", reason, "correct the model's settings")

    @property
    def encoder(self) -> "ModelConfig":
        """The shape of the encoder of an encoder–decoder."""
        layers = self.encoder_layers or self.layers
        return dataclasses.replace(self, stack="encoder", layers=layers, encoder_layers=None, shared_stacks=False)

    @property
    def most_positions(self) -> int | None:
        """The most positions that a forward pass can have: those of a table of vectors, or of rotations that change
        beyond the context; None: any number."""
        has_end = POSITIONS[self.positions].vectors_per_position or isinstance(self.rope_scaling, DynamicScaling)
        return self.context if has_end else None

    def parameters(self, vocabulary: int) -> int:
        """Returns the number of parameters with a ``vocabulary`` of that many tokens. Shared weights count once."""
        embedding = vocabulary * (self.embedding_width or self.width)
        others = 0
        if self.stack == "encoder_decoder":
            others = self.encoder.stack_parameters - self.shared_stacks * self.encoder._block_parameters
        return embedding + self.stack_parameters + self._output_parameters(vocabulary) + others

    @property
    def _embedding_parameters(self) -> int:
        """The parameters of vectors for positions and segments, and of the norm of the embeddings."""
        positions = (self.position_offset + self.context) * POSITIONS[self.positions].vectors_per_position
        vectors = positions + self.segments + self.embedding_norm * NORMS[self.norm].vectors
        return vectors * (self.embedding_width or self.width)

    @property
    def stack_parameters(self) -> int:
        """The number of parameters of one stack, that of the decoder where there are two, without token embeddings."""
        last_norm = NORM_PLACES[self.norm_place].at_end * self.width * NORMS[self.norm].vectors
        width = self.embedding_width or self.width
        projection = (width + 1) * self.width if width != self.width else 0
        facts = POSITIONS[self.positions]
        biases = facts.tables(self.layers) * facts.biases_per_head * self.heads
        return self._embedding_parameters + biases + projection + self._block_parameters + last_norm

    @property
    def _block_parameters(self) -> int:
        """The parameters of all blocks of one stack."""
        has_cross = self.stack == "encoder_decoder"
        norms = NORM_PLACES[self.norm_place].per_part * (2 + has_cross) * self.blocks - (not self.first_attention_norm)
        parts = self._mixer_parameters * (1 + has_cross) + self._mlp_parameters(self.width)
        return self.blocks * parts + norms * self.width * NORMS[self.norm].vectors

    @property
    def _mixer_parameters(self) -> int:
        """The parameters of what mixes positions in one block."""
        if self.mixer == "window_mlp":
            return self._mlp_parameters((self.window or 1) * self.width)
        if self.mixer != "attention":  # torch has a bias of the input and one of the state
            return MIXERS[self.mixer].gates * 2 * (self.width + self.bias) * self.width
        query_width, qkv_width = (n * self.head_width for n in (self.heads, self.heads + 2 * self.kv_heads))
        attention = self.width * (qkv_width + query_width) + self.has_qkv_bias * qkv_width + self.bias * self.width
        return attention + self.qk_norm_width * NORMS[self.norm].vectors

    def _mlp_parameters(self, inputs: int) -> int:
        """Returns the parameters of a feed-forward layer that reads ``inputs`` values."""
        up_width = self.mlp_width * ACTIVATIONS[self.activation].inputs
        return inputs * up_width + self.mlp_width * self.width + self.bias * (up_width + self.width)

    def _output_parameters(self, vocabulary: int) -> int:
        """Returns the parameters after the last block that are not the embedding's."""
        if self.stack == "discriminator":
            return (self.width + self.bias) * self.width + self.width + 1
        width = self.embedding_width or self.width
        transform = (self.width + self.bias + NORMS[self.norm].vectors) * width + vocabulary
        pair_head = (self.width + 1) * (self.width + 2)  # the pooler and two outputs, both with biases
        return self.output_transform * transform + self.pair_head * pair_head + (not self.tied) * vocabulary * width
