"""Students that learn from the layers of teachers: the gradient in plain torch, and one update each on real ranks.

    python -m tests.train.loop.layer_terms FOLDER

Started by test_layer_terms.py. For 1 and 2 ranks and each ZeRO stage, rank 0 writes the sums of all ranks and the
weights after the update to ``<name of the case>-<ranks>-<stage>.pt``.
"""

import copy
import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.data.batches import EncoderTokens, Tensors
from headrace.train.distillation_config import Distillation
from headrace.train.distributed import processes
from headrace.train.distributed.processes import Ranks
from headrace.train.engine.engine import Engine
from headrace.train.loop.distillation import Distilled, Teacher, of
from headrace.train.model.layer_records import EMBEDDED, HIDDEN, MAPS
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Objective
from headrace.train.objectives.causal import Causal, Prefix
from headrace.train.objectives.masked import Masked
from headrace.train.objectives.reconstruction import Reconstruction
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.momentum import Momentum
from tests.train.objectives import two_terms
from tests.train.objectives.two_terms import BART, DENOISING, ENCODER, TWO_STACKS, built

WORLDS, STAGES, LEARNING_RATE = (1, 2), (0, 1, 2, 3), 0.5
DECODER = updates.SHAPES["gpt2-tied"]
SOFT = {"temperature": 3.0, "soft_weight": 0.7, "hard_weight": 0.4}
ALL = Distillation(**SOFT, cosine_weight=1.5, hidden_weight=0.6, attention_weight=0.3)
LAYERS = Distillation(soft_weight=0, hard_weight=0, hidden_weight=0.6, attention_weight=0.3)


@dataclasses.dataclass(frozen=True)
class Case:
    """A student of ``shape``, and its teacher: the same with ``changes``."""

    objective: Objective
    shape: ModelConfig
    changes: Mapping[str, int]
    batch: Callable[[], dict[str, Tensor]]
    settings: Distillation

    def student(self) -> Transformer:
        """A model with learned maps where its teacher is wider."""
        model = built(self.shape)
        width = self.changes.get("width", self.shape.width)
        if width != self.shape.width:
            torch.manual_seed(3)
            maps = {name: nn.Linear(self.shape.width, width, bias=False) for name in (EMBEDDED, HIDDEN)}
            model.add_module(MAPS, nn.ModuleDict(maps))
        return model

    def teacher(self) -> Transformer:
        """A model with weights that make other predictions."""
        model, generator = built(dataclasses.replace(self.shape, **self.changes), 7), torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
        return model.requires_grad_(False).eval()

    def terms(self, student: Transformer) -> Distilled:
        body = copy.deepcopy(self.teacher())
        output_layer, body.head = body.head, nn.Identity()
        return of(self.objective, student, Teacher(body, output_layer), self.settings)


CASES = {
    "causal": Case(Causal(), DECODER, {"layers": 4, "width": 48}, functools.partial(updates.batch, 0), LAYERS),
    "prefix": Case(Prefix(), DECODER, {"layers": 4}, two_terms.prefix_batch, ALL),
    "masked": Case(
        Masked(),
        ENCODER,
        {"layers": 3},
        functools.partial(two_terms.encoder_batch, Masked()),
        dataclasses.replace(ALL, teacher_layers=(0, 2)),
    ),
    "denoising": Case(
        DENOISING,
        TWO_STACKS,
        {"layers": 2},
        functools.partial(two_terms.denoising_batch, DENOISING, two_terms.denoising_vocabulary()),
        ALL,
    ),
    "reconstruction": Case(Reconstruction(), BART, {"layers": 2, "width": 64}, two_terms.reconstruction_batch, LAYERS),
}


def read(model: Transformer, whole: Tensors) -> tuple[Tensor, list[Tensor], list[tuple[Tensor, Tensor]]]:
    """Logits of all positions, the states before and after each block, and queries and keys of each block, by hooks."""
    source, prefix_BT = None, whole["prefix"].bool() if "prefix" in whole else None
    if "encoder_inputs" in whole:
        source = EncoderTokens(*(whole[f"encoder_{name}"] for name in ("inputs", "positions", "documents")))
    states, products = [], []
    heads, width = model.config.heads, model.config.head_width

    def before(_, inputs):
        if not states:
            states.append(inputs[0])

    def queries_and_keys(_, inputs, output):
        qkv = output.unflatten(-1, (3, heads, width)).permute(2, 0, 3, 1, 4)
        products.append((qkv[0], qkv[1]))

    hooks = []
    for block in model.blocks:
        hooks += [block.register_forward_pre_hook(before), block.attention.qkv.register_forward_hook(queries_and_keys)]
        hooks.append(block.register_forward_hook(lambda _, inputs, output: states.append(output)))
    logits = model(*(whole[name] for name in ("inputs", "positions", "documents")), source=source, prefix_BT=prefix_BT)
    for hook in hooks:
        hook.remove()
    return logits, states, products


def visible(case: Case, whole: Tensors) -> Tensor:
    """Which keys each query sees, (B, T, T)."""
    documents = whole["documents"]
    same = documents[:, :, None] == documents[:, None, :]
    if case.shape.stack == "encoder":
        return same
    earlier = torch.ones_like(same).tril()
    return same & (earlier | whole["prefix"].bool()[:, None, :]) if "prefix" in whole else same & earlier


def plain_loss(case: Case, student: Transformer, teacher: Transformer, whole: Tensors) -> tuple[Tensor, dict]:
    """The loss, and the mean of each term of the layers, row by row and head by head."""
    settings = case.settings
    logits, states, products = read(student, whole)
    with torch.no_grad():
        of_teacher, their_states, their_products = read(teacher, whole)
    is_text = whole["documents"] >= 0
    width = case.changes.get("layers", case.shape.layers) // case.shape.layers
    pairs = [(n + 1, (n + 1) * width) for n in range(case.shape.layers)]
    if settings.teacher_layers:
        pairs = [(n, layer) for n, layer in enumerate(settings.teacher_layers, 1) if layer]
    scale = (case.shape.attention_scale_width or student.config.head_width) ** -0.5
    theirs = (case.shape.attention_scale_width or teacher.config.head_width) ** -0.5
    sees = visible(case, whole)
    hidden, attention = torch.zeros(()), torch.zeros(())
    maps = getattr(student, MAPS, None)
    for layer, other in [(0, 0), *pairs]:
        state = states[layer][is_text]
        if maps is not None:
            state = state @ maps[HIDDEN if layer else EMBEDDED].weight.T
        hidden = hidden + functional.mse_loss(state, their_states[other][is_text])
    for layer, other in pairs:
        (q, k), (their_q, their_k) = products[layer - 1], their_products[other - 1]
        errors = []
        for row, position in is_text.nonzero().tolist():
            keys = sees[row, position]
            for head in range(case.shape.heads):
                own = scale * (k[row, head, keys] @ q[row, head, position])
                target = theirs * (their_k[row, head, keys] @ their_q[row, head, position])
                errors.append(functional.mse_loss(own, target))
        attention = attention + torch.stack(errors).mean()
    means = {"hidden": hidden, "attention": attention}
    if settings.cosine_weight:
        last, their_last = (
            functional.normalize(model.norm(x[-1])[is_text], dim=-1)
            for model, x in ((student, states), (teacher, their_states))
        )
        means["cosine"] = (1 - (last * their_last).sum(-1)).mean()
    labels = torch.full(whole["inputs"].shape, -100)
    if "masked" in whole:
        rows, slots = (whole["targets"] != -100).nonzero(as_tuple=True)
        labels[rows, whole["masked"][rows, slots]] = whole["targets"][rows, slots]
    else:
        labels = whole["targets"]
    logits, of_teacher, labels = logits.flatten(0, 1), of_teacher.flatten(0, 1), labels.flatten()
    soft = functional.kl_div(
        (logits / settings.temperature).log_softmax(1)[labels >= 0],
        (of_teacher / settings.temperature).log_softmax(1)[labels >= 0],
        log_target=True,
        reduction="batchmean",
    )
    loss = settings.hard_weight * functional.cross_entropy(logits, labels)
    loss = loss + settings.soft_weight * settings.temperature**2 * soft
    return loss + sum(getattr(settings, f"{name}_weight") * value for name, value in means.items()), means


def run(name: str, case: Case, stage: int, folder: Path, ranks: Ranks) -> None:
    training = TrainingConfig(
        steps=1, batch_rows=updates.ROWS, micro_batch_rows=2, precision="fp32", gradient_clip=None
    )
    student = case.student()
    engine = Engine(student, Momentum(learning_rate=LEARNING_RATE), training, ZeroConfig(stage=stage), ranks)
    terms, whole = case.terms(student), case.batch()
    own_rows = torch.arange(updates.ROWS).chunk(ranks.world)[ranks.rank]
    parts = [updates.select(whole, rows) for rows in own_rows.split(engine.plan.micro_rows)]
    own, _ = updates.update(engine, terms, parts, updates.counts(terms, whole), LEARNING_RATE)
    sums = {term: processes.total(ranks, [value])[0] for term, value in own.items()}
    weights = dict(engine.weights())
    if ranks.first:
        torch.save({"sums": sums, "weights": weights}, folder / f"{name}-{ranks.world}-{stage}.pt")


def run_all(folder: Path, ranks: Ranks) -> None:
    for name, case in CASES.items():
        for stage in STAGES:
            run(name, case, stage, folder, ranks)


if __name__ == "__main__":
    for world in WORLDS:
        on_ranks(world, functools.partial(run_all, Path(sys.argv[1])))
