"""Chooses the next token of each row from its logits.

Shapes: B rows, V vocabulary.

    logits / t ── top k ── softmax ── top p ──> p_0 >= p_1 >= ... of the kept tokens ── u in [0, 1) ──> token
                                                [---p_0---|--p_1--|-p_2-|..]
                                                               ^ u · (p_0 + p_1 + ...)
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headrace.train.inference.settings import Sampling


def random_of(seed: int, prompt: Sequence[int], copy: int) -> np.random.Generator:
    """Returns the random numbers of the ``copy``-th text (from 0) that continues ``prompt``."""
    key = hashlib.sha256(repr((seed, list(prompt), copy)).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "little")))


def choose(logits_BV: Tensor, sampling: Sampling, randoms: Sequence[np.random.Generator]) -> list[int]:
    """Returns one token for each row; each of ``randoms`` gives one number, unless the choice is greedy.

    Of equally likely tokens the one with the smaller id counts as more likely.
    """
    if not sampling.temperature:
        return list(logits_BV.argmax(-1).tolist())
    scaled_BV, ids_BV = (logits_BV.double() / sampling.temperature).sort(dim=-1, descending=True, stable=True)
    kept = scaled_BV.shape[-1] if sampling.top_k is None else min(sampling.top_k, scaled_BV.shape[-1])
    sums_BV = scaled_BV[:, :kept].softmax(-1).cumsum(-1)
    totals_B1 = sums_BV[:, -1:]
    if sampling.top_p is not None:
        last_B1 = torch.searchsorted(sums_BV, sampling.top_p * totals_B1).clamp(max=kept - 1)
        totals_B1 = sums_BV.gather(-1, last_B1)
    uniform_B1 = torch.tensor([[random.random()] for random in randoms], dtype=torch.float64, device=logits_BV.device)
    ranks_B1 = torch.searchsorted(sums_BV, uniform_B1 * totals_B1, right=True).clamp(max=kept - 1)
    return list(ids_BV.gather(-1, ranks_B1)[:, 0].tolist())
