"""A state that one topology saved and another resumed: the pairs, and what stays the same afterwards.

saved     4 steps on its ranks at its stage; its state at step 2 goes to files
resumed   loads the files, saves its state at once, and makes steps 2 and 3
"""

import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from headrace.train.engine.optimizers.base import divided_state
from headrace.train.model.roles import roles
from tests.train import fork_server
from tests.train.reshaping import MODELS, OPTIMIZERS

SAVED_STEP, LAST_STEP = 2, 4
STAGES = {"fp32": (0, 1, 2, 3), "bf16": (1, 2, 3)}


@dataclasses.dataclass(frozen=True)
class Topology:
    ranks: int
    stage: int
    offload: str = "none"

    @property
    def name(self) -> str:
        return f"{self.ranks}-{self.stage}-{self.offload}"

    @property
    def zero(self) -> dict:
        return {"stage": self.stage, "offload": self.offload}


@dataclasses.dataclass(frozen=True)
class Pair:
    precision: str
    saved: Topology
    resumed: Topology
    optimizer: str = "adamw"
    """A key of OPTIMIZERS in tests/train/reshaping.py."""
    last_step: int = LAST_STEP
    """The step before which both trainings end."""
    model: str = "gpt2-tied"
    """A key of MODELS there."""

    @property
    def same(self) -> bool:
        return self.saved == self.resumed

    @property
    def saving(self) -> dict:
        name = f"{self.model}-{self.optimizer}-{self.precision}-{self.saved.name}"
        steps = {"first": 0, "save": SAVED_STEP}
        return {**self._shared, "name": name, "zero": self.saved.zero, "load": None, **steps}

    @property
    def resuming(self) -> dict:
        name = f"{self.saving['name']}-to-{self.resumed.name}"
        steps = {"first": SAVED_STEP, "save": None}
        files = f"{self.saving['name']}/save"
        return {**self._shared, "name": name, "zero": self.resumed.zero, "load": files, **steps}

    @property
    def _shared(self) -> dict:
        names = {"precision": self.precision, "optimizer": self.optimizer, "model": self.model}
        return {**names, "last": self.last_step}


@dataclasses.dataclass(frozen=True)
class Resumption:
    """The comparison of a resumed training with the one that was not interrupted."""

    is_restored: bool
    """Whether right after loading every master value and mean is what was saved, bit for bit."""
    is_identical: bool
    """Whether all losses and the last weights are, too."""
    apart: float
    """The largest distance of a loss, nats."""


def table() -> list[Pair]:
    """Every topology of one and two ranks to every one of one, two and four; in bf16 from two ranks."""
    pairs = [
        Pair(precision, Topology(saved, before), Topology(resumed, after))
        for precision, stages in STAGES.items()
        for saved, resumed, before, after in itertools.product((1, 2), (1, 2, 4), stages, stages)
    ]
    return [pair for pair in pairs if pair.precision == "fp32" or pair.saved.ranks == 2]


def sample() -> list[Pair]:
    """Returns pairs of ``table``: each stage to each other, each number of ranks to each other, and all equal pairs."""
    shifts = {(1, 1): 0, (1, 2): 3, (1, 4): 1, (2, 1): 1, (2, 2): 0, (2, 4): 2}

    def chosen(pair: Pair) -> bool:
        stages = STAGES[pair.precision]
        shift = stages.index(pair.resumed.stage) - stages.index(pair.saved.stage)
        return (shift - shifts[pair.saved.ranks, pair.resumed.ranks]) % len(stages) == 0

    return [pair for pair in table() if chosen(pair)]


def resume(folder: Path, pairs: Sequence[Pair]) -> dict[Pair, Resumption]:
    """Trains all ``pairs`` in real processes, which leave their files in ``folder``."""
    saves = {pair.saving["name"]: (pair.saved.ranks, pair.saving) for pair in pairs}
    work = [(ranks, [case for on, case in saves.values() if on == ranks]) for ranks in (1, 2)]
    work += [(ranks, [pair.resuming for pair in pairs if pair.resumed.ranks == ranks]) for ranks in (1, 2, 4)]
    (folder / "cases.json").write_text(json.dumps([(ranks, cases) for ranks, cases in work if cases]))
    done = fork_server.run("tests.train.reshaping", str(folder / "cases.json"))
    assert done.returncode == 0, done.stderr
    return {pair: _compared(folder, pair) for pair in pairs}


def _compared(folder: Path, pair: Pair) -> Resumption:
    expected, found = (torch.load(folder / f"{case['name']}.pt") for case in (pair.saving, pair.resuming))
    before, after = whole(folder / pair.resuming["load"]), whole(folder / pair.resuming["name"] / "first")
    assert before.keys() == {(name, kind) for name in expected["weights"] for kind in _kinds(pair)[name]}
    assert all(values.any() for values in before.values()), "not trained yet"
    for name, kind in before:
        if kind == "ema":
            torch.testing.assert_close(before[name, kind], expected["average"][name].flatten(), rtol=1e-6, atol=1e-8)
    losses = list(zip(expected["losses"][SAVED_STEP:], found["losses"], strict=True))
    assert len(losses) == pair.last_step - SAVED_STEP
    return Resumption(
        is_restored=equal(before, after),
        is_identical=all(one == other for one, other in losses) and equal(expected["weights"], found["weights"]),
        apart=max(abs(one - other) for one, other in losses),
    )


def _kinds(pair: Pair) -> dict[str, tuple[str, ...]]:
    """Returns what a checkpoint holds of each parameter."""
    optimizer, model = OPTIMIZERS[pair.optimizer], MODELS[pair.model][0]()
    parameters = dict(model.named_parameters())
    return {
        name: ("master", *divided_state(optimizer, role), *optimizer.statistics(parameters[name].shape, role))
        for name, role in roles(model).items()
    }


def equal(one: dict, other: dict) -> bool:
    """Whether both have the same tensors, bit for bit."""
    return one.keys() == other.keys() and all(
        values.dtype == other[key].dtype == torch.float32 and torch.equal(values, other[key])
        for key, values in one.items()
    )


def whole(folder: Path) -> dict[tuple[str, str], Tensor]:
    """(parameter, kind) -> all its values, put together from the files of all ranks."""
    pieces: dict[tuple[str, str], dict[int, Tensor]] = {}
    for path in folder.iterdir():
        for name, values in load_file(path).items():
            parameter, start, kind = name.rsplit("/", 2)
            same = pieces.setdefault((parameter, kind), {})
            assert int(start) not in same, "two ranks wrote the same values"
            same[int(start)] = values
    return {key: torch.cat([values for _, values in sorted(found.items())]) for key, found in pieces.items()}
