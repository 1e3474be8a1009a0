"""LAMBADA: the last word of a passage that only makes sense with the whole passage (Paperno et al., ACL 2016).

    {"text": "… I don't care about signs"}   or   {"context": "… I don't care about", "continuation": "signs"}

    context       the text before its last space
    continuation  " signs": the space and the last word

Two readings of "the model predicts the word":

    last_word     each of its tokens is the likeliest of all (lm-evaluation-harness's lambada_openai)
    last_token    the last of its tokens is, after those before it

They differ by a lot: GPT-2 (124M) has 32.6 % by the first in the harness; the 46.0 % of its paper (Radford et al. 2019,
table 3) are reached by the last token, or by whole words when stop words are left out of what may be predicted.
"""

import math
from collections.abc import Sequence
from typing import Literal

from pipeline.core.settings import settings
from train.evaluation.benchmarks.base import FewShotBenchmark, Sources
from train.evaluation.item import Answer, Item, Outcome, Text
from train.evaluation.metrics import Metric, accuracy, perplexity
from train.evaluation.records import Record

Passage = tuple[str, str]
"""Context and last word."""


@settings
class Lambada(FewShotBenchmark[Passage]):
    """Prediction of the last word."""

    type: Literal["lambada"] = "lambada"
    reading: Literal["last_word", "last_token"] = "last_word"
    """What has to be predicted: the whole word, or its last token after the others."""

    def parse(self, record: Record) -> Passage:
        if not record.has("text"):
            return record.text("context"), record.text("continuation")
        context, space, word = record.text("text").rpartition(" ")
        if not space or not context.strip() or not word.strip():
            raise record.error("field 'text' has no last word after a space", "give it a passage")
        return context, word

    def texts(self, parsed: Sequence[Passage]) -> list[tuple[str, ...]]:
        return [(f"{context} {word}",) for context, word in parsed]

    def items(self, sources: Sources) -> list[Item]:
        records = self.read(sources.data)
        passages = [self.rewritten(context) for _, (context, _) in records]
        contexts = self.contexts(passages, [word for _, (_, word) in records])
        return [
            Item(name, (Text(context, self.delimiter + word, self.reading == "last_token"),), (word,))
            for (name, (_, word)), context in zip(records[: self.limit], contexts, strict=False)
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return word_outcome(answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return word_metrics(outcomes, vocabulary)


def word_outcome(answers: Sequence[Answer]) -> Outcome:
    """acc: whether greedy decoding gives the word; its log-likelihood and number of tokens."""
    (answer,) = answers
    return {"acc": float(answer.greedy), "log_likelihood": answer.log_likelihood, "tokens": answer.tokens}


def word_metrics(outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
    """Accuracy (guessing a word: 0) and perplexity per word (uniform tokens: vocabulary ** mean tokens of a word)."""
    mean_tokens = sum(outcome["tokens"] for outcome in outcomes) / len(outcomes)
    uniform = math.exp(min(mean_tokens * math.log(vocabulary), 709.0))
    return [
        accuracy("acc", [outcome["acc"] for outcome in outcomes], 0.0),
        perplexity("perplexity", [outcome["log_likelihood"] for outcome in outcomes], uniform),
    ]
