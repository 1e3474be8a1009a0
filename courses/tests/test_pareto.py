"""GPT-3's sampling by a score: numpy's draws, and scores outside of 0 to 1."""

import math

import numpy as np
import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace_courses.pareto import Pareto


def test_pareto_is_the_sampling_of_gpt3() -> None:
    """numpy's own draws, of which as many are above 1 - score as the probability says, within 5 standard errors."""
    scores = np.array([0.0, 0.1, 0.5, 0.8, 1.0])
    draws = np.random.default_rng(0).pareto(9, 200_000)
    for score, probability in zip(scores, Pareto(column="q").factors(scores), strict=True):
        error = 5 * math.sqrt(probability * (1 - probability) / len(draws))
        assert (draws > 1 - score).mean() == pytest.approx(probability, abs=error)


@pytest.mark.parametrize("value", [-1e-9, 1.0000001, 523.0, math.inf])
def test_a_value_outside_0_to_1_is_refused(value: float) -> None:
    message = f"selection.rules: 'q' has the value {value:g}, and pareto samples by values from 0 to 1"
    with pytest.raises(ConfigError, match=message.replace("+", r"\+")):
        Pareto(column="q").factors(np.array([0.0, 1.0, value]))
