"""Mask-Predict, compared with a plain loop over the model's probabilities."""

import numpy as np
import pytest
import torch

from courses.tests.command_line import courses_here
from headrace.train.config import ModelConfig
from headrace.train.inference.encoder_likelihood import MaskedLikelihood, MaskingTokens
from headrace.train.model.transformer import Transformer
from headrace_courses.mask_predict import fill
from tests.pipeline.commands.test_generate import folders
from tests.train.model.test_transformer import VOCABULARY, random_model

__all__ = ["folders"]

ENCODER = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=64, stack="encoder")
CLASS, SEPARATOR, MASK = 50, 51, 52
PLACES = [2, 3, 5, 6]


@pytest.fixture
def encoder() -> MaskedLikelihood:
    tokens = MaskingTokens(CLASS, SEPARATOR, MASK, end_of_text=0, continues_V=np.zeros(VOCABULARY, bool))
    return MaskedLikelihood(
        network=random_model(ENCODER), tokens=tokens, form="original", window_tokens=24, batch_tokens=64,
        device=torch.device("cpu"),
    )  # fmt: skip


def sequence() -> np.ndarray:
    return np.array([CLASS, 4, MASK, MASK, 9, MASK, MASK, 7, SEPARATOR])


@torch.no_grad()
def probabilities(model: Transformer, tokens: list[int]) -> torch.Tensor:
    """Returns the probability of each token of a text at each position, (T, V)."""
    tokens_1T = torch.tensor([tokens])
    logits = model(tokens_1T, torch.arange(len(tokens))[None], torch.zeros_like(tokens_1T))[0]
    logits[:, [CLASS, SEPARATOR, MASK]] = -torch.inf
    return logits.softmax(1)


@pytest.mark.parametrize("steps", [1, 3, 4, 9])
def test_mask_predict_masks_the_least_certain_places_again(encoder: MaskedLikelihood, steps: int) -> None:
    found, expected, certainty = sequence(), sequence().tolist(), dict.fromkeys(PLACES, 0.0)
    fill(encoder, found, steps)
    for step in range(steps):
        again = sorted(PLACES, key=certainty.__getitem__)[: 4 * (steps - step) // steps]
        for place in again:
            expected[place] = MASK
        best = probabilities(encoder.network, expected).max(1)
        for place in again:
            expected[place], certainty[place] = int(best.indices[place]), float(best.values[place])
    assert found.tolist() == expected


def test_all_places_are_filled_together(folders) -> None:
    text, model = "a" + "[MASK]" * 15, str(folders / "encoder")
    predicted = courses_here("mask_predict", text, "--model", model, "--steps", "3")
    assert predicted.stdout.startswith("a"), predicted.stderr
    assert "[MASK]" not in predicted.stdout
    assert (
        "holds a model of stack decoder"
        in courses_here("mask_predict", text, "--model", str(folders / "decoder")).stderr
    )
