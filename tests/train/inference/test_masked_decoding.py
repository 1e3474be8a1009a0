"""Mask-Predict and two samplers, compared with plain loops over the model's probabilities."""

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest
import torch

from headrace.train.config import ModelConfig
from headrace.train.inference.encoder_likelihood import MaskingTokens
from headrace.train.inference.masked_decoding import gibbs, mask_predict, metropolis_hastings, metropolis_hastings_step
from headrace.train.inference.masked_likelihood import MaskedLikelihood
from headrace.train.inference.settings import MaskedDecoding
from headrace.train.model.transformer import Transformer
from tests.train.model.test_transformer import VOCABULARY, random_model

ENCODER = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=24, mlp_width=64, stack="encoder")
CLASS, SEPARATOR, MASK = 50, 51, 52
PLACES = [2, 3, 5, 6]
STEPS, SCALE = 2500, 4


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
    mask_predict(encoder, found, MaskedDecoding(method="mask_predict", steps=steps))
    for step in range(steps):
        again = sorted(PLACES, key=certainty.__getitem__)[: 4 * (steps - step) // steps]
        for place in again:
            expected[place] = MASK
        best = probabilities(encoder.network, expected).max(1)
        for place in again:
            expected[place], certainty[place] = int(best.indices[place]), float(best.values[place])
    assert found.tolist() == expected


def test_a_cold_gibbs_sampler_takes_the_most_likely_token_given_all_others(encoder: MaskedLikelihood) -> None:
    found, expected = sequence(), sequence().tolist()
    gibbs(encoder, found, MaskedDecoding(method="gibbs", steps=3, temperature=1e-6))
    for place in PLACES * 3:
        expected[place] = MASK
        expected[place] = int(probabilities(encoder.network, expected)[place].argmax())
    assert found.tolist() == expected


def test_gibbs_draws_with_the_probabilities_of_the_model(encoder: MaskedLikelihood) -> None:
    """One place, 400 seeds: the mean ln p of the draws is the negative entropy."""
    text = [CLASS, 4, MASK, 7, SEPARATOR]
    probabilities_V = probabilities(encoder.network, text)[2].double()
    log_probs = []
    for seed in range(400):
        found = np.array(text)
        gibbs(encoder, found, MaskedDecoding(method="gibbs", steps=1, seed=seed))
        log_probs.append(float(probabilities_V[found[2]].log()))
    log_V = torch.where(probabilities_V > 0, probabilities_V.log(), 0.0)
    mean = float((probabilities_V * log_V).sum())
    deviation = float((probabilities_V * (log_V - mean) ** 2).sum().sqrt())
    assert abs(np.mean(log_probs) - mean) < 4 * deviation / 20


FIRST, LAST, HIDDEN = 3, 4, 5


@pytest.fixture
def three_tokens() -> MaskedLikelihood:
    """An encoder that knows three tokens besides those that frame and mask a text."""
    tokens = MaskingTokens(FIRST, LAST, HIDDEN, end_of_text=0, continues_V=np.zeros(6, bool))
    network = random_model(dataclasses.replace(ENCODER, layers=1), 6)
    with torch.no_grad():  # tokens depend strongly on each other
        for name, parameter in network.blocks.named_parameters():
            parameter.mul_(SCALE if name.endswith("weight") else 1)
    return MaskedLikelihood(
        network=network, tokens=tokens, form="original", window_tokens=24, batch_tokens=12, device=torch.device("cpu")
    )


@torch.no_grad()
def hidden_logits(model: Transformer, text: tuple[int, ...], place: int) -> torch.Tensor:
    """Returns logits_V at a place that is hidden."""
    tokens_1T = torch.tensor([[*text[:place], HIDDEN, *text[place + 1 :]]])
    logits_V: torch.Tensor = model(tokens_1T, torch.arange(len(text))[None], torch.zeros_like(tokens_1T))[0, place]
    return logits_V


@pytest.mark.parametrize("temperature", [0.25, 0.5])
def test_metropolis_hastings_draws_texts_by_their_energy(three_tokens: MaskedLikelihood, temperature: float) -> None:
    """Two places, so nine texts: a chain has each as often as its exp(-E / t), and a chain of Gibbs sampling has not.
    E is summed one place after the other."""
    network = three_tokens.network
    texts = [(FIRST, 0, *pair, 2, LAST) for pair in itertools.product(range(3), repeat=2)]
    sums = [sum(float(hidden_logits(network, text, place)[text[place]]) for place in range(1, 5)) for text in texts]
    exact = (torch.tensor(sums) / temperature).softmax(0).numpy()
    state, random, counts = np.array(texts[0]), np.random.default_rng(0), Counter[tuple[int, ...]]()
    for _ in range(STEPS):
        metropolis_hastings_step(three_tokens, state, np.array([2, 3]), temperature, random)
        counts[tuple(state.tolist())] += 1
    found = np.array([counts[text] for text in texts]) / STEPS
    assert np.abs(found - exact).sum() / 2 < 0.05
    assert np.abs(of_gibbs(network, texts, temperature) - exact).sum() / 2 > 0.15


def of_gibbs(network: Transformer, texts: list[tuple[int, ...]], temperature: float) -> np.ndarray:
    """Returns how often a long chain of Gibbs sampling has each text: the fixed point of its transitions."""
    step = np.eye(len(texts))
    for place in (2, 3):
        of_place = np.zeros_like(step)
        for row, text in enumerate(texts):
            probabilities_V = (hidden_logits(network, text, place)[:3] / temperature).softmax(0)
            for token, probability in enumerate(probabilities_V.tolist()):
                of_place[row, texts.index((*text[:place], token, *text[place + 1 :]))] += probability
        step = step @ of_place
    frequencies: np.ndarray = np.linalg.matrix_power(step, 1000)[0]
    return frequencies


def test_metropolis_hastings_fills_all_places_the_same_way_for_a_seed(encoder: MaskedLikelihood) -> None:
    texts = []
    for seed in (1, 1, 2):
        found = sequence()
        metropolis_hastings(encoder, found, MaskedDecoding(method="metropolis_hastings", steps=2, seed=seed))
        assert MASK not in found
        assert (found == sequence())[[0, 1, 4, 7, 8]].all()
        texts.append(found.tolist())
    assert texts[0] == texts[1] != texts[2]
