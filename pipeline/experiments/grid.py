"""The grid of a ladder: sizes x token counts x learning rates, each an arm with its own overrides.

size 64   tokens 1M   rate 1e-3   ── Rung    headrace model.width=64 … training.steps=… optimizer.learning_rate=1e-3
…
"""

import dataclasses
import re
from collections.abc import Sequence

from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import groups
from headrace.pipeline.configuration.overrides import replaced
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import PositiveNumber, value_of
from headrace.pipeline.experiments.arms import (
    Arm,
)
from headrace.train.config import ModelConfig

SHAPE = re.compile(r"([1-9]\d{0,5})(?:x([1-9]\d{0,3}))?", re.ASCII)
"""WIDTH, or WIDTHxLAYERS."""
RATE, STEPS = "optimizer.learning_rate", "training.steps"
BRANCH = "training.branch_from"
UNTIL = "until=weights"
LOSS, EPOCHS = "loss", "epochs"
MEASURES = {LOSS: "validation_loss", EPOCHS: "epoch"}
"""The measures of a rung: the last validation loss in nats per token, and the passes over the training rows."""


@dataclasses.dataclass(frozen=True)
class Rung(Arm):
    """One training of a ladder: its name is that of its size."""

    def __str__(self) -> str:
        size = f"size {self.name}, " if self.name else ""
        return f"{size}{self.compute.tokens:,} tokens, learning rate {self.rate:g}"

    @property
    def rate(self) -> float:
        """The peak of the learning rate."""
        return self.config.optimizer.learning_rate


@dataclasses.dataclass(frozen=True)
class Grid:
    """The sizes, rates and token counts of a ladder as the user typed them, each separated by commas."""

    sizes: str = ""
    rates: str = ""
    tokens: str = ""

    def rungs(self, overrides: Sequence[str]) -> list[Rung]:
        """Returns the trainings of the grid around the run of ``overrides``, by size, rate and tokens.

        An empty list of the grid means the run's own value.

        Raises:
            ConfigError: when a value of the grid, or a setting of the run, does not fit a ladder.
        """
        base = decoded(compose(overrides))
        _check(base, bool(self.tokens))
        rates = _numbers(self.rates, "--rates") or [base.optimizer.learning_rate]
        rungs: list[Rung] = []
        for size, of_size in _sizes(self.sizes, base.model).items():
            sized = replaced(overrides, of_size)
            config = decoded(compose(sized))
            rungs += [_rung(size, rate, steps, config, sized) for rate in rates for steps in self._steps(config)]
        _refuse_equal_sizes(rungs)
        return rungs

    def _steps(self, config: RunConfig) -> list[int]:
        """Returns the steps of each token count, the lowest first."""
        update_tokens = config.training.batch_rows * config.packing.row_tokens
        wanted = sorted(_numbers(self.tokens, "--tokens")) or [config.training.steps * update_tokens]
        steps = [max(1, round(tokens / update_tokens)) for tokens in wanted]
        if len(set(steps)) < len(steps):
            problem = f"two of {self.tokens} are the same number of updates of {update_tokens:,} tokens"
            raise ConfigError("--tokens", problem, "give numbers further apart")
        return steps


def _check(base: RunConfig, chooses_tokens: bool) -> None:
    """Checks settings of the run that a ladder could not work with.

    Raises:
        ConfigError: with the setting.
    """
    training = base.training
    if not training.validation_rows or not base.packing.validation_fraction:
        where = "training.validation_rows" if not training.validation_rows else "packing.validation_fraction"
        raise ConfigError(where, "is 0, and a ladder compares validation losses", "give a value above 0")
    if training.branch_from is not None:
        problem = f"is {training.branch_from}, and a ladder trains from the first step"
        raise ConfigError(BRANCH, problem, "leave it out")
    if chooses_tokens and training.ramp_steps:
        problem = f"is {training.ramp_steps}: the tokens of a step change while the batch grows"
        raise ConfigError("training.ramp_steps", problem, "give 0, or training.steps instead of --tokens")


def _numbers(text: str, where: str) -> list[float]:
    """Returns the positive numbers in a comma-separated list, each once."""
    return list(dict.fromkeys(float(value_of(PositiveNumber, part, where)) for part in text.split(",") if part.strip()))


def _sizes(text: str, base: ModelConfig) -> dict[str, list[str]]:
    """Returns the overrides of each size in a comma-separated list of widths, WIDTHxLAYERS and options of ``model``.

    Raises:
        ConfigError: when one is none of these, or a width that the heads do not divide.
    """
    overrides_of: dict[str, list[str]] = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        if shape := SHAPE.fullmatch(name):
            overrides_of[name] = _of_width(int(shape[1]), int(shape[2] or base.layers), base)
        elif name in groups()["model"]:
            overrides_of[name] = [f"model={name}"]
        else:
            problem = f"{name!r} is no WIDTH, no WIDTHxLAYERS and no option of model"
            raise ConfigError("--sizes", problem, suggestion(name, groups()["model"]))
    return overrides_of or {"": []}


def _of_width(width: int, layers: int, base: ModelConfig) -> list[str]:
    """Returns the overrides of ``base`` with another width: heads keep their width, other sizes grow in proportion.

    Raises:
        ConfigError: when a size would not be a whole number.
    """
    names = ("heads", "kv_heads", "mlp_width", "attention_width", "embedding_width")
    sizes = {name: getattr(base, name) for name in names if getattr(base, name) is not None}
    if base.kv_heads == 1:
        del sizes["kv_heads"]
    for name, size in sizes.items():
        if size * width % base.width:
            problem = f"width {width} would have {size * width / base.width:g} {name}; width {base.width} has {size}"
            raise ConfigError("--sizes", problem, f"give multiples of {base.head_width}, the width of a head")
    scaled = [f"model.{name}={size * width // base.width}" for name, size in sizes.items()]
    return [f"model.width={width}", f"model.layers={layers}", *scaled]


def _rung(size: str, rate: float, steps: int, config: RunConfig, overrides: Sequence[str]) -> Rung:
    """Returns the training of ``steps`` updates."""
    label = "-".join(filter(None, [size, f"{rate:g}", str(steps)]))
    name = [] if config.name is None else [f"name={config.name}-{label}"]
    return Rung.of(size, replaced(overrides, [f"{RATE}={rate!r}", f"{STEPS}={steps}", UNTIL, *name]))


def _refuse_equal_sizes(rungs: Sequence[Rung]) -> None:
    """Refuses two sizes with one number of parameters.

    Raises:
        ConfigError: with both names.
    """
    by_parameters: dict[int, str] = {}
    for rung in rungs:
        first = by_parameters.setdefault(rung.compute.parameters, rung.name)
        if first != rung.name:
            problem = f"{first} and {rung.name} both have {rung.compute.parameters:,} parameters"
            remedy = "give each size once (settings of an experiment stand above an option of model)"
            raise ConfigError("--sizes", problem, remedy)
