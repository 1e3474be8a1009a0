"""Beam search: of several texts under way, the one with the highest score is the continuation.

    beams 2        The ──┬── mill ──┬── turns    -1.9
                         │          └── wheel    -2.3        each step keeps the ``beams`` most likely texts,
                         └── old ───── mill      -2.6  x     of all rows' tokens together

A text's score is ln p(text) / ((5 + tokens) / 6)^length_penalty (Wu et al. 2016, section 7): without a penalty short
texts win, because each token lowers ln p. The search ends when no text under way can get a higher score than the best
one that has ended.

Shapes: R rows (texts under way of all prompts), V vocabulary.
"""

import dataclasses
import math
from typing import TYPE_CHECKING

from headrace.train.inference.generation.growing_text import GrowingText
from headrace.train.inference.settings import Sampling

if TYPE_CHECKING:
    from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Beam:
    """A text under way."""

    parent: int
    """The index of the text that it extends by a token, among the beams before."""
    text: GrowingText
    log_probability: float
    """ln p of its tokens."""


class BeamSearch:
    """The texts under way after one prompt, and the best one that has ended."""

    def __init__(self, text: GrowingText, sampling: Sampling) -> None:
        """``text`` has no tokens yet."""
        self._most, self._penalty, self._max_tokens = sampling.beams, sampling.length_penalty, sampling.most_tokens
        self.beams = [Beam(0, text, 0.0)]
        """The texts under way, the most likely first; none when the search has ended."""
        self.best, self._best_score = text, -math.inf

    def advance(self, log_probs_RV: "Tensor") -> None:
        """Extends the texts under way by a token, given ln p of each token after each of them.

        A text that ends counts only if it is among the ``beams`` most likely ones of this step.
        """
        import torch

        before, vocabulary = self.beams, log_probs_RV.shape[1]
        sums_R1 = torch.tensor([[beam.log_probability] for beam in before], device=log_probs_RV.device)
        top = (log_probs_RV + sums_R1).flatten().topk(min(2 * self._most, log_probs_RV.numel()))
        self.beams = []
        for rank, (log_probability, index) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True)):
            parent, token = divmod(index, vocabulary)
            text = before[parent].text.extended(token)
            if text.ending is None:
                self.beams.append(Beam(parent, text, log_probability))
            elif rank < self._most and (score := self._score(log_probability, len(text.tokens))) > self._best_score:
                self.best, self._best_score = text, score
            if len(self.beams) == self._most:
                break
        if self.beams and self._score(self.beams[0].log_probability, self._max_tokens) <= self._best_score:
            self.beams = []

    def _score(self, log_probability: float, tokens: int) -> float:
        return log_probability / math.pow((5 + tokens) / 6, self._penalty)
