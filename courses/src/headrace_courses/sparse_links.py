"""Global tokens and random keys, which link tokens beyond a window, as part of a picture's masks.

Longformer (Beltagy et al. 2020) lets all tokens of a document see its first ones; BigBird (Zaheer et al. 2020, section
2) lets each token also see random ones before its window. In a stack that looks ahead both links go both ways. Here
they are single tokens, the same in all layers and heads; BigBird draws blocks of 64 tokens for each head.
"""

import dataclasses
import random

import numpy as np

from headrace.train.config import ModelConfig
from headrace_courses.row_example import Mask, RowExample


def with_links(example: RowExample, config: ModelConfig, first: int, draws: int) -> RowExample:
    """Returns ``example`` with ``first`` global tokens of each document, and ``draws`` random keys before the window of
    each token, in the layers of ``config`` that have a window."""
    masks = [
        _linked(mask, example.arrays["documents"], config.window or 1, first, draws)
        if mask.queries == mask.keys == "inputs" and config.layer_attention[mask.layers[0]] == "window"
        else mask
        for mask in example.masks
    ]
    return dataclasses.replace(example, masks=masks)


def _linked(mask: Mask, documents_T: np.ndarray, window: int, first: int, draws: int) -> Mask:
    visible_TT = mask.visible_TS.copy()
    looks_ahead = np.triu(visible_TT, 1).any()
    for query, document in enumerate(documents_T):
        start = int(np.flatnonzero(documents_T == document)[0])
        position = query - start
        far = max(position - window + 1 - first, 0)
        generator = random.Random(position)
        drawn = {first + generator.randrange(far) for _ in range(draws if far else 0)}
        keys = [start + key for key in {*range(min(first, position + 1)), *drawn}]
        visible_TT[query, keys] = True
        if looks_ahead:
            visible_TT[keys, query] = True
    return dataclasses.replace(mask, visible_TS=visible_TT)
