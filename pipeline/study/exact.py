"""The exact study: numbers that need no training, as others give them and as Headrace's own code computes them.

    row    topic, what, expected, own, equal, origin, source

The origin of what is expected is a publication (it states the number), the code of others, or a formula, which is
computed here from its definition: its result is in no publication. A published number is rounded; ``own`` is equal when
it rounds to the same digits. Properties (a model permutes with its input, logits depend on the distance) are measured
on the model's parts in fp32, where equal means up to rounding.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from headrace.data_prep.tokenization.packing import SPAN, best_fit
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode
from headrace.pipeline.study.exact_row import ExactRow, NumberOrigin
from headrace.pipeline.study.layer_types import layer_type_rows
from headrace.pipeline.study.mixture_epochs import epoch_rows
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import flops_per_token, parameter_flops
from headrace.train.finetune.tasks.task_mixture import rates, whole
from headrace.train.model import properties
from headrace.train.objectives.denoising import Denoising
from headrace.train.objectives.encoder_decoder import EncoderDecoderDenoising

ROUNDING = 1e-4
"""The largest deviation of an equality in fp32."""
T5 = "Raffel et al. 2020"
T5_VOCABULARY = 32_128
T5_INPUTS, T5_TARGETS = 512, 114
"""Positions of T5's encoder and decoder (Raffel et al. 2020, section 3.1.2)."""
GPT_VOCABULARY = 50_257
GLUE_EXAMPLES = {
    "cola": 8_551,
    "sst2": 67_349,
    "mrpc": 3_668,
    "qqp": 363_849,
    "stsb": 5_749,
    "mnli": 392_702,
    "qnli": 104_743,
    "rte": 2_490,
}
"""Training examples of the tasks of GLUE, as T5's code weighs them (t5/data/glue_utils.py)."""


def exact_rows() -> Iterator[ExactRow]:
    """Yields the rows of the study, by topic."""
    yield from _lengths()
    yield from _parameters()
    yield from _operations()
    yield from _architectures()
    yield from _blocks()
    yield from _caches()
    yield from _packing()
    yield from _positions()
    yield from _masks()
    yield from _mixing()
    yield from epoch_rows()
    yield from layer_type_rows()


def _lengths() -> Iterator[ExactRow]:
    """Yields lengths of T5's rows: tokens of text and of targets that 512 inputs hold."""
    topic = "lengths of T5's rows"
    for rate, text, targets in ((0.10, 548, 74), (0.15, 568, 114), (0.25, 614, 206), (0.50, 766, 512)):
        objective = EncoderDecoderDenoising(rate=rate, sentinels=200)
        own = objective.text_tokens(T5_INPUTS)
        what = f"rate {rate:.0%}, spans of 3, {T5_INPUTS} inputs"
        yield ExactRow.of(topic, f"tokens of text, {what}", text, own, "code of others", f"{T5}, code")
        yield ExactRow.of(
            topic, f"targets, {what}", targets, objective.most_tokens(own)[1], "code of others", f"{T5}, code"
        )
    for span, targets in ((2, 126), (3, 114), (5, 105), (10, 99)):
        objective = EncoderDecoderDenoising(mean_span=span, sentinels=200)
        own = objective.most_tokens(objective.text_tokens(T5_INPUTS))[1]
        yield ExactRow.of(topic, f"targets, rate 15%, spans of {span}", targets, own, "code of others", f"{T5}, code")
    inputs, targets = Denoising().most_tokens(568)
    own = Denoising().positions(568)
    what, expected = "positions of one stack, inputs and targets", inputs + targets - 1
    yield ExactRow.of(topic, what, expected, own, "formula", "sum of the two, less one")


def _model(name: str) -> ModelConfig:
    return decode(ModelConfig, option_values("model", name))


def _parameters() -> Iterator[ExactRow]:
    topic, section = "parameters", f"{T5}, section 3.7"
    exact = {"t5_small": 60_506_624, "t5_base": 222_903_552, "t5_large": 737_668_096, "t5_11b": 11_307_321_344}
    for name, published in exact.items():
        own = _model(name).parameters(T5_VOCABULARY)
        yield ExactRow.of(topic, name, published, own, "code of others", "T5ForConditionalGeneration of transformers")
    for name, millions in (("t5_small", 60), ("t5_base", 220), ("t5_large", 770), ("t5_3b", 2_800), ("t5_11b", 11_000)):
        own = _model(name).parameters(T5_VOCABULARY)
        digits = len(str(millions).rstrip("0"))
        is_equal = float(f"{own / 1e6:.{digits}g}") == millions
        remark = "" if is_equal else "the paper's name of the size, not a count"
        yield ExactRow(
            topic, f"{name}, millions", f"{millions:,}", f"{own / 1e6:,.1f}", is_equal, "publication", section, remark
        )
    for name, published, source in (
        ("gpt3_175b", 174_600, "Brown et al. 2020, table D.1"),
        ("gpt2_small", 124, "README of openai/gpt-2, which corrects the paper's 117"),
    ):
        own = _model(name).parameters(GPT_VOCABULARY)
        digits = 4 if published > 1_000 else 3
        text = f"{float(f'{own / 1e6:.{digits}g}'):,.0f}"
        is_equal = text == f"{published:,}"
        yield ExactRow(topic, f"{name}, millions", f"{published:,}", text, is_equal, "publication", source)


def _operations() -> Iterator[ExactRow]:
    """Yields operations of whole trainings, 6 N D."""
    topic, source = "training, FLOP = 6 N D", "Brown et al. 2020, table D.1; formula of Kaplan et al. 2020"
    for name, vocabulary, tokens, published in (
        ("bert_base", 30_522, 250e9, 1.6e20),
        ("gpt3_175b", GPT_VOCABULARY, 300e9, 3.1e23),
    ):
        own = parameter_flops(_model(name), vocabulary, 1) * tokens
        yield ExactRow.of(topic, f"{name}, {tokens / 1e9:.0f} B tokens", published, own, "publication", source, ".1e")


def _architectures() -> Iterator[ExactRow]:
    """Yields parameters and operations of T5's architectures, in multiples of its language model (table 2 there)."""
    base = _model("t5_base")
    decoder = dataclasses.replace(base, stack="decoder")
    row = T5_INPUTS + T5_TARGETS
    shapes = {
        "encoder–decoder": (base, 2, 1.0),
        "encoder–decoder, shared": (dataclasses.replace(base, shared_stacks=True), 1, 1.0),
        "encoder–decoder, 6 layers": (dataclasses.replace(base, layers=6), 1, 0.5),
    }
    flops_of_decoder = flops_per_token(decoder, 1, row) * row
    topic, source = "T5's architectures", f"{T5}, table 2"
    for name, (model, parameters, flops) in shapes.items():
        alone = dataclasses.replace(model, stack="decoder", shared_stacks=False)
        cross = model.stack_parameters - alone.stack_parameters
        whole, others = (
            number / decoder.parameters(1) for number in (model.parameters(1), model.parameters(1) - cross)
        )
        own = flops_per_token(model, 1, T5_INPUTS, T5_TARGETS) * T5_INPUTS / flops_of_decoder
        remark = f"the round figure leaves out cross-attention, {whole - others:.2f} P"
        yield ExactRow(
            topic, f"{name}: parameters, P", f"{parameters}", f"{whole:.2f}", False, "publication", source, remark
        )
        what = f"{name}: the same without cross-attention"
        yield ExactRow.of(topic, what, parameters, others, "publication", source, ".2f")
        yield ExactRow.of(topic, f"{name}: FLOP, M", flops, own, "publication", source, ".1f")


def _blocks() -> Iterator[ExactRow]:
    """Yields the shares of the matrices of a block: 8 d² in the feed-forward layer, 4 d² in attention."""
    model = dataclasses.replace(_model("gpt2_small"), bias=False)
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


def _caches() -> Iterator[ExactRow]:
    """Yields bytes of keys and values: 2 · layers · key/value heads · head width · tokens · 2 bytes."""
    model, tokens, gib = _model("llama_7b"), 2_048, 2**30
    for name, heads in (("all 32 heads (MHA)", 32), ("8 heads (GQA)", 8), ("1 head (MQA)", 1)):
        own = properties.cache_bytes(dataclasses.replace(model, kv_heads=heads), tokens) / gib
        expected = 2 * 32 * heads * 128 * tokens * 2 / gib
        what = f"LLaMA 7B, {tokens:,} tokens in bf16, {name}, GiB"
        shape = "keys and values of the shape of Touvron et al. 2023"
        yield ExactRow.of("key-value cache", what, expected, own, "formula", shape, "g")


def _packing() -> Iterator[ExactRow]:
    """Yields the positions used by texts of 2, 6, 3 and 4 tokens, padded to 9 each, or packed with separators."""
    lengths, row, topic = (2, 6, 3, 4), 9, "packing"
    documents = np.zeros(len(lengths), SPAN)
    documents["length"] = [length + 1 for length in lengths]  # each with a separator, which the last of a row lacks
    spans, offsets = best_fit(documents, row + 1)
    rows = len(offsets) - 1
    padded, packed = sum(lengths) / (row * len(lengths)), (spans["length"].sum() - rows) / (row * rows)
    what = f"texts of {', '.join(map(str, lengths))} tokens, rows of {row}"
    yield ExactRow.of(topic, f"{what}: one text in a row", 15 / 36, padded, "formula", "15 of 36 positions", ".0%")
    yield ExactRow.of(topic, f"{what}: packed, with separators", 17 / 18, packed, "formula", "17 of 18", ".0%")


def _positions() -> Iterator[ExactRow]:
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


def _masks() -> Iterator[ExactRow]:
    """Yields shares of pairs of positions that attention computes."""
    n, w = 512, 64
    for what, own, pairs in (
        ("full, encoder", properties.visible_pairs("encoder", "full", None, n), n * n),
        ("full, causal", properties.visible_pairs("decoder", "full", None, n), n * (n + 1) // 2),
        (f"window {w}, causal", properties.visible_pairs("decoder", "window", w, n), w * n - w * (w - 1) // 2),
        (f"window {w}, encoder", properties.visible_pairs("encoder", "window", w, n), (2 * w - 1) * n - w * (w - 1)),
    ):
        counted = "pairs counted by hand"
        yield ExactRow.of("masks", f"{what}, {n} positions", pairs / n**2, own / n**2, "formula", counted, ".4%")


def _mixing() -> Iterator[ExactRow]:
    """Yields shares of GLUE's tasks in a mixture: min(e, K)^(1 / T) of e examples, or equal ones."""
    source = f"{T5}, section 3.5.2, with the examples of its code"
    for name, limit, temperature, equal in (
        ("proportional to the examples", None, 1.0, False),
        ("K = 2^16", 2**16, 1.0, False),
        ("T = 2", None, 2.0, False),
        ("equal", None, 1.0, True),
    ):
        counted = {task: min(number, limit or number) for task, number in GLUE_EXAMPLES.items()}
        powers = {task: 1.0 if equal else number ** (1 / temperature) for task, number in counted.items()}
        own = whole(rates(list(GLUE_EXAMPLES.values()), limit, temperature, equal))
        shares = {task: rows / sum(own) for task, rows in zip(GLUE_EXAMPLES, own, strict=True)}
        for task in ("mnli", "sst2", "rte"):
            what, expected = f"GLUE, {name}: {task}", powers[task] / sum(powers.values())
            yield ExactRow.of("mixing of tasks", what, expected, shares[task], "formula", source, ".1%")
