"""``headrace board``: one model fine-tuned on each task of GLUE or SuperGLUE, and the score of the board.

headrace board glue glue_data experiment=bert_demo finetune.optimizer.learning_rate=3e-4
headrace board glue glue_data finetune.folder=models/bert-base-uncased 'finetune.seeds=[1,2,3]' --json glue.json
headrace board superglue superglue_data finetune.folder=models/t5-small --text --task cb:finetune.epochs=10
headrace board glue glue_data --show experiment=bert_demo                   what is finished; starts nothing

FOLDER has a folder for each task, as published: CoLA/train.tsv, CoLA/dev.tsv, MNLI/dev_matched.tsv, or
BoolQ/train.jsonl, BoolQ/val.jsonl. Each task is a run named NAME-TASK: the same command goes on after an interruption.
Tasks without files are left out, and then the board has no score. The score is the mean over tasks of the mean of
their metrics. AX (diagnostic-full.tsv), AX-b and AX-g are scored where their files are there. ``--task cola:KEY=VALUE``
sets something for one task.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command, load
from headrace.pipeline.run.fork_server import start_early


@command
@click.argument("name", metavar="BOARD")
@click.argument("folder", metavar="FOLDER")
@click.option("--text", is_flag=True, help="Learn the tasks as text, in T5's form.")
@click.option("--task", metavar="TASK:KEY=VALUE", multiple=True, help="An override of one task; may be given often.")
@click.option("--show", is_flag=True, help="Start nothing; show what is finished.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the results as JSON.")
def board(
    overrides: Sequence[str],
    name: str,
    folder: str,
    text: bool,
    task: Sequence[str],
    show: bool,
    json_file: Path | None,
) -> None:
    """Fine-tunes a model on each task of glue or superglue, and prints the table of the board."""
    if not show:
        start_early(overrides)
    load("series.board").show_board(name, Path(folder), overrides, task, text, starts=not show, json_file=json_file)
