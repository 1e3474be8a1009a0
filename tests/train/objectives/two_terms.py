"""Objectives of one and of two terms, of every stack and of shared layers; one update of each on real ranks.

    python -m tests.train.objectives.two_terms FOLDER

Started by test_objective.py. For 1 and 2 ranks and the ZeRO stages of CASES, rank 0 writes the sums of all ranks and
the weights after the update to ``<name of the case>-<ranks>-<stage>.pt``.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from headrace.pipeline.core.settings import settings
from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED, Arrays, Tensors, stacked
from headrace.train.data.order import row_generator
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Objective, Vocabulary, of_stack
from headrace.train.objectives.causal import Causal, Prefix
from headrace.train.objectives.denoising import Denoising
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR, Masked
from headrace.train.objectives.reconstruction import Reconstruction
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.momentum import Momentum

WORLDS, LEARNING_RATE = (1, 2), 0.5


@settings
class TwoTerms(Causal):
    """The next token, and at a random third of the positions the token itself."""

    type: Literal["two_terms"] = "two_terms"  # type: ignore[assignment]  # an objective of its own

    @property
    def weights(self) -> Mapping[str, float]:
        return {"nll": 1.0, "copy": 0.25}

    def row(self, pieces, row_tokens, vocabulary, generator):
        arrays = super().row(pieces, row_tokens, vocabulary, generator)
        return arrays | {"copies": copies(arrays, generator)}

    def counts(self, batch: Arrays) -> dict[str, int]:
        return super().counts(batch) | {"copy": int((batch["copies"] != IGNORED).sum())}

    def losses(self, model, batch: Tensors) -> dict[str, torch.Tensor]:
        copied = model(batch["inputs"], batch["positions"], batch["documents"], batch["copies"])
        return super().losses(model, batch) | {"copy": copied}


def copies(arrays: Arrays, generator: np.random.Generator) -> np.ndarray:
    is_chosen = (generator.random(arrays["inputs"].shape) < 0.3) & (arrays["targets"] != IGNORED)
    return np.where(is_chosen, arrays["inputs"], IGNORED)


ENCODER = ModelConfig(
    layers=2, width=32, heads=4, kv_heads=4, context=updates.TOKENS, mlp_width=64, stack="encoder", norm_place="post",
    activation="gelu_exact", segments=2, embedding_norm=True, output_transform=True,
)  # fmt: skip


WIDE = 3200
"""A width with which feed-forward matrices are above DeepSpeed's threshold, below which stage 3 never partitions a
parameter."""
ALBERT = dataclasses.replace(ENCODER, layers=3, shared_layers=True, embedding_width=16, pair_head=True, mlp_width=WIDE)
SENTENCE_ENDS = np.arange(updates.VOCABULARY) % 5 == 4

PAIRS = Masked(pairs="next_sentence")


def built(config: ModelConfig, seed: int = updates.SEED) -> Transformer:
    model = Transformer(config, updates.VOCABULARY)
    initialize(model, seed)
    return model


def whole_batch(objective: Objective, vocabulary: Vocabulary, first: int = 5) -> dict[str, torch.Tensor]:
    """A global batch of rows of one or two documents, the first one of ``first`` tokens, one of them empty."""
    generator, least, rows = np.random.default_rng(0), len(vocabulary.reserved), []
    for number in range(updates.ROWS):
        lengths = [] if number == updates.EMPTY_ROW else [first, *generator.integers(4, 15, number % 2)]
        pieces = [generator.integers(least, updates.VOCABULARY, length) for length in lengths]
        rows.append(objective.row(pieces, updates.TOKENS, vocabulary, row_generator(0, "test", number)))
    return {name: torch.from_numpy(array) for name, array in stacked(rows).items()}


def encoder_batch(objective: Objective) -> dict[str, torch.Tensor]:
    third_V = np.arange(updates.VOCABULARY) % 3 == 0
    vocabulary = Vocabulary(
        updates.VOCABULARY,
        {CLASS: 1, SEPARATOR: 2, MASK: 3},
        reserved=np.arange(4),
        continues_V=third_V,
        find_sentence_ends=lambda: SENTENCE_ENDS,
    )
    return whole_batch(objective, vocabulary, first=3)


TWO_STACKS = ModelConfig(
    layers=1, encoder_layers=2, width=32, heads=4, kv_heads=4, context=updates.TOKENS, mlp_width=WIDE, positions="t5",
    norm="rmsnorm", activation="relu", bias=False, attention_scale_width=1, stack="encoder_decoder",
    scaled_output=True, initialization="t5",
)  # fmt: skip
SHARED_STACKS = dataclasses.replace(TWO_STACKS, layers=2, encoder_layers=None, shared_stacks=True)
DENOISING = of_stack(Denoising(), "encoder_decoder")


BART = ModelConfig(
    layers=1, encoder_layers=2, width=32, heads=4, kv_heads=4, context=updates.TOKENS, mlp_width=48,
    norm_place="post", activation="gelu_exact", position_offset=2, embedding_norm=True, stack="encoder_decoder",
)  # fmt: skip


def denoising_vocabulary() -> Vocabulary:
    sentinels = {token: 5 + index for index, token in enumerate(DENOISING.special_tokens()[-20:])}
    special = dict.fromkeys(DENOISING.special_tokens(), 4) | sentinels
    return Vocabulary(updates.VOCABULARY, special, end=1, decoder_start=2)


def denoising_batch(objective: Objective, vocabulary: Vocabulary) -> dict[str, torch.Tensor]:
    """A global batch of rows whose inputs and targets end at different positions, one of them empty."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(updates.ROWS):
        length = 0 if number == updates.EMPTY_ROW else int(generator.integers(3, 24))
        piece = generator.integers(28, updates.VOCABULARY, length)
        rows.append(objective.row([piece], 23, vocabulary, row_generator(0, "test", number)))
    return {name: torch.from_numpy(array) for name, array in stacked(rows).items()}


def prefix_batch() -> dict[str, torch.Tensor]:
    return whole_batch(Prefix(), Vocabulary(updates.VOCABULARY, {}))


def reconstruction_batch() -> dict[str, torch.Tensor]:
    special, fifth_V = {"<s>": 0, "</s>": 1, "<mask>": 2}, np.arange(updates.VOCABULARY) % 5 == 0
    vocabulary = Vocabulary(
        updates.VOCABULARY, special, reserved=np.arange(3), continues_V=fifth_V, find_sentence_ends=lambda: fifth_V
    )
    return whole_batch(Reconstruction(), vocabulary)


def batch() -> dict[str, torch.Tensor]:
    """A global batch of tests/train/updates.py with the targets of the second term."""
    whole = updates.batch(0)
    arrays = {name: tensor.numpy() for name, tensor in whole.items()}
    return whole | {"copies": torch.from_numpy(copies(arrays, row_generator(0, "test", 0)))}


@dataclasses.dataclass(frozen=True)
class Case:
    """An objective with its model and batch, and the ZeRO stages to train it at."""

    name: str
    objective: Objective
    model: Callable[[], Transformer]
    batch: Callable[[], dict[str, torch.Tensor]]
    stages: tuple[int, ...]


ALL = (0, 1, 2, 3)
CASES = (
    Case("two-terms", TwoTerms(), functools.partial(updates.first_model, "gpt2-tied"), batch, (0, 1)),
    Case("encoder", Masked(), functools.partial(built, ENCODER), functools.partial(encoder_batch, Masked()), ALL),
    Case("albert", PAIRS, functools.partial(built, ALBERT), functools.partial(encoder_batch, PAIRS), ALL),
    Case(
        "encoder-decoder",
        DENOISING,
        functools.partial(built, TWO_STACKS),
        functools.partial(denoising_batch, DENOISING, denoising_vocabulary()),
        ALL,
    ),
    Case(
        "shared-stacks",
        DENOISING,
        functools.partial(built, SHARED_STACKS, updates.SEED + 1),  # with SEED an input of a ReLU is 0 but for rounding
        functools.partial(denoising_batch, DENOISING, denoising_vocabulary()),
        ALL,
    ),
    Case("bart", Reconstruction(), functools.partial(built, BART), reconstruction_batch, ALL),
    Case(
        "positions-by-layer",
        DENOISING,
        functools.partial(built, dataclasses.replace(TWO_STACKS, positions="t5_by_layer")),
        functools.partial(denoising_batch, DENOISING, denoising_vocabulary()),
        (0, 3),
    ),
    Case("prefix", Prefix(), functools.partial(updates.first_model, "gpt2-tied"), prefix_batch, ALL),
    Case(
        "one-stack",
        Denoising(),
        functools.partial(built, dataclasses.replace(updates.SHAPES["gpt2-tied"], context=2 * updates.TOKENS)),
        functools.partial(denoising_batch, Denoising(), denoising_vocabulary()),
        (0, 3),
    ),
)


def run(case: Case, stage: int, folder: Path, ranks: Ranks) -> None:
    training = TrainingConfig(
        steps=1, batch_rows=updates.ROWS, micro_batch_rows=2, precision="fp32", gradient_clip=None
    )
    optimizer = Momentum(learning_rate=LEARNING_RATE)
    model = case.model()
    engine = Engine(model, optimizer, training, ZeroConfig(stage=stage), ranks)
    whole, objective = case.batch(), case.objective
    own_rows = torch.arange(updates.ROWS).chunk(ranks.world)[ranks.rank]
    parts = [updates.select(whole, rows) for rows in own_rows.split(engine.plan.micro_rows)]
    assert len(parts) == engine.plan.accumulation > 1
    own, norm = updates.update(engine, objective, parts, updates.counts(objective, whole), LEARNING_RATE)
    sums = {name: processes.total(ranks, [value])[0] for name, value in own.items()}
    weights = dict(engine.weights())
    if ranks.first:
        partitioned = {name for name, weight in model.named_parameters() if not getattr(weight, "ds_persist", True)}
        found = {"sums": sums, "norm": norm, "weights": weights, "partitioned": partitioned}
        torch.save(found, folder / f"{case.name}-{ranks.world}-{stage}.pt")


def run_all(folder: Path, ranks: Ranks) -> None:
    for case in CASES:
        for stage in case.stages:
            run(case, stage, folder, ranks)


if __name__ == "__main__":
    for world in WORLDS:
        on_ranks(world, functools.partial(run_all, Path(sys.argv[1])))
