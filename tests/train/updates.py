"""Engines that make a few updates each, on one or more real ranks; started by tests/train/equivalence.py.

    python -m tests.train.updates CASES_JSON        {"2": [case, case], "4": [case]}

One process is forked for each rank of a number of ranks; these run all its cases one after the other. Rank 0 writes
``<folder>/<ranks>-<name>.pt`` for each: a Curve.
"""

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED, Tensors
from headrace.train.data.order import share
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adafactor import Adafactor
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.engine.optimizers.base import Optimizer
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.engine.optimizers.stable_adamw import StableAdamW
from headrace.train.engine.zero import LossScale
from headrace.train.families.hf_folder import load
from headrace.train.loop.schedule import Constant
from headrace.train.model import dropout
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Objective, combined
from headrace.train.objectives.causal import Causal
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train.forks import on_ranks

VOCABULARY, ROWS, TOKENS, SEED = 61, 16, 24, 1
EMPTY_ROW = 5
"""Holds nothing to predict: a micro-batch of one row has no target."""
LEARNING_RATE, WARMUP_STEPS = 1e-2, 3
CAUSAL = Causal()
SHAPES = {
    "gpt2-tied": ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=TOKENS, mlp_width=64),
    "llama-untied": ModelConfig(
        layers=2, width=32, heads=4, kv_heads=2, context=TOKENS, mlp_width=48,
        positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
    ),
    "gemma2": ModelConfig(
        layers=2, width=32, heads=4, kv_heads=2, context=TOKENS, mlp_width=48, attention_width=64, qk_norm="width",
        positions="rope", norm="rmsnorm_1p", norm_place="sandwich", activation="geglu", bias=False,
        scaled_embedding=True, embedding_norm=True, attention_pattern=("window", "full"), window=9,
        attention_cap=20.0, logit_cap=10.0,
    ),
    "lstm": ModelConfig(
        layers=2, width=32, heads=4, kv_heads=4, context=TOKENS, mlp_width=64, positions="none", mixer="lstm",
    ),
    "rnn": ModelConfig(
        layers=2, width=32, heads=4, kv_heads=4, context=TOKENS, mlp_width=64, positions="none", mixer="rnn",
        norm="rmsnorm", bias=False, tied=False,
    ),
    "window_mlp": ModelConfig(
        layers=2, width=32, heads=4, kv_heads=4, context=TOKENS, mlp_width=48, positions="none", mixer="window_mlp",
        window=5, activation="swiglu", residual=False,
    ),
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adamw": AdamW,
    "stable_adamw": StableAdamW,
    "muon": Muon,
    "adafactor": lambda learning_rate, epsilon: Adafactor(learning_rate=learning_rate, gradient_epsilon=epsilon**2),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One training by the engine. ``stage`` and ``accumulation`` must not change what is learnt."""

    shape: str
    """A name of SHAPES, or the folder of a Hugging Face model, whose rows are then one document each."""
    stage: int
    accumulation: int
    precision: str
    gradient_clip: float | None
    epsilon: float = 1e-2
    """Adam's. So large that the weights go as far as the gradient is long: with the usual 1e-8 they go about as far
    whatever it is multiplied by, and far where it is only rounding."""
    steps: int = 5
    optimizer: str = "adamw"
    """A key of OPTIMIZERS."""
    gradient_sums: str = "precision"
    loss_scale: float | None = None
    """The factor of the first loss in fp16; None: that of every training."""
    offload: str = "none"
    overlap: bool = False

    @property
    def name(self) -> str:
        clip = "unclipped" if self.gradient_clip is None else f"clip{self.gradient_clip}"
        half = f"{self.precision}-{self.gradient_sums}-{self.loss_scale or ''}"
        zero = f"zero{self.stage}-{self.offload}{'-overlap' if self.overlap else ''}"
        engine = f"{zero}-by{self.accumulation}-{half}-{clip}"
        return f"{Path(self.shape).name}-{self.optimizer}-{engine}"


@dataclasses.dataclass(frozen=True)
class Curve:
    """The result of a training, each (steps, ...) in fp32: the mean loss in nats, the gradient's norm before clipping,
    and every parameter after the update; ``first`` are the parameters before the first update."""

    losses: list[float]
    norms: list[float | None]
    first: dict[str, Tensor]
    weights: dict[str, Tensor]


def batch(step: int, whole_rows: bool = False) -> dict[str, Tensor]:
    """The global batch of ``step``, (ROWS, TOKENS): two documents in a row, then padding of a different length in each.
    Low token numbers are more frequent, so the model can learn something.

    With ``whole_rows`` a row is one document, and its padding continues it without targets.
    """
    generator = np.random.default_rng(step)
    drawn = VOCABULARY * generator.random((ROWS, TOKENS + 1)) ** 2
    place = np.arange(TOKENS)[None].repeat(ROWS, 0)
    middle, end = generator.integers(1, 4, (ROWS, 1)), generator.integers(4, TOKENS + 1, (ROWS, 1))
    end[EMPTY_ROW] = 0
    targets = np.where(place < end, np.floor(drawn[:, 1:]), IGNORED)
    documents, positions = np.zeros_like(place), place
    if not whole_rows:
        documents = np.where(place < end, place >= middle, -1)
        positions = np.where(place < end, np.where(place < middle, place, place - middle), 0)
    arrays = {"inputs": drawn[:, :-1], "targets": targets, "positions": positions, "documents": documents}
    return {name: torch.from_numpy(array.astype(np.int64)) for name, array in arrays.items()}


def select(whole: Tensors, rows: Tensor) -> dict[str, Tensor]:
    return {name: tensor[rows] for name, tensor in whole.items()}


def counts(objective: Objective, whole: Tensors) -> dict[str, int]:
    return objective.counts({name: tensor.numpy() for name, tensor in whole.items()})


def update(
    engine: Engine,
    objective: Objective,
    batches: Sequence[Tensors],
    counts: Mapping[str, float],
    learning_rate: float,
    rows: Sequence[Tensor] = (),
) -> tuple[dict[str, float], float | None]:
    """One update: this rank's sums of the terms, and the norm of the gradient; None if it overflowed.

    ``rows`` are the positions of each batch's rows in the training, which decide what is dropped.
    """
    numbers = [part.tolist() for part in rows] or [range(len(batch["inputs"])) for batch in batches]
    row_keys = [dropout.row_keys(0, part, engine.ranks.device) for part in numbers]
    return engine.gradient(objective, batches, counts, row_keys), engine.step(learning_rate)


def first_model(shape: str) -> Transformer:
    if shape not in SHAPES:
        return load(Path(shape))
    model = Transformer(SHAPES[shape], VOCABULARY)
    initialize(model, SEED)
    return model


def learn(case: Case, ranks: Ranks) -> Curve:
    training = TrainingConfig(
        steps=case.steps,
        batch_rows=ROWS,
        micro_batch_rows=ROWS // ranks.world // case.accumulation,
        precision=case.precision,
        gradient_clip=case.gradient_clip,
        gradient_sums=case.gradient_sums,
    )
    optimizer = OPTIMIZERS[case.optimizer](learning_rate=LEARNING_RATE, epsilon=case.epsilon)
    zero = ZeroConfig(stage=case.stage, offload=case.offload, overlap=case.overlap)
    engine = Engine(first_model(case.shape), optimizer, training, zero, ranks)
    assert engine.plan.accumulation == case.accumulation
    if case.loss_scale is not None:
        engine.loss_scale = LossScale(case.loss_scale)
    schedule, own_rows = Constant(warmup_steps=WARMUP_STEPS), share(np.arange(ROWS), ranks.rank, ranks.world)
    losses, norms, weights = [], [], [dict(engine.weights())]
    for step in range(case.steps):
        whole = batch(step, whole_rows=case.shape not in SHAPES)
        parts = [select(whole, rows) for rows in torch.from_numpy(own_rows).split(engine.plan.micro_rows)]
        all_counts = counts(CAUSAL, whole)
        learning_rate = LEARNING_RATE * schedule.factor(step, case.steps)
        own, norm = update(engine, CAUSAL, parts, all_counts, learning_rate)
        sums = {name: processes.total(ranks, [value])[0] for name, value in own.items()}
        losses.append(combined(CAUSAL.weights, sums, all_counts))
        norms.append(norm)
        weights.append(dict(engine.weights()))
    return curve(losses, norms, weights)


def curve(losses: list[float], norms: list[float | None], weights: list[dict[str, Tensor]]) -> Curve:
    """``weights`` are those before the first update, then those after each."""
    stacked = {name: torch.stack([each[name] for each in weights[1:]]) for name in weights[0]}
    return Curve(losses, norms, weights[0], stacked)


def learn_all(cases: list[Case], folder: Path, ranks: Ranks) -> None:
    for case in cases:
        learnt = learn(case, ranks)
        if ranks.first:
            torch.save(vars(learnt), folder / f"{ranks.world}-{case.name}.pt")


if __name__ == "__main__":
    cases_file = Path(sys.argv[1])
    for number, values in json.loads(cases_file.read_text()).items():
        on_ranks(int(number), functools.partial(learn_all, [Case(**each) for each in values], cases_file.parent))
