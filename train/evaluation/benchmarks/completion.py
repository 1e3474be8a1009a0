"""Exact completion by greedy decoding: GPT-3's arithmetic (Brown et al. 2020, §3.9.1) and similar tests.

    {"set": "two_digit_addition", "context": "\\n\\nQ: What is 98 plus 45?\\n\\nA:", "completion": " 143"}

    context       <worked examples><context, rewritten>
    continuation  <delimiter><completion>

The answer is right when each token of the completion is the most likely of all tokens: then greedy decoding would write
it, so nothing has to be generated (lm-evaluation-harness's arithmetic tasks measure the same). The text that the model
would write after the completion does not count.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from headrace.pipeline.core.settings import AnyText, Positive, settings
from headrace.train.evaluation.benchmarks.base import Item, Outcome, Sources, of_groups
from headrace.train.evaluation.benchmarks.multiple_choice import gold_bits, gold_outcome
from headrace.train.evaluation.benchmarks.worked_examples import FewShotBenchmark
from headrace.train.evaluation.metrics import mean_over_groups
from headrace.train.evaluation.prompt import PromptForm
from headrace.train.evaluation.question_files import BenchmarkRecord
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text

Exercise = tuple[str, str, str]
"""Context, completion, group."""


@settings
class Completion(FewShotBenchmark[Exercise]):
    """Exact completion, by group."""

    type: Literal["completion"] = "completion"
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
        return of_groups(
            (self._items(group, sources.form)[: self.limit_per_group] for group in groups.values()), self.limit
        )

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
        groups: dict[str, list[float]] = defaultdict(list)
        for item, outcome in zip(items, outcomes, strict=True):
            groups[item.group].append(outcome["acc"])
        mean, *of_each = mean_over_groups("acc", groups, 0.0)
        return [mean, gold_bits(outcomes), *of_each]
