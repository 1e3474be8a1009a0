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
from headrace.train.model.visibility import capped

KINDS = 3
"""The most kinds of rows whose losses are summed apart."""


class Head(nn.Linear):
    """The output layer of a language model; ``cap`` bounds its logits."""

    gradient_scale = 1.0
    """The power of two that gradients of the loss have inside the head, where fp16 would round them to 0 otherwise."""

    def __init__(self, width: int, vocabulary: int, cap: float | None = None, bias: bool = False) -> None:
        super().__init__(width, vocabulary, bias=bias)
        self.cap = cap

    def forward(
        self, x_BTM: Tensor, targets_BT: Tensor | None = None, z_loss: float = 0.0, kinds_B: Tensor | None = None
    ) -> Tensor:
        """Returns logits_BTV; with targets the sum of -ln p(target), in fp32 nats, without the ignored ones.

        With ``z_loss`` it returns two sums, (2,): that of -ln p, and z_loss · Σ (ln Z)². The gradient of the first is
        that of both together, and the second has none: one product then computes the gradient of both.
        With ``kinds_B``, int64 numbers of rows below KINDS, the sums of -ln p of each kind follow, which have no
        gradient: (1 + KINDS,), or (2 + KINDS,).
        """
        if targets_BT is None:
            logits_BTV = functional.linear(x_BTM, self.weight, self.bias)
            return logits_BTV if self.cap is None else capped(logits_BTV, self.cap)
        weights = (self.weight, self.bias)
        kinds_N = None if kinds_B is None else kinds_B[:, None].expand_as(targets_BT).flatten()
        arguments = (x_BTM.flatten(0, 1), *weights, targets_BT.flatten(), torch.is_grad_enabled(), self.cap, z_loss)
        found = ChunkedNll.apply(*arguments, kinds_N, self.gradient_scale)  # type: ignore[no-untyped-call]  # torch does not annotate it
        nll, z_term, nll_K = found
        if not z_loss and kinds_N is None:
            sums: Tensor = nll
            return sums
        of_kinds = () if kinds_N is None else nll_K
        return torch.stack((nll, *((z_term,) if z_loss else ()), *of_kinds))


class ChunkedNll(torch.autograd.Function):
    """The sum of -ln p of ``targets_N`` under softmax(x · weightᵀ + bias), in fp32 nats, and the z-loss.

    The gradients of weight and bias are summed over chunks in fp32, whatever the weight's own precision.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_NM: Tensor,
        weight_VM: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        is_training: bool,
        cap: float | None,
        z_loss: float,
        kinds_N: Tensor | None,
        gradient_scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.gradient_scale = gradient_scale
        nll = torch.zeros((), dtype=torch.float32, device=x_NM.device)
        z_term, nll_K = torch.zeros_like(nll), nll.new_zeros(KINDS)
        chunk = max(1, CHUNK_LOGITS // len(weight_VM))
        compute = compiled(nll_and_gradient) if x_NM.is_cuda else nll_and_gradient
        compute_more = compiled(all_and_gradient) if x_NM.is_cuda else all_and_gradient
        if is_training:
            gradient_NM = torch.empty_like(x_NM)
            gradient_VM = torch.zeros_like(weight_VM, dtype=torch.float32)
            gradient_V = None if bias_V is None else torch.zeros_like(bias_V, dtype=torch.float32)
            ctx.save_for_backward(gradient_NM, gradient_VM, gradient_V)
        for start in range(0, len(x_NM), chunk):
            here = slice(start, start + chunk)
            logits_nV = functional.linear(x_NM[here], weight_VM, bias_V)
            if cap is None and not z_loss:
                nll_n, gradient_nV = compute(logits_nV, targets_N[here], gradient_scale)
            else:
                nll_n, z_part, gradient_nV = compute_more(logits_nV, targets_N[here], cap, z_loss, gradient_scale)
                z_term += z_part
            nll += nll_n.sum()
            if kinds_N is not None:
                nll_K.index_add_(0, kinds_N[here], nll_n)
            if is_training:
                torch.mm(gradient_nV, weight_VM, out=gradient_NM[here])
                gradient_VM += gradient_nV.T @ x_NM[here]
                if gradient_V is not None:
                    gradient_V += gradient_nV.sum(0, dtype=torch.float32)
        ctx.mark_non_differentiable(z_term, nll_K)
        return nll, z_term, nll_K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gradient_NM, *of_weights = ctx.saved_tensors
        dtype, scale = gradient_NM.dtype, scale / ctx.gradient_scale
        scaled = [None if gradient is None else (gradient * scale).to(dtype) for gradient in of_weights]
        return gradient_NM * scale.to(dtype), *scaled, None, None, None, None, None, None


def nll_and_gradient(logits_nV: Tensor, targets_n: Tensor, gradient_scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Returns the negative log-likelihood of each position in fp32, (n,), and the gradient of their sum times
    ``gradient_scale``, (n, V), in the precision of the logits."""
    is_target_n1, indices_n1 = (targets_n != IGNORED)[:, None], targets_n.clamp(min=0)[:, None]
    scale_n1 = is_target_n1 * gradient_scale
    log_probs_nV = functional.log_softmax(logits_nV.float(), 1)
    chosen_n1 = log_probs_nV.gather(1, indices_n1)
    gradient_nV = log_probs_nV.exp_().mul_(scale_n1).to(logits_nV.dtype)
    gradient_nV.scatter_(1, indices_n1, ((chosen_n1.exp() - 1) * scale_n1).to(logits_nV.dtype))
    return -torch.where(is_target_n1, chosen_n1, 0.0)[:, 0], gradient_nV


def all_and_gradient(
    logits_nV: Tensor, targets_n: Tensor, cap: float | None, z_loss: float, gradient_scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the negative log-likelihood of each position, (n,), of capped logits, the sum of z_loss · (ln Z)², and
    the gradient of both sums together times ``gradient_scale``, (n, V), in the precision of the logits.

    Z is the sum of exp(logit) (Chowdhery et al. 2022, section 5). d (ln Z)² / d logit = 2 ln Z · softmax, and
    d capped / d logit = 1 - (capped / cap)².
    """
    wide_nV = logits_nV.float() if cap is None else capped(logits_nV.float(), cap)
    nll_n, gradient_nV = nll_and_gradient(wide_nV, targets_n, gradient_scale)
    is_target_n1 = (targets_n != IGNORED)[:, None]
    log_z_n1 = wide_nV.logsumexp(1, keepdim=True) * is_target_n1
    if z_loss:
        gradient_nV = gradient_nV + 2 * z_loss * gradient_scale * log_z_n1 * wide_nV.softmax(1)
    if cap is not None:
        gradient_nV = gradient_nV * (1 - (wide_nV / cap).square())
    return nll_n, z_loss * log_z_n1.square().sum(), gradient_nV.to(logits_nV.dtype)
