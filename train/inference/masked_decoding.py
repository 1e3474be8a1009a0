"""Fills all masked positions of a text together, so that the tokens fit each other.

Mask-Predict (Ghazvininejad et al. 2019) with 3 steps: the least certain tokens are masked and predicted again.

    The [MASK] [MASK] [MASK] .      all positions at once
    The  old   old    mill   .      2 of 3 are masked again:  The  old  [MASK] [MASK] .
    The  old   water  mill   .      1 of 3:                   The  old  [MASK]  mill  .

Shapes: T tokens of the sequence, K masked positions, V vocabulary.
"""

from pathlib import Path

import numpy as np
import torch

from headrace.train.inference.encoder_likelihood import Ids, MaskedLikelihood, logits_at
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.masked_positions import encoder_of, masked_sequence


def filled_together(model: InferenceModel, folder: Path, text: str, steps: int) -> str:
    """Returns ``text`` with a token at each masked position, predicted in so many ``steps``.

    Raises:
        ConfigError: when the model in ``folder`` is no encoder, or ``text`` has no masked position or does not fit.
    """
    likelihood = encoder_of(model, folder)
    sequence_T = masked_sequence(model, likelihood, text)
    mask_predict(likelihood, sequence_T, steps)
    return model.tokenizer.decode(sequence_T[1:-1].tolist())


@torch.inference_mode()
def mask_predict(encoder: MaskedLikelihood, sequence_T: Ids, steps: int) -> None:
    """Fills the masked positions of ``sequence_T``. Step t of n masks the K · (n - t) / n least certain ones.

    Tokens that frame or mask a text are impossible in it.
    """
    positions_K, tokens = np.flatnonzero(sequence_T == encoder.tokens.mask), encoder.tokens
    certainty_K = np.zeros(len(positions_K))
    for step in range(steps):
        masked = np.argsort(certainty_K, kind="stable")[: len(positions_K) * (steps - step) // steps]
        if len(masked):
            places_K = positions_K[masked]
            sequence_T[places_K] = tokens.mask
            logits_KV = logits_at(encoder.network, sequence_T[None], places_K[None], encoder.device)[0].float()
            logits_KV[:, [tokens.first, tokens.last, tokens.mask]] = -torch.inf
            best = logits_KV.softmax(1).max(1)
            sequence_T[places_K], certainty_K[masked] = best.indices.cpu().numpy(), best.values.cpu().numpy()
