"""Scores of sentences under a discriminator: the probability that no token of them was replaced.

    score(continuation) = sum over its tokens t of ln p(t is original | the context and the continuation)

One pass over the sentence gives the labels of all its tokens (Xia et al. 2022).
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from headrace.train.inference.encoder_likelihood import EncoderLikelihood, MaskedWindow


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
