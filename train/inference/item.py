"""What a benchmark asks of a model, and what the model answers. No torch here.

    Benchmark ── items ──> Item ── queries ──> Text | Tokens ── scorer ──> Answer
                             └───────────────── outcome ──────────────────────┘

Nearly every benchmark comes down to one question: how likely is this continuation after that context? Others have the
model write, Generate ──> Written, or look into it, Attention ──> HeadWeights.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class Text:
    """How likely is ``continuation`` after ``context``? Both are tokenized together (``prompt.encode``)."""

    context: str
    continuation: str
    last_token: bool = False
    """Whether only the last token of the continuation is asked for; those before it are given."""
    passed_over: tuple[str, ...] = ()
    """Texts that are no answer: where one is a single token, the first of the continuation need not be likelier."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """The same question about text that is tokens already: two arrays of unsigned integers, the context not empty."""

    context: np.ndarray
    continuation: np.ndarray
    passed_over: tuple[int, ...] = ()
    """Tokens that the first of the continuation need not be likelier than to be called the likeliest."""


@dataclasses.dataclass(frozen=True, eq=False)
class Attention:
    """How much does each head attend from one token to another?"""

    tokens: np.ndarray
    """The sequence, of at most as many tokens as the model's window has."""
    pairs: np.ndarray
    """(P, 2): the position that attends, and the one that it attends to; the answer is the mean over them."""


@dataclasses.dataclass(frozen=True)
class Generate:
    """What does the model write after ``context``, greedily?"""

    context: str
    stops: tuple[str, ...]
    """The text ends before the first of these."""
    max_tokens: int
    """It gets at most so many tokens."""


Likelihood = Text | Tokens
"""What an ``Answer`` answers."""
Query = Likelihood | Attention | Generate


@dataclasses.dataclass(frozen=True)
class Item:
    """One question of a benchmark."""

    name: str
    """``<file>:<line>`` (lines from 1), or ``<token shard>:<document>`` (both from 0) for held-out text."""
    queries: tuple[Query, ...]
    """One per choice; the pieces of one document for held-out text."""
    choices: tuple[str, ...] = ()
    """The bare choices, without the delimiter before them: what length normalization divides by."""
    gold: int = 0
    """Which choice is right."""
    group: str = ""
    """The part of the benchmark that gets a score of its own."""
    sizes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """How much text it is, by unit (bytes, characters, words), where a score is per unit."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the model says to one query."""

    log_likelihood: float
    """Natural logarithm of P(continuation | context): the sum over its tokens."""
    greedy: bool
    """Whether each token of the continuation was the likeliest of all tokens."""
    tokens: int
    """Length of the continuation."""


@dataclasses.dataclass(frozen=True)
class HeadWeights:
    """What the heads of a model answer to an ``Attention``."""

    heads: tuple[tuple[float, ...], ...]
    """The mean weight, from 0 to 1, of each head of each layer."""


@dataclasses.dataclass(frozen=True)
class Written:
    """What the model answers to a ``Generate``."""

    text: str
    tokens: int
    """Its length, the end-of-text token included."""


AnyAnswer = Answer | HeadWeights | Written

Outcome = Mapping[str, float]
"""What one item adds to each metric: right (1) or wrong (0), a log-likelihood, a count."""
