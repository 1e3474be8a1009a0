"""The cost of a training on given GPUs before any data exists: operations, days, and the memory of each ZeRO stage."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field
from rich.table import Table

from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, PositiveNumber, value_of
from headrace.pipeline.output.facts import Fact
from headrace.train.cost.flops import PEAK_FLOPS, Compute, petaflop_days
from headrace.train.cost.memory import Footprint, Memory
from headrace.train.engine.zero import plan_batches, stage_on

Utilization = Annotated[float, Field(gt=0, le=1)]


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The GPUs that a training will run on, as options of a command give them."""

    gpus: int = 1
    gpu: str = "H100"
    mfu: float = 0.4
    """Share of the peak that is reached; 0.4 to 0.55 is usual."""
    memory_gb: float = 80.0

    @classmethod
    def of(cls, gpus: str, gpu: str, mfu: str, memory_gb: str) -> "Hardware":
        """Reads command-line arguments; an empty one takes the default.

        Raises:
            ConfigError: naming the option that is not a number, or is out of range.
        """
        if gpu and gpu not in PEAK_FLOPS:
            raise ConfigError("--gpu", f"unknown GPU {gpu!r}", suggestion(gpu, PEAK_FLOPS))
        return cls(
            gpus=value_of(Positive, gpus, "--gpus") if gpus else cls.gpus,
            gpu=gpu or cls.gpu,
            mfu=value_of(Utilization, mfu, "--mfu") if mfu else cls.mfu,
            memory_gb=value_of(PositiveNumber, memory_gb, "--gpu-memory-gb") if memory_gb else cls.memory_gb,
        )


GB = 1e9
STAGES = (0, 1, 2, 3)


def evaluated_copy(config: RunConfig, vocabulary: int) -> str:
    """Returns the memory of the copy of the weights that each rank scores."""
    precision, device = config.evaluation.precision, config.evaluation.device
    copy_bytes = config.model.parameters(vocabulary) * (2 if precision == "bf16" else 4)
    needed = f"{copy_bytes / GB:,.1f} GB more of {'CPU ' if device == 'cpu' else ''}memory on each rank"
    halved = "; evaluation.precision=bf16 halves it" if precision == "fp32" else ""
    return f"{needed}, for a copy of the weights in {precision}{halved}"


def compute_facts(config: RunConfig, vocabulary: int, hardware: Hardware) -> Iterator[Fact]:
    """Yields parameters, operations and days."""
    row_tokens, training = config.packing.row_tokens, config.training
    targets = config.target_tokens
    compute = Compute.of(config.model, vocabulary, row_tokens, training, targets)
    days = compute.days(hardware.gpus, PEAK_FLOPS[hardware.gpu], hardware.mfu)
    yield "parameters", f"{compute.parameters:,}  with a vocabulary of {vocabulary:,}"
    yield "FLOP per token", f"{compute.flops_per_token:.3g}  6 N + 12 L d T (PaLM, Chowdhery et al. 2022, appendix B)"
    decoder = "" if targets is None else f", and {targets:,} in the decoder"
    if training.recompute != "none":
        but = " but for matrix products and fused attention" if training.recompute == "selective" else ""
        yield "recomputation", f"the forward pass of the layers runs twice{but}; FLOP and MFU count it once"
    yield "update", f"{compute.update_tokens:,} tokens in {training.batch_rows:,} rows of {row_tokens:,}{decoder}"
    yield "run", f"{compute.tokens:,} tokens in {training.steps:,} updates"
    yield "FLOP", f"{compute.flops:.3g}"
    yield "petaflop/s-days", f"{petaflop_days(compute.flops):.3g}"
    without_attention = f"{compute.parameter_flops:.3g}, {petaflop_days(compute.parameter_flops):.3g} petaflop/s-days"
    yield "6 N alone", f"{without_attention}, as Brown et al. 2020 count in table D.1"
    peak = f"{PEAK_FLOPS[hardware.gpu] / 1e12:,.0f} TFLOP/s"
    yield "time", f"{days:,.3g} days on {hardware.gpus} x {hardware.gpu} ({peak}) at {hardware.mfu:.0%} MFU"


def memory_table(config: RunConfig, vocabulary: int, hardware: Hardware) -> Table:
    """Returns GB of one rank for each ZeRO stage, and the largest micro-batch that fits."""
    micro_rows = plan_batches(config.training, hardware.gpus).micro_rows
    title = f"GB of each of {hardware.gpus} ranks, {config.training.precision}, micro-batches of {micro_rows} rows"
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("ZeRO stage")
    own_stage = stage_on(hardware.gpus, config.training, config.zero)
    for stage in STAGES:
        notes = " (fp32)" * (stage == 0) + " (this run)" * (stage == own_stage)
        table.add_column(f"{stage}{notes}", justify="right")
    footprints = [footprint(config, vocabulary, hardware.gpus, stage) for stage in STAGES]
    memories = [estimate.memory(micro_rows) for estimate in footprints]
    for field in dataclasses.fields(Memory):
        values = [f"{getattr(memory, field.name) / GB:,.3f}" for memory in memories]
        if field.name == "cpu" and config.zero.offload == "none":
            continue
        table.add_row(field.name.replace("_", " "), *values, style="bold" if field.name == "peak" else "")
    rows = [estimate.largest_micro_rows(hardware.memory_gb * GB) for estimate in footprints]
    table.add_row(f"rows that fit in {hardware.memory_gb:g} GB", *(str(n or "none") for n in rows), style="bold")
    return table


def footprint(config: RunConfig, vocabulary: int, ranks: int, stage: int) -> Footprint:
    """Returns the memory of the training of ``config`` on ``ranks`` GPUs, with another ZeRO stage."""
    zero = dataclasses.replace(config.zero, stage=stage)  # type: ignore[arg-type]
    training = config.training
    if stage == 0:  # refused with bf16 and with offload (train/engine/zero.py)
        training = dataclasses.replace(training, precision="fp32")
        zero = dataclasses.replace(zero, offload="none")
    return Footprint(
        model=config.model,
        vocabulary=vocabulary,
        row_tokens=config.packing.row_tokens,
        training=training,
        optimizer=config.optimizer,
        zero=zero,
        ranks=ranks,
        row_targets=config.row_objective.lengths(config.text_packing.row_tokens)["targets"],
    )
