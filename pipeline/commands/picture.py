"""``headrace picture``: who sees whom in a model, and the inputs and targets of one row, as SVG.

headrace picture model=llama_demo                     a sentence, cut into words, with the model and the objective
headrace picture objective=prefix --to prefix.svg
headrace picture --run small --tokens 40              the first row of a run's training, with its tokens

The row and the masks are those of a training step: objective and attention compute them as in training.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.pipeline.command_line.declaration import NewFile, command, run_option
from headrace.pipeline.command_line.request import config_of, run_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.report.figures.row_picture import svg
from headrace.pipeline.run.planner import Run
from headrace.pipeline.tracing.lookup import need
from headrace.pipeline.tracing.step_rows import INPUTS
from headrace.train.data.mixture import Mix, training_data
from headrace.train.data.rows import Pieces
from headrace.train.objectives.base import Objective
from headrace.train.row_example import row_example

SENTENCES = ("The old mill stands by the river .", "Water turns the wheel all day .")
"""The documents of a picture without a run."""


@command
@click.option("--to", metavar="FILE", default="picture.svg", type=NewFile(), help="The SVG file to write.")
@click.option("--tokens", metavar="N", default="24", help="The most positions of the row.")
@run_option
def picture(overrides: Sequence[str], to: Path, tokens: str, run: str) -> None:
    """Draws who sees whom in the model, and one row of its objective."""
    positions = value_of(Positive, tokens, "--tokens")
    chosen = run_of(overrides, run) if run else None
    config = chosen.config if chosen else config_of(overrides)
    objective = config.row_objective
    pieces, tokenizer = words(objective) if chosen is None else first_row(chosen)
    length = min(positions, config.model.context)
    example = row_example(config.model, objective, pieces, length, tokenizer, config.training.seed)
    title = f"objective.type={config.objective.type}, model.stack={config.model.stack}"
    write_file(to, svg(title, example))
    print(to)


def words(objective: Objective) -> tuple[Pieces, Tokenizer]:
    """Returns SENTENCES as the pieces of a row, and a tokenizer of their words and of the special tokens."""
    documents = [[END_OF_TEXT, *sentence.split(), END_OF_TEXT] for sentence in SENTENCES]
    special = [END_OF_TEXT, *objective.special_tokens()]
    ids = {word: number for number, word in enumerate(dict.fromkeys([*special, *itertools.chain(*documents)]))}
    tokenizer = Tokenizer(WordLevel(ids))
    tokenizer.add_special_tokens(special)
    return [np.array([ids[word] for word in document]) for document in documents], tokenizer


def first_row(run: Run) -> tuple[Pieces, Tokenizer]:
    """Returns the first row of the training of ``run`` as pieces, and the tokenizer."""
    inputs = {name: need(name, run.stages) for name in INPUTS}
    mix = Mix.of(run.config.mixture, run.config.packing.row_tokens)
    training = run.config.training
    rows, order = training_data(training.seed, inputs, mix, training.unique_rows)
    tokenizer = Tokenizer.from_file(str(inputs["tokenizer"].path("tokenizer.json")))
    return rows.pieces(int(order.batch(0, 1)[0])), tokenizer
