"""Label smoothing and z-loss of each objective that has them, compared with torch's cross-entropy and logsumexp."""

import dataclasses
import functools

import pytest
import torch
from torch.nn import functional

from headrace.train.data.batches import EncoderTokens
from headrace.train.objectives.causal import Causal, Prefix
from headrace.train.objectives.reconstruction import Reconstruction
from tests.train import updates
from tests.train.objectives import two_terms
from tests.train.objectives.two_terms import BART, DENOISING, TWO_STACKS, built

TERMS = {"z_loss": 0.01, "label_smoothing": 0.1}


CASES = {
    "causal": (Causal(), functools.partial(updates.first_model, "gemma2"), two_terms.batch),
    "prefix": (Prefix(), functools.partial(updates.first_model, "gemma2"), two_terms.prefix_batch),
    "denoising": (
        DENOISING,
        functools.partial(built, TWO_STACKS),
        functools.partial(two_terms.denoising_batch, DENOISING, two_terms.denoising_vocabulary()),
    ),
    "reconstruction": (Reconstruction(), functools.partial(built, BART), two_terms.reconstruction_batch),
}


@pytest.mark.parametrize(("plain", "model", "batch"), CASES.values(), ids=CASES)
def test_the_terms_are_trained_and_the_printed_loss_is_without_them(plain, model, batch):
    model, whole, objective = model(), batch(), dataclasses.replace(plain, **TERMS)
    source, prefix_BT = None, whole["prefix"].bool() if "prefix" in whole else None
    if "encoder_inputs" in whole:
        source = EncoderTokens(*(whole[f"encoder_{name}"] for name in ("inputs", "positions", "documents")))
    rows = (whole[name] for name in ("inputs", "positions", "documents"))
    logits, targets = model(*rows, source=source, prefix_BT=prefix_BT).flatten(0, 1), whole["targets"].flatten()
    smoothed = functional.cross_entropy(logits, targets, label_smoothing=TERMS["label_smoothing"])
    expected = smoothed + TERMS["z_loss"] * logits.logsumexp(1)[targets >= 0].square().mean()
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    counts, sums = updates.counts(objective, whole), objective.losses(model, whole)
    first, *further = list(objective.weights)[:3]
    assert further == list(TERMS)
    assert counts[first] == counts["z_loss"] == counts["label_smoothing"]
    together = sum(sums[name] for name in (first, *further)) / counts[first]
    torch.testing.assert_close(together, expected, rtol=1e-6, atol=1e-6)
    loss = sum(weight * sums[name] / counts[name] for name, weight in objective.weights.items() if counts[name])
    for found, gradient in zip(torch.autograd.grad(loss, list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-6)
    without = plain.losses(model, whole)
    assert plain.weights.keys() == objective.weights.keys() - TERMS.keys()
    torch.testing.assert_close(sums[first], without[first], rtol=1e-6, atol=0)
