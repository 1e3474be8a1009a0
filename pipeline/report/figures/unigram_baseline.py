"""A baseline for the loss on held-out text: a model that knows only how often each token occurs in training text.

nats          = − Σ over held-out tokens of ln p(token)
p(token)      = (occurrences in training documents + 1) / (training tokens + vocabulary)
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from headrace.data_prep.packed import held_out
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.core.artifact import Artifact

MAX_TOKENS = 20_000_000
"""No further shard is read after this number of tokens; rare tokens change the result little."""


@dataclasses.dataclass(frozen=True)
class UnigramLoss:
    """The loss of a unigram model on held-out documents, each with its end of text."""

    nats: float
    tokens: int
    text_bytes: int

    @property
    def per_token(self) -> float:
        """Nats per token."""
        return self.nats / self.tokens

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.text_bytes


def unigram_loss(inputs: Mapping[str, Artifact]) -> UnigramLoss | None:
    """Returns the loss of a unigram model on the held-out documents of ``inputs``, a run's artifacts.

    It is computed from the first shards of ``tokens``; None when these hold no document of one of the splits.
    """
    tokens, vocabulary = inputs["tokens"], inputs["tokenizer"].counts["vocabulary"]
    fraction = inputs["packed"].settings["packing"]["validation_fraction"]
    shards = TokenShards(tokens)
    training, validation = np.zeros(vocabulary, np.int64), np.zeros(vocabulary, np.int64)
    text_bytes = 0
    for shard in range(len(shards)):
        if training.sum() + validation.sum() >= MAX_TOKENS:
            break
        bounds = shards.bounds(shard).astype(np.int64)
        is_held_out = held_out(np.load(tokens.shard("keys", shard, "npy")), fraction)
        targets = shards.slice(shard, 1, int(bounds[-1]) + 1)  # the first token of a shard is predicted by no row
        is_validation = np.repeat(is_held_out, np.diff(bounds))
        training += np.bincount(targets[~is_validation], minlength=vocabulary)
        validation += np.bincount(targets[is_validation], minlength=vocabulary)
        text_bytes += int(shards.text_bytes(shard)[is_held_out].sum())
    if not training.any() or not text_bytes:
        return None
    nats = np.log(training.sum() + vocabulary) - np.log(training + 1)
    return UnigramLoss(float(validation @ nats), int(validation.sum()), text_bytes)
