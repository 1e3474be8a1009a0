"""Recomputed activations: the same bits of losses, gradients and weights, with fewer tensors kept."""

import dataclasses

import pytest
import torch

from headrace.train.model.execution import prepare_blocks
from headrace.train.model.pair import build
from headrace.train.model.transformer import initialize
from tests.train import fork_server, updates
from tests.train.objectives import two_terms

DECODERS = [
    two_terms.Case(name, updates.CAUSAL, lambda name=name: updates.first_model(name), lambda: updates.batch(0), (0,))
    for name in updates.SHAPES
]
CASES = {case.name: case for case in (*DECODERS, *two_terms.CASES)}


def kept_and_gradients(case: two_terms.Case, recompute: str) -> tuple[int, list[torch.Tensor]]:
    """The bytes that the forward pass keeps; the sums of all terms and the gradients, with dropout."""
    torch.manual_seed(1)
    model = build(dataclasses.replace(case.model().config, dropout=0.1), updates.VOCABULARY).train()
    initialize(model, updates.SEED)
    prepare_blocks(model, compiles=False, recompute=recompute)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(2)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        losses = case.objective.losses(model, case.batch())
    sum(losses[name] * weight for name, weight in case.objective.weights.items()).backward()
    return sum(kept.values()), [*losses.values(), *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("name", CASES)
def test_every_stack_learns_the_same_bits_from_fewer_tensors(name):
    (kept, expected), (fewer, found) = (kept_and_gradients(CASES[name], each) for each in ("none", "full"))
    assert fewer < 0.6 * kept
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_every_stage_learns_the_same_bits_on_two_ranks():
    done = fork_server.run("tests.train.recomputation")
    assert done.returncode == 0, done.stderr
