"""Label smoothing of each objective that has it, compared with ``torch.nn.functional.cross_entropy``."""

import dataclasses
import functools

import pytest
import torch
from torch.nn import functional

from headrace.train.data.batches import Source
from headrace.train.objectives.causal import Causal
from headrace.train.objectives.reconstruction import Reconstruction
from tests.train import updates
from tests.train.objectives import two_terms
from tests.train.objectives.two_terms import BART, DENOISING, TWO_STACKS, UL2, UL2_VOCABULARY, built

CASES = {
    "causal": (Causal(), functools.partial(updates.first_model, "gemma2"), two_terms.batch),
    "denoising": (
        DENOISING,
        functools.partial(built, TWO_STACKS),
        functools.partial(two_terms.denoising_batch, DENOISING, two_terms.denoising_vocabulary()),
    ),
    "ul2": (
        UL2,
        functools.partial(built, TWO_STACKS),
        functools.partial(two_terms.denoising_batch, UL2, UL2_VOCABULARY),
    ),
    "reconstruction": (Reconstruction(), functools.partial(built, BART), two_terms.reconstruction_batch),
}


@pytest.mark.parametrize(("plain", "model", "batch"), CASES.values(), ids=CASES)
def test_the_trained_loss_is_smoothed_and_the_printed_one_is_not(plain, model, batch):
    model, whole, smoothed = model(), batch(), dataclasses.replace(plain, label_smoothing=0.1)
    source = None
    if "encoder_inputs" in whole:
        source = Source(*(whole[f"encoder_{name}"] for name in ("inputs", "positions", "documents")))
    logits = model(*(whole[name] for name in ("inputs", "positions", "documents")), source=source).flatten(0, 1)
    expected = functional.cross_entropy(logits, whole["targets"].flatten(), label_smoothing=0.1)
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    counts, sums = updates.counts(smoothed, whole), smoothed.losses(model, whole)
    first, second = list(smoothed.weights)[:2]
    assert second == "label_smoothing"
    assert counts[first] == counts[second]
    torch.testing.assert_close((sums[first] + sums[second]) / counts[first], expected, rtol=1e-6, atol=1e-6)
    loss = sum(weight * sums[name] / counts[name] for name, weight in smoothed.weights.items() if counts[name])
    for found, gradient in zip(torch.autograd.grad(loss, list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-6)
    unsmoothed = plain.losses(model, whole)
    assert plain.weights.keys() == smoothed.weights.keys() - {"label_smoothing"}
    torch.testing.assert_close(sums[first], unsmoothed[first], rtol=1e-6, atol=0)
