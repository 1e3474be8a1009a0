"""The choice of the most likely of several continuations: PIQA, ARC, OpenBookQA, COPA, BoolQ and similar tests.

    {"query": "Question: …", "choices": ["…", "…"], "gold": 1}

    context       <worked examples><query, rewritten><query suffix>
    continuation  <delimiter><choice>

Prompts equal lm-evaluation-harness's where this makes its doc_to_text of the file's query: for PIQA files whose query
ends with a line break the suffix is "Answer:", for ARC files "\\nAnswer:", for OpenBookQA none (its piqa.yaml,
arc_easy.yaml, openbookqa.yaml). conf/evaluation/standard.yaml has them all.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from headrace.pipeline.core.settings import AnyText, settings
from headrace.train.evaluation.benchmarks.base import Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.worked_examples import FewShotBenchmark
from headrace.train.evaluation.metrics import accuracy, ratio
from headrace.train.evaluation.question_files import BenchmarkRecord
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text

ChoiceQuestion = tuple[str, tuple[str, ...], int]
"""Query, choices, index of the right one."""


@settings
class MultipleChoice(FewShotBenchmark[ChoiceQuestion]):
    """The choice of the most likely continuation."""

    type: Literal["multiple_choice"] = "multiple_choice"
    query_suffix: AnyText = ""
    """The text after each query."""

    def parse(self, record: BenchmarkRecord) -> ChoiceQuestion:
        choices = record.texts("choices")
        return record.query("query"), choices, record.index("gold", len(choices))

    def texts(self, parsed: Sequence[ChoiceQuestion]) -> list[tuple[str, ...]]:
        """Returns each query with its right choice, and the wrong choices."""
        queries = without_form([query for query, _, _ in parsed])
        return [
            (f"{query} {choices[gold]}", *choices[:gold], *choices[gold + 1 :])
            for query, (_, choices, gold) in zip(queries, parsed, strict=True)
        ]

    def items(self, sources: Sources) -> list[Item]:
        records = self.read(sources.data)
        questions = [self.rewritten(query) + self.query_suffix for _, (query, _, _) in records]
        contexts = self.contexts(questions, [choices[gold] for _, (_, choices, gold) in records], sources.form)
        delimiter = self.before_answer(sources.form)
        return [
            choice_item(name, context, choices, gold, delimiter)
            for (name, (_, choices, gold)), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return choice_outcome(item, answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return choice_metrics(items, outcomes)


def without_form(queries: Sequence[str]) -> list[str]:
    """Returns ``queries`` without the words that all of them begin or end with, such as "Question:"."""
    split = [query.split() for query in queries]
    if len(split) < 2:
        return list(queries)
    begin, end = shared_words(split), shared_words([parts[::-1] for parts in split])
    return [" ".join(parts[begin : len(parts) - end]) for parts in split]


def shared_words(texts: Sequence[Sequence[str]]) -> int:
    """Returns the number of words that all ``texts`` begin with."""
    return sum(1 for _ in itertools.takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False)))


def choice_item(name: str, context: str, choices: Sequence[str], gold: int, delimiter: str) -> Item:
    """Returns an item whose choices all follow the same context."""
    queries = tuple(Text(context, delimiter + choice) for choice in choices)
    return Item(name, queries, tuple(choices), gold)


def choice_outcome(item: Item, answers: Sequence[Answer]) -> Outcome:
    """Returns right (1) or wrong (0) by three scores of a choice; of equal scores the first choice wins; and
    ``gold_outcome`` of the right one.

    acc: log-likelihood; acc_norm: over the choice's characters; acc_bytes: over its UTF-8 bytes. The delimiter is not
    counted. As lm-evaluation-harness (api/task.py, process_results), whose acc_norm divides by characters.
    """
    scores = [answer.log_likelihood for answer in answers]
    by_character = [score / len(choice) for score, choice in zip(scores, item.choices, strict=True)]
    by_byte = [score / len(choice.encode()) for score, choice in zip(scores, item.choices, strict=True)]
    accuracies = {
        name: float(values.index(max(values)) == item.gold)
        for name, values in (("acc", scores), ("acc_norm", by_character), ("acc_bytes", by_byte))
    }
    return accuracies | gold_outcome(item.choices[item.gold], scores[item.gold])


def choice_metrics(items: Sequence[Item], outcomes: Sequence[Outcome]) -> list[Metric]:
    """Returns the three accuracies, and bits per byte of the right choices."""
    random = chance(items)
    return [
        *(accuracy(name, [outcome[name] for outcome in outcomes], random) for name in ("acc", "acc_norm", "acc_bytes")),
        gold_bits(outcomes),
    ]


def chance(items: Sequence[Item]) -> float:
    """Returns the accuracy of guessing: the mean of 1 / number of choices."""
    return sum(1 / len(item.choices) for item in items) / len(items)


def gold_outcome(answer: str, log_likelihood: float) -> dict[str, float]:
    """Returns the nats of the right ``answer`` and its UTF-8 bytes, without the delimiter."""
    return {"nats": -log_likelihood, "bytes": float(len(answer.encode()))}


def gold_bits(outcomes: Sequence[Outcome]) -> Metric:
    """Returns bits per byte of the right answers: the sum of their bits over the sum of their bytes.

    It falls smoothly with the loss where an accuracy stays at chance (Schaeffer et al. 2023, "Are Emergent Abilities of
    Large Language Models a Mirage?"), and compares models of different tokenizers.
    """
    bits = [outcome["nats"] / math.log(2) for outcome in outcomes]
    return ratio("bits_per_byte", bits, [outcome["bytes"] for outcome in outcomes], None)
