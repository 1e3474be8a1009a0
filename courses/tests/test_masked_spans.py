"""Masks of spans: their lengths, and each token from the ends of its span."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from torch.nn import functional

from headrace.pipeline.core.errors import ConfigError
from headrace.train.data.batches import IGNORED
from headrace.train.loop.training_start import exported
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace_courses.masked_spans import SPAN_LENGTHS, SPAN_SHARES, MaskedSpans
from headrace_courses.span_boundaries import PLACES, boundaries
from tests.train import updates
from tests.train.objectives.test_masked import ROW, VOCABULARY, rows, shares, unmasked
from tests.train.objectives.test_objective import masked_mean
from tests.train.objectives.two_terms import ENCODER, encoder_batch
from tests.train.test_weights import stage

SPANS = MaskedSpans(span_boundary=True, rate=0.4)


def test_spans_have_spanberts_lengths():
    assert SPAN_SHARES.sum() == pytest.approx(1)
    assert (SPAN_LENGTHS * SPAN_SHARES).sum() == pytest.approx(3.8, abs=0.02)
    runs = []
    for arrays in rows(MaskedSpans(), 100):
        masked = arrays["masked"][arrays["targets"] != IGNORED]
        runs += [len(run) for run in np.split(masked, np.flatnonzero(np.diff(masked) > 1) + 1)]
    assert np.mean(runs) > 2.5  # words have one and a half tokens, the last span of a row is cut


def test_targets_are_the_hidden_tokens_and_never_special():
    for arrays in rows(MaskedSpans(), 40):
        masked, tokens = arrays["masked"][arrays["targets"] != IGNORED], unmasked(arrays)
        assert (np.diff(masked) > 0).all()
        assert not np.isin(tokens[masked], VOCABULARY.reserved).any()
        others = np.setdiff1d(np.arange(ROW), masked)
        assert (arrays["inputs"][others] == tokens[others]).all()
        assert len(masked) == round(0.15 * int((arrays["documents"] >= 0).sum()))
    found = shares(MaskedSpans())
    assert found["hidden"] == pytest.approx(0.8, abs=0.02)
    assert found["kept"] == pytest.approx(0.1, abs=0.015)
    assert found["random"] == pytest.approx(0.1, abs=0.015)


def test_the_ends_of_a_span_are_the_next_tokens_that_are_not_masked():
    generator = np.random.default_rng(0)
    rows, columns = 40, 90
    at, targets = np.zeros((rows, columns), np.int64), np.full((rows, columns), -100)
    for row in range(rows):
        masked = 1 + np.flatnonzero(generator.random(100) < generator.choice([0.1, 0.5, 0.97]))[:columns]
        at[row, : len(masked)], targets[row, : len(masked)] = masked, 7
    found = boundaries(torch.from_numpy(at), torch.from_numpy(targets))
    for row, slot in np.ndindex(rows, columns):
        hidden = set(at[row][targets[row] >= 0].tolist())
        position = left = right = int(at[row, slot])
        while left in hidden:
            left -= 1
        while right in hidden:
            right += 1
        expected = [left, right, min(position - left - 1, PLACES - 1)] if targets[row, slot] >= 0 else [0, 0, 0]
        assert [int(part[row, slot]) for part in found] == expected


def span_means(model: Transformer, whole) -> dict[str, torch.Tensor]:
    """The means over the masked positions and over the same from the ends of their spans, token by token."""
    x_BTM = model.attended(model.embedding(whole["inputs"]), whole["positions"], whole["documents"])
    places, first, first_norm, second, second_norm = model.boundary_head.children()
    nll = []
    for row in range(len(x_BTM)):
        is_target = whole["targets"][row] != -100
        masked = whole["masked"][row][is_target].tolist()
        for position, token in zip(masked, whole["targets"][row][is_target].tolist(), strict=True):
            left = next(other for other in range(position, -1, -1) if other not in masked)
            right = next(other for other in itertools.count(position) if other not in masked)
            place = places.weight[min(position - left - 1, 19)]
            hidden = first_norm(functional.gelu(first(torch.cat((x_BTM[row, left], x_BTM[row, right], place)))))
            logits = model.head.weight @ second_norm(functional.gelu(second(hidden))) + model.head.bias
            nll.append(-logits.log_softmax(0)[token])
    return masked_mean(model, whole) | {"span_boundary": torch.stack(nll).mean()}


def test_sums_are_those_of_plain_pytorch_token_by_token():
    model = SPANS.build(ENCODER, updates.VOCABULARY)
    initialize(model, updates.SEED)
    whole = encoder_batch(SPANS)
    counts = SPANS.counts({name: values.numpy() for name, values in whole.items()})
    found = SPANS.losses(model, whole)
    for name, mean in span_means(model, whole).items():
        assert found[name].item() / counts[name] == pytest.approx(mean.item(), rel=1e-5)


def test_an_export_has_no_head_for_spans_and_says_so():
    model, said = SPANS.build(ENCODER, updates.VOCABULARY), list[str]()
    weights = dict(exported(dataclasses.replace(stage(), objective=SPANS), model.named_parameters(), said.append))
    assert said == ["weights: the export leaves out boundary_head, which training alone needs"]
    assert weights.keys() == dict(Transformer(ENCODER, updates.VOCABULARY).named_parameters()).keys()


@pytest.mark.parametrize("settings", [{"unit": "word"}, {"pairs": "next_sentence"}])
def test_other_units_and_pairs_are_refused(settings):
    with pytest.raises(ConfigError, match=rf"^objective.{min(settings)}: is .*; (give none|leave it out)"):
        MaskedSpans(**settings)
