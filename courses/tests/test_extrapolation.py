"""Extrapolation: which tokens each window scores, its losses against a plain forward pass, what cannot be read."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.held_out_documents import HeldOutDocument
from headrace.train.evaluation.score_rows import markdown
from headrace.train.evaluation.scoring import score_items
from headrace.train.inference.queries import Answer
from headrace.train.inference.sharing import query_key
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.parts import POSITIONS
from headrace_courses.extrapolation import Extrapolation
from tests.train.small_models import model_of

VOCABULARY, TRAINED = 40, 8
BENCHMARK = Extrapolation(lengths=(8, 16, 32), sliding_tokens=4)
SHAPE = ModelConfig(layers=2, width=16, heads=2, kv_heads=2, context=TRAINED, mlp_width=16)
TOKENIZER = SimpleNamespace(end_of_text=0, encode=lambda texts: [])


def documents(*lengths: int) -> list[HeldOutDocument]:
    draws = np.random.default_rng(0)
    tokens = [draws.integers(1, VOCABULARY, length).astype(np.uint16) for length in lengths]
    return [HeldOutDocument(f"0:{n}", (one,), 1, SimpleNamespace()) for n, one in enumerate(tokens)]


def sources(*lengths: int, most: int | None = None) -> Sources:
    return Sources(Path(), SimpleNamespace(documents=documents(*lengths)), "", most_window_tokens=most)


def trained(positions: str) -> Transformer:
    model = Transformer(dataclasses.replace(SHAPE, positions=positions), VOCABULARY)
    initialize(model, 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.dim() >= 2 else 1)
    return model.eval()


def test_every_length_scores_the_same_tokens():
    items = BENCHMARK.items(sources(32, 33, 70))  # the first has no token before its 32 last
    assert [item.name for item in items] == ["0:1", "0:2"] * 6
    tokens = documents(32, 33, 70)[1].tokens.tolist()
    for item in items:
        way, length = item.group.split("_")
        for query in item.queries:
            assert query.window_tokens == int(length) == len(query.context) + len(query.continuation) - 1
        scored = [token for query in item.queries for token in query.continuation.tolist()]
        if item.name == "0:1":
            assert scored == (tokens[1:] if way == "windows" else tokens[-4:])
        else:
            assert len(scored) == (64 if way == "windows" else 8)  # two texts fit


def plain_loss(model: Transformer, windows: list[list[int]], scored: int) -> float:
    """Returns the mean loss of the last ``scored`` tokens of each window, computed without cache or batches."""
    losses = []
    for window in windows:
        tokens_BT = torch.tensor([window[:-1]])
        positions_BT = torch.arange(tokens_BT.shape[1])[None]
        logits_TV = model(tokens_BT, positions_BT, torch.zeros_like(tokens_BT))[0].double()
        losses += torch.nn.functional.cross_entropy(logits_TV, torch.tensor(window[1:]), reduction="none")[-scored:]
    return float(sum(losses) / len(losses))


@pytest.mark.parametrize("positions", sorted(set(POSITIONS) - {"learned"}))
def test_losses_beyond_the_trained_length_are_those_of_a_plain_pass(positions):
    model, (document,) = trained(positions), documents(33)
    items = BENCHMARK.items(sources(33))
    entry = score_items("far", BENCHMARK, items, None, model_of(model, TOKENIZER, VOCABULARY, TRAINED)).scores
    found = {(metric.name, metric.group): metric.value for metric in entry.metrics}
    tokens = document.tokens.tolist()
    with torch.no_grad():
        for length in (8, 16, 32):
            cut = [tokens[start : start + length + 1] for start in range(0, 32, length)]
            assert found["loss", f"windows_{length}"] == pytest.approx(plain_loss(model, cut, length), abs=1e-5)
            last = plain_loss(model, [tokens[-length - 1 :]], 4)
            assert found["loss", f"sliding_{length}"] == pytest.approx(last, abs=1e-5)
            assert found["perplexity", f"sliding_{length}"] == pytest.approx(math.exp(last), rel=1e-5)
    change = found["loss", "sliding_32"] - found["loss", "sliding_8"]
    assert found["loss_change", ""] == found["loss_change", "sliding_32"] == pytest.approx(change)
    (note,) = entry.notes
    assert note == "loss_change has no interval: one item in windows_16, windows_32, sliding_16, sliding_32."
    assert (entry.tally.truncated_contexts, entry.tally.split_continuations) == (0, 0)


def test_a_table_of_positions_ends():
    subject = model_of(trained("learned"), TOKENIZER, VOCABULARY, TRAINED)
    assert subject.most_window_tokens == TRAINED
    entry = score_items("far", BENCHMARK, BENCHMARK.items(sources(40, most=TRAINED)), None, subject).scores
    assert {metric.group for metric in entry.metrics} == {"windows_8", "sliding_8"}
    note = "not possible at lengths 16, 32: the model has 8 positions and no others."
    assert entry.notes == (note,)
    assert type(entry).read(entry.row()) == entry
    assert f"far: {note}\n" in markdown([entry])


def test_changes_are_paired_over_documents():
    items = BENCHMARK.items(sources(40, 40))
    nats = {"8": (4.0, 8.0), "16": (4.0, 6.0), "32": (2.0, 4.0)}
    outcomes = [
        BENCHMARK.outcome(item, [Answer(-nats[item.group.split("_")[1]][int(item.name[-1])], False, 4)])
        for item in items
    ]
    whole, *groups = BENCHMARK.metrics(items, outcomes, VOCABULARY)
    assert (whole.name, whole.value, whole.random, whole.items) == ("loss_change", -6 / 8, 0.0, 2)
    assert whole.standard_error == pytest.approx(math.sqrt(2 / (2 - 1) * 2) / 8)  # deviations ±1 of 8 tokens
    assert [(m.name, m.value) for m in groups if m.group == "sliding_16"] == [
        ("loss", 10 / 8), ("perplexity", math.exp(10 / 8)), ("loss_change", -2 / 8), ("scored_tokens", 8.0),
    ]  # fmt: skip
    assert groups[0].random == math.log(VOCABULARY)


def test_the_log_of_answers_tells_windows_apart():
    (query, *_) = BENCHMARK.items(sources(40))[0].queries
    assert query_key(query) != query_key(dataclasses.replace(query, window_tokens=None))


@pytest.mark.parametrize("lengths", [(8, 12), (16, 8)])
def test_lengths_that_do_not_cut_the_same_text(lengths):
    with pytest.raises(ConfigError) as caught:
        Extrapolation(lengths=lengths)
    assert str(caught.value) == (
        f"evaluation.benchmarks: lengths is {list(lengths)}; "
        "give rising numbers that divide the last one, such as [128,256,512]"
    )


def test_sliding_tokens_fit_the_first_length():
    with pytest.raises(ConfigError) as caught:
        Extrapolation(lengths=(8, 16), sliding_tokens=9)
    assert str(caught.value) == (
        "evaluation.benchmarks: sliding_tokens is 9, the first of lengths 8; make sliding_tokens smaller"
    )
