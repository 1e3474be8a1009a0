"""Plain PyTorch: autograd, torch's AdamW or a slow optimizer, one process. The engine's expected result; four faults.

    weights, fp32 ── rounded to the precision ──> model ── backward ──> gradient ── to fp32 ── clip ── AdamW ──> weights

The right gradient comes from the whole global batch at once, so no division and no omission is possible. A fault
divides the batch among ranks and micro-batches, as a data-parallel engine does, and gives each part a factor.
"""

import copy
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from headrace.train.data.batches import Tensors
from tests.train.slow_optimizers import Slow, SlowAdafactor, SlowMuon, SlowStableAdamW
from tests.train.updates import (
    LEARNING_RATE,
    ROWS,
    SHAPES,
    WARMUP_STEPS,
    Case,
    Curve,
    batch,
    curve,
    first_model,
    select,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclasses.dataclass(frozen=True)
class Part:
    """A micro-batch: number ``micro`` of ``accumulation`` on ``rank`` of ``world``; its own targets, and all."""

    rank: int
    world: int
    micro: int
    accumulation: int
    targets: int
    batch_targets: int


Factor = Callable[[Part], float]
"""The factor of a part's gradient; 1 is right."""

FAULTS: dict[str, Factor] = {
    # DeepSpeed 7985, as rank 0 sees it: ZeRO-1 with bf16 and fp32 accumulation, 0.18.6 to 0.18.10.
    "last micro-batch not reduced": lambda part: float(part.rank == 0 or part.micro < part.accumulation - 1),
    # DeepSpeed 7839: ZeRO-0 with bf16 divided by a loss scale that was never multiplied with.
    "divided by 65,536": lambda part: 1 / 65_536,
    # DeepSpeed 7967: with CPU offload only the first micro-batch arrived.
    "micro-batches dropped": lambda part: float(part.micro == 0),
    # The mean of the means of micro-batches, which counts a target for more where there are few.
    "mean per micro-batch": lambda part: part.batch_targets / (max(part.targets, 1) * part.world * part.accumulation),
}


def surprise(model: nn.Module, part: Tensors) -> Tensor:
    """The sum over targets of -ln p, with log_softmax in fp32; a scalar."""
    logits = model(part["inputs"], part["positions"], part["documents"])
    chosen = part["targets"] >= 0
    return -torch.log_softmax(logits.float(), -1)[chosen].gather(1, part["targets"][chosen][:, None]).sum()


def learn(case: Case, world: int = 1, factor: Factor | None = None) -> Curve:
    """Returns the result that ``case`` must have at any stage and accumulation; with ``factor``, that of a fault."""
    master = first_model(case.shape)
    model = copy.deepcopy(master).to(DTYPES[case.precision])
    parameters = list(master.parameters())
    optimizer = OPTIMIZERS[case.optimizer](master, case)
    losses, norms, weights = [], [], [snapshot(master)]
    for step in range(case.steps):
        whole = batch(step, whole_rows=case.shape not in SHAPES)
        model.load_state_dict(master.state_dict())
        model.zero_grad()
        targets = int((whole["targets"] >= 0).sum())
        if factor is None:
            loss = surprise(model, whole) / targets
            loss.backward()
            losses.append(loss.item())
        else:
            losses.append(backward_in_parts(model, whole, targets, world, case.accumulation, factor))
        for parameter, rounded in zip(parameters, model.parameters(), strict=True):
            parameter.grad = rounded.grad.float()
        norms.append(float(nn.utils.clip_grad_norm_(parameters, case.gradient_clip or math.inf)))
        make_step(optimizer, step)
        weights.append(snapshot(master))
    return curve(losses, norms, weights)


def learn_foreign(folder: Path, steps: int, epsilon: float) -> list[float]:
    """The losses of the Hugging Face model in ``folder``: its class, its own loss, fp32, gradients not clipped."""
    model = AutoModelForCausalLM.from_pretrained(folder).train()
    optimizer = adamw(list(model.parameters()), epsilon)
    losses = []
    for step in range(steps):
        whole = batch(step, whole_rows=True)
        tokens = torch.cat([whole["inputs"], whole["targets"][:, -1:].clamp(min=0)], 1)
        labels = torch.cat([torch.full((ROWS, 1), -100), whole["targets"]], 1)
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        make_step(optimizer, step)
        losses.append(loss.item())
    return losses


OPTIMIZERS: dict[str, Callable[[nn.Module, Case], torch.optim.Optimizer]] = {
    "adamw": lambda model, case: adamw(list(model.parameters()), case.epsilon),
    "stable_adamw": lambda model, case: slow(SlowStableAdamW, model, case),
    "muon": lambda model, case: slow(SlowMuon, model, case),
    "adafactor": lambda model, case: slow(SlowAdafactor, model, case),
}
SPLIT = {
    "gpt2-tied": {"attention.qkv": (32, 32, 32)},
    "llama-untied": {"attention.qkv": (32, 16, 16), "mlp.up": (48, 48)},
    "lstm": {"mixer.cells": (32, 32, 32, 32)},
}
"""The rows of the matrices in one parameter."""


def slow(kind: type[Slow], model: nn.Module, case: Case) -> Slow:
    return kind(dict(model.named_parameters()), case.epsilon, SPLIT[case.shape])


def adamw(parameters: list[nn.Parameter], epsilon: float) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=epsilon)


def make_step(optimizer: torch.optim.Optimizer, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = LEARNING_RATE * min(1, (step + 1) / WARMUP_STEPS)
    optimizer.step()


def backward_in_parts(
    model: nn.Module, whole: Tensors, targets: int, world: int, accumulation: int, factor: Factor
) -> float:
    """Adds up the gradients of all ranks' micro-batches, each times its factor; returns the batch's loss."""
    loss = 0.0
    for number, rows in enumerate(torch.arange(ROWS).split(ROWS // world // accumulation)):
        part = select(whole, rows)
        rank, micro = divmod(number, accumulation)
        here = Part(rank, world, micro, accumulation, int((part["targets"] >= 0).sum()), targets)
        share = surprise(model, part) / targets
        (share * factor(here)).backward()
        loss += share.item()
    return loss


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().float().clone() for name, parameter in model.named_parameters()}
