"""The completion of a text, word for word: LAMBADA's last words, and exercises of arithmetic.

**LAMBADA**: the last word of a passage, which only the whole passage makes predictable (Paperno et al., ACL 2016).

    {"text": "… I don't care about signs"}   or   {"context": "… I don't care about", "continuation": "signs"}

    context       the text before its last space
    continuation  " signs": the space and the last word

Three readings of "the model predicts the word":

    last_word            each of its tokens is the most likely of all (lm-evaluation-harness's lambada_openai)
    last_token           its last token is the most likely, given its other tokens
    stop_word_filtered   like last_word, but its first token is compared only with tokens that are no stop words, and a
                         word that is a stop word itself is never predicted

They differ by a lot: GPT-2 (124M) has 32.6 % by the first in the harness; the 46.0 % of its paper (Radford et al. 2019,
table 3) are reached by the last token. The paper filters stop words because the model often continues the sentence
instead of ending it (§3.3); it gives neither the list of words nor the rule for words of several tokens. Here a stop
word is left out in lower case and capitalized, after the delimiter, if that is one token. The perplexity is of the
whole word, except for last_token; a filter changes which words may be predicted, not their likelihoods.

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

# English words that carry grammar, not meaning: closed classes, with forms and contractions as tokenizers split them.
# The list of GPT-2's authors was not published.
ARTICLES = "a an the"
PRONOUNS = """
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves this that these those who whom whose which what
"""
QUANTIFIERS = "all any both each few more most no other some such own same only"
PREPOSITIONS = """
about above after against at before below between by down during for from in into of off on out over through to under
until up with
"""
CONJUNCTIONS = "and as because but if nor or so than then while"
ADVERBS = "again further here how just not now once there too very when where why"
AUXILIARIES = """
am is are was were be been being have has had having do does did doing can could will would shall should may might must
"""
CONTRACTED = "s t d ll m o re ve y don isn aren wasn weren haven hasn hadn doesn didn won wouldn shouldn couldn"

STOP_WORDS = frozenset(
    " ".join((ARTICLES, PRONOUNS, QUANTIFIERS, PREPOSITIONS, CONJUNCTIONS, ADVERBS, AUXILIARIES, CONTRACTED)).split()
)
"""In lower case."""


@settings
class Lambada(FewShotBenchmark[SplitPassage]):
    """The prediction of the last word."""

    type: Literal["lambada"] = "lambada"
    sentence: ClassVar[str] = "The last word of a passage, which only the whole passage makes predictable."
    reading: Literal["last_word", "last_token", "stop_word_filtered"] = "last_word"
    """The part to predict: the whole word, its last token after the others, the most likely word that is no stop
    word."""

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
            Item(name, (self._query(context, word),), (word,))
            for (name, (_, word)), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def _query(self, context: str, word: str) -> Text:
        passed_over: tuple[str, ...] = ()
        if self.reading == "stop_word_filtered":
            forms = (form for stop in sorted(STOP_WORDS) for form in (stop, stop.capitalize()))
            passed_over = tuple(self.delimiter + form for form in forms)
        return Text(context, self.delimiter + word, self.reading == "last_token", passed_over)

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        outcome = word_outcome(answers)
        if self.reading != "last_token":  # its likelihood is not that of the whole word
            outcome |= gold_outcome(item.choices[0], outcome["log_likelihood"])
        is_filtered = self.reading == "stop_word_filtered" and item.choices[0].lower() in STOP_WORDS
        return outcome | {"acc": 0.0} if is_filtered else outcome

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        bits = [] if self.reading == "last_token" else [gold_bits(outcomes)]
        return [*word_metrics(outcomes, vocabulary), *bits]


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
