"""Tokens that may be chosen, and how often each is."""

import numpy as np
import pytest
import torch

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.inference.generation.sampling import choose, random_of
from headrace.train.inference.settings import Sampling

PROBABILITIES = [0.1, 0.4, 0.05, 0.3, 0.15]


def shares(sampling: Sampling, draws: int = 4000) -> list[float]:
    """Returns how often each token is chosen from ``PROBABILITIES``."""
    logits_BV = torch.tensor(PROBABILITIES).log().expand(draws, -1)
    generators = [random_of(3, [1, 2], copy) for copy in range(draws)]
    return (np.bincount(choose(logits_BV, sampling, generators), minlength=5) / draws).tolist()


def test_greedy_takes_the_likeliest_and_of_equal_ones_the_first():
    assert choose(torch.tensor([[0.0, 2.0, 2.0], [5.0, 1.0, 2.0]]), Sampling(), []) == [1, 0]


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(temperature=1.0), PROBABILITIES),
        (Sampling(temperature=0.5), [p**2 / sum(q**2 for q in PROBABILITIES) for p in PROBABILITIES]),
        (Sampling(temperature=1.0, top_k=2), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(temperature=1.0, top_k=99), PROBABILITIES),
        (Sampling(temperature=1.0, top_p=0.69), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sampling(temperature=1.0, top_p=0.71), [0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85]),
        (Sampling(temperature=1.0, top_p=0.001), [0, 1, 0, 0, 0]),
        (Sampling(temperature=1.0, top_p=1.0), PROBABILITIES),
        # of the three likeliest, 0.4 / 0.85 = 0.47 and 0.7 / 0.85 = 0.82: the mass is that of the kept ones
        (Sampling(temperature=1.0, top_k=3, top_p=0.75), [0, 4 / 7, 0, 3 / 7, 0]),
    ],
)
def test_tokens_come_as_often_as_their_probability(sampling, expected):
    found = shares(sampling)
    assert [share == 0 for share in found] == [share == 0 for share in expected]
    assert found == pytest.approx(expected, abs=0.03)


def test_random_numbers_are_of_the_seed_the_prompt_and_the_copy():
    first = random_of(0, [5, 6], 0).random(4).tolist()
    assert random_of(0, [5, 6], 0).random(4).tolist() == first
    for other in (random_of(1, [5, 6], 0), random_of(0, [5, 7], 0), random_of(0, [5, 6], 1)):
        assert other.random(4).tolist() != first


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_tokens": 0}, "max_tokens: must be at least 1 (got 0); correct the value"),
        ({"temperature": -1.0}, "temperature: must be at least 0 (got -1.0); correct the value"),
        ({"top_k": 0}, "top_k: must be at least 1 (got 0); correct the value"),
        ({"top_p": 1.5}, "top_p: must be at most 1 (got 1.5); correct the value"),
        ({"stops": ("a", "")}, "stops.1: must not be empty (got ''); correct the value"),
    ],
)
def test_settings_out_of_range_are_refused(values, message):
    with pytest.raises(ConfigError) as error:
        decode(Sampling, values)
    assert str(error.value) == message
