"""Packed matrices give the products that they gave, and a row of a product the same bits in all company."""

import pytest
import torch

from tests.train.model.test_transformer import GPT1, GPT2, LLAMA, VOCABULARY, random_model
from train.model.packed import PackedLinear, pack

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch comes without oneDNN")


@pytest.mark.parametrize("config", [GPT1, GPT2, LLAMA], ids=["gpt1", "gpt2", "llama"])
@torch.inference_mode()
def test_a_packed_model_predicts_the_same(config):
    model, packed = random_model(config), random_model(config)
    pack(packed)
    tokens_BT = torch.arange(36).reshape(2, 18) % VOCABULARY
    positions_BT, documents_BT = torch.arange(18).expand(2, -1), torch.zeros_like(tokens_BT)
    expected, found = (one(tokens_BT, positions_BT, documents_BT) for one in (model, packed))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@needs_onednn
def test_every_matrix_is_packed_and_none_held_twice():
    model = random_model(GPT2)
    pack(model)
    kinds = [type(module) for module in model.modules()]
    assert torch.nn.Linear not in kinds
    assert kinds.count(PackedLinear) == 4 * GPT2.layers + 1
    matrices = [name for name, parameter in model.named_parameters() if parameter.dim() == 2]
    assert matrices == ["embedding.weight", "positions.weight"]


@needs_onednn
@pytest.mark.usefixtures("steady_products")
@torch.inference_mode()
def test_no_bit_of_a_row_depends_on_the_others():
    generator = torch.Generator().manual_seed(0)
    for width, features in ((32, 96), (48, 257), (1536, 576)):
        linear = torch.nn.Linear(width, features)
        x_PM = torch.randn(516, width, generator=generator)
        packed = PackedLinear(linear)
        torch.testing.assert_close(packed(x_PM), linear(x_PM), rtol=0, atol=1e-5)
        expected = packed(x_PM)
        for number in (4, 12, 20, 64, 516):
            assert torch.equal(packed(x_PM[:number]), expected[:number])
            assert torch.equal(packed(x_PM[-number:]), expected[-number:])
