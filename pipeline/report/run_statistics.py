"""The numbers of a run about its tokens and rows, for the page: each with its label and a note."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.report.formatting import NONE, count, decimal, percent


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A number of the page with its label and a note, as text."""

    label: str
    value: str
    note: str = ""


def known(statistics: Sequence[Statistic]) -> list[Statistic]:
    """Returns the ``statistics`` that have a value."""
    return [statistic for statistic in statistics if statistic.value != NONE]


def totals(inputs: Inputs) -> list[Statistic]:
    """Returns the numbers of tokens and rows; none before the tokens."""
    tokens, packed = counts_of(inputs, "tokens"), counts_of(inputs, "packed")
    statistics = [
        Statistic("tokens", count(tokens.get("tokens")), "including one end-of-text token per document"),
        Statistic("training rows", count(packed.get("train_rows"))),
        Statistic("validation rows", count(packed.get("validation_rows"))),
    ]
    return known(statistics)


def token_statistics(inputs: Inputs) -> list[Statistic]:
    """Returns means and shares of tokens and rows; none before the tokenizer."""
    tokenizer, tokens, packed = (counts_of(inputs, name) for name in ("tokenizer", "tokens", "packed"))
    documents, positions = packed.get("train_documents"), packed["train_tokens"] + packed["train_padding"]
    statistics = [
        Statistic("vocabulary", count(tokenizer.get("vocabulary")), "tokens"),
        Statistic("bytes per token", decimal(_ratio(tokens.get("text_bytes"), tokens["tokens"]), 2), "of UTF-8 text"),
        Statistic("unknown", percent(_ratio(tokens.get("unknown_tokens"), tokens["tokens"])), "of all tokens"),
        Statistic("tokens per document", count(_ratio(tokens.get("tokens"), tokens["documents"])), "mean"),
        Statistic(
            "padding", percent(_ratio(packed.get("train_padding"), positions)), "of the positions of training rows"
        ),
        Statistic(
            "split documents", percent(_ratio(packed.get("train_split_documents"), documents)), "longer than a row"
        ),
        Statistic("held out", count(packed.get("validation_documents")), "documents for validation"),
    ]
    return known(statistics)


def counts_of(inputs: Inputs, stage: str) -> "Counter[str]":
    """Returns the counts of ``stage``; none if it is not finished."""
    return inputs[stage].counts if stage in inputs else Counter()


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None
