"""The table of computation: what published trainings cost by the program's count, and what was published.

python -m headrace_courses.published --gpu A100 --mfu 0.4

6 N D            the count of Kaplan et al. 2020, embeddings included
FLOP             6 N D and the products inside attention, as ``headrace plan`` counts them (train/cost/flops.py)
GPU-hours        FLOP / (peak FLOP/s · MFU), on the GPU and at the MFU of the command
published        operations, or hours on a GPU with the MFU that they are by our count
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode
from headrace.pipeline.output.terminal import show_lines
from headrace.pipeline.run.costs import Hardware
from headrace.train.config import ModelConfig
from headrace.train.cost.flops import HOUR_SECONDS, PEAK_FLOPS, flops_per_token, parameter_flops, petaflop_days
from headrace.train.families.registry import OWN, families
from headrace_courses.program import run
from headrace_courses.published_trainings import PUBLISHED_TRAININGS, PublishedTraining
from headrace_courses.replaced_tokens import generator_of

UNKNOWN = "–"
HEAD = ("model", "parameters", "tokens", "6 N D", "FLOP", "petaflop/s-days")
OF_ELECTRA = 30_522
"""ELECTRA's vocabulary."""
GENERATOR_WIDTHS = {"electra_small": 64, "electra_base": 256, "electra_large": 256}
PUBLISHED = ("published", "sources")


@dataclasses.dataclass(frozen=True)
class ComputeRow:
    """The cost of a published training; None where its tokens are not known."""

    training: PublishedTraining
    parameters: float
    parameter_flops: float | None
    """6 N D."""
    flops: float | None

    @classmethod
    def of(cls, training: PublishedTraining) -> "ComputeRow":
        parameters, by_parameters, all_flops = _per_token(training)
        tokens = training.tokens
        totals = (None, None) if tokens is None else (by_parameters * tokens, all_flops * tokens)
        return cls(training, parameters, *totals)

    @property
    def mfu(self) -> float | None:
        """The share of the peak that the published hours are by our count."""
        training = self.training
        if training.gpu_hours is None or self.flops is None:
            return None
        return self.flops / (training.gpu_hours * HOUR_SECONDS * PEAK_FLOPS[training.gpu])

    def published(self) -> str:
        """Returns the published operations and hours as text."""
        training = self.training
        parts = [] if training.flops is None else [f"{training.flops:.3g}"]
        if training.gpu_hours is not None:
            share = "" if self.mfu is None else f" ({self.mfu:.0%} MFU)"
            parts.append(f"{training.gpu_hours:,.0f} h {training.gpu}{share}")
        return ", ".join(parts) or UNKNOWN

    def sources(self) -> str:
        """Returns the sources of the tokens, the operations and the hours, each once."""
        training = self.training
        return "; ".join(dict.fromkeys(filter(None, (training.source, training.flops_source, training.gpu_source))))

    def cells(self, hardware: Hardware) -> list[str]:
        """Returns the cells of the row."""
        tokens, hours = self.training.tokens, None if self.flops is None else hardware.hours(self.flops)
        return [
            self.training.model,
            f"{self.parameters:,.0f}",
            UNKNOWN if tokens is None else f"{tokens:.4g}",
            _number(self.parameter_flops),
            _number(self.flops),
            UNKNOWN if self.parameter_flops is None else f"{petaflop_days(self.parameter_flops):,.3g}",
            UNKNOWN if hours is None else f"{hours:,.0f}",
            self.published(),
            self.sources(),
        ]


def compute_rows() -> Iterator[ComputeRow]:
    """Yields the rows of the table."""
    yield from map(ComputeRow.of, PUBLISHED_TRAININGS)


@command
@click.option("--gpu", metavar="NAME", default="", help="The kind of GPU; H100 without it.")
@click.option("--mfu", metavar="FRACTION", default="", help="Share of the peak that is reached; 0.4 without it.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the trainings as JSON.")
def published(overrides: Sequence[str], gpu: str, mfu: str, json_file: Path | None) -> None:
    """Prints published trainings, and what they cost on these GPUs."""
    hardware = Hardware.of("", gpu, mfu, "")
    rows = list(compute_rows())
    hours = f"hours, {hardware.gpu} at {hardware.mfu:.0%} MFU"
    show_lines([*HEAD, hours, *PUBLISHED], [row.cells(hardware) for row in rows])
    write_files(json_file, [_json(row, hardware) for row in rows], None, dict)


def _json(row: ComputeRow, hardware: Hardware) -> dict[str, object]:
    hours = None if row.flops is None else hardware.hours(row.flops)
    return {
        **dataclasses.asdict(row.training),
        "parameters": row.parameters,
        "parameter_flops": row.parameter_flops,
        "counted_flops": row.flops,
        "counted_gpu_hours": hours,
    }


def _per_token(training: PublishedTraining) -> tuple[float, float, float]:
    """Returns the parameters, and for each token 6 N and all operations."""
    if (shape := training.shape) is not None:
        attention = 12.0 * shape.layers * shape.attention_width * shape.row_tokens
        return shape.parameters, 6 * shape.parameters, 6 * shape.parameters + attention
    model: ModelConfig = decode(ModelConfig, option_values("model", training.model))
    presets = {name: preset for family in (*families(), OWN) for name, preset in family.presets.items()}
    vocabulary = presets[training.model].vocabulary if training.model in presets else OF_ELECTRA
    row = training.row_tokens or model.context
    arguments = (vocabulary, row, training.target_tokens)
    counts = model.parameters(vocabulary), parameter_flops(model, *arguments), flops_per_token(model, *arguments)
    if (width := GENERATOR_WIDTHS.get(training.model)) is None:
        return counts
    generator = generator_of(model, width)
    shared = (vocabulary + model.context + model.segments + 2) * (model.embedding_width or model.width)
    parameters, of_parameters, of_all = (
        generator.parameters(vocabulary) - shared,
        parameter_flops(generator, *arguments) - 6 * shared,
        flops_per_token(generator, *arguments) - 6 * shared,
    )
    return counts[0] + parameters, counts[1] + of_parameters, counts[2] + of_all


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3g}"


if __name__ == "__main__":
    run(published)
