"""The loss of the same held-out tokens read in windows of several lengths, also beyond the trained context.

    text (longest length: 8)    x|a b c d e f g h      x: the token before it, which is only read

    windows, length 4            x a b c · d e f g     each token once, after 0 to 3 tokens besides the first
    windows, length 8            x a b c d e f g
    sliding, length 4                    d e f g       the last ``sliding_tokens`` of the text, each after at
    sliding, length 8            x a b c d e f g       least the tokens that the length leaves

A model that uses more context than it was trained with has a lower loss in longer windows; one whose position scheme
does not extrapolate has a higher one (Press et al. 2022, "Train Short, Test Long", figures 1 and 4). In windows that do
not overlap, a longer one also has fewer tokens with little context before them, which alone lowers the loss (section
B.1 there); sliding windows leave that out. All lengths score the same tokens, so differences are paired.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources
from headrace.train.evaluation.benchmarks.language_modelling import TextScores
from headrace.train.evaluation.held_out_documents import HeldOutDocument, sample
from headrace.train.evaluation.metrics import losses, ratio
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import TokenQuery
from headrace_courses.exact_continuation import not_possible

WHERE = "evaluation.benchmarks"
Way = Literal["windows", "sliding"]
WAYS: tuple[Way, ...] = ("windows", "sliding")
CHANGE = "loss_change"
Answered = Mapping[str, Outcome]
"""The outcomes of one way and length, by the names of the documents."""


@settings
class Extrapolation(TextScores, Benchmark):
    """The loss of held-out tokens by the length of the window that they are read in."""

    sentence: ClassVar[str] = "The loss of the same tokens in windows of several lengths, also beyond the trained one."
    needs_run: ClassVar[bool] = True
    type: Literal["extrapolation"] = "extrapolation"
    limit: Positive | None = 100
    """At most this many documents."""
    lengths: Annotated[tuple[Positive, ...], Field(min_length=1)] = (128, 256, 512, 1024)
    """Lengths of windows in tokens, rising, each a divisor of the last one; documents must be longer than that."""
    sliding_tokens: Positive = 64
    """The tokens at the end of a text that sliding windows score; at most the first length."""

    def __post_init__(self) -> None:
        lengths = list(self.lengths)
        if lengths != sorted(set(lengths)) or any(lengths[-1] % length for length in lengths):
            remedy = "give rising numbers that divide the last one, such as [128,256,512]"
            raise ConfigError(WHERE, f"lengths is {lengths}", remedy)
        if self.sliding_tokens > lengths[0]:
            problem = f"sliding_tokens is {self.sliding_tokens}, the first of lengths {lengths[0]}"
            raise ConfigError(WHERE, problem, "make sliding_tokens smaller")

    def items(self, sources: Sources) -> list[Item]:
        """Returns an item for each way of reading, length and document; none of a length that the model cannot read."""
        most = sources.most_window_tokens
        long = [document for document in sources.held_out_documents if len(document.tokens) > self.lengths[-1]]
        documents = sample(long, self.limit)
        return [
            Item(document.name, tuple(self._queries(document, way, length)), group=group_of(way, length))
            for way in WAYS
            for length in self.lengths
            if most is None or length <= most
            for document in documents
        ]

    def _queries(self, document: HeldOutDocument, way: Way, length: int) -> Iterator[TokenQuery]:
        for text in self._texts(document.tokens):
            if way == "windows":
                for start in range(0, len(text) - 1, length):
                    yield TokenQuery(text[start : start + 1], text[start + 1 : start + length + 1], length)
            else:
                window = text[-length - 1 :]
                yield TokenQuery(window[: -self.sliding_tokens], window[-self.sliding_tokens :], length)

    def _texts(self, tokens: np.ndarray) -> Iterator[np.ndarray]:
        """Yields texts of the last length, each with the token before it, from the end of the document backwards."""
        longest = self.lengths[-1]
        for end in range(len(tokens), longest, -longest):
            yield tokens[end - longest - 1 : end]

    def notes(self, most_window_tokens: int | None) -> tuple[str, ...]:
        return not_possible({length: length for length in self.lengths}, most_window_tokens)

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns for each way and length the loss (nats per token), its change from the first length, the perplexity
        and the number of tokens; documents are the unit of the errors, and those of a change are paired.

        The change in sliding windows, from the first to the last length that the model reads, stands for the whole.
        """
        answered: dict[str, dict[str, Outcome]] = {}
        for item, outcome in zip(items, outcomes, strict=True):
            answered.setdefault(item.group, {})[item.name] = outcome
        all_metrics: list[Metric] = []
        for way in WAYS:
            groups = [group_of(way, length) for length in self.lengths if group_of(way, length) in answered]
            for group in groups:
                all_metrics += _metrics(answered[group], answered[groups[0]], group, vocabulary)
        changes = [metric for metric in all_metrics if metric.name == CHANGE]
        return [*(dataclasses.replace(metric, group="") for metric in changes[-1:]), *all_metrics]


def group_of(way: Way, length: int) -> str:
    """Returns the group of one way of reading and length: ``sliding_512``."""
    return f"{way}_{length}"


def _metrics(answered: Answered, first: Answered, group: str, vocabulary: int) -> Iterator[Metric]:
    """Yields the metrics of one length; ``first`` has the same documents at the first length."""
    nats, tokens = ([outcome[name] for outcome in answered.values()] for name in ("nats", "tokens"))
    metrics = losses(nats, tokens, vocabulary)
    if answered is not first:
        metrics.append(ratio(CHANGE, [answered[name]["nats"] - first[name]["nats"] for name in answered], tokens, 0.0))
    metrics.append(Metric("scored_tokens", math.fsum(tokens), None, None, None, len(answered)))
    return (dataclasses.replace(metric, group=group) for metric in metrics)
