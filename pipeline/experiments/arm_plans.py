"""The arms of a study as runs: their settings, and what they have in common before anything is trained."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.options import NOT_DECISIVE, setting_of
from headrace.pipeline.configuration.overrides import key_of, replaced
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.experiments.study_file import Quantity, SizeName, Study
from headrace.train.cost.flops import Compute

VARIED = "training.seed: first weights, order of rows, dropout and the noise of objectives"
"""The difference between the runs of one arm."""
VARIED_TUNING = "finetune.seeds: the first weights of the head, the order of examples"
"""The same of a fine-tuning."""
FLOPS_TOLERANCE = 0.01
"""The share by which operations of arms may differ and are held equal: whole numbers of updates and widths never give
exactly the same."""


@dataclasses.dataclass(frozen=True)
class ArmPlan:
    """One arm with the settings of all its runs, which differ in their seeds."""

    name: str
    label: str
    """The beginning of the names of its runs."""
    overrides: Sequence[str]
    values: Mapping[str, Any]
    """The composed settings."""
    config: RunConfig
    compute: Compute
    """Parameters, tokens and operations of the pretraining of one run, as ``headrace plan`` counts them."""

    @property
    def is_pretrained(self) -> bool:
        """Whether its runs have a pretraining; a fine-tuning may begin with random weights, or those of a folder."""
        return is_pretrained(self.config)

    @property
    def decisive(self) -> list[str]:
        """The overrides without those that say where and under which name the runs are."""
        return [override for override in self.overrides if setting_of(override) not in NOT_DECISIVE]

    @property
    def held(self) -> dict[str, float]:
        """The quantities that a study may hold equal."""
        compute = self.compute
        quantities = {"parameters": compute.parameters, "flops": compute.flops, "tokens": compute.tokens}
        return quantities | {"steps": self.config.training.steps if self.is_pretrained else 0}

    def seeded(self, seed: int) -> tuple[RunConfig, dict[str, Any], list[str]]:
        """Returns the settings of the run with ``seed``, typed and plain, and its overrides."""
        name = f"{self.label}-{seed}"
        training = dataclasses.replace(self.config.training, seed=seed)
        values = {**self.values, "name": name, "training": {**self.values["training"], "seed": seed}}
        config = dataclasses.replace(self.config, name=name, training=training)
        varied = [f"name={name}", f"training.seed={seed}"]
        if config.finetune is not None:
            config = dataclasses.replace(config, finetune=dataclasses.replace(config.finetune, seeds=(seed,)))
            values["finetune"] = {**self.values["finetune"], "seeds": [seed]}
            varied.append(f"finetune.seeds=[{seed}]")
        return config, values, replaced(self.overrides, varied)


def is_pretrained(config: RunConfig) -> bool:
    """Whether a run of ``config`` trains the weights that it ends with, or those that it fine-tunes."""
    return config.finetune is None or not (config.finetune.from_scratch or config.finetune.folder)


def arm_plans(
    name: str,
    study: Study,
    size: SizeName,
    overrides: Sequence[str],
    by_arm: Mapping[str, Sequence[str]] | None = None,
) -> list[ArmPlan]:
    """Returns the arms of the study ``name`` at ``size`` that have what they need.

    Args:
        name: the file of the study, without its ending.
        study: its content at ``size`` (``Study.at``).
        size: tiny, small or paper, a part of the runs' names.
        overrides: the user's settings of all arms.
        by_arm: the user's settings of single arms, which stand over the others.

    Raises:
        ConfigError: when an arm's settings are wrong, naming the arm; an override would replace what an arm is; or the
            pretrained arms differ in what is held equal.
    """
    own = {arm: (by_arm or {}).get(arm, ()) for arm in study.arms}
    carried = [arm for arm in study.arms if not study.lacks(arm, own[arm])]
    _check_overrides({arm: study.arms[arm] for arm in carried}, overrides)
    plans = [arm_plan(name, study, size, arm, replaced(overrides, own[arm])) for arm in carried]
    for quantity in study.held_equal:
        values = {plan.name: plan.held[quantity] for plan in plans if plan.is_pretrained}
        if differs(quantity, values.values()):
            listed = ", ".join(f"{arm} {value:,.10g}" for arm, value in values.items())
            problem = f"{quantity} is held equal, and differs between arms: {listed}"
            raise ConfigError(f"{name}.held_equal", problem, "correct the arms, or take it out of held_equal")
    return plans


def differs(quantity: Quantity, values: Collection[float]) -> bool:
    """Whether ``values`` of a ``quantity`` that is held equal differ: operations by more than ``FLOPS_TOLERANCE``."""
    return bool(values) and max(values) > min(values) * (1 + FLOPS_TOLERANCE * (quantity == "flops"))


def _check_overrides(arms: Mapping[str, Sequence[str]], overrides: Sequence[str]) -> None:
    """Checks that ``overrides`` of all ``arms`` set nothing that one of them sets itself.

    Raises:
        ConfigError: naming the setting and the arms.
    """
    for override in overrides:
        key = key_of(override)
        if setting := [arm for arm, own in arms.items() if key in map(key_of, own)]:
            problem = f"is what makes the arms {', '.join(setting)}, and {override} would replace it in all arms"
            raise ConfigError(key, problem, f"leave it out, or change one arm: --arm {setting[0]}:{override}")


def arm_plan(name: str, study: Study, size: SizeName, arm: str, overrides: Sequence[str]) -> ArmPlan:
    """Returns one ``arm`` of the study ``name``, whose content at ``size`` is ``study``.

    Raises:
        ConfigError: when its settings are wrong, naming the arm.
    """
    label = f"{name}-{size}-{arm}"
    merged = list[str]()
    for part in (study.overrides, study.arms[arm], overrides):
        merged = replaced(merged, part)
    merged = replaced(merged, [f"name={label}", f"until={study.last_stage}"])
    try:
        values = compose(merged)
        config = decoded(values)
        _check_measured(study, config)
    except ConfigError as error:
        raise ConfigError(f"{name}.arms.{arm}: {error.where}", error.problem, error.remedy) from None
    row_tokens, targets = config.packing.row_tokens, config.target_tokens
    compute = Compute.of(config.model, config.vocabulary, row_tokens, config.training, targets)
    if not is_pretrained(config):
        compute = dataclasses.replace(compute, tokens=0)
    return ArmPlan(arm, label, merged, values, config, compute)


def _check_measured(study: Study, config: RunConfig) -> None:
    """Checks that a run of ``config`` has the stages that ``study`` measures.

    Raises:
        ConfigError: when it lacks one.
    """
    if study.is_of_finetuning and config.finetune is None:
        problem = "is null, and a measure of the study is that of a fine-tuning"
        raise ConfigError("finetune", problem, "give the task: finetune=sst2, say")
    if study.is_of_benchmarks and not is_pretrained(config):
        problem = "leaves out the pretraining, and with it the scores of benchmarks, which the study measures"
        raise ConfigError("finetune", problem, "measure finetuned.METRIC alone, or pretrain this arm")
