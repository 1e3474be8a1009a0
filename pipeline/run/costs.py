"""The cost of a training on given GPUs before any data exists: operations, days, and the memory of each ZeRO stage."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field
from rich.table import Table

from headrace.pipeline.config import RunConfig
from headrace.pipeline.configuration.composition import chosen_options
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.settings import Positive, PositiveNumber, value_of
from headrace.pipeline.output.terminal import Fact
from headrace.train.cost.flops import (
    ACCELERATORS,
    HOUR_SECONDS,
    PLANNED_MFU,
    Accelerator,
    Compute,
    flops_per_token,
    petaflop_days,
)
from headrace.train.cost.memory import Footprint, Memory
from headrace.train.data.mixture import MixSource
from headrace.train.engine.zero import plan_batches, stage_on
from headrace.train.families.hf_config import read_model_config
from headrace.train.families.registry import families

Utilization = Annotated[float, Field(gt=0, le=1)]


@dataclasses.dataclass(frozen=True)
class Hardware:
    """The GPUs that a training will run on."""

    gpus: int = 1
    gpu: str = "H100"
    mfu: float = PLANNED_MFU
    """Share of the peak that is reached."""
    memory_gb: float = 80.0

    @classmethod
    def of(cls, gpus: str, gpu: str, mfu: str, memory_gb: str) -> "Hardware":
        """Reads command-line arguments; an empty one takes the default, of the memory that of the GPU.

        Raises:
            ConfigError: naming the option that is not a number, or is out of range.
        """
        if gpu and gpu not in ACCELERATORS:
            raise ConfigError("--gpu", f"unknown GPU {gpu!r}", suggestion(gpu, ACCELERATORS))
        memory = ACCELERATORS[gpu or cls.gpu].memory_gb
        return cls(
            gpus=value_of(Positive, gpus, "--gpus") if gpus else cls.gpus,
            gpu=gpu or cls.gpu,
            mfu=value_of(Utilization, mfu, "--mfu") if mfu else cls.mfu,
            memory_gb=value_of(PositiveNumber, memory_gb, "--gpu-memory-gb") if memory_gb else memory,
        )

    @property
    def accelerator(self) -> Accelerator:
        """The limits of one GPU."""
        return ACCELERATORS[self.gpu]

    def hours(self, flops: float) -> float:
        """Returns the GPU-hours of ``flops`` operations, summed over all GPUs."""
        return flops / (self.accelerator.peak_flops * self.mfu) / HOUR_SECONDS


GB = 1e9
STAGES = (0, 1, 2, 3)


def evaluated_copy(config: RunConfig, vocabulary: int) -> str:
    """Returns the memory of the copy of the weights that each rank scores."""
    precision, device = config.evaluation.precision, config.evaluation.device
    copy_bytes = config.model.parameters(vocabulary) * (2 if precision == "bf16" else 4)
    needed = f"{copy_bytes / GB:,.1f} GB more of {'CPU ' if device == 'cpu' else ''}memory on each rank"
    halved = "; evaluation.precision=bf16 halves it" if precision == "fp32" else ""
    return f"{needed}, for a copy of the weights in {precision}{halved}"


def vocabulary_of(config: RunConfig, overrides: Sequence[str]) -> int:
    """Returns the published size of the vocabulary of ``model=NAME``, unless ``overrides`` name a tokenizer, or an
    experiment, which has one: the tokenizer of ``config`` is made for the demo."""
    if any(override.startswith(("tokenizer", "experiment=")) for override in overrides):
        return config.vocabulary
    published = {name: preset.vocabulary for family in families() for name, preset in family.presets.items()}
    return published.get(chosen_options(overrides)["model"], config.vocabulary)


def compute_facts(config: RunConfig, vocabulary: int, hardware: Hardware) -> Iterator[Fact]:
    """Yields the shape, parameters, operations and days."""
    shape = config.model
    encoder = f" + {shape.encoder.layers} of the encoder" if shape.stack == "encoder_decoder" else ""
    yield (
        "model",
        f"{shape.layers} layers{encoder}, width {shape.width:,}, {shape.heads} heads, context {shape.context:,}",
    )
    row_tokens, training = config.packing.row_tokens, config.training
    targets = config.target_tokens
    compute = Compute.of(config.model, vocabulary, row_tokens, training, targets)
    peak_flops = hardware.accelerator.peak_flops
    days = compute.days(hardware.gpus, peak_flops, hardware.mfu)
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
    peak = f"{peak_flops / 1e12:,.0f} TFLOP/s"
    yield "time", f"{days:,.3g} days on {hardware.gpus} x {hardware.gpu} ({peak}) at {hardware.mfu:.0%} MFU"
    if training.precision == "bf16" and hardware.accelerator.half != "bf16":
        yield "precision", f"{hardware.gpu} has no bf16, and the peak is that of fp16: give training.precision=fp16"
    if config.distillation.teacher is not None:
        yield "teacher", _teacher(config, Path(config.distillation.teacher), compute.tokens)
    yield from mixture_facts(config, compute.tokens)


def _teacher(config: RunConfig, folder: Path, tokens: int) -> str:
    """Returns what the teacher in ``folder`` needs in addition: its weights on each rank, and its forward passes, a
    third of the operations of a training."""
    try:
        model, vocabulary = read_model_config(folder)
    except ArtifactError as error:
        return f"not counted: {error.where} {error.problem}"
    parameters, precision = model.parameters(vocabulary), config.training.precision
    flops = tokens * flops_per_token(model, vocabulary, config.packing.row_tokens, config.target_tokens) / 3
    needed = parameters * (4 if precision == "fp32" else 2) / GB
    return f"{parameters:,} parameters: {needed:,.3g} GB more on each rank in {precision}, and {flops:.3g} FLOP more"


def mixture_facts(config: RunConfig, tokens: int) -> Iterator[Fact]:
    """Yields the passes over each source of a mixture without a curriculum whose rows are packed already."""
    if config.mixture.curriculum:
        return
    if config.mixture.exponent:
        yield "epochs", "not known before the rows of this run are packed: the shares follow from those of all sources"
        return
    total = sum(source.weight for source in config.mixture.sources)
    for source in config.mixture.sources:
        if source.packed is None:
            passes = "not known before the rows of this run are packed"
        else:
            mixed = MixSource.at(source, config.text_packing.row_tokens, config.objective.frame_tokens)
            size = mixed.inputs()["packed"].counts["train_rows"] * config.packing.row_tokens
            read = tokens * source.weight / total
            passes = f"{read / size:.3g}: {read:,.0f} positions are read of {size:,}"
        yield "epochs", f"{source.name}: {passes}"


def memory_table(config: RunConfig, vocabulary: int, hardware: Hardware) -> Table:
    """Returns GB of one rank for each ZeRO stage, and the largest micro-batch that fits."""
    micro_rows = plan_batches(config.training, hardware.gpus).micro_rows
    title = f"GB of each of {hardware.gpus} ranks, {config.training.precision}, micro-batches of {micro_rows} rows"
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("ZeRO stage")
    own_stage = stage_on(hardware.gpus, config.training, config.zero)
    for stage in STAGES:
        precision, chosen = " (fp32)" if stage == 0 else "", " (this run)" if stage == own_stage else ""
        table.add_column(f"{stage}{precision}{chosen}", justify="right")
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
