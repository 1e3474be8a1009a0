"""A study: one file of conf/study/, which compares arms by a rule that was written before they ran.

    arms          name -> overrides              each arm runs once for each seed
    measures      name -> what is read           measures.py: validation_loss, BENCHMARK.METRIC, a function, …
    claims        [lower, …, higher]             the rule: measures.py decides it from intervals

A value of a claim is ``ARM`` (its first measure), ``ARM.MEASURE``, the difference of two of them (``A - B``), or a
number.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import Self

from headrace.pipeline.configuration.option_values import preset_values
from headrace.pipeline.configuration.options import STUDY, option_file, studies
from headrace.pipeline.configuration.overrides import key_of, replaced
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import TextList, decode, settings
from headrace.pipeline.experiments.arms import Arm
from headrace.pipeline.experiments.measures import DIFFERENCE, FINETUNED, measure_function, names_function
from headrace.train.cost.flops import Compute

FLOPS_TOLERANCE = 0.01
"""The share by which operations of arms may differ and are held equal: whole numbers of updates and widths never give
exactly the same."""
SCORES, WEIGHTS = "scores", "weights"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,24}$")]
"""A name of an arm or a measure: it is a part of the names of runs."""
MeasureSource = Annotated[str, Field(pattern=r"^(\w+(\.\w+(@[\w.-]+)?)?|\w+(\.\w+)*:\w+)$")]
"""KEY of metrics.jsonl, BENCHMARK.METRIC[@GROUP] of scores.json, finetuned.METRIC, or PACKAGE.MODULE:FUNCTION."""
SizeName = Literal["tiny", "small", "paper"]
Quantity = Literal["parameters", "flops", "tokens", "steps"]


@settings
class Claim:
    """One sentence of the rule."""

    claim: str
    """The sentence."""
    rising: tuple[str | float, ...]
    """The values in the order that the claim says, the lowest first: ARM, ARM.MEASURE, "A - B", or a number."""
    by: float = 0.0
    """Each value is above the one before it by more than this, in the unit of the measure. Negative: it may be below it
    by less than that ("not worse than")."""


@settings
class Sizes:
    """Overrides of each size: tiny trains on a laptop, paper is the publication's recipe, but for what notes name."""

    tiny: TextList
    """Minutes for each arm on two CPU cores."""
    small: TextList
    """Hours for each arm on one GPU."""
    paper: TextList
    """The publication's model, tokens, batch, optimizer and schedule; the notes name what differs."""


@settings
class AtSize:
    """The part of a study that differs at one size: it is added to the rest of the file, or takes its place."""

    needs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Further ``needs``."""
    arms: Mapping[Name, TextList] = dataclasses.field(default_factory=dict)
    """Arm → overrides that stand over its own."""
    measures: Mapping[Name, MeasureSource] = dataclasses.field(default_factory=dict)
    """Measure → what is read instead of its own."""


@settings
class Study:
    """A question, the arms that answer it, and the rule for confirmed, contradicted and undecided."""

    title: str
    """The name of the study for readers."""
    question: str
    """The question."""
    expectation: str
    """The expected result, and why: written before running."""
    overrides: TextList = ()
    """The settings of all arms, of every size."""
    needs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Setting → what it is: settings that only the user can give, such as files; ``overrides`` has examples."""
    arms: Annotated[Mapping[Name, TextList], Field(min_length=1)]
    """Name → overrides; the sizes' overrides stand before them."""
    arm_needs: Mapping[Name, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    """Arm → its own ``needs``. Arms whose needs are not given are left out."""
    sizes: Sizes
    """The overrides of each size."""
    at_size: Mapping[SizeName, AtSize] = dataclasses.field(default_factory=dict)
    """Size → what else differs there."""
    held_equal: tuple[Quantity, ...]
    """Quantities that the plans of all arms must have in common; operations (flops) to one in a hundred."""
    measures: Annotated[Mapping[Name, MeasureSource], Field(min_length=1)]
    """Name → what is read at the end of each run; the first one is that of a bare ARM."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]
    """The rule."""
    notes: TextList = ()
    """Sentences that readers of the result must know."""

    def __post_init__(self) -> None:
        for arm in self.arm_needs:
            self._check(arm, "arm_needs")
        for size, more in self.at_size.items():
            for arm in more.arms:
                self._check(arm, f"at_size.{size}.arms")
            for measure in more.measures:
                self._check(f"{next(iter(self.arms))}.{measure}", f"at_size.{size}.measures")
        for number, claim in enumerate(self.claims):
            if len(claim.rising) < 2:
                problem = f"has {len(claim.rising)} value, and a claim orders two or more"
                raise ConfigError(f"claims.{number}.rising", problem, "add a value")
            for value in claim.rising:
                for part in parts_of(value):
                    self._check(part, f"claims.{number}.rising")

    def _check(self, value: str, where: str) -> None:
        """Checks that the arm and the measure of a ``value``, ARM or ARM.MEASURE, exist.

        Raises:
            ConfigError: with the nearest name.
        """
        arm, _, measure = value.partition(".")
        for kind, name, known in (("arm", arm, self.arms), ("measure", measure, self.measures)):
            if name not in known and (name or kind == "arm"):
                raise ConfigError(where, f"unknown {kind} {name!r}", suggestion(name, known))

    def at(self, size: SizeName) -> "Study":
        """Returns this study as it is at ``size``, with the overrides of this size among those of all arms."""
        more = self.at_size.get(size, AtSize())
        return dataclasses.replace(
            self,
            overrides=tuple(replaced(self.overrides, getattr(self.sizes, size))),
            needs={**self.needs, **more.needs},
            arms={arm: tuple(replaced(settings, more.arms.get(arm, ()))) for arm, settings in self.arms.items()},
            measures={**self.measures, **more.measures},
            at_size={},
        )

    def reference(self, value: str) -> tuple[str, str]:
        """Returns the arm and the measure of a value of a claim, ARM or ARM.MEASURE."""
        arm, _, measure = value.partition(".")
        return arm, measure or next(iter(self.measures))

    @property
    def last_stages(self) -> set[str]:
        """The last stages that are measured: ``scores`` of benchmarks and ``finetuned``, else ``weights``."""
        sources = [source for source in self.measures.values() if "." in source and not names_function(source)]
        return {FINETUNED if source.startswith(f"{FINETUNED}.") else SCORES for source in sources} or {WEIGHTS}

    @property
    def last_stage(self) -> str:
        """The stage that the runs end with."""
        return max(self.last_stages)

    def check_needs(self, name: str, overrides: Sequence[str]) -> None:
        """Checks that the user's ``overrides`` of the study ``name`` give all that it needs.

        Raises:
            ConfigError: naming what is missing.
        """
        if missing := _missing(self.needs, overrides):
            remedy = "give " + " ".join(f"{setting}=… ({what})" for setting, what in missing.items())
            raise ConfigError(name, f"has no {', '.join(missing)}", remedy)

    def by_arm(self, typed: Sequence[str]) -> dict[str, list[str]]:
        """Returns the overrides of each arm, which the user ``typed`` as ``ARM:KEY=VALUE``.

        Raises:
            ConfigError: when one has another form, or names no arm.
        """
        overrides_of: dict[str, list[str]] = {}
        for item in typed:
            arm, colon, override = item.partition(":")
            if not colon or "=" not in override:
                raise ConfigError("--arm", f"{item!r} is not ARM:KEY=VALUE", "name the arm and its setting")
            self._check(arm, "--arm")
            overrides_of.setdefault(arm, []).append(override)
        return overrides_of


def parts_of(value: str | float) -> list[str]:
    """Returns what a value of a claim is made of: none for a number, two for a difference."""
    return value.split(DIFFERENCE, 1) if isinstance(value, str) else []


def _missing(needs: Mapping[str, str], overrides: Sequence[str]) -> dict[str, str]:
    given = {override.partition("=")[0] for override in overrides}
    return {setting: what for setting, what in needs.items() if setting not in given}


def read_study(name: str) -> Study:
    """Returns the study ``name``: a file of the user's folder, else ours.

    Raises:
        ConfigError: when there is none, or a value is wrong, with the file.
    """
    if name not in studies():
        raise ConfigError("study", f"unknown study {name!r}", suggestion(name, studies()))
    return decoded_study(option_file(STUDY, name))


def decoded_study(file: Path) -> Study:
    """Returns the study in ``file``.

    Raises:
        ConfigError: when a value is wrong, with the file.
    """
    values = preset_values(file)
    try:
        return decode(Study, values, "study")
    except ConfigError as error:
        raise ConfigError(f"{file}: {error.where}", error.problem, error.remedy) from None


@dataclasses.dataclass(frozen=True)
class StudyArm(Arm):
    """One arm of a study, or its run with one seed."""

    @property
    def is_pretrained(self) -> bool:
        """Whether its runs have a pretraining; a fine-tuning may begin with random weights, or those of a folder."""
        finetune = self.config.finetune
        return finetune is None or not (finetune.from_scratch or finetune.folder)

    @cached_property
    def compute(self) -> Compute:
        """The parameters, tokens and operations of the pretraining of one run."""
        compute = super().compute
        return compute if self.is_pretrained else dataclasses.replace(compute, tokens=0)

    @property
    def held(self) -> dict[str, float]:
        """The quantities that a study may hold equal."""
        compute = self.compute
        quantities = {"parameters": compute.parameters, "flops": compute.flops, "tokens": compute.tokens}
        return quantities | {"steps": self.config.training.steps if self.is_pretrained else 0}

    def seeded(self, seed: int) -> Self:
        """Returns the run with ``seed``."""
        varied = [f"name={self.config.name}-{seed}", f"training.seed={seed}"]
        if self.config.finetune is not None:
            varied.append(f"finetune.seeds=[{seed}]")
        return self.of(self.name, replaced(self.overrides, varied), seed)


def arm_plans(
    name: str,
    study: Study,
    size: SizeName,
    overrides: Sequence[str],
    by_arm: Mapping[str, Sequence[str]] | None = None,
) -> list[StudyArm]:
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
    of_arms = {arm: (by_arm or {}).get(arm, ()) for arm in study.arms}
    carried = [arm for arm in study.arms if not _missing(study.arm_needs.get(arm, {}), of_arms[arm])]
    for override in overrides:
        key = key_of(override)
        if setting := [arm for arm in carried if key in map(key_of, study.arms[arm])]:
            problem = f"is what makes the arms {', '.join(setting)}, and {override} would replace it in all arms"
            raise ConfigError(key, problem, f"leave it out, or change one arm: --arm {setting[0]}:{override}")
    arms = [arm_plan(name, study, size, arm, replaced(overrides, of_arms[arm])) for arm in carried]
    for quantity in study.held_equal:
        values = {arm.name: arm.held[quantity] for arm in arms if arm.is_pretrained}
        tolerance = FLOPS_TOLERANCE if quantity == "flops" else 0.0
        if values and max(values.values()) > min(values.values()) * (1 + tolerance):
            listed = ", ".join(f"{arm} {value:,.10g}" for arm, value in values.items())
            problem = f"{quantity} is held equal, and differs between arms: {listed}"
            raise ConfigError(f"{name}.held_equal", problem, "correct the arms, or take it out of held_equal")
    return arms


def arm_plan(name: str, study: Study, size: SizeName, arm: str, overrides: Sequence[str]) -> StudyArm:
    """Returns one ``arm`` of the study ``name``, whose content at ``size`` is ``study``.

    Raises:
        ConfigError: when its settings are wrong, naming the arm.
    """
    merged = list[str]()
    named = [f"name={name}-{size}-{arm}", f"until={study.last_stage}"]
    for part in (study.overrides, study.arms[arm], overrides, named):
        merged = replaced(merged, part)
    try:
        planned = StudyArm.of(arm, merged)
        _check_measured(study, planned)
    except ConfigError as error:
        raise ConfigError(f"{name}.arms.{arm}: {error.where}", error.problem, error.remedy) from None
    return planned


def _check_measured(study: Study, arm: StudyArm) -> None:
    """Checks that a run of ``arm`` has the stages that ``study`` measures, and that functions of measures are there.

    Raises:
        ConfigError: when it lacks one.
    """
    if FINETUNED in study.last_stages and arm.config.finetune is None:
        problem = "is null, and a measure of the study is that of a fine-tuning"
        raise ConfigError("finetune", problem, "give the task: finetune=sst2, say")
    if SCORES in study.last_stages and not arm.is_pretrained:
        problem = "leaves out the pretraining, and with it the scores of benchmarks, which the study measures"
        raise ConfigError("finetune", problem, "measure finetuned.METRIC alone, or pretrain this arm")
    for source in study.measures.values():
        if names_function(source):
            measure_function(source)
