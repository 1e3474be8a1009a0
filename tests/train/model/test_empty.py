"""Modules without values."""

import subprocess
import sys

from torch import nn

from headrace.train.model.initialization import without_values


def test_parameters_have_their_names_and_shapes_and_no_values() -> None:
    with without_values():
        empty = nn.ModuleDict({"vectors": nn.Embedding(5, 4), "layer": nn.TransformerEncoderLayer(4, 2)})
    whole = nn.ModuleDict({"vectors": nn.Embedding(5, 4), "layer": nn.TransformerEncoderLayer(4, 2)})
    assert all(value.is_meta for value in empty.parameters())
    assert {name: value.shape for name, value in empty.named_parameters()} == {
        name: value.shape for name, value in whole.named_parameters()
    }


def test_the_compiler_is_not_loaded() -> None:
    """By a module without values, and by the commands that ask a model of ours."""
    script = """
import sys
from torch import nn
from headrace.train.inference import chat_template, language_model
from headrace.train.model.initialization import without_values
with without_values():
    nn.Embedding(5, 4)
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
