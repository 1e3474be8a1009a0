"""The score of a continuation under an encoder: the sum of the scores of its tokens, each with all others in view.

    sequence     [CLS] context continuation [SEP]        as much of the context as fits
    score        sum over the tokens of the continuation of ln p(token, or its label | the sequence)

masked_likelihood.py and detection_likelihood.py compute the scores of tokens. Such a sum is no likelihood of a text:
probabilities of all texts do not add up to 1. It is compared between sentences that differ in few words, and there is
no perplexity of it. A batch holds one query, so its answer does not depend on the other queries.
"""

import abc
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from headrace.pipeline.core.errors import TaskError
from headrace.train.inference.queries import Answer, Tally, TokenQuery
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.masked import CLASS, FRAME_TOKENS, MASK, SEPARATOR, Masked

Ids = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class MaskingTokens:
    """The tokens with which an encoder reads a text."""

    first: int
    last: int
    mask: int
    end_of_text: int
    """The context of a text without context; an encoder does not read it."""
    continues_V: NDArray[np.bool_]
    """(V,): True for a token that continues the word of the token before it."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, end_of_text: int) -> "MaskingTokens":
        """Finds the tokens in ``tokenizer``.

        Raises:
            ConfigError: when it lacks one.
        """
        vocabulary = Vocabulary.of_tokenizer(Masked(), tokenizer)
        first, last, mask = (vocabulary.special_ids[token] for token in (CLASS, SEPARATOR, MASK))
        return cls(first, last, mask, end_of_text, vocabulary.continues_V)

    def framed(self, text: Ids) -> Ids:
        """Returns ``text`` between the first and the last token of a sequence."""
        return np.concatenate([[self.first], text, [self.last]])


@dataclasses.dataclass(frozen=True)
class MaskedWindow:
    """A sequence that fits the model, with the positions of the tokens to predict."""

    sequence_T: Ids
    first: int
    end: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderLikelihood(abc.ABC):
    """The score of continuations under one encoder."""

    network: Transformer
    tokens: MaskingTokens
    window_tokens: int
    batch_tokens: int
    """The maximum number of positions of a batch."""
    device: torch.device
    origin: str = "evaluation"
    """The name of the model in errors."""

    def answers(self, queries: Sequence[TokenQuery]) -> list[Answer]:
        """Returns one answer per query, in the order of the queries. Equal queries are computed once.

        Raises:
            TaskError: when a log-likelihood is not finite.
        """
        keys = [(query.context.tobytes(), query.continuation.tobytes()) for query in queries]
        answer_of = {key: self._answer(query) for key, query in dict(zip(keys, queries, strict=True)).items()}
        return [answer_of[key] for key in keys]

    def tally(self, queries: Sequence[TokenQuery]) -> Tally:
        """Counts ``queries`` and what of them does not fit the window."""
        tally, window_tokens = Tally(), self.window_tokens - FRAME_TOKENS
        for query in queries:
            context, continuation = len(self._context(query)), len(query.continuation)
            lost = max(0, context - max(0, window_tokens - continuation))
            tally.count(continuation, lost, window_tokens)
        return tally

    @torch.inference_mode()
    def _answer(self, query: TokenQuery) -> Answer:
        total, greedy = 0.0, True
        for window in self._windows(query):
            for log_probs, is_greedy in self._scores(window):
                total += float(log_probs.sum())
                greedy &= bool(is_greedy.all())
        if not np.isfinite(total):
            remedy = "try evaluation.precision=fp32, or give a model that was trained well"
            raise TaskError(self.origin, f"gives a log-likelihood of {total}", remedy)
        return Answer(total, greedy, len(query.continuation))

    def _windows(self, query: TokenQuery) -> Iterator[MaskedWindow]:
        """Yields the continuation after as much of its context as fits; a longer one is cut into parts."""
        capacity = self.window_tokens - FRAME_TOKENS
        context, continuation = self._context(query), query.continuation.astype(np.int64)
        for start in range(0, len(continuation), capacity):
            part = continuation[start : start + capacity]
            before = np.concatenate([context, continuation[:start]])
            before = before[len(before) - min(len(before), capacity - len(part)) :]
            first = 1 + len(before)
            yield MaskedWindow(self.tokens.framed(np.concatenate([before, part])), first, first + len(part))

    def _context(self, query: TokenQuery) -> Ids:
        """Returns the context without the tokens that only begin a text."""
        context = query.context.astype(np.int64)
        return context[~np.isin(context, (self.tokens.end_of_text, self.tokens.first))]

    @abc.abstractmethod
    def _scores(self, window: MaskedWindow) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Yields the score of each token to score, and whether it is what the encoder expects, in parts of a batch."""
