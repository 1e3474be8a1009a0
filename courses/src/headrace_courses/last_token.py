"""LAMBADA by the last token: the reading of the 46.0 % of GPT-2 (Radford et al. 2019, table 3), 32.6 % by the word.

The last token of the word is to be the most likely one, given those before it; the perplexity is of this token, too.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.base import Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.choices import Lambada, word_metrics, word_outcome
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, Text, TokenQuery


@settings
class LastToken(Lambada):
    """The prediction of a passage's last token."""

    type: Literal["last_token"] = "last_token"  # type: ignore[assignment]  # a tag of its own
    sentence: ClassVar[str] = "The last token of a passage, given the rest of its word."

    def items(self, sources: Sources) -> list[Item]:
        items = super().items(sources)
        texts = [query for item in items for query in item.queries if isinstance(query, Text)]
        asked = encode(texts, sources.text_encoder, sources.opening)
        return [Item(item.name, (_last(query),), item.choices) for item, query in zip(items, asked, strict=True)]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return word_outcome(answers)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        return word_metrics(outcomes, vocabulary)


def _last(query: TokenQuery) -> TokenQuery:
    return TokenQuery(np.concatenate([query.context, query.continuation[:-1]]), query.continuation[-1:])
