"""The model card (README.md) of an exported model: what it is, what it was trained on and how, and its scores."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.report.about import openness, rule_counts
from headrace.pipeline.report.formatting import decimal, short
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.train.checkpoint.store import read_state
from headrace.train.scores import Scores

OF_STACK = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder_decoder": "AutoModelForSeq2SeqLM",
    "discriminator": "AutoModelForPreTraining",
}
"""``model.stack`` → the class of ``transformers`` that opens the folder."""


def model_card(run: Run, weights: PlannedStage, paths: Mapping[int, Path], ema: bool) -> str:
    """Returns the card of the weights in the checkpoints ``paths`` (step → folder) of the training ``weights``.

    ``ema``: they are moving averages.
    """
    return "\n".join(_lines(run, weights, paths, ema)) + "\n"


def _lines(run: Run, weights: PlannedStage, paths: Mapping[int, Path], ema: bool) -> Iterator[str]:
    config, last = run.config, max(paths)
    state = read_state(paths[last])
    what = f"step {last:,}" if len(paths) == 1 else f"the average of the steps {', '.join(map(str, paths))}"
    if ema:
        what += f" (a moving average, decay {config.optimizer.ema_decay:g})"
    yield from ("---", "library_name: transformers", "tags: [headrace]", "---", "", f"# {run.label}", "")
    yield f"The weights of {what} of the training `weights/{weights.address}`, made with Headrace."
    yield from ("", "    from transformers import AutoTokenizer, " + OF_STACK[config.model.stack], "")
    yield f"    model = {OF_STACK[config.model.stack]}.from_pretrained(FOLDER)"
    yield "    tokenizer = AutoTokenizer.from_pretrained(FOLDER)"
    yield from ("", "## Training", "", "| | |", "|---|---|")
    facts = {
        "objective": config.objective.type,
        "steps": f"{last:,}",
        "rows": f"{state.rows_seen:,} of {config.packing.row_tokens:,} positions",
        "tokens seen": short(state.tokens_seen),
        "optimizer": f"{config.optimizer.type}, learning rate {config.optimizer.learning_rate:g}",
        "schedule": config.schedule.type,
        "precision": config.training.precision,
        **(_losses(weights.folder, last) if len(paths) == 1 and not ema else {}),
    }
    yield from (f"| {fact} | {value} |" for fact, value in facts.items())
    for origin in state.origins:
        yield f"| goes on from | step {origin['step']:,} of `weights/{origin['weights']}` |"
    yield from ("", "## Data", "", "| | |", "|---|--:|")
    artifacts = whole(run.stages)
    for stage in run.stages:
        if stage.name in artifacts:
            counts = artifacts[stage.name].counts
            yield from (
                f"| {label} | {counts[key]:,} |" for key, label in stage.stage.card_counts.items() if key in counts
            )
    yield from _openness(artifacts)
    if Scores.name in artifacts and not ema and len(paths) == 1 and last == config.training.steps:
        scores = artifacts[Scores.name].path("scores.md").read_text(encoding="utf-8")
        yield from ("", "## Scores", "", scores.rstrip())


def _openness(inputs: Inputs) -> Iterator[str]:
    """Yields what the run gives of each part of the model, and the rules that dropped documents."""
    yield from (
        "",
        "## Openness",
        "",
        "This folder holds the weights, the tokenizer and the architecture. What is given",
    )
    yield from ("below is in the folder of the artifacts of the run.", "", "| part | given | |", "|---|---|---|")
    yield from (f"| {part.name} | {part.given} | {_cell(part.text)} |" for part in openness(inputs))
    if rules := list(rule_counts(inputs)):
        yield from ("", "## Rules of cleaning", "", "| rule | documents dropped |", "|---|--:|")
        yield from (f"| {_cell(rule)} | {number:,} |" for rule, number in rules)


def _cell(text: str) -> str:
    """Returns ``text`` as a cell of a Markdown table."""
    return text.replace("|", "\\|")


def _losses(folder: Path, last: int) -> dict[str, str]:
    """Returns the losses that were logged last up to the step ``last``."""
    losses: dict[str, str] = {}
    for row in read_metrics(metrics_path(folder)):
        if row["step"] <= last:
            named = {"loss": "training loss", "validation_loss": "validation loss", "bits_per_byte": "bits per byte"}
            losses |= {label: decimal(row[key]) for key, label in named.items() if key in row}
    return losses
