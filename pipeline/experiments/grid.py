"""The grid of a ladder: sizes x token counts x learning rates, each a run with its own overrides.

    size 64   tokens 1M   rate 1e-3   ── Rung    headrace model.width=64 … training.steps=… optimizer.learning_rate=1e-3
    …

With ``schedule=wsd`` and several token counts, the rungs of one size and rate are branches of one trunk at a constant
rate (Hu et al. 2024; Hägele et al. 2024): each trains only the decay of its own. The trunk up to a branch point is a
run too, and goes on from the one before, so it is trained once.

    steps 0 ──────── trunk ────────┬──────── trunk ────────┬
                                   └─ decay ─ rung 1       └─ decay ─ rung 2
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
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import Compute
from headrace.train.loop.schedule import WarmupStableDecay

SHAPE = re.compile(r"([1-9]\d{0,5})(?:x([1-9]\d{0,3}))?", re.ASCII)
"""WIDTH, or WIDTHxLAYERS."""
RATE, STEPS, DECAY, BRANCH = (
    "optimizer.learning_rate",
    "training.steps",
    "schedule.decay_fraction",
    "training.branch_from",
)


@dataclasses.dataclass(frozen=True)
class Rung:
    """One training of a ladder."""

    size: str
    """The name that the user gave; empty when the ladder has one size."""
    rate: float
    """The peak of the learning rate."""
    steps: int
    compute: Compute
    """Parameters, tokens and operations, as ``headrace plan`` counts them."""
    overrides: tuple[str, ...]
    """Without the branch point."""
    trunk: tuple[str, ...] = ()
    """The overrides of the trunk up to the branch point; empty: it is trained from its first step."""

    def __str__(self) -> str:
        size = f"size {self.size}, " if self.size else ""
        return f"{size}{self.compute.tokens:,} tokens, learning rate {self.rate:g}"


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
        own = decoded(compose(overrides))
        check(own, bool(self.tokens))
        rates = _numbers(self.rates, "--rates") or [own.optimizer.learning_rate]
        rungs: list[Rung] = []
        for size, of_size in _sizes(self.sizes, own.model).items():
            sized = replaced(overrides, of_size)
            config = decoded(compose(sized))
            steps = self._steps(config)
            for rate in rates:
                rungs += [_rung(size, rate, n_steps, config, sized, len(steps) > 1) for n_steps in steps]
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


def check(own: RunConfig, chooses_tokens: bool = False, what: str = "a ladder") -> None:
    """Checks settings of the run that ``what``, many trainings that are compared, could not work with.

    Raises:
        ConfigError: with the setting.
    """
    training = own.training
    if not training.validation_rows or not own.packing.validation_fraction:
        where = "training.validation_rows" if not training.validation_rows else "packing.validation_fraction"
        raise ConfigError(where, f"is 0, and {what} compares validation losses", "give a value above 0")
    if training.branch_from is not None:
        problem = f"is {training.branch_from}, and {what} trains from the first step"
        raise ConfigError(BRANCH, problem, "leave it out")
    if chooses_tokens and training.ramp_steps:
        problem = f"is {training.ramp_steps}: the tokens of a step change while the batch grows"
        raise ConfigError("training.ramp_steps", problem, "give 0, or training.steps instead of --tokens")


def _numbers(text: str, where: str) -> list[float]:
    """Returns the positive numbers in a comma-separated list, each once."""
    return list(dict.fromkeys(float(value_of(PositiveNumber, part, where)) for part in text.split(",") if part.strip()))


def _sizes(text: str, own: ModelConfig) -> dict[str, list[str]]:
    """Returns the overrides of each size in a comma-separated list of widths, WIDTHxLAYERS and options of ``model``.

    Raises:
        ConfigError: when one is none of these, or a width that the heads do not divide.
    """
    overrides_of: dict[str, list[str]] = {}
    for name in filter(None, (part.strip() for part in text.split(","))):
        if shape := SHAPE.fullmatch(name):
            overrides_of[name] = _of_width(int(shape[1]), int(shape[2] or own.layers), own)
        elif name in groups()["model"]:
            overrides_of[name] = [f"model={name}"]
        else:
            problem = f"{name!r} is no WIDTH, no WIDTHxLAYERS and no option of model"
            raise ConfigError("--sizes", problem, suggestion(name, groups()["model"]))
    return overrides_of or {"": []}


def _of_width(width: int, layers: int, own: ModelConfig) -> list[str]:
    """Returns the overrides of ``own`` with another width: heads keep their width, other sizes grow in proportion.

    Raises:
        ConfigError: when a size would not be a whole number.
    """
    names = ("heads", "kv_heads", "mlp_width", "attention_width", "embedding_width", "generator_width")
    sizes = {name: getattr(own, name) for name in names if getattr(own, name) is not None}
    if own.kv_heads == 1:
        del sizes["kv_heads"]
    for name, size in sizes.items():
        if size * width % own.width:
            problem = f"width {width} would have {size * width / own.width:g} {name}; width {own.width} has {size}"
            raise ConfigError("--sizes", problem, f"give multiples of {own.head_width}, the width of a head")
    scaled = [f"model.{name}={size * width // own.width}" for name, size in sizes.items()]
    return [f"model.width={width}", f"model.layers={layers}", *scaled]


def _rung(size: str, rate: float, steps: int, config: RunConfig, overrides: Sequence[str], has_trunk: bool) -> Rung:
    """Returns the training of ``steps`` updates; with a trunk where the schedule has a decay of its own."""
    training = dataclasses.replace(config.training, steps=steps)
    compute = Compute.of(config.model, config.vocabulary, config.packing.row_tokens, training, config.target_tokens)
    own = [f"{RATE}={rate!r}", f"{STEPS}={steps}", "until=weights"]
    label = "-".join(filter(None, [size, f"{rate:g}", str(steps)]))
    trunk: list[str] = []
    if has_trunk and isinstance(config.schedule, WarmupStableDecay):
        before = steps - round(config.schedule.decay_fraction * steps)
        if config.schedule.warmup_steps < before < steps:
            flat = [f"{RATE}={rate!r}", f"{STEPS}={before}", f"{DECAY}=0.0", "until=weights"]
            trunk = _named(config.name, f"{label}-trunk", replaced(overrides, flat))
    rung = _named(config.name, label, replaced(overrides, own))
    return Rung(size, rate, steps, compute, tuple(rung), tuple(trunk))


def _named(name: str | None, label: str, overrides: list[str]) -> list[str]:
    return overrides if name is None else replaced(overrides, [f"name={name}-{label}"])


def _refuse_equal_sizes(rungs: Sequence[Rung]) -> None:
    """Refuses two sizes with one number of parameters.

    Raises:
        ConfigError: with both names.
    """
    by_parameters: dict[int, str] = {}
    for rung in rungs:
        first = by_parameters.setdefault(rung.compute.parameters, rung.size)
        if first != rung.size:
            problem = f"{first} and {rung.size} both have {rung.compute.parameters:,} parameters"
            remedy = "give each size once (settings of an experiment stand above an option of model)"
            raise ConfigError("--sizes", problem, remedy)
