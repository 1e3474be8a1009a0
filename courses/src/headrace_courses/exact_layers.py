"""Rows of the exact study on the parts of a model: blocks, caches, positions, masks, types of layers, lengths.

The cost of a layer by its type, as in table 1 of Vaswani et al. 2017, for rows of n positions of d values:

                                  multiplications    in sequence    longest path
    self-attention                n² · d             1              1
    recurrent                     n · d²             n              n
    convolutional, k positions    k · n · d²         1              log_k n, of dilated layers
    self-attention, r positions   r · n · d          1              2 n / r

Multiplications are those of one matrix product, operations in sequence cannot be done at the same time, and a path is
one of layers from the first position to the last. The paper's n / r leaves out a factor: with r positions in reach,
half of them on either side, a layer carries r / 2 positions far.

Rotary positions turn a query and a key by their positions, so the product of two equal vectors falls with the distance
m as the mean of cos(m · 10,000^(-2i/D)) over the pairs i of D values (Su et al. 2021, section 3.4.3).
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import flops_per_token
from headrace_courses import layer_costs
from headrace_courses import model_properties as properties

NumberOrigin = Literal["publication", "code of others", "formula"]


@dataclasses.dataclass(frozen=True)
class ExactRow:
    """An expected number, or property, and our own."""

    topic: str
    what: str
    expected: str
    own: str
    is_equal: bool
    origin: NumberOrigin
    """The origin of ``expected``."""
    source: str
    remark: str = ""
    """Why they differ, where they do."""

    @classmethod
    def of(
        cls,
        topic: str,
        what: str,
        expected: float,
        own: float,
        origin: NumberOrigin,
        source: str,
        form: str = ",.0f",
        remark: str = "",
    ) -> "ExactRow":
        """Compares two numbers as ``form`` writes the expected one; ``remark`` says why they differ if they do."""
        texts = format(expected, form), format(own, form)
        is_equal = texts[0] == texts[1]
        return cls(topic, what, *texts, is_equal, origin, source, "" if is_equal else remark)


ROUNDING = 1e-4
"""The largest deviation of an equality in fp32."""
TOKENS, WIDTH, KERNEL, WINDOW = 4_096, 768, 3, 64
REACH = 2 * WINDOW - 1
ROTARY_WIDTH = 128
"""Values of a head."""
DISTANCES = (1, 10, 100, 1_000)
LENGTHS = (2_048, 8_192, 32_768, 131_072)
GIB = 2**30
FORMULAS = {
    "scores of a layer in bf16, GiB": "2 · heads · n², where all are kept",
    "key-value cache in bf16, GiB": "4 · layers · width · n",
    "FLOP to train on a row": "(6 N + 12 L d n) · n, Chowdhery et al. 2022",
}


def preset(name: str) -> ModelConfig:
    """Returns the settings of conf/model/``name``.yaml."""
    return decode(ModelConfig, option_values("model", name))


def block_rows() -> Iterator[ExactRow]:
    """Yields the shares of the matrices of a block: 8 d² in the feed-forward layer, 4 d² in attention."""
    model = dataclasses.replace(preset("gpt2_small"), bias=False)
    wider = dataclasses.replace(model, mlp_width=2 * model.mlp_width)
    width, layers = model.width, model.layers
    mlp = (wider.parameters(1) - model.parameters(1)) // layers
    deeper = dataclasses.replace(model, layers=layers + 1)
    norms = 2 * 2 * width
    attention = deeper.parameters(1) - model.parameters(1) - mlp - norms
    topic, shapes = "matrices of a block", "shapes of Vaswani et al. 2017, section 3"
    for what, expected, own, form in (
        ("feed-forward layer, in d²", 8, mlp / width**2, "g"),
        ("attention, in d²", 4, attention / width**2, "g"),
        ("share of the feed-forward layer", 2 / 3, mlp / (mlp + attention), ".4f"),
    ):
        yield ExactRow.of(topic, what, expected, own, "formula", shapes, form)


def cache_rows() -> Iterator[ExactRow]:
    """Yields bytes of keys and values: 2 · layers · key/value heads · head width · tokens · 2 bytes."""
    model, tokens, gib = preset("llama_7b"), 2_048, 2**30
    for name, heads in (("all 32 heads (MHA)", 32), ("8 heads (GQA)", 8), ("1 head (MQA)", 1)):
        own = properties.cache_bytes(dataclasses.replace(model, kv_heads=heads), tokens) / gib
        expected = 2 * 32 * heads * 128 * tokens * 2 / gib
        what = f"LLaMA 7B, {tokens:,} tokens in bf16, {name}, GiB"
        shape = "keys and values of the shape of Touvron et al. 2023"
        yield ExactRow.of("key-value cache", what, expected, own, "formula", shape, "g")


def position_rows() -> Iterator[ExactRow]:
    """Yields properties of positions, and of models without them."""
    rotary, rotated = properties.rotary_shift(), properties.sinusoidal_rotation()
    encoder, decoder = properties.permuted("encoder"), properties.permuted("decoder")
    rows: tuple[tuple[str, float, bool, NumberOrigin, str], ...] = (
        ("rotary logits at positions p, q and p + 37, q + 37", rotary, True, "publication", "Su et al. 2021"),
        ("PE(t + k) and PE(t) rotated by k", rotated, True, "publication", "Vaswani et al. 2017"),
        ("an encoder without positions, tokens permuted", encoder, True, "formula", "attention is a sum"),
        ("a causal decoder without them, tokens permuted", decoder, False, "publication", "Haviv et al. 2022"),
    )
    for what, deviation, is_zero, origin, source in rows:
        expected = "equal" if is_zero else "not equal"
        own = "equal" if deviation < ROUNDING else "not equal"
        text = f"{own}, deviation {deviation:.1e}"
        yield ExactRow("positions", what, expected, text, own == expected, origin, source)
    for distance in DISTANCES:
        pairs = range(ROTARY_WIDTH // 2)
        cosine = sum(math.cos(distance * 10_000 ** (-2 * i / ROTARY_WIDTH)) for i in pairs) / len(pairs)
        what = f"rotary, product of equal vectors at distance {distance:,}, of that at 0"
        product = properties.rotary_product(distance, ROTARY_WIDTH)
        yield ExactRow.of("positions", what, cosine, product, "formula", "mean cosine, Su et al. 2021", ".3f")


def mask_rows() -> Iterator[ExactRow]:
    """Yields shares of pairs of positions that attention computes."""
    n, w = 512, 64
    for what, own, pairs in (
        ("full, encoder", properties.visible_pairs("encoder", "full", None, n), n * n),
        ("full, causal", properties.visible_pairs("decoder", "full", None, n), n * (n + 1) // 2),
        (f"window {w}, causal", properties.visible_pairs("decoder", "window", w, n), w * n - w * (w - 1) // 2),
        (
            f"window {w}, encoder",
            properties.visible_pairs("encoder", "window", w, n),
            (2 * w - 1) * n - w * (w - 1),
        ),
    ):
        counted = "pairs counted by hand"
        yield ExactRow.of("masks", f"{what}, {n} positions", pairs / n**2, own / n**2, "formula", counted, ".4%")


def layer_type_rows() -> Iterator[ExactRow]:
    """Yields the cost and the longest path of each type of layer, by the formula and as counted."""
    n, d, k, r = TOKENS, WIDTH, KERNEL, REACH
    topic, source = f"layers, n = {n:,}, d = {d}, k = {k}, r = {r}", "Vaswani et al. 2017, table 1"
    for name, formula, expected, own in (
        ("self-attention", "n² d", n**2 * d, layer_costs.attention_multiplications(n, d, None)),
        ("recurrent", "n d²", n * d**2, layer_costs.recurrent_multiplications(n, d)),
        ("convolutional", "k n d²", k * n * d**2, layer_costs.convolutional_multiplications(n, d, k)),
        ("restricted self-attention", "r n d", r * n * d, layer_costs.attention_multiplications(n, d, WINDOW)),
    ):
        yield ExactRow.of(topic, f"{name}: multiplications, {formula}", expected, own, "formula", source, ".1e")
    dilated, windows = math.ceil(math.log(n, k)), math.ceil((n - 1) / (WINDOW - 1))
    for what, expected, own in (
        ("convolutional, dilated: longest path, log_k n", dilated, layer_costs.dilated_layers(n, k)),
        ("restricted self-attention: longest path, 2 n / r", windows, layer_costs.window_layers(n, WINDOW)),
    ):
        yield ExactRow.of(topic, what, expected, own, "formula", source)


def length_rows() -> Iterator[ExactRow]:
    """Yields what grows with the length of a row: memory and operations of attention with its square, the cache not."""
    model, vocabulary, topic = preset("llama_7b"), 32_000, "LLaMA 7B by the length n of a row"
    layers, width, heads, parameters = model.layers, model.width, model.heads, model.parameters(vocabulary)
    for n in LENGTHS:
        for what, expected, own in (
            ("scores of a layer in bf16, GiB", 2 * heads * n**2 / GIB, properties.score_bytes(model, n) / GIB),
            (
                "key-value cache in bf16, GiB",
                4 * layers * width * n / GIB,
                properties.cache_bytes(model, n) / GIB,
            ),
            (
                "FLOP to train on a row",
                (6 * parameters + 12 * layers * width * n) * n,
                flops_per_token(model, vocabulary, n) * n,
            ),
        ):
            form = ".2e" if "FLOP" in what else "g"
            yield ExactRow.of(topic, f"n = {n:,}: {what}", expected, own, "formula", FORMULAS[what], form)
