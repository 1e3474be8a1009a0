"""Plans for notebooks and scripts: what a run would do and cost, before it is launched."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from headrace.pipeline.api.run import STAGE_COLUMNS
from headrace.pipeline.api.tables import Table, TableRow
from headrace.pipeline.command_line.request import planned
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose, with_full_names
from headrace.pipeline.configuration.overrides import as_overrides
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.output.terminal import NAME_WIDTH
from headrace.pipeline.run.costs import GB, STAGES, Hardware, compute_facts, footprint, vocabulary_of
from headrace.pipeline.run.run_state import states_of
from headrace.train.cost.flops import Compute, petaflop_days
from headrace.train.cost.memory import Memory
from headrace.train.engine.zero import plan_batches, stage_on

MEMORY_COLUMNS = (
    *("zero_stage", "is_chosen"),
    *(f"{field.name}_gb" for field in dataclasses.fields(Memory)),
    "largest_micro_rows",
)


class Plan:
    """A run that is not started: its stages and its costs. ``print`` shows the costs as ``headrace plan`` does."""

    def __init__(self, overrides: Sequence[str], values: Mapping[str, Any], hardware: Hardware) -> None:
        """Takes composed ``values``, to which ``overrides`` led."""
        self.overrides = list(overrides)
        self.settings = dict(values)
        """All settings, nested as in conf/."""
        self._config, self._hardware = decoded(values), hardware
        self._vocabulary = vocabulary_of(self._config, self.overrides)

    @property
    def id(self) -> str:
        """The id that the run would have."""
        return self._config.id

    @cached_property
    def stages(self) -> Table:
        """One row per stage as of ``Run.stages``: ``state`` is ``done`` for a result that exists and is used again.

        Raw files are read, because an address depends on their content.

        Raises:
            ConfigError: when a raw file does not exist.
        """
        rows, _ = states_of(planned(self.settings, self.overrides).stages)
        return Table(STAGE_COLUMNS, ({**vars(row), "folder": os.path.abspath(row.folder)} for row in rows))

    @property
    def cost(self) -> TableRow:
        """The cost of the training: ``parameters``, ``flops_per_token``, ``update_tokens``, ``steps``, ``tokens``,
        ``flops``, ``parameter_flops`` (of them, 6 N for each token), ``petaflop_days`` and ``days`` on the hardware. It
        needs no data."""
        config, hardware = self._config, self._hardware
        vocabulary, row_tokens = self._vocabulary, config.packing.row_tokens
        compute = Compute.of(config.model, vocabulary, row_tokens, config.training, config.target_tokens)
        return {
            "parameters": compute.parameters,
            "flops_per_token": compute.flops_per_token,
            "update_tokens": compute.update_tokens,
            "steps": config.training.steps,
            "tokens": compute.tokens,
            "flops": compute.flops,
            "parameter_flops": compute.parameter_flops,
            "petaflop_days": petaflop_days(compute.flops),
            "days": compute.days(hardware.gpus, hardware.accelerator.peak_flops, hardware.mfu),
        }

    @property
    def memory(self) -> Table:
        """The memory of each GPU, one row per ZeRO stage: GB of weights, gradients, optimizer and others, their
        ``peak_gb``, ``cpu_gb`` of CPU memory with ``zero.offload``, and ``largest_micro_rows``, the largest micro-batch
        that fits (None if none does)."""
        return Table(MEMORY_COLUMNS, _memory(self._config, self._vocabulary, self._hardware))

    def __str__(self) -> str:
        facts = compute_facts(self._config, self._vocabulary, self._hardware)
        return "\n".join([*(f"{name:<{NAME_WIDTH}}{value}" for name, value in facts), "", str(self.memory)])

    def __repr__(self) -> str:
        return f"<headrace.Plan {self.id}: {' '.join(self.overrides)}>"


def _memory(config: RunConfig, vocabulary: int, hardware: Hardware) -> Iterator[TableRow]:
    micro_rows = plan_batches(config.training, hardware.gpus).micro_rows
    chosen = stage_on(hardware.gpus, config.training, config.zero)
    for stage in STAGES:
        estimate = footprint(config, vocabulary, hardware.gpus, stage)
        bytes_of = dataclasses.asdict(estimate.memory(micro_rows))
        yield {
            "zero_stage": stage,
            "is_chosen": stage == chosen,
            **{f"{name}_gb": number / GB for name, number in bytes_of.items()},
            "largest_micro_rows": estimate.largest_micro_rows(hardware.memory_gb * GB) or None,
        }


def plan(
    settings: str | Sequence[str] | Mapping[str, Any] = (),
    gpus: int | None = None,
    gpu: str = "H100",
    mfu: float = 0.4,
    gpu_memory_gb: float | None = None,
) -> Plan:
    """Returns what a run with ``settings`` would do and cost, as ``headrace plan`` prints it.

    Args:
        settings: as for ``launch``.
        gpus: the number of GPUs; None: those of the configuration.
        gpu: their kind, such as A100.
        mfu: the share of their peak that is reached; 0.4 to 0.55 is usual.
        gpu_memory_gb: the memory of one GPU in GB; None: that of its kind.

    Raises:
        ConfigError: when a setting or an argument is wrong.
    """
    overrides = with_full_names(as_overrides(settings))
    values = compose(overrides)
    ranks = decoded(values).training_ranks if gpus is None else gpus
    try:
        hardware = Hardware.of(str(ranks), gpu, str(mfu), "" if gpu_memory_gb is None else str(gpu_memory_gb))
    except ConfigError as error:
        raise ConfigError(error.where.removeprefix("--").replace("-", "_"), error.problem, error.remedy) from None
    return Plan(overrides, values, hardware)
