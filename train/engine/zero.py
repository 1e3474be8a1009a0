"""Batch arithmetic, DeepSpeed's configuration that follows from it, and the factor of the loss in fp16.

    batch_rows = world / training.sequence_ranks · accumulation · micro_rows

``batch_rows`` is a setting and the launcher decides ``world``. ``micro_rows`` is the largest allowed divisor of the
rows of one rank, and ``accumulation`` follows. While the batch grows (``training.ramp_steps``), each size is divided
so: DeepSpeed knows the last one, and the engine says which micro-batch ends an update. DeepSpeed's three batch fields
are derived here and are no settings.

Every default of DeepSpeed that has changed between its versions is set explicitly. DeepSpeed ignores misspelled
top-level keys without an error, so a test compares the keys of this dictionary with those that DeepSpeed reads.
"""

import dataclasses
from typing import Any

from headrace.pipeline.core.errors import ConfigError, TaskError
from headrace.train.config import ModelConfig
from headrace.train.engine.optimizers.base import Elementwise, Optimizer
from headrace.train.training_config import TrainingConfig, ZeroConfig

FIRST_FACTOR, SMALLEST_FACTOR = 2.0**16, 1.0
WINDOW_UPDATES = 1000
"""Updates without an overflow after which the factor doubles."""
PATIENCE = 2
"""Overflows in a window of which only the last one, and those after it, halve the factor (hysteresis)."""


@dataclasses.dataclass(frozen=True)
class LossScale:
    """The factor of the loss in fp16 for the next update, and what decides those after it.

    It keeps small gradients above 6e-8, the smallest number of fp16. Gradients are divided by it before they are
    clipped. One that overflows (65,504 is the largest number) leaves out its update. The rule is that of Megatron-LM
    and DeepSpeed (Micikevicius et al. 2018, section 3.2): the factor doubles after WINDOW_UPDATES without an overflow.
    """

    factor: float = FIRST_FACTOR
    updates: int = 0
    """Updates since the last overflow."""
    patience: int = PATIENCE
    """Overflows until the factor is halved; 1: the next one does it."""
    overflows: int = 0
    """Updates left out so far."""

    def after(self, overflowed: bool, stage: str = "weights") -> "LossScale":
        """Returns the scale after one more update; an error names ``stage``.

        Raises:
            TaskError: when a gradient overflows that is not scaled any more.
        """
        if not overflowed:
            grows = self.updates > 0 and self.updates % WINDOW_UPDATES == 0
            factor, patience = (self.factor * 2, PATIENCE) if grows else (self.factor, self.patience)
            return LossScale(factor, self.updates + 1, patience, self.overflows)
        if self.patience > 1:
            return LossScale(self.factor, 0, self.patience - 1, self.overflows + 1)
        if self.factor <= SMALLEST_FACTOR:
            problem = f"the gradient overflows in fp16 with the smallest loss scale, {self.factor:g}"
            raise TaskError(stage, problem, "lower the learning rate, or use training.precision=bf16 or fp32")
        return LossScale(max(self.factor / 2, SMALLEST_FACTOR), 0, self.patience, self.overflows + 1)


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """The division of one update's rows: each rank has ``accumulation`` micro-batches of ``micro_rows``."""

    world: int
    accumulation: int
    micro_rows: int
    sequence_ranks: int = 1
    """The ranks that have the same rows."""

    @property
    def groups(self) -> int:
        """The number of groups of ranks with rows of their own."""
        return self.world // self.sequence_ranks

    def group(self, rank: int) -> int:
        """Returns the number of the group of ``rank``."""
        return rank // self.sequence_ranks

    def counts_rows(self, rank: int) -> bool:
        """Whether ``rank`` is the one of its group that counts the rows."""
        return rank % self.sequence_ranks == 0

    @property
    def batch_rows(self) -> int:
        return self.groups * self.accumulation * self.micro_rows


def plan_batches(training: TrainingConfig, world: int) -> BatchPlan:
    """Divides ``training.batch_rows`` among ``world`` ranks.

    Raises:
        ConfigError: when the ranks cannot have equally many rows, also in a smaller batch of the first steps.
    """
    together = training.sequence_ranks
    if world % together:
        problem = f"{together} is no divisor of the number of ranks, {world}"
        raise ConfigError("training.sequence_ranks", problem, "give one, or 1")
    groups, whom = world // together, "ranks" if together == 1 else f"groups of {together} ranks"
    sizes = {"training.batch_rows": training.batch_rows}
    if training.ramp_first_rows is not None:
        sizes["training.ramp_first_rows"] = training.ramp_first_rows
    for setting, rows in sizes.items():
        if rows % groups:
            problem = f"{rows} rows cannot be dealt to {groups} {whom}"
            raise ConfigError(setting, problem, f"give a multiple of {groups}")
    rank_rows = training.batch_rows // groups
    micro_rows = micro_batch_rows(training, rank_rows)
    return BatchPlan(world, rank_rows // micro_rows, micro_rows, together)


def check_sequence_ranks(training: TrainingConfig, model: ModelConfig, positions: int) -> None:
    """Checks that ``training.sequence_ranks`` can compute rows of so many ``positions`` together.

    Raises:
        ConfigError: when they do not divide the heads or the positions, or ``model`` has two stacks, a generator, or
            no attention.
    """
    setting, together = "training.sequence_ranks", training.sequence_ranks
    if together == 1:
        return
    if model.stack not in ("decoder", "encoder"):
        problem = f"is {together}, and model.stack is {model.stack}"
        raise ConfigError(setting, problem, "give 1, or a model of stack decoder or encoder")
    if model.mixer != "attention":
        problem = f"is {together}, and model.mixer is {model.mixer}: its positions follow one another"
        raise ConfigError(setting, problem, "give 1, or model.mixer=attention")
    if model.heads % together:
        raise ConfigError(setting, f"is {together}, and the model has {model.heads} heads", "give a divisor of both")
    if positions % together:
        problem = f"is {together}, and a row has {positions} positions"
        raise ConfigError(setting, problem, "give a divisor, or another packing.row_tokens")


def check_offload(zero: ZeroConfig, optimizer: Optimizer) -> None:
    """Checks that the CPU can compute the updates of ``optimizer``, if ``zero`` has its state there.

    Raises:
        ConfigError: when an update needs whole matrices, which the ranks would exchange through their GPUs.
    """
    if zero.offload != "none" and not isinstance(optimizer, Elementwise):
        problem = f"is {zero.offload}, and an update of optimizer={optimizer.type} needs whole matrices of all ranks"
        raise ConfigError("zero.offload", problem, "give optimizer=adamw, or zero.offload=none")


def can_recompute(training: TrainingConfig, stage: int | str, model: ModelConfig) -> bool:
    """Whether ``training.recompute`` works with the ZeRO ``stage``.

    Selective recomputation of shared layers does not at stage 3: DeepSpeed gathers parameters inside such layers
    (engine.py), and not before the same operations when these are computed again. Without attention it does not either:
    a recurrent layer changes outputs of products in place.
    """
    is_impossible = model.mixer != "attention" or (stage == 3 and model.shared_layers)
    return not (training.recompute == "selective" and is_impossible)


def check_recomputation(training: TrainingConfig, zero: ZeroConfig, model: ModelConfig) -> None:
    """Checks that ``training.recompute`` works with the ZeRO stage.

    Raises:
        ConfigError: when it does not.
    """
    if training.recompute == "selective" and model.mixer != "attention":
        problem = f"is selective, and model.mixer is {model.mixer}"
        raise ConfigError("training.recompute", problem, "give full or none")
    if not can_recompute(training, zero.stage, model):
        problem = f"is {training.recompute}, with zero.stage={zero.stage} and model.shared_layers=true: parameters are"
        raise ConfigError("training.recompute", f"{problem} gathered inside the layers", "give full, or another stage")


def micro_batch_rows(training: TrainingConfig, rank_rows: int) -> int:
    """Returns the rows of each micro-batch of a rank with ``rank_rows`` in the update."""
    return max(n for n in range(1, min(training.micro_batch_rows, rank_rows) + 1) if rank_rows % n == 0)


def stage_on(world: int, training: TrainingConfig, zero: ZeroConfig) -> int:
    """Returns the ZeRO stage on ``world`` ranks as a number, also for ``auto``."""
    if zero.stage == "auto":
        return 0 if world == 1 and training.precision == "fp32" and zero.offload == "none" else 1
    return zero.stage


def deepspeed_config(plan: BatchPlan, training: TrainingConfig, zero: ZeroConfig) -> dict[str, Any]:
    """Returns the configuration for ``deepspeed.initialize``.

    Raises:
        ConfigError: for stage 0 in half precision, which DeepSpeed 0.19 computes wrongly; for
            ``zero.offload`` at stage 0.
    """
    precision, stage = training.precision, stage_on(plan.world, training, zero)
    if precision != "fp32" and stage == 0:
        raise ConfigError(
            "zero.stage",
            f"0 with {precision} takes a phantom optimizer step at its start (DeepSpeed issue 8393)",
            "use stage 1, also on one rank, or training.precision=fp32",
        )
    if zero.offload != "none" and stage == 0:
        problem = f"is {zero.offload}, and ZeRO stage 0 has no master weights apart from the parameters"
        raise ConfigError("zero.offload", problem, "give zero.stage=1, also on one rank, or zero.offload=none")
    sums = "fp32" if training.gradient_sums == "fp32" else precision
    return {
        "train_batch_size": plan.world * plan.accumulation * plan.micro_rows,  # it counts a row for each of its ranks
        "train_micro_batch_size_per_gpu": plan.micro_rows,
        "gradient_accumulation_steps": plan.accumulation,
        # DeepSpeed does not report the norm at stage 0, so the engine clips there.
        "gradient_clipping": (training.gradient_clip or 0.0) if stage else 0.0,
        "prescale_gradients": False,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,  # torch's own AdamW: DeepSpeed's is compiled at start-up
        "steps_per_print": None,
        "wall_clock_breakdown": False,
        "bf16": {"enabled": precision == "bf16", "check_grad_overflow": precision == "bf16"},
        "fp16": {"enabled": precision == "fp16", "loss_scale": FIRST_FACTOR},  # the engine sets it before each update
        "data_types": {"grad_accum_dtype": sums},
        "communication_data_type": sums,
        "zero_optimization": {
            "stage": stage,
            # This copies gradients into the buffer that is sent; one rank sends nothing.
            "contiguous_gradients": plan.world > 1,
            "overlap_comm": zero.overlap,
            "reduce_scatter": True,
            "reduce_bucket_size": zero.bucket_elements,
            "allgather_bucket_size": zero.bucket_elements,
            "stage3_prefetch_bucket_size": zero.bucket_elements,
            "stage3_param_persistence_threshold": 100_000,
            **({} if zero.offload == "none" else {"offload_optimizer": {"device": "cpu", "pin_memory": True}}),
        },
    }
