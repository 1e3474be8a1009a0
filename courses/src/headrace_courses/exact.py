"""Numbers that need no training, as others give them and as Headrace's own code computes them.

python -m headrace_courses.exact
python -m headrace_courses.exact --page exact.html --json exact.json

    row    topic, what, expected, own, equal, origin, source

The origin of what is expected is a publication (it states the number), the code of others, or a formula, which is
computed here from its definition: its result is in no publication. A published number is rounded; ``own`` is equal when
it rounds to the same digits. Properties (a model permutes with its input, logits depend on the distance) are measured
on the model's parts in fp32, where equal means up to rounding. The rows are shown as a table, a page and JSON.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np

from headrace.data_prep.tokenization.packing import SPAN, best_fit
from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.output.terminal import show_lines
from headrace.train.cost.flops import flops_per_token, parameter_flops
from headrace.train.objectives.denoising import Denoising, EncoderDecoderDenoising
from headrace_courses.exact_layers import (
    ExactRow,
    NumberOrigin,
    block_rows,
    cache_rows,
    layer_type_rows,
    length_rows,
    mask_rows,
    position_rows,
    preset,
)
from headrace_courses.program import run
from headrace_courses.task_mixture import rates, whole

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
TRAINED_TOKENS = 300e9
GPT3_SOURCES = {
    "crawl": (410e9, 0.44),
    "webtext2": (19e9, 2.9),
    "books1": (12e9, 1.9),
    "books2": (55e9, 0.43),
    "wikipedia": (3e9, 3.4),
}
"""Source of conf/mixture/gpt3.yaml → its tokens, and the epochs that are published (Brown et al. 2020, table 2.2)."""


def exact_rows() -> Iterator[ExactRow]:
    """Yields the rows of the study, by topic."""
    yield from _lengths()
    yield from _parameters()
    yield from _operations()
    yield from _architectures()
    yield from block_rows()
    yield from cache_rows()
    yield from _packing()
    yield from position_rows()
    yield from mask_rows()
    yield from _mixing()
    yield from _epochs()
    yield from layer_type_rows()
    yield from length_rows()


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


def _parameters() -> Iterator[ExactRow]:
    topic, section = "parameters", f"{T5}, section 3.7"
    exact = {"t5_small": 60_506_624, "t5_base": 222_903_552, "t5_large": 737_668_096, "t5_11b": 11_307_321_344}
    for name, published in exact.items():
        own = preset(name).parameters(T5_VOCABULARY)
        yield ExactRow.of(topic, name, published, own, "code of others", "T5ForConditionalGeneration of transformers")
    for name, millions in (("t5_small", 60), ("t5_base", 220), ("t5_large", 770), ("t5_3b", 2_800), ("t5_11b", 11_000)):
        own = preset(name).parameters(T5_VOCABULARY)
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
        own = preset(name).parameters(GPT_VOCABULARY)
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
        own = parameter_flops(preset(name), vocabulary, 1) * tokens
        yield ExactRow.of(topic, f"{name}, {tokens / 1e9:.0f} B tokens", published, own, "publication", source, ".1e")


def _architectures() -> Iterator[ExactRow]:
    """Yields parameters and operations of T5's architectures, in multiples of its language model (table 2 there)."""
    base = preset("t5_base")
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


def _epochs() -> Iterator[ExactRow]:
    """Yields the epochs of GPT-3's sources, of the weights of its preset: tokens of the training · weight / sum of the
    weights / tokens of the source."""
    weights = {source["name"]: source["weight"] for source in option_values("mixture", "gpt3")["sources"]}
    for name, (tokens, published) in GPT3_SOURCES.items():
        own = TRAINED_TOKENS * weights[name] / sum(weights.values()) / tokens
        digits = len(str(published).partition(".")[2])
        remark = f"by its weight, {weights[name]} of {sum(weights.values())}, and its {tokens / 1e9:.0f} billion tokens"
        what, source = f"epochs of {name}, 300 B tokens", "Brown et al. 2020, table 2.2"
        yield ExactRow.of(
            "GPT-3's mixture", what, published, own, "publication", source, form=f".{digits}f", remark=remark
        )


TITLE, LEDE = "What is computed, not trained", "Published numbers that need no training"
HEAD = ["topic", "what", "expected", "own", "equal", "origin", "source"]
ORIGINS: dict[NumberOrigin, str] = {
    "publication": "what publications state",
    "code of others": "what the code of others computes",
    "formula": "what formulas give",
}


@command
@click.option("--page", metavar="FILE", type=NewFile(), help="Write the table as a page.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the rows as JSON.")
def exact(overrides: Sequence[str], page: Path | None, json_file: Path | None) -> None:
    """Prints numbers of publications beside those that the code computes."""
    rows = list(exact_rows())
    lines = [[*(row.topic, row.what, row.expected, row.own), equality(row), *(row.origin, row.source)] for row in rows]
    result = "; ".join(f"{text}: {agreement(rows, origin)}" for origin, text in ORIGINS.items())
    show_lines(HEAD, lines)
    print("", result, sep="\n")
    head = {
        "title": TITLE,
        "lede": "Published numbers that need no training",
        "facts": [("result", result)],
        "notes": [],
        "figures": [],
    }
    page_values = {**head, "tables": [("rows", "Expected and own", [HEAD, *lines])]}
    write_files(json_file, [dataclasses.asdict(row) for row in rows], page, lambda: page_values)


def equality(row: ExactRow) -> str:
    """Returns whether our own number of ``row`` equals the expected one, and why not."""
    return "yes" if row.is_equal else f"no: {row.remark}"


def agreement(rows: Sequence[ExactRow], origin: NumberOrigin) -> str:
    """Returns the number of equal ``rows`` of ``origin``, and that of all."""
    of_origin = [row.is_equal for row in rows if row.origin == origin]
    return f"{sum(of_origin)} of {len(of_origin)} are equal"


if __name__ == "__main__":
    run(exact)
