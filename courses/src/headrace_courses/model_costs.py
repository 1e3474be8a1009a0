"""What a model costs in money, and what its fine-tuning costs beside its training.

python -m headrace_courses.model_costs --gpu TPUv3 --gpus 32 --price 2 experiment=bert_base source.paths=pages
"""

from collections.abc import Iterator, Sequence

import click

from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.command_line.request import config_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.settings import PositiveNumber, value_of
from headrace.pipeline.output.terminal import Fact, show
from headrace.pipeline.report.formatting import rounded
from headrace.pipeline.run.costs import Hardware, vocabulary_of
from headrace.train.cost.flops import Compute, flops_per_token
from headrace_courses.program import run

FINETUNED_EXAMPLES = 10_000
"""The examples of a fine-tuning whose files are not read."""


def price_of(compute: Compute, hardware: Hardware, price: float) -> str:
    """Returns the price of the training, and of scoring, which costs a third of the operations of a token."""
    hours = hardware.hours(compute.flops)
    scoring = rounded(hardware.hours(compute.flops_per_token / 3 * 1e9) * price)
    return f"{rounded(hours * price)} for {hours:,.3g} GPU-hours at {price:g}; scoring: {scoring} for a billion tokens"


def fine_tuning(
    config: RunConfig, vocabulary: int, training_flops: float, hardware: Hardware, price: float | None = None
) -> str:
    """Returns the cost of the fine-tunings of all seeds: a bound, as if each example had the full length."""
    recipe = config.finetune
    assert recipe is not None
    targets = recipe.context if config.model.stack == "encoder_decoder" else None
    rows = recipe.steps * recipe.batch_rows if recipe.steps else recipe.epochs * FINETUNED_EXAMPLES
    seeds = len(recipe.seeds)
    flops = seeds * rows * recipe.context * flops_per_token(config.model, vocabulary, recipe.context, targets)
    length = (
        f"{recipe.steps:,} updates" if recipe.steps else f"{FINETUNED_EXAMPLES:,} examples, {recipe.epochs:g} epochs"
    )
    cost = "" if price is None else f", {rounded(hardware.hours(flops) * price)}"
    what = (
        f"{flops:.3g} FLOP{cost} at most: {length} of {recipe.context} tokens, {seeds} seed{'s' if seeds > 1 else ''}"
    )
    return f"{what}; the training costs {training_flops / flops:,.0f} times as much"


@command
@click.option("--gpus", metavar="NUMBER", default="", help="Number of GPUs; those of the configuration without it.")
@click.option("--gpu", metavar="NAME", default="", help="Their kind; H100 without it.")
@click.option("--mfu", metavar="FRACTION", default="", help="Share of the peak that is reached; 0.4 without it.")
@click.option("--price", metavar="PER_HOUR", default="", help="The price of one GPU for an hour.")
def model_costs(overrides: Sequence[str], gpus: str, gpu: str, mfu: str, price: str) -> None:
    """Prints the price of a training, and the operations of a fine-tuning."""
    config = config_of(overrides)
    hardware = Hardware.of(gpus or str(config.training_ranks), gpu, mfu, "")
    per_hour = value_of(PositiveNumber, price, "--price") if price else None
    show(money_facts(config, vocabulary_of(config, overrides), hardware, per_hour))


def money_facts(config: RunConfig, vocabulary: int, hardware: Hardware, price: float | None) -> Iterator[Fact]:
    """Yields the cost of the fine-tuning, if ``config`` has one, and the price at ``price`` for an hour of a GPU."""
    targets = config.target_tokens
    compute = Compute.of(config.model, vocabulary, config.packing.row_tokens, config.training, targets)
    if config.finetune is not None:
        yield "fine-tuning", fine_tuning(config, vocabulary, compute.flops, hardware, price)
    if price is not None:
        yield "price", price_of(compute, hardware, price)


if __name__ == "__main__":
    run(model_costs)
