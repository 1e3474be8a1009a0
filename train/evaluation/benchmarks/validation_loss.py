"""The loss on the documents that were held out from training.

    document ── its spans, as packed for training ──> nats of every token, the end-of-text token included

The mean over tokens is the training loop's validation loss over the whole split; bits per byte does not depend on the
tokenizer. The end-of-text tokens count: the sum is the length of a code that also encodes the ends of documents.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

from headrace.pipeline.core.settings import settings
from headrace.train.evaluation.benchmarks.base import Benchmark, Item, Outcome, Sources
from headrace.train.evaluation.held_out_documents import HeldOutDocument, sample
from headrace.train.evaluation.metrics import exponential, ratio
from headrace.train.evaluation.score_rows import Metric
from headrace.train.inference.queries import Answer, TokenQuery
from headrace.train.parts import StackName


@settings
class Validation(Benchmark):
    """Loss, perplexity and bits per byte on the run's own held-out split."""

    needs_run: ClassVar[bool] = True
    stacks: ClassVar[tuple[StackName, ...]] = ("decoder",)
    type: Literal["validation"] = "validation"

    def items(self, sources: Sources) -> list[Item]:
        return [
            Item(
                document.name,
                document_queries(document),
                sizes={"bytes": document.text_bytes},
            )
            for document in sample(sources.held_out_documents, self.limit)
        ]

    def outcome(self, item: Item, answers: Sequence[Answer]) -> Outcome:
        return {
            "nats": -math.fsum(answer.log_likelihood for answer in answers),
            "tokens": sum(answer.tokens for answer in answers),
            **item.sizes,
        }

    def metrics(self, items: Sequence[Item], outcomes: Sequence[Outcome], vocabulary: int) -> list[Metric]:
        """Returns bits per byte, loss (nats per token), and their exponentials; documents are the unit of the
        errors."""
        nats, tokens, text_bytes = ([outcome[name] for outcome in outcomes] for name in ("nats", "tokens", "bytes"))
        bits = [value / math.log(2) for value in nats]
        uniform_bits = math.log2(vocabulary) * sum(tokens) / sum(text_bytes)
        loss = ratio("loss", nats, tokens, math.log(vocabulary))
        bits_per_byte = ratio("bits_per_byte", bits, text_bytes, uniform_bits)
        nats_per_byte = ratio("byte_perplexity", nats, text_bytes, None)
        return [
            bits_per_byte,
            loss,
            exponential(loss, "perplexity", float(vocabulary)),
            exponential(nats_per_byte, "byte_perplexity", math.exp(min(uniform_bits * math.log(2), 709.0))),
        ]


def document_queries(document: HeldOutDocument) -> tuple[TokenQuery, ...]:
    """Returns a query for each span of ``document``: all of its tokens after the first."""
    return tuple(TokenQuery(span[:1], span[1:]) for span in document.spans)
