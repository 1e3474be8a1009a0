"""Questions to a model, and its answers. Free of torch.

Text | Tokens ── Likelihood ──> Answer          how likely is this continuation after that context?
Generate      ── Generator ───> Written         what does the model write?
NetworkQuery  ── the network ─> any answer      what a package asks besides

``Likelihood`` is what scoring, sharing over ranks, the log of answers and the benchmarks ask a model. A left-to-right
model reads each shared beginning once (causal_likelihood.py), an encoder predicts each token from all others
(encoder_likelihood.py); another kind of model is another class in a module of its own.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.train.inference.settings import Sampling

if TYPE_CHECKING:  # ``headrace runs`` reads scores, and numpy takes longer to load than that
    import numpy as np
    from tokenizers import Tokenizer


@dataclasses.dataclass(frozen=True)
class Text:
    """The log-likelihood of ``continuation`` after ``context``; both are tokenized together (``prompt.encode``)."""

    context: str
    continuation: str


@dataclasses.dataclass(frozen=True, eq=False)
class TokenQuery:
    """The same question about tokens: two arrays of unsigned integers, the context not empty."""

    context: "np.ndarray"
    continuation: "np.ndarray"
    window_tokens: int | None = None
    """The positions to read it in, which may be more than the model was trained with; None: those that it has."""


@dataclasses.dataclass(frozen=True)
class Generate:
    """The text that the model writes after ``context``."""

    context: str
    sampling: Sampling


class NetworkQuery(abc.ABC):
    """A question of another kind, to the network itself: what a layer computes, say. Its benchmark defines it."""

    @abc.abstractmethod
    def answered(self, model: Any) -> Any:
        """Returns the answer of ``model`` (an ``InferenceModel``); every rank computes it."""


LikelihoodQuery = Text | TokenQuery
Query = LikelihoodQuery | Generate | NetworkQuery


@dataclasses.dataclass(frozen=True)
class Answer:
    """The likelihood of one continuation."""

    log_likelihood: float
    """Natural logarithm of P(continuation | context): the sum over its tokens."""
    greedy: bool
    """Whether each token of the continuation was the most likely of all tokens."""
    tokens: int
    """Length of the continuation."""


@dataclasses.dataclass(frozen=True)
class Written:
    """The answer to ``Generate``."""

    text: str
    tokens: int
    """Its length, with the end-of-text token."""


AnyAnswer = Answer | Written | Any
"""The answer to a query of any kind."""


@dataclasses.dataclass
class Tally:
    """Counts of queries and of tokens that did not fit the window."""

    queries: int = 0
    tokens: int = 0
    """Tokens of the continuations."""
    truncated_contexts: int = 0
    """Queries whose context lost tokens on the left, because it did not fit the window with the continuation."""
    truncated_tokens: int = 0
    """Context tokens lost."""
    split_continuations: int = 0
    """Continuations longer than the window, scored in several windows."""

    def count(self, continuation: int, lost: int, window: int) -> None:
        """Adds a query with a ``continuation`` of that many tokens, after ``lost`` context tokens did not fit.

        A continuation of more than ``window`` tokens is split.
        """
        self.queries += 1
        self.tokens += continuation
        self.truncated_contexts += lost > 0
        self.truncated_tokens += lost
        self.split_continuations += continuation > window

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


def with_opening(ids: Sequence[int], opening: Sequence[int]) -> list[int]:
    """Returns the tokens of a text after those of ``opening``, unless it begins with them, as a chat template may write
    it (lm-evaluation-harness: has_bos_prefix)."""
    begins = list(ids[: len(opening)]) == list(opening)
    return [*([] if begins else opening), *ids]


class TextEncoder(Protocol):
    """A tokenizer."""

    end_of_text: int
    """The token that an empty context becomes."""

    @property
    def end(self) -> int | None:
        """The token that ends a text; None: there is none."""
        ...

    @property
    def backend(self) -> "Tokenizer":
        """The tokenizer of the tokenizers library."""
        ...

    def encode(self, texts: Sequence[str]) -> "list[np.ndarray]":
        """Returns the ids of each text, without special tokens."""
        ...

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Returns the text of ``ids``; ids that are no token have none.

        With special tokens it is the text that was encoded: labels, tables of tokens, documents that are cut. Without
        them it is what a model writes, as transformers and lm-evaluation-harness show it.
        """
        ...


class Likelihood(Protocol):
    """Computes log-likelihoods of continuations under one model."""

    @property
    def window_tokens(self) -> int:
        """The number of positions that the model has."""
        ...

    @property
    def batch_tokens(self) -> int:
        """The number of tokens that the model reads at once."""
        ...

    def answers(self, queries: Sequence[TokenQuery]) -> list[Answer]:
        """Returns one answer per query, in the order of the queries.

        Raises:
            TaskError: when a log-likelihood is not finite.
        """
        ...

    def tally(self, queries: Sequence[TokenQuery]) -> Tally:
        """Counts ``queries`` and what of them does not fit the window; the model is not asked."""
        ...
