"""Judges a model's answers to a task, and sums them up, as lm-evaluation-harness does (api/task.py, process_results).

    multiple_choice          acc, acc_norm, acc_bytes, acc_mutual_info, exact_match, f1, mcc, brier_score
    loglikelihood            acc, perplexity
    loglikelihood_rolling    word_perplexity, byte_perplexity, bits_per_byte
    generate_until           exact_match of each filter, bleu, chrf

Values are the harness's. Errors and intervals are those of our own metrics (metrics.py).
"""

import dataclasses
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from headrace.train.evaluation.benchmarks.base import Item, Outcome
from headrace.train.evaluation.benchmarks.lambada import word_metrics, word_outcome
from headrace.train.evaluation.benchmarks.language_modelling import Score, unit_metric
from headrace.train.evaluation.benchmarks.written_answers import corpus_metric
from headrace.train.evaluation.lm_eval.task_file import TaskFile
from headrace.train.evaluation.lm_eval.task_metrics import TaskMetric
from headrace.train.evaluation.lm_eval.task_texts import TaskQuestion
from headrace.train.evaluation.metrics import accuracy, mean
from headrace.train.evaluation.score_rows import Metric
from headrace.train.evaluation.text_metrics import CORPUS, Comparison
from headrace.train.inference.queries import Answer, Written

SHARES = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
"""Metrics of multiple_choice that are right or wrong."""
PUNCTUATION = str.maketrans("", "", string.punctuation)
NUMBERS = str.maketrans("", "", string.digits)


@dataclasses.dataclass(frozen=True)
class TaskItem(Item):
    """One question of a task."""

    task: TaskFile | None = None
    question: TaskQuestion | None = None
    shots: int = 0


def task_of(items: Sequence[Item]) -> TaskFile:
    """Returns the task that ``items`` are of."""
    (item, *_) = items
    assert isinstance(item, TaskItem)
    assert item.task is not None
    return item.task


def question_of(item: Item) -> TaskQuestion:
    assert isinstance(item, TaskItem)
    assert item.question is not None
    return item.question


def task_outcome(item: Item, answers: Sequence[Answer | Written]) -> Outcome:
    """Returns the contributions of ``item`` to its task's metrics."""
    task = task_of([item])
    likelihoods = [answer for answer in answers if isinstance(answer, Answer)]
    if task.output_type == "multiple_choice":
        return choice_outcome(question_of(item), likelihoods)
    if task.output_type == "loglikelihood":
        return word_outcome(likelihoods)
    if task.output_type == "loglikelihood_rolling":
        nats = -math.fsum(answer.log_likelihood for answer in likelihoods)
        return {"nats": nats, "tokens": sum(answer.tokens for answer in likelihoods), **item.sizes}
    right, written = question_of(item).targets, [answer.text for answer in answers if isinstance(answer, Written)]
    return {
        pipeline.metric(metric.name): float(any(exact_match(metric, pipeline(written[0]), text) for text in right))
        for metric in task.metrics
        if metric.name == "exact_match"
        for pipeline in task.filters
    }


def choice_outcome(question: TaskQuestion, answers: Sequence[Answer]) -> Outcome:
    """Returns right (1) or wrong (0) by each score of a choice; of equal scores the first choice wins.

    A second answer to each choice, if there is one, is that without the context: acc_mutual_info. brier_score is the
    squared distance of the choices' probabilities from the right one's (Brier 1950).
    """
    choices, golds = question.choices, question.golds
    scores = np.array([answer.log_likelihood for answer in answers])
    alone, scores = scores[len(choices) :], scores[: len(choices)]
    of_choice: dict[str, np.ndarray] = {
        "acc": scores,
        "acc_norm": scores / [len(choice) for choice in choices],
        "acc_bytes": scores / [len(choice.encode()) for choice in choices],
    }
    if len(alone):
        of_choice["acc_mutual_info"] = scores - alone
    likely = np.exp(scores - scores.max())
    right = np.isin(np.arange(len(choices)), golds)
    return {
        **{name: float(np.argmax(values) in golds) for name, values in of_choice.items()},
        "exact_match": float(any(answers[gold].greedy for gold in golds)),
        "gold": float(golds[0]),
        "predicted": float(np.argmax(scores)),
        "brier_score": float(np.sum((likely / likely.sum() - right) ** 2)),
    }


def exact_match(metric: TaskMetric, written: str, right: str) -> bool:
    """Whether two texts are the same but for what ``metric`` ignores (Hugging Face's evaluate, exact_match.py)."""
    return _compared(metric, written) == _compared(metric, right)


def _compared(metric: TaskMetric, text: str) -> str:
    for regex in metric.regexes_to_ignore:
        text = re.sub(regex, "", text)
    text = text.lower() if metric.ignore_case else text
    text = text.translate(PUNCTUATION) if metric.ignore_punctuation else text
    return text.translate(NUMBERS) if metric.ignore_numbers else text


def task_metric_rows(items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
    """Returns the metrics of a task, in the order of its file; those of written texts for each filter."""
    task = task_of(items)
    of_type: Mapping[str, Callable[[str], list[Metric]]] = {
        "multiple_choice": lambda name: [_choice_metric(name, items, outcomes)],
        "loglikelihood": lambda name: [row for row in word_metrics(outcomes, vocabulary) if row.name == name],
        "loglikelihood_rolling": lambda name: [unit_metric(_score(name), outcomes, vocabulary)],
        "generate_until": lambda name: _written_metrics(name, task, items, outcomes),
    }
    return [row for metric in task.metrics for row in of_type[task.output_type](metric.name)]


def _score(name: str) -> Score:
    scores: Mapping[str, Score] = {
        "word_perplexity": "word_perplexity",
        "byte_perplexity": "byte_perplexity",
        "bits_per_byte": "bits_per_byte",
    }
    return scores[name]


def _choice_metric(name: str, items: Sequence[Item], outcomes: Sequence[Outcome]) -> Metric:
    if name in ("f1", "mcc"):
        return Metric(name, TABLES[name](*_two_by_two(outcomes)), None, None, None, len(items))
    values = [outcome[name] for outcome in outcomes]
    if name not in SHARES:
        return mean(name, values, None)
    questions = [question_of(item) for item in items]
    chances = [len({*question.golds}) / len(question.choices) for question in questions]
    return accuracy(name, values, 0.0 if name == "exact_match" else math.fsum(chances) / len(chances))


def _two_by_two(outcomes: Sequence[Outcome]) -> tuple[int, int, int, int]:
    """Returns the numbers of true and false positives, and of false and true negatives, of choice 1."""
    pairs = [(outcome["gold"], outcome["predicted"]) for outcome in outcomes]
    true, false = pairs.count((1.0, 1.0)), pairs.count((0.0, 1.0))
    return true, false, pairs.count((1.0, 0.0)), pairs.count((0.0, 0.0))


def _f1(true: int, false: int, missed: int, rejected: int) -> float:
    return 2 * true / (2 * true + false + missed) if true else 0.0


def _correlation(true: int, false: int, missed: int, rejected: int) -> float:
    """Returns Matthews' correlation (1975); 0 where one of the two choices is never right or never taken."""
    sides = (true + false) * (true + missed) * (rejected + false) * (rejected + missed)
    return (true * rejected - false * missed) / math.sqrt(sides) if sides else 0.0


TABLES: Mapping[str, Callable[[int, int, int, int], float]] = {"f1": _f1, "mcc": _correlation}
"""Metrics of two choices, of which 1 is the positive one."""


def _written_metrics(name: str, task: TaskFile, items: Sequence[Item], outcomes: Sequence[Outcome]) -> list[Metric]:
    rows = []
    for pipeline in task.filters:
        filtered = pipeline.metric(name)
        if name in CORPUS:
            written = [pipeline(item.written[0]) for item in items]
            row = corpus_metric(Comparison(), name, written, [question_of(item).targets for item in items])
            rows.append(dataclasses.replace(row, name=filtered))
        else:
            rows.append(accuracy(filtered, [outcome[filtered] for outcome in outcomes], 0.0))
    return rows
