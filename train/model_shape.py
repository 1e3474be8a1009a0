"""The settings of a model, and the sizes that follow from them. Free of torch, so that the pipeline can read them
anywhere."""

import itertools
from typing import Annotated, Literal

from pydantic import Field

from headrace.pipeline.core.settings import Natural, Positive, PositiveNumber, settings
from headrace.train.parts import (
    MIXERS,
    WRITING,
    ActivationName,
    AttentionName,
    DropoutPlaceName,
    InitializationName,
    MixerName,
    NormName,
    NormPlaceName,
    PositionsName,
    StackName,
)

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


AttentionPattern = Annotated[tuple[AttentionName, ...], Field(min_length=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]
Epsilon = PositiveFraction
BelowOne = Annotated[float, Field(ge=0, lt=1)]


@settings
class Deviations:
    """Standard deviations of the first weights, by the role of a parameter."""

    embedding: PositiveNumber = 0.02
    """Embeddings of tokens, positions and segments; an output layer that is tied to them, too."""
    head: PositiveNumber = 0.02
    """Output layers with weights of their own."""
    matrix: PositiveNumber = 0.02
    """All other matrices, those of the hidden layers."""


@settings
class ModelShape:
    """The shape of a Transformer: GPT-2, LLaMA, BERT, T5, or any mixture of their parts."""

    layers: Positive
    """Number of Transformer blocks."""
    width: Positive
    """Width of the residual stream (d_model)."""
    heads: Positive
    """Query heads of each attention."""
    kv_heads: Positive
    """Key and value heads; each serves heads / kv_heads query heads (GQA, Ainslie et al. 2023)."""
    context: Positive
    """The longest sequence in tokens."""
    mlp_width: Positive
    """Inner width of the feed-forward layer."""
    positions: PositionsName = "learned"
    """learned: a table of ``context`` vectors (GPT-2); sinusoidal: fixed vectors of sines and cosines (Vaswani et al.
    2017); rope: rotary embedding of queries and keys (Su et al. 2021); alibi: a bias of attention that falls with the
    distance (Press et al. 2022); t5: a learned bias of attention for each range of distances (Raffel et al. 2020);
    t5_by_layer: the same with other numbers in each layer (UMT5); none: nothing."""
    two_sided_bias: bool | None = None
    """Whether half of the ranges of T5's positions are for tokens after the query, in a decoder or a discriminator; an
    encoder always has them. null: a run sets true where tokens see later ones, as in a prefix LM."""
    rope_theta: PositiveNumber = 10_000.0
    """Base of the rotary frequencies; only rope uses it."""
    rope_scaling: RopeScaling | None = None
    """A change of the rotary frequencies for texts longer than those of the first training; null: none."""
    rotary_fraction: PositiveFraction = 1.0
    """Share of each head's values, from the first, that rope rotates (GPT-NeoX: 0.25)."""
    norm: NormName = "layernorm"
    """layernorm: by mean and variance, with a bias (GPT-2); layernorm_no_bias: the same without a bias (ModernBERT);
    layernorm_plain: without weights, too (OLMo); rmsnorm: by the root mean square (LLaMA); rmsnorm_1p: the same with
    weights that are added to 1 (Gemma)."""
    norm_place: NormPlaceName = "pre"
    """pre: before attention and feed-forward layer (GPT-2); post: after each residual addition (GPT-1); sandwich:
    before each part and after it (Gemma 2); after: after each part, before the addition (OLMo 2); parallel: before
    each part, and all parts of a block read its input (GPT-NeoX). All but post have one more at the end."""
    norm_epsilon: Epsilon = 1e-5
    """Added to the variance."""
    residual: bool = True
    """Whether each part of a block is added to its input; false: its output replaces the input, and gradients pass
    through all parts."""
    mixer: MixerName = "attention"
    """The part of each block that mixes positions. lstm, rnn: a recurrent layer of the model's width (Hochreiter and
    Schmidhuber 1997; Elman 1990, with tanh); window_mlp: a feed-forward layer, with the activation and inner width of
    the others, that reads the vectors of the last ``window`` tokens side by side (Bengio et al. 2003). These three are
    for decoders and positions none; heads decide nothing in them."""
    activation: ActivationName = "gelu"
    """relu; gelu: in GPT-2's tanh form; gelu_exact: with the error function (BERT). Gated (Shazeer 2020): reglu; geglu
    (tanh form); geglu_exact; swiglu (by SiLU). A gated layer has three matrices: take two thirds of the inner width
    for as many parameters."""
    bias: bool = True
    """Whether linear layers have a bias."""
    qkv_bias: bool | None = None
    """Whether those of queries, keys and values have one; null: as ``bias`` (Qwen 2: these alone)."""
    tied: bool = True
    """Whether the output layer is the token embedding."""
    dropout: BelowOne = 0.0
    """Probability of dropping an embedding, an attention weight or a residual update in training."""
    dropout_places: tuple[DropoutPlaceName, ...] = ()
    """Further places of dropout with the same probability. feed_forward: inner values of the feed-forward layer, after
    the activation; last: values after the last norm of a stack. T5 has both."""
    stack: StackName = "decoder"
    """decoder: a token sees itself and the tokens before it (GPT); encoder: it sees its whole document (BERT);
    encoder_decoder: both, and each layer of the decoder also attends to the encoder's output (T5);
    discriminator: an encoder that computes for each token one logit, that it was replaced (ELECTRA)."""
    shared_layers: bool = False
    """Whether all layers of a stack have the weights of one block (ALBERT)."""
    encoder_layers: Positive | None = None
    """Layers of the encoder of an encoder_decoder; null: ``layers``, those of its decoder."""
    shared_stacks: bool = False
    """Whether each layer of the decoder has the self-attention and the feed-forward layer of the encoder's layer of the
    same number, with their norms. Its cross-attention, positions and last norm are its own (Raffel et al. 2020, section
    3.2)."""
    attention_width: Positive | None = None
    """Width of the queries of all heads together, heads · head width; null: ``width``."""
    attention_scale_width: Positive | None = None
    """Logits of attention are divided by the square root of this number; null: the width of a head."""
    qk_norm: Literal["none", "head", "width"] = "none"
    """Normalization of queries and keys before the rotation, also in cross-attention. head: each head alone (Qwen3);
    width: all heads of a token together (OLMo 2)."""
    position_offset: Natural = 0
    """Rows of the table of learned positions before that of position 0: 2 in OPT, RoBERTa and BART."""
    scaled_embedding: bool = False
    """Whether token embeddings are multiplied by the square root of ``width`` (Vaswani et al. 2017; Gemma)."""
    embedding_norm: bool = False
    """Whether embeddings are normalized before the first block (BERT, BLOOM)."""
    first_attention_norm: bool = True
    """Whether the first block normalizes the input of its attention; ModernBERT's embeddings are normalized already."""
    attention_pattern: AttentionPattern = ("full",)
    """The attention of the layers in turn, repeated over all of them: full, or window. GPT-3 has [full, window], Gemma
    2 [window, full], ModernBERT [full, window, window]."""
    window: Positive | None = None
    """A layer with the attention ``window`` sees only tokens at distances below this number, as each layer of the mixer
    window_mlp does; null: no layer has one."""
    window_theta: PositiveNumber | None = None
    """Base of the rotary frequencies in layers with a window; null: ``rope_theta``."""
    attention_cap: PositiveNumber | None = None
    """Bound c of the logits of attention, by c · tanh(logit / c) (Gemma 2); null: none."""
    logit_cap: PositiveNumber | None = None
    """The same bound of the output layer's logits; null: none."""
    segments: Natural = 0
    """Vectors for the parts of a pair of texts, of which one is added to each embedding (BERT has 2, RoBERTa 1). A text
    that is in no pair has the first one."""
    pair_head: bool = False
    """Whether a pooler (dense layer and tanh) and a linear layer with two outputs read the first token of a pair of
    texts: the head of ``objective.pairs`` (BERT, ALBERT)."""
    output_transform: bool = False
    """Whether a dense layer, the activation (without gate) and a normalization come before the output layer, which then
    has a bias (the masked-language-model head of BERT)."""
    embedding_width: Positive | None = None
    """Width of the embeddings of tokens, positions and segments, and of the output layer; a dense layer brings them to
    ``width`` (ELECTRA, ALBERT). null: ``width``."""
    scaled_output: bool = False
    """Whether the output layer reads vectors divided by the square root of ``width``, as that of T5 1.0 does."""
    base_width: Positive | None = None
    """The width at which the learning rate was chosen: muP (Yang et al. 2022, table 8; for Adam, heads of one width and
    an output layer that may be tied). With m = width / base_width, the first weights of hidden matrices have 1/sqrt(m)
    of their deviation and the logits are divided by m; AdamW gives these matrices 1/m of the rate, at the same decay.
    By that paper, a rate that is best at base_width stays good at any width. null: none of this, as for base_width =
    width."""
    output_multiplier: PositiveNumber = 1.0
    """Factor of the logits."""
    deviations: Deviations = Deviations()
    """Standard deviations of the first weights by role, with initialization gpt."""
    initialization: InitializationName = "gpt"
    """Standard deviations of the first weights. gpt: ``deviations``, by default 0.02 (Radford et al. 2019); t5:
    1 / sqrt(inputs), for logits of attention that are not scaled."""

    @property
    def chooses_bias(self) -> bool:
        """Whether ``two_sided_bias`` decides anything."""
        return self.positions in ("t5", "t5_by_layer") and self.stack in ("decoder", "discriminator")

    @property
    def blocks(self) -> int:
        """The number of blocks of a stack that have weights of their own."""
        return 1 if self.shared_layers else self.layers

    @property
    def width_factor(self) -> float:
        """The width in multiples of ``base_width``; 1 without one."""
        return 1.0 if self.base_width is None else self.width / self.base_width

    @property
    def output_scale(self) -> float:
        """The factor of the vectors that the output layer reads, after the last norm."""
        return self.output_multiplier / self.width_factor

    @property
    def layer_attention(self) -> tuple[AttentionName, ...]:
        """The attention of each layer."""
        return tuple(itertools.islice(itertools.cycle(self.attention_pattern), self.layers))

    def seen_tokens(self, row_tokens: int) -> int:
        """Returns the keys in reach of one query in a row of this length, summed over the layers."""
        if self.mixer != "attention":
            return 0
        reach = self.window or row_tokens
        both_sides = reach if self.stack in WRITING else 2 * reach - 1
        seen = {"full": row_tokens, "window": min(row_tokens, both_sides)}
        return sum(seen[attention] for attention in self.layer_attention)

    @property
    def has_qkv_bias(self) -> bool:
        """Whether queries, keys and values have a bias."""
        return self.bias if self.qkv_bias is None else self.qkv_bias

    @property
    def head_width(self) -> int:
        return (self.attention_width or self.width) // self.heads

    @property
    def cached_values(self) -> int:
        """The keys and values of one token in all layers, which a cache keeps while a text is written."""
        return 2 * self.layers * self.kv_heads * self.head_width * (self.mixer == "attention")

    @property
    def revision(self) -> int:
        """1 where values are dropped, which depended on micro-batches and ranks in revision 0."""
        return int(self.dropout > 0)

    @property
    def layer_state_values(self) -> int:
        """The values that a layer without attention keeps of all tokens so far: a recurrent state, or the vectors of
        the last tokens of a window."""
        vectors = (self.window or 1) - 1 if self.mixer == "window_mlp" else MIXERS[self.mixer].states
        return vectors * self.width

    def cache_values(self, tokens: int) -> int:
        """Returns the values that a cache keeps of one sequence of ``tokens``."""
        return self.cached_values * tokens + self.layers * self.layer_state_values

    def cache_formula(self, value_bytes: int) -> str:
        """Returns the bytes of a token in the cache, or of a row's states, as a product."""
        if self.mixer != "attention":
            state = f"{self.layers} layers · {self.layer_state_values} values · {value_bytes} bytes"
            return f"{value_bytes * self.cache_values(0):,} bytes a row = {state}"
        values = f"2 · {self.layers} layers · {self.kv_heads} key/value heads · {self.head_width} wide"
        return f"{value_bytes * self.cached_values:,} bytes a token = {values} · {value_bytes} bytes"

    @property
    def rotated_width(self) -> int:
        """The number of values of a head that rope rotates."""
        return int(self.head_width * self.rotary_fraction)

    @property
    def qk_norm_width(self) -> int:
        """The width of the normalizations of queries and of keys together; 0: there are none."""
        heads = {"none": 0, "head": 2, "width": self.heads + self.kv_heads}[self.qk_norm]
        return heads * self.head_width
