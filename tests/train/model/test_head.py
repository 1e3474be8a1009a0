"""The chunked loss against PyTorch's own over all logits at once."""

import math

import pytest
import torch
from torch.nn import functional

from headrace.train import config
from headrace.train.model import head
from headrace.train.model.head import Head, nll_and_gradient

WIDTH, VOCABULARY = 16, 61


def filled(rows: int, positions: int, bias: bool = False) -> tuple[Head, torch.Tensor, torch.Tensor]:
    """A head, its input and targets of which a fifth are ignored."""
    generator = torch.Generator().manual_seed(rows * positions)
    layer = Head(WIDTH, VOCABULARY, bias=bias)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    x_BTM = torch.randn(rows, positions, WIDTH, generator=generator, requires_grad=True)
    targets_BT = torch.randint(VOCABULARY, (rows, positions), generator=generator)
    targets_BT[torch.rand(rows, positions, generator=generator) < 0.2] = -100
    return layer, x_BTM, targets_BT


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 24, 1000])
def test_value_and_gradients_are_those_of_all_logits_at_once(monkeypatch, chunk, bias, pads):
    monkeypatch.setitem(config.CHUNK_LOGITS, "cpu", chunk * (128 if pads else VOCABULARY) + 3)
    layer, x_BTM, targets_BT = filled(3, 8, bias)
    inputs = (x_BTM, *layer.parameters())
    logits_BTV = layer(x_BTM)
    plain = functional.cross_entropy(logits_BTV.flatten(0, 1), targets_BT.flatten(), reduction="sum")
    expected = torch.autograd.grad(plain / 19, inputs)
    layer.pads = pads
    torch.testing.assert_close(layer(x_BTM), logits_BTV, rtol=0, atol=1e-6)
    loss = layer(x_BTM, targets_BT)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, plain, rtol=1e-6, atol=0)
    for found, other in zip(torch.autograd.grad(loss / 19, inputs), expected, strict=True):
        torch.testing.assert_close(found, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize(
    ("cap", "z_loss", "smoothing"),
    [(2.0, 0.0, 0.0), (None, 1e-2, 0.0), (2.0, 1e-2, 0.0), (None, 0.0, 0.1), (2.0, 1e-2, 0.1)],
)
def test_cap_z_loss_and_label_smoothing_are_those_of_autograd_in_fp64(monkeypatch, cap, z_loss, smoothing, pads):
    """The value of each term, and the gradient of their sum under one scale, in chunks of 5 positions."""
    monkeypatch.setitem(config.CHUNK_LOGITS, "cpu", 5 * VOCABULARY)
    layer, x_BTM, targets_BT = filled(3, 8)
    layer.cap, layer.pads = cap, pads
    x, weight = x_BTM.detach().double().requires_grad_(), layer.weight.detach().double().requires_grad_()
    logits, targets_N = (x @ weight.T).flatten(0, 1), targets_BT.flatten()
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    nll = functional.cross_entropy(logits, targets_N, reduction="sum")
    smoothed = functional.cross_entropy(logits, targets_N, reduction="sum", label_smoothing=smoothing) - nll
    z_term = z_loss * (logits.logsumexp(1).square() * (targets_N != -100)).sum()
    expected = torch.autograd.grad((nll + z_term + smoothed) / 19, (x, weight))
    found = layer(x_BTM, targets_BT, z_loss, label_smoothing=smoothing).reshape(-1)
    terms = [nll, *([z_term] if z_loss else []), *([smoothed] if smoothing else [])]
    torch.testing.assert_close(found.double(), torch.stack(terms).detach(), rtol=1e-6, atol=1e-5)
    total = (found * torch.tensor([1.0, 0.0, 0.0])[: len(found)]).sum()
    for ours, theirs in zip(torch.autograd.grad(total / 19, (x_BTM, layer.weight)), expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-6)
    assert layer(x_BTM).abs().max() < (cap or 1e9)


def test_no_chunk_has_more_logits_than_allowed(monkeypatch):
    monkeypatch.setitem(config.CHUNK_LOGITS, "cpu", 5 * VOCABULARY)
    seen = []

    def watched(logits_nV, targets_n, gradient_scale):
        seen.append(tuple(logits_nV.shape))
        return nll_and_gradient(logits_nV, targets_n, gradient_scale)

    monkeypatch.setattr(head, "nll_and_gradient", watched)
    layer, x_BTM, targets_BT = filled(4, 3)
    layer(x_BTM, targets_BT)
    assert seen == [(5, VOCABULARY), (5, VOCABULARY), (2, VOCABULARY)]


def test_chunks_of_a_gpu_are_larger_and_have_multiples_of_128_positions():
    assert config.chunk_positions(50_257, "cpu") == 2**27 // 50_257
    assert config.chunk_positions(50_304, "cuda") == 21_248
    assert 21_248 % 128 == 0
    assert 21_248 * 50_304 <= 2**30 < (21_248 + 128) * 50_304


def test_bf16_is_summed_over_chunks_in_fp32(monkeypatch):
    monkeypatch.setitem(config.CHUNK_LOGITS, "cpu", 4 * VOCABULARY)
    layer, x_BTM, targets_BT = filled(16, 16)
    exact = torch.autograd.grad(layer(x_BTM, targets_BT), layer.weight)[0]
    layer, x_BTM = layer.bfloat16(), x_BTM.detach().bfloat16()
    loss = layer(x_BTM, targets_BT)
    assert loss.dtype == torch.float32
    found = torch.autograd.grad(loss, layer.weight)[0]
    assert found.dtype == torch.bfloat16
    assert (found.float() - exact).norm() < 5e-3 * exact.norm()


def test_without_gradients_the_value_is_the_same():
    layer, x_BTM, targets_BT = filled(2, 9)
    with torch.no_grad():
        found = layer(x_BTM, targets_BT)
    assert not found.requires_grad
    assert found.item() == layer(x_BTM, targets_BT).item()


def test_nll_by_hand_and_in_fp32_for_bf16_logits():
    nll, gradient = nll_and_gradient(torch.tensor([[2.0, 0.0, -1.0]], dtype=torch.bfloat16), torch.tensor([1]))
    assert (nll.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)
    assert nll.item() == pytest.approx(math.log(math.e**2 + 1 + math.e**-1), abs=1e-5)


def test_fp16_keeps_the_gradients_of_a_loss_that_is_nearly_0():
    """Below 3e-8 fp16 is 0. The other tokens have p = 1.4e-8, and the backward pass multiplies with 30,000."""
    layer, x_BTM, targets_BT = filled(3, 8)
    with torch.no_grad():
        layer.weight.mul_(0.01)[-1, 0] = 1.0
        x_BTM[:, :, 0] = 18.0
        targets_BT[targets_BT >= 0] = VOCABULARY - 1
    (expected,) = torch.autograd.grad(layer(x_BTM, targets_BT) * 30_000.0, layer.weight)
    layer, errors = layer.half(), []
    for layer.gradient_scale in (1.0, 2.0**14):
        (found,) = torch.autograd.grad(layer(x_BTM.half(), targets_BT) * 30_000.0, layer.weight)
        errors.append(float((found - expected)[:-1].norm() / expected[:-1].norm()))
    assert errors[0] == 1.0
    assert errors[1] < 0.03
