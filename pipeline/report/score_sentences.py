"""States what scores have shown in a few plain sentences, for the top of the page and the end of the terminal's output.

prediction  Held-out text takes 1.52 bits per byte; 2.98 with all tokens equally likely.
scores      Better than chance, by 3 standard errors or more: held_out_sentences acc 47.3 % ± 2.4 % (chance 25.0 %).
text        After "This function" it wrote: "returns the number of values."
"""

import math
import re
from collections.abc import Iterator, Sequence

from headrace.pipeline.report.formatting import visible
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


def score_sentences(table: ScoreTable) -> list[str]:
    """Returns sentences about the scores of a run, and about a text that its model wrote."""
    return [*_prediction(table), *_scores(table), *_text(table)]


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
