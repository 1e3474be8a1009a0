"""``headrace fill``: the tokens that a model predicts at the masked positions of a text.

headrace fill "Paris is the [MASK] of France."                        your newest weights below the root
headrace fill "Paris is the [MASK] of France." --run small            the weights of a run
headrace fill "Paris is the [MASK] of France." --model path/to/bert   any BERT or RoBERTa in Hugging Face's format
headrace fill "The [MASK] of [MASK]." --top 3                         each position with the others masked

A line for each candidate: the number of the position, the probability p, -ln p, the token.

    1  0.4120  0.887  capital
    1  0.0871  2.441  heart
"""

from collections.abc import Iterable, Sequence

import click

from headrace.pipeline.command_line.declaration import command, run_option
from headrace.pipeline.command_line.model_options import model_folder
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.core.environment import let_threads_sleep
from headrace.pipeline.core.settings import Positive, value_of
from headrace.pipeline.report.formatting import visible
from headrace.train.inference.language_model import fill as filled
from headrace.train.inference.queries import LikelyText

DEFAULT_CANDIDATES = "5"


@command
@click.argument("text", metavar="TEXT")
@click.option("--model", metavar="FOLDER", default="", type=click.Path(), help="A model in Hugging Face's format.")
@click.option("--top", metavar="N", default="", help="The number of candidates for each position (5).")
@run_option
def fill(overrides: Sequence[str], text: str, model: str, top: str, run: str) -> None:
    """Prints the tokens that an encoder finds likely at each [MASK] of TEXT."""
    config = config_of(overrides)
    candidates = value_of(Positive, top or DEFAULT_CANDIDATES, "--top")
    folder = model_folder(config.root, model, run)
    let_threads_sleep()
    for number, predictions in enumerate(filled(folder, config.evaluation, text, candidates), start=1):
        print_candidates(number, predictions)


def print_candidates(number: int, candidates: Iterable[LikelyText]) -> None:
    """Prints a line for each of the ``candidates`` of the masked position of this ``number``."""
    for candidate in candidates:
        shown = visible(candidate.text, len(candidate.text))
        print(f"{number}  {candidate.probability:.4f}  {-candidate.log_probability:.3f}  {shown}")
