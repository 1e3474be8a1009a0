"""Recomputed activations: the same bits of losses, gradients and weights, with fewer tensors kept."""

import dataclasses

import pytest
import torch

from benchmarks.train.kept_memory import Made
from headrace.train.model.dropout import row_keys
from headrace.train.model.execution import give_row_keys, prepare_blocks
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.train import fork_server, updates
from tests.train.objectives import two_terms

DECODERS = [
    two_terms.Case(name, updates.CAUSAL, lambda name=name: updates.first_model(name), lambda: updates.batch(0), (0,))
    for name, shape in updates.SHAPES.items()
    if shape.mixer == "attention"  # without it selective recomputation is refused; full: test_recurrence.py
]
CASES = {case.name: case for case in (*DECODERS, *two_terms.CASES)}
MOST_SELECTIVE = {"gpt2-tied": 0.8, "llama-untied": 0.6, "encoder": 0.8, "positions-by-layer": 0.98}
"""The share of bytes that selective recomputation keeps at most, in shapes whose feed-forward layers are as wide as
published ones; ReLU in T5's is its own result, and their layers here are 100 times as wide as the model. A bias of each
layer, as in UMT5, is kept as well."""


def kept_and_gradients(case: two_terms.Case, dropout: float, recompute: str) -> tuple[int, list[torch.Tensor]]:
    """The bytes that the forward pass keeps; the sums of all terms and the gradients."""
    torch.manual_seed(1)
    like = case.model()
    model = Transformer(dataclasses.replace(like.config, dropout=dropout), updates.VOCABULARY).train()
    initialize(model, updates.SEED)
    prepare_blocks(model, compiles=False, recompute=recompute)
    batch = case.batch()
    give_row_keys(model, row_keys(2, range(len(batch["inputs"])), torch.device("cpu")))
    with Made() as made:
        losses = case.objective.losses(model, batch)
    kept = made.kept_bytes()
    sum(losses[name] * weight for name, weight in case.objective.weights.items()).backward()
    return kept, [*losses.values(), *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", CASES)
def test_every_stack_learns_the_same_bits_from_fewer_tensors(name, dropout):
    """Without dropout attention is one operation, whose result selective recomputation keeps."""
    runs = [kept_and_gradients(CASES[name], dropout, recompute) for recompute in ("none", "selective", "full")]
    (kept, expected), (fewer, selective), (fewest, full) = runs
    assert fewest < 0.6 * fewer < 0.6 * MOST_SELECTIVE.get(name, 0.97) * kept
    for found in (selective, full):
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.slow
def test_every_stage_learns_the_same_on_two_ranks_also_with_a_padded_vocabulary():
    done = fork_server.run("tests.train.recomputation")
    assert done.returncode == 0, done.stderr
