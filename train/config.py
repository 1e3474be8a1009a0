"""The model that a run trains: its settings, checked, and the number of its parameters. Free of torch."""

import dataclasses
import itertools
from collections.abc import Iterator

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import settings
from headrace.train.model_shape import BelowOne, Deviations, DynamicScaling, Epsilon, ModelShape
from headrace.train.parts import ACTIVATIONS, MIXERS, NORM_PLACES, NORMS, POSITIONS

OF_ATTENTION = (
    *("qkv_bias", "attention_width", "attention_scale_width", "qk_norm", "attention_pattern", "attention_cap"),
)
"""Settings that decide nothing without attention."""
ShapeCheck = tuple[object, str]
"""A truth value, true if the settings are impossible, and the reason."""


def checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    """Returns the checks of ``shape``, whose sizes are at least 1; those after one that fails are not asked."""
    parts = (
        *(_head_checks, _position_checks, _mixer_checks, _window_checks),
        *(_norm_checks, _stack_checks, _output_checks, _scale_checks),
    )
    return itertools.chain.from_iterable(part(shape) for part in parts)


def _head_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    attention = "width" if shape.attention_width is None else "attention_width"
    width = shape.attention_width or shape.width
    yield width % shape.heads, f"{attention} {width} is no multiple of {shape.heads} heads"
    yield shape.heads % shape.kv_heads, f"{shape.heads} heads are no multiple of {shape.kv_heads} kv_heads"


def _position_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    positions, fraction = shape.positions, f"rotary_fraction {shape.rotary_fraction}"
    rotates, rotated = POSITIONS[positions].rotates, shape.rotated_width
    yield rotates and shape.head_width % 2, f"{positions} needs an even head width, not {shape.head_width}"
    yield shape.rotary_fraction != 1 and not rotates, f"{fraction} needs positions rope, not {positions}"
    yield (
        rotates and (rotated % 2 or not rotated),
        f"{fraction} rotates {rotated} of {shape.head_width} values of a head, no even number of at least 2",
    )
    yield (
        positions == "sinusoidal" and shape.width % 2,
        f"positions sinusoidal need an even width, not {shape.width}",
    )
    scaled = "" if shape.rope_scaling is None else f"rope_scaling of type {shape.rope_scaling.type}"
    yield scaled and not rotates, f"{scaled} needs positions rope, not {positions}"
    yield (
        scaled and shape.window_theta is not None,
        f"{scaled} and window_theta {shape.window_theta} exclude each other",
    )
    two_sided = f"two_sided_bias {str(shape.two_sided_bias).lower()}"
    yield (
        shape.two_sided_bias is not None and not shape.chooses_bias,
        f"{two_sided} needs positions t5 and stack decoder or discriminator, not {positions} and {shape.stack}",
    )
    yield (
        shape.position_offset and not POSITIONS[positions].vectors_per_position,
        f"position_offset {shape.position_offset} needs learned positions, not {positions}",
    )


def _mixer_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    mixer, positions = f"mixer {shape.mixer}", shape.positions
    if shape.mixer != "attention":
        yield shape.stack != "decoder", f"{mixer} needs stack decoder, not {shape.stack}"
        yield positions != "none", f"{mixer} needs positions none, not {positions}: it reads tokens in their order"
        defaults = {field.name: field.default for field in dataclasses.fields(shape)}
        for name in OF_ATTENTION:
            value = getattr(shape, name)
            yield value != defaults[name], f"{name} {value} needs mixer attention, not {shape.mixer}"
    needs = f"{mixer} needs a window of at least 2, not {'null' if shape.window is None else shape.window}"
    yield shape.mixer == "window_mlp" and (shape.window or 0) < 2, needs


def _window_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    pattern = f"attention_pattern [{', '.join(shape.attention_pattern)}]"
    has_windows = "window" in shape.attention_pattern
    yield not shape.attention_pattern, f"{pattern} names no layer"
    yield has_windows and shape.window is None, f"{pattern} needs a window, and window is null"
    yield (
        shape.window is not None and not has_windows and shape.mixer != "window_mlp",
        f"window {shape.window} is in no layer of {pattern}",
    )
    yield (
        shape.window_theta is not None and not (has_windows and POSITIONS[shape.positions].rotates),
        f"window_theta {shape.window_theta} needs positions rope, not {shape.positions}, and a window",
    )


def _norm_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    yield (
        not shape.residual and shape.norm_place == "parallel",
        "residual false and norm_place parallel exclude each other",
    )
    yield (
        not shape.first_attention_norm and shape.norm_place not in ("pre", "sandwich"),
        f"first_attention_norm false needs norm_place pre or sandwich, not {shape.norm_place}",
    )
    yield (
        shape.shared_layers and not shape.first_attention_norm,
        "shared_layers true and first_attention_norm false exclude each other",
    )
    yield not 0 <= shape.dropout < 1, f"dropout {shape.dropout} is not in [0, 1)"


def _stack_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    has_two = shape.stack == "encoder_decoder"
    yield (
        shape.encoder_layers is not None and not has_two,
        f"encoder_layers {shape.encoder_layers} needs stack encoder_decoder, not {shape.stack}",
    )
    yield shape.shared_stacks and not has_two, f"shared_stacks true needs stack encoder_decoder, not {shape.stack}"
    yield (
        shape.shared_stacks and shape.encoder_layers not in (None, shape.layers),
        f"shared_stacks true needs as many layers in both stacks, not {shape.encoder_layers} and {shape.layers}",
    )


def _output_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    embedding = f"embedding_width {shape.embedding_width}"
    discriminates = shape.stack == "discriminator"
    yield shape.scaled_output and shape.output_transform, "scaled_output and output_transform exclude each other"
    yield discriminates and shape.output_transform, "output_transform true is not for stack discriminator"
    yield shape.pair_head and shape.stack != "encoder", f"pair_head true needs stack encoder, not {shape.stack}"
    yield (
        shape.embedding_width not in (None, shape.width) and not (discriminates or shape.output_transform),
        f"{embedding} needs output_transform, or stack discriminator",
    )
    yield (
        shape.embedding_width is not None and (shape.scaled_embedding or shape.positions == "sinusoidal"),
        f"{embedding} works with neither scaled_embedding nor positions sinusoidal",
    )


def _scale_checks(shape: ModelShape) -> Iterator[ShapeCheck]:
    """Yields the checks of muP and of factors of logits, which an export has in the norm before the output layer."""
    base, has_base = f"base_width {shape.base_width}", shape.base_width is not None
    multiplier = f"output_multiplier {shape.output_multiplier:g}"
    for name, is_given in ((base, has_base), (multiplier, shape.output_multiplier != 1)):
        yield is_given and shape.stack != "decoder", f"{name} needs stack decoder, not {shape.stack}"
        yield is_given and shape.norm == "layernorm_plain", f"{name} needs a norm with weights, not layernorm_plain"
        yield is_given and shape.norm_place == "post", f"{name} needs a norm after the last layer, not norm_place post"
        yield is_given and shape.scaled_output, f"{name} and scaled_output true exclude each other"
        yield is_given and shape.output_transform, f"{name} and output_transform true exclude each other"
    yield has_base and shape.initialization != "gpt", f"{base} needs initialization gpt, not {shape.initialization}"
    yield (
        shape.deviations != Deviations() and shape.initialization != "gpt",
        f"deviations need initialization gpt, not {shape.initialization}",
    )


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
