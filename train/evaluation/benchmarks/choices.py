"""Questions that likelihoods answer: choices of the most likely of several texts, and completions word for word.

**Multiple choice**: PIQA, ARC, OpenBookQA, COPA, BoolQ and similar tests.

    {"query": "Question: …", "choices": ["…", "…"], "gold": 1}

    context       <worked examples><query, rewritten><query suffix>
    continuation  <delimiter><choice>

Prompts equal lm-evaluation-harness's where this makes its doc_to_text of the file's query: for PIQA files whose query
ends with a line break the suffix is "Answer:", for ARC files "\nAnswer:", for OpenBookQA none (its piqa.yaml,
arc_easy.yaml, openbookqa.yaml). conf/evaluation/standard.yaml has them all.

**Schema**: the beginning that makes the end of a sentence more likely: WinoGrande, Winograd schemas and similar.

    {"context_options": ["Ann … Bea so Ann", "Ann … Bea so Bea"], "continuation": "always got the …", "gold": 1}

    context       <worked examples><option, rewritten>      one query per option
    continuation  <delimiter><continuation>

Partial evaluation (Trinh and Le 2018, arXiv:1806.02847, §3.1): the options differ in the reference of the pronoun, and
only the words after it are scored, so the likelihood of an option itself does not count. GPT-2 and GPT-3 were measured
so. Prompts equal those of lm-evaluation-harness's winogrande and, with ``own_space``, of its wsc273.

**LAMBADA**: the last word of a passage, which only the whole passage makes predictable (Paperno et al., ACL 2016).

    {"text": "… I don't care about signs"}   or   {"context": "… I don't care about", "continuation": "signs"}

The text before its last space is the context, the space and the word the continuation. It is right when each of its
tokens is the most likely of all, as in lm-evaluation-harness's lambada_openai.

**Exact completion** by greedy decoding: GPT-3's arithmetic (Brown et al. 2020, §3.9.1) and similar tests.

    {"set": "two_digit_addition", "context": "\\n\\nQ: What is 98 plus 45?\\n\\nA:", "completion": " 143"}

It is right when each of its tokens is the most likely of all: then greedy decoding would write it, as
lm-evaluation-harness's arithmetic tasks measure. The text that the model would write after it does not count.
"""

import itertools
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
from headrace.train.evaluation.file_records import BenchmarkRecord
from headrace.train.evaluation.metrics import accuracy, bits, mean_over_groups, perplexity
from headrace.train.evaluation.prompt import PromptForm, WorkedExample
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text


class ChoiceScores:
    """The scores of a benchmark whose items have several choices after one context."""

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        """Returns right (1) or wrong (0) by three scores of a choice, and ``gold_outcome`` of the right one.

        acc: log-likelihood; acc_norm: over the choice's characters; acc_bytes: over its UTF-8 bytes. The delimiter is
        not counted. As lm-evaluation-harness (api/task.py, process_results), whose acc_norm divides by characters.
        """
        scores = [answer.log_likelihood for answer in answers]
        by_character = [score / len(choice) for score, choice in zip(scores, item.choices, strict=True)]
        by_byte = [score / len(choice.encode()) for score, choice in zip(scores, item.choices, strict=True)]
        ways = {"acc": scores, "acc_norm": by_character, "acc_bytes": by_byte}
        right = {name: first_best(values, item.gold) for name, values in ways.items()}
        return right | gold_outcome(item.choices[item.gold], scores[item.gold])

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns the three accuracies, and bits per byte of the right choices."""
        random = chance(items)
        accuracies = [accuracy(name, column(outcomes, name), random) for name in ("acc", "acc_norm", "acc_bytes")]
        return [*accuracies, gold_bits(outcomes)]


ChoiceQuestion = tuple[str, tuple[str, ...], int]
"""Query, choices, index of the right one."""


def question_texts(questions: Sequence[ChoiceQuestion]) -> list[tuple[str, ...]]:
    """Returns each question (``without_form``) with its right choice, and the wrong choices."""
    queries = without_form([query for query, _, _ in questions])
    return [
        (f"{query} {choices[gold]}", *choices[:gold], *choices[gold + 1 :])
        for query, (_, choices, gold) in zip(queries, questions, strict=True)
    ]


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
    return bits("bits_per_byte", column(outcomes, "nats"), column(outcomes, "bytes"), None)


def first_best(scores: Sequence[float], gold: int) -> float:
    """Returns 1 when the choice ``gold`` has the best of ``scores``, else 0; of equal scores the first one wins."""
    return float(scores.index(max(scores)) == gold)


@settings
class MultipleChoice(ChoiceScores, FewShotBenchmark[ChoiceQuestion]):
    """The choice of the most likely continuation."""

    type: Literal["multiple_choice"] = "multiple_choice"
    sentence: ClassVar[str] = "Questions with several answers; the model chooses the one that it finds most likely."
    query_suffix: AnyText = ""
    """The text after each query."""

    def parse(self, record: BenchmarkRecord) -> ChoiceQuestion:
        choices = record.texts("choices")
        return record.query("query"), choices, record.index("gold", len(choices))

    def texts(self, parsed: Sequence[ChoiceQuestion]) -> list[tuple[str, ...]]:
        return question_texts(parsed)

    def items(self, sources: Sources) -> list[Item]:
        records = self.read(sources.data)
        questions = [self.rewritten(query) + self.query_suffix for _, (query, _, _) in records]
        contexts = self.contexts(questions, [choices[gold] for _, (_, choices, gold) in records], sources.form)
        delimiter = self.before_answer(sources.form)
        return [
            choice_item(name, context, choices, gold, delimiter)
            for (name, (_, choices, gold)), context in zip(records[: self.limit], contexts, strict=False)
        ]


Sentence = tuple[tuple[str, ...], str, int]
"""Beginnings, end, index of the right beginning."""
PUNCTUATION = ".,;:!?"


@settings
class Schema(FewShotBenchmark[Sentence]):
    """The choice of the beginning that makes the end most likely."""

    type: Literal["schema"] = "schema"
    sentence: ClassVar[str] = "The word that a pronoun or gap refers to; the model chooses the more likely sentence."
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
        rights = [filled[gold] for filled, gold in zip(beginnings, golds, strict=True)]
        examples_of = self.drawn(keys, [self.worked_example(*pair) for pair in zip(rights, ends, strict=True)])
        rows = zip(records, examples_of, beginnings, ends, strict=True)
        return [
            Item(
                name,
                self._queries(filled, examples, end, sources.form),
                options,
                gold,
                sizes={"bytes": float(len(end.encode()))},
            )
            for (name, (options, _, gold)), examples, filled, end in list(rows)[: self.limit]
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
        return {"acc": first_best(scores, item.gold), "nats": -scores[item.gold], "bytes": item.sizes["bytes"]}

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return [accuracy("acc", column(outcomes, "acc"), chance(items)), gold_bits(outcomes)]


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
