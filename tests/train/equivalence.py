"""Compares the engine's trainings with plain PyTorch's: the cases, the differences, the tolerances.

distance    loss      |found - expected|, the largest of all steps, nats
            norm      |found - expected| / expected, the largest of all steps
            weights   ||found - expected|| / ||expected - first||, the largest of all steps: relative to the
                      change of the weights
"""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from tests.train import fork_server
from tests.train.updates import Case, Curve

WORLDS = (1, 2, 4)
CROSSED = ("gpt2-tied", "llama-untied")
"""Shapes that meet every stage, accumulation, precision and number of ranks."""
CLIP = 0.25
"""Below the norm of every step, so that every step is clipped."""


@dataclasses.dataclass(frozen=True)
class Distance:
    loss: float
    norm: float
    weights: float

    def exceeded(self, tolerance: "Distance") -> set[str]:
        """The names of what is larger here, or not a number."""
        return {name for name, value in vars(self).items() if not value <= getattr(tolerance, name)}


TOLERANCES = {
    "fp32": Distance(loss=1e-5, norm=1e-6, weights=1e-5),
    "bf16": Distance(loss=5e-4, norm=5e-3, weights=2e-2),
}
"""bf16 has 8 significant bits; the engine rounds once for each micro-batch and rank, plain PyTorch once for all. Every
planted fault leads at least six times as far: see docs/equivalence.md."""


def distance(found: Curve, expected: Curve) -> Distance:
    assert found.weights.keys() == expected.weights.keys()
    apart, way = length(found.weights, expected.weights), length(expected.weights, expected.first)
    return Distance(
        loss=max(abs(a - b) for a, b in zip(found.losses, expected.losses, strict=True)),
        norm=max(abs(a - b) / b for a, b in zip(found.norms, expected.norms, strict=True)),
        weights=float((apart / way).max()),
    )


def length(ends: Mapping[str, Tensor], starts: Mapping[str, Tensor]) -> Tensor:
    """The Euclidean length from ``starts`` to ``ends`` over all parameters, (steps,)."""
    return sum((ends[name] - starts[name]).square().flatten(1).sum(1) for name in ends).sqrt()


def matrix() -> list[Case]:
    """All cases of one number of ranks; stage 0 in half precision is refused by the settings."""
    axes = itertools.product(CROSSED, (0, 1, 2, 3), (1, 4), ("fp32", "bf16"), (None, CLIP))
    return [case for case in itertools.starmap(Case, axes) if case.stage or case.precision == "fp32"]


def launch(folder: Path, cases: Mapping[int, Sequence[Case]]) -> dict[tuple[int, Case], Curve]:
    """Runs all ``cases`` in real processes, one group for each number of ranks, and reads the results in ``folder``."""
    written = {world: [vars(case) for case in each] for world, each in cases.items()}
    (folder / "cases.json").write_text(json.dumps(written))
    done = fork_server.run("tests.train.updates", str(folder / "cases.json"))
    assert done.returncode == 0, done.stderr
    pairs = [(world, case) for world, each in cases.items() for case in each]
    return {(world, case): Curve(**torch.load(folder / f"{world}-{case.name}.pt")) for world, case in pairs}
