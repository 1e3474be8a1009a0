import math

import numpy as np
import pytest

from headrace.train.data.batches import IGNORED
from headrace.train.objectives.base import bits_per_byte
from headrace.train.objectives.causal import Causal


def test_a_byte_costs_eight_bits_when_nothing_is_known():
    assert bits_per_byte(10 * math.log(256), 10) == pytest.approx(8)


def test_bytes_of_targets_count_where_there_is_a_target():
    targets = np.array([[3, 4, IGNORED], [5, IGNORED, 6]])
    assert Causal().text_bytes({"targets": targets}, np.array([[1, 2, 4], [8, 16, 32]])) == {"nll": 43}
