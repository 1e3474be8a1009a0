"""The protocol of likelihoods: what scoring asks a model. Free of torch.

    CausalLikelihood    a left-to-right model reads each shared beginning once (causal_likelihood.py)
    MaskedLikelihood    an encoder predicts each token from all others (masked_likelihood.py)

Another kind of model (an encoder-decoder) is another class in a module of its own. Scoring, sharing over ranks, the log
of answers and the benchmarks use only this protocol.
"""

from collections.abc import Sequence
from typing import Protocol

from headrace.train.inference.queries import Answer, Tally, TokenQuery


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
