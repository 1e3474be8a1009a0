"""The arms of a study as runs: their settings, and what they have in common before anything is trained."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.composition import compose
from headrace.pipeline.conf_folder import NOT_DECISIVE, setting_of
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.overrides import replaced
from headrace.pipeline.study.settings import SizeName, Study
from headrace.train.cost.flops import Compute

VARIED = "training.seed: first weights, order of rows, dropout and the noise of objectives"
"""The difference between the runs of one arm."""


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
    """Parameters, tokens and operations of one run, as ``headrace plan`` counts them."""

    @property
    def decisive(self) -> list[str]:
        """The overrides without those that say where and under which name the runs are."""
        return [one for one in self.overrides if setting_of(one) not in NOT_DECISIVE]

    @property
    def held(self) -> dict[str, float]:
        """The quantities that a study may hold equal."""
        compute = self.compute
        quantities = {"parameters": compute.parameters, "flops": compute.flops, "tokens": compute.tokens}
        return quantities | {"steps": self.config.training.steps}

    def seeded(self, seed: int) -> tuple[RunConfig, dict[str, Any], list[str]]:
        """Returns the settings of the run with ``seed``, typed and plain, and its overrides."""
        name = f"{self.label}-{seed}"
        training = dataclasses.replace(self.config.training, seed=seed)
        values = {**self.values, "name": name, "training": {**self.values["training"], "seed": seed}}
        config = dataclasses.replace(self.config, name=name, training=training)
        return config, values, replaced(self.overrides, [f"name={name}", f"training.seed={seed}"])


def arm_plans(name: str, study: Study, size: SizeName, overrides: Sequence[str]) -> list[ArmPlan]:
    """Returns the arms of the study ``name`` at ``size``, with ``overrides`` of the user.

    Raises:
        ConfigError: when an arm's settings are wrong, naming the arm; or the arms differ in what is held equal.
    """
    plans = [arm_plan(name, study, size, arm, overrides) for arm in study.arms]
    for quantity in study.held_equal:
        values = {plan.name: plan.held[quantity] for plan in plans}
        if len(set(values.values())) > 1:
            each = ", ".join(f"{arm} {value:,.10g}" for arm, value in values.items())
            wrong = f"{quantity} is held equal, and differs between arms: {each}"
            raise ConfigError(f"{name}.held_equal", wrong, "correct the arms, or take it out of held_equal")
    return plans


def arm_plan(name: str, study: Study, size: SizeName, arm: str, overrides: Sequence[str]) -> ArmPlan:
    """Returns one ``arm`` of the study ``name``.

    Raises:
        ConfigError: when its settings are wrong, naming the arm.
    """
    label = f"{name}-{size}-{arm}"
    merged = list[str]()
    for part in (study.overrides, getattr(study.sizes, size), study.arms[arm], overrides):
        merged = replaced(merged, part)
    merged = replaced(merged, [f"name={label}", f"until={study.last_stage}"])
    try:
        values = compose(merged)
        config = decoded(values)
    except ConfigError as error:
        raise ConfigError(f"{name}.arms.{arm}: {error.where}", error.wrong, error.remedy) from None
    row_tokens, targets = config.packing.row_tokens, config.target_tokens
    compute = Compute.of(config.model, config.vocabulary, row_tokens, config.training, targets)
    return ArmPlan(arm, label, merged, values, config, compute)
