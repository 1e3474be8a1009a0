"""The last layer: logits, or at once the sum of negative log-likelihood, without ever holding all logits.

Shapes: N positions (rows times positions of a row), M model width, V vocabulary.

    x_NM ── a chunk of n positions ──> logits_nV ──> nll, its slope softmax(logits) - one_hot(target)
                                                          ├── · weight_VM ──────> slope of x, n rows of it
                                                          └── ᵀ · x_nM, added ──> slope of weight_VM

The slope of a sum does not depend on the other positions, so the pass forward computes it chunk by chunk, while a
chunk's logits are there; the pass backward only scales it. No matrix product is done twice, and of (N, V) values none
but one chunk's exist: fp32 logits of 16,384 positions of GPT-2 would take 3.3 GB, their slopes as much again.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from headrace.train.config import CHUNK_LOGITS
from headrace.train.data.rows import IGNORED
from headrace.train.model.compilation import compiled


class Head(nn.Linear):
    """The output layer of a language model, without a bias."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__(width, vocabulary, bias=False)

    def forward(self, x_BTM: Tensor, targets_BT: Tensor | None = None) -> Tensor:
        """logits_BTV; with targets the sum over all but the ignored ones of -ln p(target), in fp32 nats, a scalar."""
        if targets_BT is None:
            return functional.linear(x_BTM, self.weight)
        return ChunkedNll.apply(x_BTM.flatten(0, 1), self.weight, targets_BT.flatten(), torch.is_grad_enabled())


class ChunkedNll(torch.autograd.Function):
    """The sum of negative log-likelihood of ``targets_N`` under softmax(x · weightᵀ), in fp32 nats.

    The slope of the weight is summed over chunks in fp32 whatever its own precision.
    """

    @staticmethod
    def forward(ctx: Any, x_NM: Tensor, weight_VM: Tensor, targets_N: Tensor, is_training: bool) -> Tensor:
        nll = torch.zeros((), dtype=torch.float32, device=x_NM.device)
        chunk = max(1, CHUNK_LOGITS // len(weight_VM))
        compute = compiled(nll_and_slope) if x_NM.is_cuda else nll_and_slope
        if is_training:
            slope_NM = torch.empty_like(x_NM)
            slope_VM = torch.zeros_like(weight_VM, dtype=torch.float32)
            ctx.save_for_backward(slope_NM, slope_VM)
        for start in range(0, len(x_NM), chunk):
            here = slice(start, start + chunk)
            logits_nV = functional.linear(x_NM[here], weight_VM)
            part, slope_nV = compute(logits_nV, targets_N[here])
            nll += part
            if is_training:
                torch.mm(slope_nV, weight_VM, out=slope_NM[here])
                slope_VM += slope_nV.T @ x_NM[here]
        return nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor, Tensor, None, None]:
        slope_NM, slope_VM = ctx.saved_tensors
        return slope_NM * scale.to(slope_NM.dtype), (slope_VM * scale).to(slope_NM.dtype), None, None


def nll_and_slope(logits_nV: Tensor, targets_n: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of negative log-likelihood in fp32, and its slope (n, V) in the precision of the logits."""
    is_target_n1, places_n1 = (targets_n != IGNORED)[:, None], targets_n.clamp(min=0)[:, None]
    surprise_nV = functional.log_softmax(logits_nV.float(), 1)
    chosen_n1 = surprise_nV.gather(1, places_n1)
    slope_nV = surprise_nV.exp_().mul_(is_target_n1).to(logits_nV.dtype)
    slope_nV.scatter_(1, places_n1, ((chosen_n1.exp() - 1) * is_target_n1).to(logits_nV.dtype))
    return -torch.where(is_target_n1, chosen_n1, 0.0).sum(), slope_nV
