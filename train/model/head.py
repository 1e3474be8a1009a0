"""The output layer: logits, or directly the sum of their negative log-likelihood, without ever holding all logits.

Shapes: N positions (rows times positions of a row), n positions of a chunk, M model width, V vocabulary.

    x_NM ── a chunk of n positions ──> logits_nV ──> nll, its gradient softmax(logits) - one_hot(target)
                                                          ├── · weight_VM ──────> gradient of x, n rows of it
                                                          └── ᵀ · x_nM, added ──> gradient of weight_VM

The gradient of a sum at one position does not depend on the other positions. So the forward pass computes it chunk by
chunk, while a chunk's logits exist, and the backward pass only scales it. No matrix product is computed twice, and of
the (N, V) values only one chunk exists at a time: fp32 logits of 16,384 positions of GPT-2 would take 3.3 GB, and their
gradients as much again.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from headrace.train.config import CHUNK_LOGITS
from headrace.train.data.batches import IGNORED
from headrace.train.model.compilation import compiled


class Head(nn.Linear):
    """The output layer of a language model, without a bias."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__(width, vocabulary, bias=False)

    def forward(self, x_BTM: Tensor, targets_BT: Tensor | None = None) -> Tensor:
        """Returns logits_BTV; with targets the sum of -ln p(target), in fp32 nats, without the ignored ones."""
        if targets_BT is None:
            return functional.linear(x_BTM, self.weight)
        is_training = torch.is_grad_enabled()
        nll: Tensor = ChunkedNll.apply(x_BTM.flatten(0, 1), self.weight, targets_BT.flatten(), is_training)  # type: ignore[no-untyped-call]  # torch does not annotate it
        return nll


class ChunkedNll(torch.autograd.Function):
    """The sum of negative log-likelihood of ``targets_N`` under softmax(x · weightᵀ), in fp32 nats.

    The gradient of the weight is summed over chunks in fp32, whatever the weight's own precision.
    """

    @staticmethod
    def forward(ctx: Any, x_NM: Tensor, weight_VM: Tensor, targets_N: Tensor, is_training: bool) -> Tensor:
        nll = torch.zeros((), dtype=torch.float32, device=x_NM.device)
        chunk = max(1, CHUNK_LOGITS // len(weight_VM))
        compute = compiled(nll_and_gradient) if x_NM.is_cuda else nll_and_gradient
        if is_training:
            gradient_NM = torch.empty_like(x_NM)
            gradient_VM = torch.zeros_like(weight_VM, dtype=torch.float32)
            ctx.save_for_backward(gradient_NM, gradient_VM)
        for start in range(0, len(x_NM), chunk):
            here = slice(start, start + chunk)
            logits_nV = functional.linear(x_NM[here], weight_VM)
            part, gradient_nV = compute(logits_nV, targets_N[here])
            nll += part
            if is_training:
                torch.mm(gradient_nV, weight_VM, out=gradient_NM[here])
                gradient_VM += gradient_nV.T @ x_NM[here]
        return nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, None, None]:
        gradient_NM, gradient_VM = ctx.saved_tensors
        return gradient_NM * scale.to(gradient_NM.dtype), (gradient_VM * scale).to(gradient_NM.dtype), None, None


def nll_and_gradient(logits_nV: Tensor, targets_n: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sum of negative log-likelihood in fp32, and its gradient (n, V) in the precision of the logits."""
    is_target_n1, indices_n1 = (targets_n != IGNORED)[:, None], targets_n.clamp(min=0)[:, None]
    log_probs_nV = functional.log_softmax(logits_nV.float(), 1)
    chosen_n1 = log_probs_nV.gather(1, indices_n1)
    gradient_nV = log_probs_nV.exp_().mul_(is_target_n1).to(logits_nV.dtype)
    gradient_nV.scatter_(1, indices_n1, ((chosen_n1.exp() - 1) * is_target_n1).to(logits_nV.dtype))
    return -torch.where(is_target_n1, chosen_n1, 0.0).sum(), gradient_nV
