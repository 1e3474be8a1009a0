"""An encoder and a decoder that share weights: two stacks with equal weights, whose gradients are added."""

import dataclasses

import pytest
import torch

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export, load
from headrace.train.families.registry import OWN, family_of
from tests.train.families.test_encoder_decoders import T5, TARGETS, logits
from tests.train.model.test_transformer import VOCABULARY, random_model

LENGTHS = [[150], [90]], [[140], [120]]
PLAIN = dataclasses.replace(T5, encoder_layers=None)
SHARED = dataclasses.replace(PLAIN, shared_stacks=True)
SANDWICH = dataclasses.replace(SHARED, norm_place="sandwich", shared_layers=True, qk_norm="head")


def name_in_decoder(name: str) -> str:
    """The name of the weight that a weight of the encoder's blocks is."""
    return name.removeprefix("encoder.") if name.startswith("encoder.blocks.") else name


def test_shared_stacks_are_two_stacks_with_equal_weights(tmp_path):
    shared, plain = random_model(SHARED), random_model(PLAIN)
    own = dict(shared.named_parameters())
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(own[name_in_decoder(name)])
    for model in (shared, plain):
        (logits(model, *LENGTHS, TARGETS) / TARGETS.numel()).backward()
    assert torch.equal(logits(shared, *LENGTHS), logits(plain, *LENGTHS))
    expected = {name: torch.zeros_like(weight) for name, weight in own.items()}
    for name, parameter in plain.named_parameters():
        expected[name_in_decoder(name)] += parameter.grad
    for name, weight in own.items():
        torch.testing.assert_close(weight.grad, expected[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", [SHARED, SANDWICH], ids=["t5", "sandwich"])
@torch.inference_mode()
def test_shared_stacks_have_our_format_and_their_weights_once(config: ModelConfig, tmp_path):
    model = random_model(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == config.parameters(VOCABULARY)
    assert family_of(config) is OWN
    (tmp_path / "tokenizer.json").write_text(Trained(vocabulary_size=400, special_tokens="t5").train(["a mill"]))
    export(model.named_parameters(), config, VOCABULARY, tmp_path / "tokenizer.json", tmp_path / "hf")
    loaded = load(tmp_path / "hf")
    assert loaded.config == config
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert torch.equal(logits(loaded, *LENGTHS), logits(model, *LENGTHS))
