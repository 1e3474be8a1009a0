"""Building a model makes the first call of elementwise functions (train/model/transformer.py)."""

import subprocess
import sys

PROGRAM = """
from headrace.train.config import ModelConfig
from headrace.train.model import first_calls
from headrace.train.model.transformer import Transformer

config = ModelConfig(layers=1, width=8, heads=1, kv_heads=1, mlp_width=16, context=4)
Transformer(config, vocabulary=5)
Transformer(config, vocabulary=5)
print(first_calls.settle.cache_info().misses)
"""


def test_the_first_model_of_a_process_makes_the_calls_once() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    assert result.stdout == "1\n"
