"""States what a run has shown in a few plain sentences, for the top of the page and the end of the terminal's output.

data        Of 14,203 records, 9,812 were kept: 2.31 M tokens.
training    A model of 1.12 M parameters read 1.64 M tokens; its loss fell from 7.62 in step 1 to 3.31 …
prediction  Held-out text takes 1.52 bits per byte; 2.98 with all tokens equally likely.
scores      Better than chance, by 3 standard errors or more: held_out_sentences acc 47.3 % ± 2.4 % (chance 25.0 %).
text        After "This function" it wrote: "returns the number of values."
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.formatting import count, short, visible
from headrace.pipeline.report.funnel import funnel
from headrace.pipeline.report.score_table import DOCUMENT, GREEDY, ScoreRow, ScoreTable, first_accuracies
from headrace.train.evaluation.score_rows import Metric

STANDARD_ERRORS = 3
"""A score that is fewer standard errors above chance may well be chance."""
FEWEST_ITEMS = 10
"""A score of fewer items shows nothing about chance."""
SCORES_NAMED = 3
SENTENCE = re.compile(r".*?[.!?](?=[\"')\]]*(?:\s|$))[\"')\]]*", re.DOTALL)
"""The text up to the end of its first sentence."""
CHARACTERS = 200


Metrics = Sequence[Mapping[str, Any]]
"""The rows of metrics.jsonl."""


def conclusions(inputs: Mapping[str, Artifact], metrics: Metrics, table: ScoreTable | None) -> list[str]:
    """Returns sentences about the finished stages ``inputs`` of a run; none about a stage that it lacks."""
    sentences = [*_data(inputs), *_training(inputs, metrics, table)]
    return [*sentences, *_prediction(table), *_scores(table), *_text(table)] if table else sentences


def _data(inputs: Mapping[str, Artifact]) -> Iterator[str]:
    stages = funnel(inputs)
    if len(stages) > 1:
        first, last = stages[0], stages[-1]
        tokens = f": {short(inputs['tokens'].counts['tokens'])} tokens" if "tokens" in inputs else ""
        yield f"Of {count(first.read)} {first.names.unit}, {count(last.kept)} were kept{tokens}."


def _training(inputs: Mapping[str, Artifact], metrics: Metrics, table: ScoreTable | None) -> Iterator[str]:
    losses = [(row["step"], row["loss"]) for row in metrics if row.get("loss") is not None]
    if not losses:
        return
    counts, held_out = inputs["weights"].counts, _held_out_loss(metrics, table)
    (first_step, first), (last_step, last) = losses[0], losses[-1]
    end, where = (last, f"in step {last_step:,}") if held_out is None else (held_out, "on held-out text")
    read = f"A model of {short(counts['parameters'])} parameters read {short(counts['target_tokens'])} tokens"
    if len(losses) == 1 and held_out is None:
        yield f"{read}; its loss was {first:.2f} nats per token in step {first_step:,}."
        return
    begin = f"from {first:.2f} nats per token in step {first_step:,} to"
    yield f"{read}; its loss {'fell' if end < first else 'rose'} {begin} {end:.2f} {where}."


def _held_out_loss(metrics: Metrics, table: ScoreTable | None) -> float | None:
    """Returns the loss of held-out text that compares with those of the steps; None when it is not known.

    The scores have -ln p of text. A training whose loss is another one, of denoising or of labels, logs no bits per
    byte; then it is the loss that the training logged itself.
    """
    own = [row["validation_loss"] for row in metrics if row.get("validation_loss") is not None]
    if own and not any("bits_per_byte" in row for row in metrics):
        return float(own[-1])
    return table.held_out.get("loss") if table else None


def _prediction(table: ScoreTable) -> Iterator[str]:
    for metric in (row.metric for row in table.rows if row.benchmark.type == "validation"):
        if metric.name == "bits_per_byte" and metric.random is not None:
            without = f"{metric.random:.2f} with all tokens equally likely"
            yield f"Held-out text takes {metric.value:.2f} bits per byte; {without}."


def _scores(table: ScoreTable) -> Iterator[str]:
    """Yields which scores are better than chance; none about scores whose chance is unknown."""
    rows = [
        row for row in first_accuracies(table.rows, lambda row: row.benchmark.name) if row.metric.random is not None
    ]
    better = [row for row in rows if _is_better_than_chance(row.metric)]
    others = [row for row in rows if row not in better]
    if better:
        yield f"Better than chance, by {STANDARD_ERRORS} standard errors or more: {_named(better)}."
    if others:
        yield f"Not better than chance, or by less: {_named(others)}."


def _is_better_than_chance(metric: Metric) -> bool:
    """Whether enough items show it. If all answers are right, the standard error is 0: that of guessing is used."""
    if metric.standard_error is None or metric.random is None or metric.items < FEWEST_ITEMS:
        return False
    of_guessing = math.sqrt(metric.random * (1 - metric.random) / metric.items)
    distance = metric.value - metric.random
    return distance > 0 and distance >= STANDARD_ERRORS * max(metric.standard_error, of_guessing)


def _named(rows: Sequence[ScoreRow]) -> str:
    names = [
        f"{row.benchmark.name} {row.metric.name} {row.text(row.metric.value)}"
        f" {row.cells['standard error']} (chance {row.text(row.metric.random)})"
        for row in rows[:SCORES_NAMED]
    ]
    more = f" and {len(rows) - SCORES_NAMED} more" if len(rows) > SCORES_NAMED else ""
    return ", ".join(names) + more


def _text(table: ScoreTable) -> Iterator[str]:
    """Yields the first sentence that the model wrote greedily after each prompt."""
    texts = [text for written in table.written for text in written.texts if DOCUMENT not in text.texts]
    for text in texts:
        yield f'After "{text.prompt}" it wrote: "{first_sentence(text.texts[GREEDY])}"'


def first_sentence(text: str) -> str:
    """Returns the beginning of ``text`` up to its first end mark, on one line."""
    line = " ".join(text.split())
    match = SENTENCE.match(line)
    return visible(match[0] if match else line, CHARACTERS)
