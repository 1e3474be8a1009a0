"""``headrace plan``: the cost of the training of a configuration, before any data exists.

headrace plan experiment=gpt3_125m
headrace plan --gpus 8 --gpu H100 --mfu 0.5 --gpu-memory-gb 80 experiment=gpt3_1_3b zero=stage_2

    model                12 layers, width 768, 12 heads, context 2,048
    parameters           125,226,240
    FLOP per token       9.8e+08  6 N + 12 L d T (PaLM, appendix B)
    ...
                         stage 0  stage 1  stage 2  stage 3     GB of one rank; the run's own stage is marked
    weights                  ...
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.output.terminal import show, terminal
from headrace.pipeline.run.costs import (
    GB,
    Hardware,
    compute_facts,
    evaluated_copy,
    footprint,
    memory_table,
    vocabulary_of,
)
from headrace.train.cost.memory import advice
from headrace.train.cost.shapes import shapes_by_role
from headrace.train.engine.optimizers.base import checkpoint_bytes
from headrace.train.engine.zero import plan_batches, stage_on


@command
@click.option("--gpus", metavar="NUMBER", default="", help="Number of GPUs; those of the configuration without it.")
@click.option("--gpu", metavar="NAME", default="", help="Their kind; H100 without it.")
@click.option("--mfu", metavar="FRACTION", default="", help="Share of the peak that is reached; 0.4 without it.")
@click.option("--gpu-memory-gb", metavar="GB", default="", help="Memory of one GPU; that of its kind without it.")
def plan(overrides: Sequence[str], gpus: str, gpu: str, mfu: str, gpu_memory_gb: str) -> None:
    """Prints parameters, FLOP, days and memory of the training, for each ZeRO stage; needs no data."""
    config = config_of(overrides)
    hardware = Hardware.of(gpus or str(config.training_ranks), gpu, mfu, gpu_memory_gb)
    show_cost(config, hardware, vocabulary_of(config, overrides))


def show_cost(config: RunConfig, hardware: Hardware, vocabulary: int) -> None:
    """Prints the cost of the training of ``config`` on ``hardware``, with so many tokens in the vocabulary."""
    micro_rows = plan_batches(config.training, hardware.gpus).micro_rows
    show(compute_facts(config, vocabulary, hardware))
    terminal().print("", memory_table(config, vocabulary, hardware), sep="\n")
    chosen = footprint(config, vocabulary, hardware.gpus, stage_on(hardware.gpus, config.training, config.zero))
    if config.zero.offload != "none":
        copied = checkpoint_bytes(config.optimizer, shapes_by_role(config.model, vocabulary)) / hardware.gpus
        text = f"{chosen.memory(micro_rows).cpu / GB:,.1f} GB for each rank, and {copied / GB:,.1f} GB from the first"
        terminal().print(f"\nCPU memory: {text} checkpoint on, for the copy that it is written from")
    if config.training.evaluate_every is not None:
        terminal().print(f"\nEvaluation while training: {evaluated_copy(config, vocabulary)}")
    if remedy := advice(chosen, micro_rows, hardware.memory_gb * GB):
        needed = f"{chosen.memory(micro_rows).peak / GB:,.1f} GB do not fit in {hardware.memory_gb:g} GB"
        terminal().print(f"\n{needed}: {remedy}")
