"""The output layer: logits, or directly the sum of their negative log-likelihood, without ever holding all logits.

Shapes: N positions (rows times positions of a row), n positions of a chunk, M model width, V vocabulary, P vocabulary
with padding (without it: V).

    x_NM ── a chunk of n positions ──> logits_nV ──> nll, its gradient softmax(logits) - one_hot(target)
                                                          ├── · weight_VM ──────> gradient of x, n rows of it
                                                          └── ᵀ · x_nM, added ──> gradient of weight_VM

The gradient of a sum at one position does not depend on the other positions. So the forward pass computes it chunk by
chunk, while a chunk's logits exist, and the backward pass only scales it. No matrix product is computed twice, and of
the (N, V) values only one chunk exists at a time: fp32 logits of 16,384 positions of GPT-2 would take 3.3 GB, and their
gradients as much again.

Matrix products are slower on a GPU when the vocabulary is no multiple of 8 tokens in bf16: with GPT-2's 50,257 a whole
update of 124M parameters takes 1.7 times as long (benchmarks/records/gpu_1h200_2026-11.md). A head that ``pads``
multiplies with a copy of its weight that has rows of zeros at the end, and leaves out the logits of these rows.
Parameters, checkpoints and exported folders have no such rows. The copy takes less than a hundredth of the time of the
products with 32,000 positions.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from headrace.train.config import chunk_positions, padded_vocabulary
from headrace.train.data.batches import IGNORED
from headrace.train.model.compilation import compiled
from headrace.train.model.visibility import capped


@dataclasses.dataclass
class SoftTargets:
    """The part of a teacher that a student's output layer needs, for one micro-batch (Hinton et al. 2015).

        teacher's states_BTE ── a chunk ── its output layer ──> logits_nV / temperature ── softmax ──> p
        student's             a chunk ── its output layer ──> logits_nV / temperature ── softmax ──> q

        gradient = hard_weight · d(-ln q₁(token)) + soft_weight · d(temperature² · KL(p ‖ q))    q₁: at temperature 1

    The teacher's logits of a chunk exist only while those of the student do. B rows, T positions that predict, E width
    of the teacher's states.
    """

    states_BTE: Tensor
    """The vectors that the teacher's output layer reads, at the positions of the student's targets."""
    output_layer: Callable[[Tensor], Tensor]
    """The teacher's output layer: states_nE to logits_nV."""
    temperature: float
    soft_weight: float
    hard_weight: float
    divergence: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(()))
    """The sum of KL(p ‖ q) over the positions of the chunks so far, in nats, fp32."""

    def logits(self, piece: slice) -> Tensor:
        """Returns the teacher's logits_nV at the positions ``piece`` of all rows, in fp32."""
        return self.output_layer(self.states_BTE.flatten(0, 1)[piece]).float()

    def blended(self, wide_nV: Tensor, teacher_nV: Tensor, targets_n: Tensor, hard_nV: Tensor) -> Tensor:
        """Returns the gradient of both terms by the student's logits ``wide_nV``, fp32, and adds to ``divergence``.

        d temperature² · KL / d logit = temperature · (q − p); the square keeps its size at every temperature (Hinton et
        al. 2015, section 2). Positions without a target (-100) have none. ``hard_nV`` is the gradient of the others.
        """
        is_target_n1 = (targets_n != IGNORED)[:, None]
        log_p_nV, log_q_nV = ((logits / self.temperature).log_softmax(1) for logits in (teacher_nV, wide_nV))
        p_nV = log_p_nV.exp()
        divergence = (p_nV * (log_p_nV - log_q_nV) * is_target_n1).sum()
        self.divergence = divergence + self.divergence.to(divergence.device)
        soft_nV = self.temperature * (log_q_nV.exp() - p_nV) * is_target_n1
        return self.hard_weight * hard_nV + self.soft_weight * soft_nV


KINDS = 3
"""The most kinds of rows whose losses are summed apart."""


class Head(nn.Linear):
    """The output layer of a language model; ``cap`` bounds its logits."""

    gradient_scale = 1.0
    """The power of two that gradients of the loss have inside the head, where fp16 would round them to 0 otherwise."""
    pads = False
    """True where matrix products have a padded vocabulary (``training.pad_vocabulary``)."""
    soft_targets: SoftTargets | None = None
    """The distributions of a teacher for the next targets: their gradient joins, and their ``divergence`` is set."""

    def __init__(self, width: int, vocabulary: int, cap: float | None = None, bias: bool = False) -> None:
        super().__init__(width, vocabulary, bias=bias)
        self.cap = cap

    def forward(
        self,
        x_BTM: Tensor,
        targets_BT: Tensor | None = None,
        z_loss: float = 0.0,
        kinds_B: Tensor | None = None,
        label_smoothing: float = 0.0,
    ) -> Tensor:
        """Returns logits_BTV; with targets the sum of -ln p(target), in fp32 nats, without the ignored ones.

        Other sums follow in this order, if they are asked for. They have no gradient: that of the first sum is the
        gradient of all terms together, so one product computes it.

            z_loss             z_loss · Σ (ln Z)², where Z is the sum of exp(logit)
            label_smoothing    ε · Σ (mean of -ln p over the vocabulary, less -ln p(target)): with it the loss is the
                               cross-entropy with targets of 1 - ε, and ε / V for each token (Szegedy et al. 2016)
            kinds_B            the sums of -ln p of each kind: int64 numbers of rows below KINDS
        """
        if targets_BT is None:
            logits_BTV = functional.linear(x_BTM, *self._padded())
            if self.pads:
                logits_BTV = logits_BTV[..., : len(self.weight)]
            return logits_BTV if self.cap is None else capped(logits_BTV, self.cap)
        terms = LossOptions(self.cap, z_loss, label_smoothing, self.soft_targets)
        kinds_N = None if kinds_B is None else kinds_B[:, None].expand_as(targets_BT).flatten()
        inputs = (x_BTM.flatten(0, 1), *self._padded(), len(self.weight), targets_BT.flatten())
        nll, others_2, nll_K = ChunkedNll.apply(*inputs, torch.is_grad_enabled(), terms, kinds_N, self.gradient_scale)  # type: ignore[no-untyped-call]  # torch does not annotate it
        others = [value for value, weight in zip(others_2, (z_loss, label_smoothing), strict=True) if weight]
        if not others and kinds_N is None:
            sums: Tensor = nll
            return sums
        return torch.stack((nll, *others, *(() if kinds_N is None else nll_K)))

    def _padded(self) -> tuple[Tensor, Tensor | None]:
        """Returns weight_PM and bias_P."""
        missing = padded_vocabulary(len(self.weight)) - len(self.weight) if self.pads else 0
        if not missing:
            return self.weight, self.bias
        bias_P = None if self.bias is None else functional.pad(self.bias, (0, missing))
        return functional.pad(self.weight, (0, 0, 0, missing)), bias_P


@dataclasses.dataclass(frozen=True)
class LossOptions:
    """The settings of a loss besides -ln p: see ``Head``."""

    cap: float | None = None
    z_loss: float = 0.0
    label_smoothing: float = 0.0
    soft_targets: SoftTargets | None = None


class ChunkedNll(torch.autograd.Function):
    """The sum of -ln p of ``targets_N`` under softmax(x · weightᵀ + bias), in fp32 nats, and those of other terms.

    The gradients of weight and bias are summed over chunks in fp32, whatever the weight's own precision.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_NM: Tensor,
        weight_PM: Tensor,
        bias_P: Tensor | None,
        vocabulary: int,
        targets_N: Tensor,
        is_training: bool,
        terms: LossOptions,
        kinds_N: Tensor | None,
        gradient_scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.gradient_scale = gradient_scale
        nll = torch.zeros((), dtype=torch.float32, device=x_NM.device)
        others_2, nll_K = nll.new_zeros(2), nll.new_zeros(KINDS)
        chunk = chunk_positions(len(weight_PM), x_NM.device.type)
        compute = compiled(of_chunk) if x_NM.is_cuda else of_chunk
        if is_training:
            gradient_NM = torch.empty_like(x_NM)
            gradient_PM = torch.zeros_like(weight_PM, dtype=torch.float32)
            gradient_P = None if bias_P is None else torch.zeros_like(bias_P, dtype=torch.float32)
            ctx.save_for_backward(gradient_NM, gradient_PM, gradient_P)
        for start in range(0, len(x_NM), chunk):
            piece = slice(start, start + chunk)
            logits_nP = functional.linear(x_NM[piece], weight_PM, bias_P)
            logits_nP[:, vocabulary:] = -math.inf  # e^-inf: neither probability nor gradient
            if terms.soft_targets is None:
                nll_n, parts_2, gradient_nP = compute(logits_nP, vocabulary, targets_N[piece], terms, gradient_scale)
            else:
                nll_n, parts_2, gradient_nP = of_student(
                    logits_nP, vocabulary, targets_N[piece], terms, terms.soft_targets.logits(piece), gradient_scale
                )
            nll += nll_n.sum()
            if parts_2 is not None:
                others_2 += parts_2
            if kinds_N is not None:
                nll_K.index_add_(0, kinds_N[piece], nll_n)
            if is_training:
                torch.mm(gradient_nP, weight_PM, out=gradient_NM[piece])
                add_product(gradient_PM, gradient_nP, x_NM[piece])
                if gradient_P is not None:
                    gradient_P += gradient_nP.sum(0, dtype=torch.float32)
        ctx.mark_non_differentiable(others_2, nll_K)
        return nll, others_2, nll_K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gradient_NM, *of_weights = ctx.saved_tensors
        dtype, scale = gradient_NM.dtype, scale / ctx.gradient_scale
        scaled = [None if gradient is None else (gradient * scale).to(dtype) for gradient in of_weights]
        return gradient_NM * scale.to(dtype), *scaled, None, None, None, None, None, None


def add_product(sum_PM: Tensor, left_nP: Tensor, right_nM: Tensor) -> None:
    """Adds leftᵀ · right to ``sum_PM``, which is fp32.

    On a GPU the matrix product itself adds in fp32: its result is neither rounded to bf16 nor written on its own.
    """
    if sum_PM.is_cuda:
        torch.addmm(sum_PM, left_nP.T, right_nM, out_dtype=sum_PM.dtype, out=sum_PM)
    else:
        sum_PM += left_nP.T @ right_nM


def of_chunk(
    logits_nP: Tensor, vocabulary: int, targets_n: Tensor, terms: LossOptions, gradient_scale: float
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns what ``all_and_gradient`` does of the logits of the ``vocabulary``; without any term the sums are None.
    The gradient has the shape of ``logits_nP``, whose padding is -inf, and 0 for padding."""
    if terms == LossOptions():
        nll_n, gradient_nP = nll_and_gradient(logits_nP, targets_n, gradient_scale)
        return nll_n, None, gradient_nP
    nll_n, parts_2, gradient_nV = all_and_gradient(logits_nP[:, :vocabulary], targets_n, terms, gradient_scale)
    missing = logits_nP.shape[1] - vocabulary
    return nll_n, parts_2, functional.pad(gradient_nV, (0, missing)) if missing else gradient_nV


def of_student(
    logits_nP: Tensor,
    vocabulary: int,
    targets_n: Tensor,
    terms: LossOptions,
    teacher_nV: Tensor,
    gradient_scale: float,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Returns what ``of_chunk`` does, with the gradient of the logits of a teacher in it."""
    soft, logits_nV = terms.soft_targets, logits_nP[:, :vocabulary].float()
    assert soft is not None  # asked by ChunkedNll
    wide_nV = logits_nV if terms.cap is None else capped(logits_nV, terms.cap)
    nll_n, parts_2, hard_nV = all_and_gradient(wide_nV, targets_n, dataclasses.replace(terms, cap=None))
    gradient_nV = soft.blended(wide_nV, teacher_nV, targets_n, hard_nV)
    if terms.cap is not None:
        gradient_nV = gradient_nV * (1 - (wide_nV / terms.cap).square())
    scaled_nV = (gradient_nV * gradient_scale).to(logits_nP.dtype)
    return nll_n, parts_2, functional.pad(scaled_nV, (0, logits_nP.shape[1] - vocabulary))


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
    logits_nV: Tensor, targets_n: Tensor, terms: LossOptions, gradient_scale: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the negative log-likelihood of each position, (n,), of capped logits, the sums of the z-loss and of label
    smoothing, (2,), and the gradient of all sums together times ``gradient_scale``, (n, V), in the precision of
    the logits.

    Z is the sum of exp(logit) (Chowdhery et al. 2022, section 5). d (ln Z)² / d logit = 2 ln Z · softmax, and
    d capped / d logit = 1 - (capped / cap)². The mean of -ln p over the vocabulary is ln Z less the mean of the logits.
    """
    wide_nV = logits_nV.float() if terms.cap is None else capped(logits_nV.float(), terms.cap)
    nll_n, gradient_nV = nll_and_gradient(wide_nV, targets_n)
    is_target_n1, indices_n1 = (targets_n != IGNORED)[:, None], targets_n.clamp(min=0)[:, None]
    log_z_n1 = wide_nV.logsumexp(1, keepdim=True) * is_target_n1
    if terms.z_loss:
        gradient_nV = gradient_nV + 2 * terms.z_loss * log_z_n1 * wide_nV.softmax(1)
    smoothed = nll_n.new_zeros(())
    if terms.label_smoothing:
        share_n1 = terms.label_smoothing * is_target_n1.float()
        gradient_nV = (gradient_nV - share_n1 / wide_nV.shape[1]).scatter_add(1, indices_n1, share_n1)
        means_n1 = log_z_n1 - wide_nV.mean(1, keepdim=True)
        smoothed = (share_n1 * (means_n1 - nll_n[:, None])).sum()
    if terms.cap is not None:
        gradient_nV = gradient_nV * (1 - (wide_nV / terms.cap).square())
    sums_2 = torch.stack((terms.z_loss * log_z_n1.square().sum(), smoothed))
    return nll_n, sums_2, (gradient_nV * gradient_scale).to(logits_nV.dtype)
