"""Denoising: T5's table of lengths, rows of each kind, a trained model that scores and writes after a sentinel."""

import dataclasses
import typing

import numpy as np
import pytest
import torch

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import canonical
from headrace.pipeline.stages import stages
from headrace.train.context import ContextForm
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_folder import load
from headrace.train.inference.inference_model import open_exported
from headrace.train.inference.queries import TokenQuery
from headrace.train.objectives.base import Vocabulary, of_stack, target_tokens
from headrace.train.objectives.denoising import Denoising
from tests.command_line import headrace_here
from tests.train.conftest import bytes_tokenizer
from tests.train.objectives.test_causal import logits_after
from tests.train.test_weights import MODEL, stage

TABLE = (
    """
512 .15 3 568 114 | 512 .15 2 552 126 | 512 .15 5 581 105 | 512 .15 10 591 99 | 512 .10 3 548 74 | 512 .25 3 614 206
512 .50 3 766 512 | 512 .15 8 588 100 | 512 .15 64 600 92 | 512 .50 8 908 512 | 512 .50 64 1006 512
128 .15 3 141 29 | 256 .15 3 284 58 | 1024 .15 3 1137 229
""".replace("\n", " | ")
    .strip(" |")
    .split(" | ")
)
"""T5's lengths: inputs, rate, mean span, tokens of the raw text, targets."""

SPANS = ["experiment=demo", "objective=span_corruption", "objective.sentinels=10"]
KINDS = typing.get_args(Denoising.__annotations__["kind"])
SENTINELS = 4
VOCABULARY = Vocabulary(50, {f"<extra_id_{number}>": 40 + number for number in range(SENTINELS)}, end=9)


@pytest.mark.parametrize("line", TABLE)
def test_lengths_are_those_of_t5(line):
    inputs, rate, mean_span, raw, targets = (float(value) for value in line.split())
    objective = Denoising(rate=rate, mean_span=mean_span, sentinels=1000)
    fits = max(n for n in range(2, 1200) if objective.most_tokens(n)[0] <= inputs)
    found = objective.most_tokens(fits)
    if found[1] > found[0]:  # the reference then takes one token less
        fits, found = fits - 1, objective.most_tokens(fits - 1)
    assert (fits, found[1]) == (raw, targets)


def test_rows_are_packed_with_the_text_that_leaves_room_for_the_targets():
    config = decoded(compose(SPANS))
    assert (config.packing.row_tokens, config.text_packing.row_tokens) == (128, 115)
    (packed,) = (stage for stage in stages(config) if stage.name == "packed")
    assert packed.packing.row_tokens == 115
    assert set(config.objective.lengths(115).values()) == {128}
    assert Denoising().text_tokens(625) == 568
    assert Denoising(kind="deshuffle").text_tokens(129) == 64
    assert Denoising(kind="prefix").text_tokens(129) == 128


def test_the_rows_of_an_encoder_decoder_are_those_of_one_stack_in_two_sequences():
    """T5's lengths, of the inputs alone; the same noise; the decoder reads its targets one position later."""
    objective = of_stack(Denoising(), "encoder_decoder")
    assert (objective.text_tokens(512), target_tokens(objective, 568)) == (568, 114)
    assert objective.lengths(568)["encoder_inputs"] == 512
    config = decoded(compose([*SPANS, "model.stack=encoder_decoder"]))
    assert (config.text_packing.row_tokens, config.target_tokens) == (141, 29)
    vocabulary, start = dataclasses.replace(VOCABULARY, decoder_start=8), 8
    text, generators = np.arange(24) % 7, [np.random.default_rng(3) for _ in range(2)]
    for kind in KINDS:
        one, two = (
            of_stack(Denoising(kind=kind, sentinels=SENTINELS), stack) for stack in ("decoder", "encoder_decoder")
        )
        joined, found = (
            each.row([np.array([9, *text])], 24, vocabulary, generator)
            for each, generator in zip((one, two), generators, strict=True)
        )
        inputs = found["encoder_inputs"][found["encoder_documents"] == 0]
        targets = found["targets"][found["targets"] >= 0]
        assert joined["inputs"].tolist()[: len(inputs)] == inputs.tolist()
        assert joined["targets"][joined["targets"] >= 0].tolist() == targets.tolist()
        assert found["inputs"][found["documents"] == 0].tolist() == [start, *targets[:-1]]
        assert two.counts({"targets": found["targets"]}) == {"denoising": len(targets)}
    empty = two.row([], 24, vocabulary, np.random.default_rng(0))
    assert set(empty["encoder_documents"]) | set(empty["documents"]) == {-1}
    form = of_stack(Denoising(sentinels=SENTINELS), "encoder_decoder").context_form(vocabulary)
    assert form == ContextForm(looks_ahead=True, ending=(40, 9), given=(8, 40), stops=(41,))


def row(kind: str, tokens: list[int], seed: int = 0, row_tokens: int = 24, **others) -> tuple[list[int], list[int]]:
    """The inputs and the targets of a row, with the ends, from its arrays."""
    objective = Denoising(kind=kind, sentinels=SENTINELS, **others)
    found = objective.row([np.array([9, *tokens])], row_tokens, VOCABULARY, np.random.default_rng(seed))
    (length,) = set(objective.lengths(row_tokens).values())
    assert {name: len(array) for name, array in found.items()} == objective.lengths(row_tokens)
    prefix, size = int(found["prefix"].sum()), int((found["documents"] == 0).sum())
    assert size <= length
    assert found["prefix"].tolist() == [1] * prefix + [0] * (length - prefix)
    assert found["targets"].tolist()[: prefix - 1] == [-100] * (prefix - 1)
    assert found["targets"].tolist()[prefix - 1 : size - 1] == found["inputs"].tolist()[prefix:size]
    assert found["targets"].tolist()[size:] == [-100] * (length - size)
    assert found["positions"].tolist()[:size] == list(range(size))
    return found["inputs"].tolist()[:prefix], found["targets"].tolist()[prefix - 1 : size]


TEXT = [1, 2, 3, 4, 9, 5, 6, 7, 8, 1, 2, 3, 4, 9]


def test_rows_of_each_kind():
    inputs, targets = row("spans", TEXT, rate=0.3, mean_span=2.0)
    assert (len(inputs), len(targets)) == (14 - 4 + 2 + 1, 4 + 2 + 1)
    assert [token for token in inputs if token >= 40] == [token for token in targets if token >= 40] == [40, 41]
    assert inputs[-1] == targets[-1] == 9
    inputs, targets = row("drop", TEXT, rate=0.3)
    assert sorted([*inputs, *targets]) == sorted([*TEXT, 9, 9])
    inputs, targets = row("mass_style", TEXT, rate=0.3)
    assert targets == [*TEXT, 9]
    assert {token for token, own in zip(inputs, targets, strict=True) if token != own} == {40}
    inputs, targets = row("mass", TEXT, rate=0.5)
    begin = inputs.index(40)
    assert inputs == [*TEXT[:begin], *[40] * 7, *TEXT[begin + 7 :], 9]
    assert targets == [*TEXT[begin : begin + 7], 9]
    inputs, targets = row("deshuffle", TEXT)
    assert inputs != targets == [*TEXT, 9]
    assert sorted(inputs) == sorted(targets)
    splits = set[int]()
    for seed in range(100):
        inputs, targets = row("prefix", TEXT, seed)
        assert [*inputs[:-1], *targets[:-1]] == TEXT
        splits.add(len(inputs) - 1)
    assert splits == set(range(1, len(TEXT)))
    inputs, targets = row("bert", TEXT * 40, rate=0.5, row_tokens=600)
    assert targets == [*TEXT * 40, 9]
    assert {40} < {token for token, own in zip(inputs, targets, strict=True) if token != own}
    assert not {41, 42, 43} & set(inputs), "random tokens are no special ones"


def test_random_tokens_are_no_special_ones():
    """Padding 0 and unknown 2 are reserved, too. Only addresses of rows with random tokens differ from before."""
    vocabulary = dataclasses.replace(VOCABULARY, reserved=np.array([0, 2, 9, *VOCABULARY.special_ids.values()]))
    objective = Denoising(kind="bert", rate=0.9, sentinels=SENTINELS)
    inputs, _ = objective.noised(np.full(4000, 3), vocabulary, np.random.default_rng(0))
    assert set(inputs.tolist()) == {1, *range(3, 9), *range(10, 41), *range(44, 50)}
    assert canonical(objective)["revision"] == 1
    assert canonical(Denoising(rate=0.3)) == {"type": "denoising", "rate": 0.3}


def test_independent_masks_use_the_sentinels_that_there_are():
    for seed in range(50):
        inputs, targets = row("independent", TEXT, seed, rate=0.5)
        assert max(*inputs, *targets) < 40 + SENTINELS
        plain = [token for token in (*inputs[:-1], *targets[:-1]) if token < 40]
        assert sorted(plain) == sorted(TEXT)


@pytest.mark.parametrize("kind", KINDS)
def test_shorter_rows_fit_and_the_shortest_has_no_target(kind):
    for length in range(2, 25):
        for seed in range(5):
            row(kind, list(range(10, 10 + length)), seed, mean_span=6.0)
    objective = Denoising(kind=kind, sentinels=SENTINELS)
    assert objective.counts(objective.row([np.array([9, 1])], 24, VOCABULARY, np.random.default_rng(0))) == {
        "denoising": 0
    }


def test_inputs_with_a_causal_mask_are_the_same_rows_without_a_prefix():
    pieces = [np.arange(10, 31)]
    full, causal = (
        Denoising(sentinels=SENTINELS, input_mask=mask).row(pieces, 30, VOCABULARY, np.random.default_rng(5))
        for mask in ("full", "causal")
    )
    assert (full["prefix"].any(), causal["prefix"].any()) == (True, False)
    assert all((full[name] == causal[name]).all() for name in full if name != "prefix")
    assert not Denoising(input_mask="causal", sentinels=SENTINELS).context_form(VOCABULARY).looks_ahead


def test_settings_that_cannot_work_are_refused_before_any_stage():
    refused = {
        ("objective.sentinels=5",): "objective.sentinels: is 5, and a row of 115 tokens has 6 spans; give 6, or make "
        "packing.row_tokens smaller",
        ("packing.row_tokens=4",): "packing.row_tokens: is 4, too few for the inputs and targets of two tokens; make "
        "rows longer",
        ("model.stack=encoder",): "objective: denoising trains a stack decoder or encoder_decoder, and model.stack is "
        "encoder; give a model of stack decoder or encoder_decoder, or an objective that trains a stack encoder: "
        "masked",
        ("objective.input_mask=causal",): "objective.input_mask: is causal, and the encoder of "
        "model.stack=encoder_decoder sees all inputs; give objective.input_mask=full, or model.stack=decoder",
    }
    for overrides, message in refused.items():
        run = ["experiment=t5_demo"] if "input_mask" in overrides[0] else SPANS
        done = headrace_here("config", *run, *overrides)
        assert (done.returncode, done.stderr) == (2, f"headrace: {message}\n")


@pytest.fixture(scope="module")
def with_sentinels(tmp_path_factory, inputs):
    """The inputs of a training whose tokenizer has four sentinels."""
    folder = tmp_path_factory.mktemp("sentinels")
    tokenizer = bytes_tokenizer()
    tokenizer.add_special_tokens(list(Denoising(sentinels=SENTINELS).special_tokens()))
    out = TaskOutput(folder / "tokenizer", "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        tokenizer.save(str(path))
    out.done({})
    return {**inputs, "tokenizer": finish(folder / "tokenizer", {"stage": "tokenizer"}, {"tokenizer": 1})}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, with_sentinels, run_stage):
    settings = stage(steps=40, validate_every=20, save_every=40)
    objective, model = Denoising(sentinels=SENTINELS), dataclasses.replace(MODEL, context=80)
    weights = dataclasses.replace(settings, objective=objective, model=model)
    return run_stage(weights, with_sentinels, tmp_path_factory.mktemp("denoising") / "weights")


@pytest.mark.slow
def test_a_trained_model_answers_after_a_sentinel(trained, with_sentinels):
    metrics = read_metrics(trained.path("metrics.jsonl"))
    assert metrics[-1]["validation_loss"] < 4.6 < 5.3 < metrics[0]["loss"]
    assert not any("bits_per_byte" in one for one in metrics)
    folder = trained.path("hf/config.json").parent
    form = {"looks_ahead": True, "ending": [260, 256], "given": [260], "stops": [259]}
    assert read_json(folder / "config.json")["context_form"] == form
    model = load(folder)
    assert model.context_form == ContextForm(looks_ahead=True, ending=(260, 256), given=(260,), stops=(259,))
    generator = np.random.default_rng(1)
    contexts = [generator.integers(0, 256, size) for size in (1, 9, 20, 90)]
    queries = [TokenQuery(one, generator.integers(0, 256, size)) for one in contexts for size in (1, 3, 12)]
    encoder = Encoder.load(with_sentinels["tokenizer"].path("tokenizer.json"))
    likelihood = open_exported(folder, encoder, Evaluation(device="cpu")).likelihood
    for query, answer in zip(queries, likelihood.answers(queries), strict=True):
        context, rest = query.context.tolist(), query.continuation.tolist()
        read = [*context[-(80 - 3 + 1 - len(rest)) :], 260, 256]
        log_probs = logits_after(model, read, [260, *rest[:-1]])[1:].log_softmax(1)
        expected = log_probs[torch.arange(len(rest)), torch.tensor(rest)].sum().item()
        assert answer.log_likelihood == pytest.approx(expected, abs=1e-4)
    assert likelihood.tally(queries).truncated_contexts == 3
