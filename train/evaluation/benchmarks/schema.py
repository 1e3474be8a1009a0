"""The choice of the beginning that makes the end of a sentence more likely: WinoGrande, Winograd schemas and similar.

    {"context_options": ["Ann … Bea so Ann", "Ann … Bea so Bea"], "continuation": "always got the …", "gold": 1}

    context       <worked examples><option, rewritten>      one query per option
    continuation  <delimiter><continuation>

Partial evaluation (Trinh and Le 2018, arXiv:1806.02847, §3.1): the options differ in the reference of the pronoun, and
only the words after it are scored, so the likelihood of an option itself does not count. GPT-2 and GPT-3 were measured
so. Prompts equal those of lm-evaluation-harness's winogrande and, with ``own_space``, of its wsc273.
"""

from collections.abc import Sequence
from typing import Literal

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.base import Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.multiple_choice import chance, gold_bits
from headrace.train.evaluation.benchmarks.worked_examples import FewShotBenchmark
from headrace.train.evaluation.metrics import accuracy
from headrace.train.evaluation.prompt import PromptForm, WorkedExample
from headrace.train.evaluation.question_files import BenchmarkRecord
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text

Sentence = tuple[tuple[str, ...], str, int]
"""Beginnings, end, index of the right beginning."""
PUNCTUATION = ".,;:!?"


@settings
class Schema(FewShotBenchmark[Sentence]):
    """The choice of the beginning that makes the end most likely."""

    type: Literal["schema"] = "schema"
    own_space: bool = False
    """Whether a continuation that begins with a word has its own space after the delimiter: two in all. This is the
    form of lm-evaluation-harness's wsc273, which takes the rest of the sentence from the pronoun on."""

    def parse(self, record: BenchmarkRecord) -> Sentence:
        options = record.texts("context_options")
        return options, record.text("continuation"), record.index("gold", len(options))

    def texts(self, parsed: Sequence[Sentence]) -> list[tuple[str, ...]]:
        """Returns the right sentence; a wrong one differs by a name."""
        return [(f"{options[gold]} {end}",) for options, end, gold in parsed]

    def items(self, sources: Sources) -> list[Item]:
        records = self.read(sources.data)
        keys = ["\0".join((*sorted(options), end)) for _, (options, end, _) in records]
        ends = [self._own_space(end) + end for _, (_, end, _) in records]
        beginnings = [[self.rewritten(option) for option in options] for _, (options, _, _) in records]
        golds = [gold for _, (_, _, gold) in records]
        rights = [own[gold] for own, gold in zip(beginnings, golds, strict=True)]
        examples_of = self.drawn(keys, [self.worked_example(*pair) for pair in zip(rights, ends, strict=True)])
        rows = zip(records, examples_of, beginnings, ends, strict=True)
        return [
            Item(
                name,
                self._queries(own, examples, end, sources.form),
                options,
                gold,
                sizes={"bytes": float(len(end.encode()))},
            )
            for (name, (options, _, gold)), examples, own, end in list(rows)[: self.limit]
        ]

    def _queries(
        self, options: Sequence[str], examples: tuple[WorkedExample, ...], end: str, form: PromptForm
    ) -> tuple[Text, ...]:
        contexts = [form.context(self.turns(option, examples, self.description)) for option in options]
        return tuple(Text(context, self.before_answer(form) + end) for context in contexts)

    def _own_space(self, end: str) -> str:
        return " " if self.own_space and end[0] not in PUNCTUATION else ""

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        """Returns acc: 1 when the right beginning makes the end most likely; of equals the first wins, as in the
        harness; and nats and bytes of the end after the right beginning, as ``gold_outcome``."""
        scores = [answer.log_likelihood for answer in answers]
        right = {"nats": -scores[item.gold], "bytes": item.sizes["bytes"]}
        return {"acc": float(scores.index(max(scores)) == item.gold)} | right

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return [accuracy("acc", [outcome["acc"] for outcome in outcomes], chance(items)), gold_bits(outcomes)]
