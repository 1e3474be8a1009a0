"""Pseudo-log-likelihoods under an encoder: each token is hidden alone and predicted from all others.

    PLL(continuation) = sum over its tokens t of ln p(t | the context and all other tokens)      (Salazar et al. 2020)

    sequence             [CLS] The  tra ##ding  stops [SEP]
    original             [CLS] The [MASK] ##ding  stops [SEP]     one copy of the sequence for each token
    within_word_l2r      [CLS] The [MASK] [MASK]  stops [SEP]     the later pieces of its word are hidden, too

The second form (Kauf and Ivanova 2023) does not reward words whose pieces betray each other. The copies of a sequence
have one length, so a batch needs no padding, and the output layer is computed at the hidden position alone. A batch
holds copies of one query, so its answer does not depend on the other queries.

Shapes: B copies, T tokens of the sequence, K = 1 hidden position of a copy, V vocabulary.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from headrace.train.inference.encoder_likelihood import EncoderLikelihood, Ids, MaskedWindow
from headrace.train.inference.settings import PseudoLikelihood
from headrace.train.model.transformer import Transformer


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
