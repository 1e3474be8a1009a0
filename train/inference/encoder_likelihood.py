"""The score of a continuation under an encoder: the sum of the scores of its tokens, each with all others in view.

    sequence     [CLS] context continuation [SEP]        as much of the context as fits
    score        sum over the tokens of the continuation of ln p(token, or its label | the sequence)

Such a sum is no likelihood of a text:
probabilities of all texts do not add up to 1. It is compared between sentences that differ in few words, and there is
no perplexity of it. A batch holds one query, so its answer does not depend on the other queries.

**MaskedLikelihood**: each token is hidden alone and predicted from all others.

    PLL(continuation) = sum over its tokens t of ln p(t | the context and all other tokens)      (Salazar et al. 2020)

    sequence             [CLS] The  tra ##ding  stops [SEP]
    original             [CLS] The [MASK] ##ding  stops [SEP]     one copy of the sequence for each token
    within_word_l2r      [CLS] The [MASK] [MASK]  stops [SEP]     the later pieces of its word are hidden, too

The second form (Kauf and Ivanova 2023) does not reward words whose pieces betray each other. The copies of a sequence
have one length, so a batch needs no padding, and the output layer is computed at the hidden position alone.

Shapes: B copies, T tokens of the sequence, K = 1 hidden position of a copy, V vocabulary.

**DetectionLikelihood**: the probability under a discriminator that no token was replaced.

    score(continuation) = sum over its tokens t of ln p(t is original | the context and the continuation)

One pass over the sentence gives the labels of all its tokens (Xia et al. 2022).
"""

import abc
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch.nn import functional

from headrace.pipeline.core.errors import TaskError
from headrace.train.inference.queries import Answer, Tally, TokenQuery
from headrace.train.inference.settings import PseudoLikelihood
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskedLikelihood(EncoderLikelihood):
    """The pseudo-log-likelihood of one encoder."""

    form: PseudoLikelihood

    def _scores(self, window: MaskedWindow) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Yields ln p of each token to predict, and whether it is the most likely one, in parts of a batch."""
        length = len(window.sequence_T)
        size = max(1, self.batch_tokens // length)
        positions = np.arange(window.first, window.end)
        for start in range(0, len(positions), size):
            masked = positions[start : start + size]
            copies_BT = np.tile(window.sequence_T, (len(masked), 1))
            for copy_T, position in zip(copies_BT, masked.tolist(), strict=True):
                copy_T[position : self._hidden_end(window, position)] = self.tokens.mask
            logits_BV = self._logits(copies_BT, masked).float()
            targets_B = torch.from_numpy(window.sequence_T[masked]).to(self.device)
            log_probs_B = functional.log_softmax(logits_BV, 1).gather(1, targets_B[:, None])[:, 0]
            yield log_probs_B.double().cpu().numpy(), (logits_BV.argmax(1) == targets_B).cpu().numpy()

    def _hidden_end(self, window: MaskedWindow, position: int) -> int:
        """Returns the position after the last one that is hidden with ``position``."""
        end = position + 1
        while self.form == "within_word_l2r" and end < window.end and self.tokens.continues_V[window.sequence_T[end]]:
            end += 1
        return end

    def _logits(self, copies_BT: Ids, positions_B: Ids) -> torch.Tensor:
        """Returns logits_BV of each copy at its own position."""
        return logits_at(self.network, copies_BT, positions_B[:, None], self.device)[:, 0]


def logits_at(network: Transformer, tokens_BT: Ids, positions_BK: Ids, device: torch.device) -> torch.Tensor:
    """Returns logits_BKV of rows of one document each."""
    inputs_BT = torch.from_numpy(tokens_BT).to(device)
    positions_BT = torch.arange(inputs_BT.shape[1], device=device).expand_as(inputs_BT)
    at_BK = torch.from_numpy(positions_BK).to(device)
    logits_BKV: torch.Tensor = network(inputs_BT, positions_BT, torch.zeros_like(inputs_BT), at_BK=at_BK)
    return logits_BKV


@dataclasses.dataclass(frozen=True, kw_only=True)
class DetectionLikelihood(EncoderLikelihood):
    """The log-probability of a discriminator that no token of a continuation was replaced."""

    def _scores(self, window: MaskedWindow) -> Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Yields ln p(original) of each token, and whether it is above one half."""
        tokens_1T = torch.from_numpy(window.sequence_T)[None].to(self.device)
        positions_1T = torch.arange(tokens_1T.shape[1], device=self.device)[None]
        logits_1T1 = self.network(tokens_1T, positions_1T, torch.zeros_like(tokens_1T))
        logits_T = logits_1T1[0, window.first : window.end, 0].float()
        yield functional.logsigmoid(-logits_T).double().cpu().numpy(), (logits_T <= 0).cpu().numpy()
