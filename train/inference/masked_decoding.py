"""Fills all masked positions of a text together, so that the tokens fit each other.

Mask-Predict (Ghazvininejad et al. 2019) with 3 steps: the least certain tokens are masked and predicted again.

    The [MASK] [MASK] [MASK] .      all positions at once
    The  old   old    mill   .      2 of 3 are masked again:  The  old  [MASK] [MASK] .
    The  old   water  mill   .      1 of 3:                   The  old  [MASK]  mill  .

Gibbs sampling (Wang and Cho 2019): each step masks the positions one after the other and draws a token for each, given
all others. The texts of many steps follow the model's conditional distributions.

Metropolis-Hastings (Goyal et al. 2021): a draw of Gibbs sampling is a proposal, and taken with the probability
min(1, exp(E(x) - E(x')) · p(x_k | others) / p(x'_k | others)). The raw energy E is minus the sum over all tokens of the
text of their logits, each hidden alone. The conditional distributions of a masked model need not belong to one
distribution of texts; the texts of many steps here follow exp(-E).

Shapes: T tokens of the sequence, K masked positions, B copies of the sequence, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headrace.train.inference.encoder_likelihood import Ids
from headrace.train.inference.generation.sampling import choose, random_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.masked_likelihood import MaskedLikelihood, logits_at
from headrace.train.inference.masked_positions import encoder_of, masked_sequence
from headrace.train.inference.settings import MaskedDecoding, MaskedMethod, Sampling


def filled_together(model: InferenceModel, folder: Path, text: str, decoding: MaskedDecoding) -> str:
    """Returns ``text`` with a token at each masked position.

    Raises:
        ConfigError: when the model in ``folder`` is no encoder, or ``text`` has no masked position or does not fit.
    """
    likelihood = encoder_of(model, folder)
    sequence_T = masked_sequence(model, likelihood, text)
    METHODS[decoding.method](likelihood, sequence_T, decoding)
    return model.tokenizer.decode(sequence_T[1:-1].tolist())


def mask_predict(encoder: MaskedLikelihood, sequence_T: Ids, decoding: MaskedDecoding) -> None:
    """Fills the masked positions of ``sequence_T``. Step t of n masks the K · (n - t) / n least certain ones."""
    positions_K = np.flatnonzero(sequence_T == encoder.tokens.mask)
    certainty_K = np.zeros(len(positions_K))
    for step in range(decoding.steps):
        masked = np.argsort(certainty_K, kind="stable")[: len(positions_K) * (decoding.steps - step) // decoding.steps]
        if len(masked):
            sequence_T[positions_K[masked]] = encoder.tokens.mask
            best = _logits(encoder, sequence_T, positions_K[masked]).softmax(1).max(1)
            sequence_T[positions_K[masked]], certainty_K[masked] = best.indices.cpu().numpy(), best.values.cpu().numpy()


def gibbs(encoder: MaskedLikelihood, sequence_T: Ids, decoding: MaskedDecoding) -> None:
    """Fills the masked positions of ``sequence_T`` in place, in each step from left to right."""
    positions_K = np.flatnonzero(sequence_T == encoder.tokens.mask)
    random = random_of(decoding.seed, sequence_T.tolist(), copy=0)
    sampling = Sampling(temperature=decoding.temperature)
    for _ in range(decoding.steps):
        for position in positions_K:
            sequence_T[position] = encoder.tokens.mask
            (sequence_T[position],) = choose(_logits(encoder, sequence_T, np.array([position])), sampling, [random])


def metropolis_hastings(encoder: MaskedLikelihood, sequence_T: Ids, decoding: MaskedDecoding) -> None:
    """Fills the masked positions of ``sequence_T`` in place; the first text is that of one step of Gibbs sampling."""
    positions_K = np.flatnonzero(sequence_T == encoder.tokens.mask)
    random = random_of(decoding.seed, sequence_T.tolist(), copy=0)
    gibbs(encoder, sequence_T, dataclasses.replace(decoding, steps=1))
    for _ in range(decoding.steps):
        metropolis_hastings_step(encoder, sequence_T, positions_K, decoding.temperature, random)


def metropolis_hastings_step(
    encoder: MaskedLikelihood, sequence_T: Ids, positions_K: Ids, temperature: float, random: np.random.Generator
) -> None:
    """Proposes a token for each of ``positions_K`` in turn, and writes those that are taken to ``sequence_T``."""
    energy, sampling = _energy(encoder, sequence_T), Sampling(temperature=temperature)
    for position in positions_K:
        proposed_T = sequence_T.copy()
        proposed_T[position] = encoder.tokens.mask
        logits_1V = _logits(encoder, proposed_T, np.array([position]))
        (proposed_T[position],) = choose(logits_1V, sampling, [random])
        proposed_energy = _energy(encoder, proposed_T)
        back = float(logits_1V[0, sequence_T[position]] - logits_1V[0, proposed_T[position]])
        if random.random() < math.exp(min(0.0, (energy - proposed_energy + back) / temperature)):
            sequence_T[position], energy = proposed_T[position], proposed_energy


@torch.inference_mode()
def _energy(encoder: MaskedLikelihood, sequence_T: Ids) -> float:
    """Returns minus the sum of the logits of the tokens between the first and the last one."""
    positions, energy = np.arange(1, len(sequence_T) - 1), 0.0
    size = max(1, encoder.batch_tokens // len(sequence_T))
    for start in range(0, len(positions), size):
        hidden_B = positions[start : start + size]
        copies_BT = np.tile(sequence_T, (len(hidden_B), 1))
        copies_BT[np.arange(len(hidden_B)), hidden_B] = encoder.tokens.mask
        logits_BV = logits_at(encoder.network, copies_BT, hidden_B[:, None], encoder.device)[:, 0].double().cpu()
        energy -= float(logits_BV[np.arange(len(hidden_B)), sequence_T[hidden_B]].sum())
    return energy


@torch.inference_mode()
def _logits(encoder: MaskedLikelihood, sequence_T: Ids, positions_K: Ids) -> Tensor:
    """Returns logits_KV in fp32; tokens that frame or mask a text are impossible in it."""
    logits_KV = logits_at(encoder.network, sequence_T[None], positions_K[None], encoder.device)[0].float()
    logits_KV[:, [encoder.tokens.first, encoder.tokens.last, encoder.tokens.mask]] = -torch.inf
    return logits_KV


METHODS: Mapping[MaskedMethod, Callable[[MaskedLikelihood, Ids, MaskedDecoding], None]] = {
    "mask_predict": mask_predict,
    "gibbs": gibbs,
    "metropolis_hastings": metropolis_hastings,
}
