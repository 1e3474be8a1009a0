"""Models without memory that become an engine's: their first weights, and the start of a training from them."""

import pytest
import torch

from headrace.train.config import ModelConfig
from headrace.train.model.initialization import first_weights
from headrace.train.model.transformer import build_empty
from tests.train import fork_server, updates
from tests.train.objectives.two_terms import ENCODER, SHARED_STACKS


@pytest.mark.slow
def test_training_has_the_same_bits_and_its_start_no_whole_model_on_two_ranks():
    done = fork_server.run("tests.train.empty_models")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("config", [updates.SHAPES["gemma2"], ENCODER], ids=["gemma2", "encoder"])
def test_first_weights_are_drawn_one_after_the_other(config: ModelConfig):
    """Norms have the value that their class gives them, biases 0, and matrices follow one generator in their order."""
    generator, model = torch.Generator().manual_seed(5), build_empty(config, 61)
    found = dict(first_weights(model, 5))
    assert found.keys() == {name for name, _ in model.named_parameters()}
    norms = {name for name, value in found.items() if value.dim() < 2 and not name.endswith("bias")}
    assert norms
    for name, value in found.items():
        if value.dim() < 2:
            expected = torch.zeros(len(value)) if name not in norms or "1p" in config.norm else torch.ones(len(value))
        else:
            ends_in_stream = name.endswith(("attention.output.weight", "mlp.down.weight"))
            std = 0.01 if ends_in_stream and config.norm_place == "pre" else 0.02
            expected = torch.empty(value.shape).normal_(0.0, std, generator=generator)
        assert torch.equal(value, expected), name


def test_shared_weights_of_two_stacks_are_drawn_once():
    names = [name for name, _ in first_weights(build_empty(SHARED_STACKS, 61), 5)]
    assert len(set(names)) == len(names)
    assert not any(name.startswith("encoder.blocks") for name in names)
