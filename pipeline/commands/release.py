"""``headrace release``: gives a run to others: model, checkpoints, scores, samples of data, and what they follow from.

headrace release small --to small-1.0                     the run small
headrace release --to demo-release                        your newest run

DIR has the model card, the Hugging Face folder of the weights, each checkpoint that was kept with its optimizer state,
the scores with all answers, samples of kept and dropped pages as Parquet, the manifest of each stage, run.json, the
environment with hashes, and REPRODUCE.md. SHA256SUMS has the checksum of every file.

The texts are not in DIR: others may have rights to them. ``headrace mirror push RUN DIR/artifacts`` adds them.
``headrace verify DIR`` checks a release (docs/formats.md).
"""

from collections.abc import Sequence

import click

from headrace.pipeline.command_line.declaration import command, load, run_argument
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.output import terminal


@command
@run_argument
@click.option("--to", metavar="DIR", required=True, help="The new folder.")
def release(overrides: Sequence[str], run: str, to: str) -> None:
    """Writes a run with its model, checkpoints, scores, cards and samples to a folder for others."""
    terminal.show(load("papers.release_writing").write_release(run_of(overrides, run), to))
