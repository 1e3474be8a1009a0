"""The completion of a text, word for word: LAMBADA's last words, and exercises of arithmetic.

**LAMBADA**: the last word of a passage, which only the whole passage makes predictable (Paperno et al., ACL 2016).

    {"text": "… I don't care about signs"}   or   {"context": "… I don't care about", "continuation": "signs"}

    context       the text before its last space
    continuation  " signs": the space and the last word

The answer is right when each of its tokens is the most likely of all, as in lm-evaluation-harness's lambada_openai.

**Exact completion** by greedy decoding: GPT-3's arithmetic (Brown et al. 2020, §3.9.1) and similar tests.

    {"set": "two_digit_addition", "context": "\\n\\nQ: What is 98 plus 45?\\n\\nA:", "completion": " 143"}

    context       <worked examples><context, rewritten>
    continuation  <delimiter><completion>

The answer is right when each token of the completion is the most likely of all tokens: then greedy decoding would write
it, so nothing has to be generated (lm-evaluation-harness's arithmetic tasks measure the same). The text that the model
would write after the completion does not count.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import AnyText, Positive, settings
from headrace.train.evaluation.benchmarks.base import (
    FewShotBenchmark,
    Item,
    Outcome,
    Sources,
    by_group,
    column,
    of_groups,
)
from headrace.train.evaluation.benchmarks.choices import gold_bits, gold_outcome
from headrace.train.evaluation.metrics import accuracy, mean_over_groups, perplexity
from headrace.train.evaluation.prompt import PromptForm
from headrace.train.evaluation.question_files import BenchmarkRecord
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text

SplitPassage = tuple[str, str]
"""Context and last word."""


@settings
class Lambada(FewShotBenchmark[SplitPassage]):
    """The prediction of the last word."""

    type: Literal["lambada"] = "lambada"
    sentence: ClassVar[str] = "The last word of a passage, which only the whole passage makes predictable."

    @property
    def answer_space(self) -> str:
        return self.delimiter

    def parse(self, record: BenchmarkRecord) -> SplitPassage:
        if "text" not in record.values:
            return record.text("context"), record.text("continuation")
        context, space, word = record.text("text").rpartition(" ")
        if not space or not context.strip() or not word.strip():
            raise record.error("field 'text' has no last word after a space", "give it a passage")
        return context, word

    def texts(self, parsed: Sequence[SplitPassage]) -> list[tuple[str, ...]]:
        return [(f"{context} {word}",) for context, word in parsed]

    def items(self, sources: Sources) -> list[Item]:
        records = self.read(sources.data)
        passages = [self.rewritten(context) for _, (context, _) in records]
        contexts = self.contexts(passages, [word for _, (_, word) in records], sources.form)
        return [
            Item(name, (Text(context, self.delimiter + word),), (word,))
            for (name, (_, word)), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        outcome = word_outcome(answers)
        return outcome | gold_outcome(item.choices[0], outcome["log_likelihood"])

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return [*word_metrics(outcomes, vocabulary), gold_bits(outcomes)]


def word_outcome(answers: Sequence[Answer]) -> dict[str, float]:
    """Returns acc (whether greedy decoding gives the word), and the word's log-likelihood and number of tokens."""
    (answer,) = answers
    return {"acc": float(answer.greedy), "log_likelihood": answer.log_likelihood, "tokens": answer.tokens}


def word_metrics(outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
    """Returns accuracy (guessing a word: 0) and perplexity per word (uniform: vocabulary ** mean tokens of a word)."""
    mean_tokens = sum(column(outcomes, "tokens")) / len(outcomes)
    uniform = math.exp(min(mean_tokens * math.log(vocabulary), 709.0))
    return [
        accuracy("acc", column(outcomes, "acc"), 0.0),
        perplexity("perplexity", column(outcomes, "log_likelihood"), uniform),
    ]


Exercise = tuple[str, str, str]
"""Context, completion, group."""


@settings
class Completion(FewShotBenchmark[Exercise]):
    """Exact completion, by group."""

    type: Literal["completion"] = "completion"
    sentence: ClassVar[str] = "Answers that must be written out exactly."
    answer_field: str = "completion"
    """The field that holds the completion."""
    group_field: AnyText = ""
    """The field that names an item's group; empty for no groups. Worked examples are of the item's group."""
    limit_per_group: Positive | None = None
    """At most this many items of each group; None takes all."""

    @property
    def answer_space(self) -> str:
        return self.delimiter

    def parse(self, record: BenchmarkRecord) -> Exercise:
        group = record.text(self.group_field) if self.group_field else ""
        return record.query("context"), record.text(self.answer_field), group

    def texts(self, parsed: Sequence[Exercise]) -> list[tuple[str, ...]]:
        return [(f"{context.rstrip()} {completion.lstrip()}",) for context, completion, _ in parsed]

    def items(self, sources: Sources) -> list[Item]:
        groups: dict[str, list[tuple[str, Exercise]]] = defaultdict(list)
        for name, exercise in self.read(sources.data):
            groups[exercise[2]].append((name, exercise))
        items = (self._items(group, sources.form)[: self.limit_per_group] for group in groups.values())
        return of_groups(items, self.limit)

    def _items(self, exercises: Sequence[tuple[str, Exercise]], form: PromptForm) -> list[Item]:
        questions = [self.rewritten(context) for _, (context, _, _) in exercises]
        contexts = self.contexts(questions, [completion for _, (_, completion, _) in exercises], form)
        return [
            Item(name, (Text(context, self.delimiter + completion),), (completion,), group=group)
            for (name, (_, completion, group)), context in zip(exercises, contexts, strict=True)
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        (answer,) = answers
        right = gold_outcome(item.choices[0], answer.log_likelihood)
        return {"acc": float(answer.greedy), "log_likelihood": answer.log_likelihood} | right

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the mean accuracy over the groups, bits per byte, then each group's accuracy; guessing a text gives
        0."""
        mean, *of_each = mean_over_groups("acc", by_group(items, column(outcomes, "acc")), 0.0)
        return [mean, gold_bits(outcomes), *of_each]
