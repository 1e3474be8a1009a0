"""Properties of the parts of a model that hold exactly, measured on the parts themselves (exact.py).

Shapes: B rows, T positions, M model width, N heads, D head width, as in positions.py and transformer.py.

Each deviation is the largest difference of two values that are equal in exact arithmetic, over the largest value; in
fp32 it is rounding.
"""

import dataclasses

import torch
from torch import Tensor

from headrace.train.config import ModelConfig
from headrace.train.model.attention import attention_scores
from headrace.train.model.cache import Cache
from headrace.train.model.initialization import initialize
from headrace.train.model.positions import RotaryPositions, SinusoidalPositions, rotate
from headrace.train.model.transformer import Transformer
from headrace.train.model.visibility import OF_STACK, in_layer, logit_mask
from headrace.train.parts import AttentionName, StackName

VOCABULARY = 97
WIDTH, HEADS, TOKENS = 32, 4, 12
SHIFT = 37


def _config(stack: StackName) -> ModelConfig:
    """Returns a small model without positions."""
    sizes = {"layers": 2, "width": WIDTH, "heads": HEADS, "kv_heads": HEADS, "mlp_width": 64, "context": 64}
    return ModelConfig(stack=stack, positions="none", **sizes)  # type: ignore[arg-type]


def rotary_shift() -> float:
    """Returns the deviation between logits of queries and keys at some positions, and at positions later by ``SHIFT``:
    they depend on the distance alone (Su et al. 2021, section 3.2)."""
    generator = torch.Generator().manual_seed(0)
    rope = RotaryPositions(_config("decoder"))
    q_BNTD, k_BNTD = torch.randn(2, 1, HEADS, TOKENS, WIDTH // HEADS, generator=generator)
    positions_BT = torch.arange(TOKENS)[None]
    logits = [
        rotate(q_BNTD, rotation) @ rotate(k_BNTD, rotation).transpose(2, 3)
        for rotation in (rope.rotation(positions_BT + shift, 10_000.0) for shift in (0, SHIFT))
    ]
    return _deviation(*logits)


def rotary_product(distance: int, width: int) -> float:
    """Returns the product of two equal vectors of ``width`` ones that are rotated at this ``distance``, over that at
    0."""
    sizes = {"layers": 1, "width": width, "heads": 1, "kv_heads": 1, "mlp_width": 4, "context": 64}
    rope = RotaryPositions(ModelConfig(positions="rope", **sizes))  # type: ignore[arg-type]
    ones_B1TD = torch.ones(1, 1, 2, width)
    positions_BT = torch.tensor([[0, distance]])
    first_D, later_D = rotate(ones_B1TD, rope.rotation(positions_BT, 10_000.0))[0, 0]
    return float(first_D @ later_D) / width


def sinusoidal_rotation() -> float:
    """Returns the deviation between PE(t + k) and PE(t) rotated by a matrix that depends on k alone, for all t
    (Vaswani et al. 2017, section 3.5): each pair (sin, cos) turns by k · 10,000^(-2i/M)."""
    scheme = SinusoidalPositions(_config("encoder"))
    positions_BT = torch.arange(TOKENS)[None]
    zeros_BTM = torch.zeros(1, TOKENS, WIDTH)
    first, later = (scheme(zeros_BTM, positions_BT + shift)[0].unflatten(-1, (-1, 2)) for shift in (0, SHIFT))
    angle = SHIFT / 10_000.0 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    sin, cos = first.unbind(-1)
    turned = torch.stack((sin * angle.cos() + cos * angle.sin(), cos * angle.cos() - sin * angle.sin()), -1)
    return _deviation(turned, later)


@torch.inference_mode()
def permuted(stack: StackName) -> float:
    """Returns the deviation between the logits of permuted tokens and the permuted logits of the tokens, in a model of
    ``stack`` without positions: an encoder has none, a causal decoder has."""
    generator = torch.Generator().manual_seed(0)
    model = Transformer(_config(stack), VOCABULARY).eval()
    initialize(model, 0)
    tokens_BT = torch.randint(0, VOCABULARY, (1, TOKENS), generator=generator)
    order = torch.randperm(TOKENS, generator=generator)
    positions_BT, documents_BT = torch.arange(TOKENS)[None], torch.zeros(1, TOKENS, dtype=torch.int64)
    logits, of_permuted = (model(tokens, positions_BT, documents_BT) for tokens in (tokens_BT, tokens_BT[:, order]))
    return _deviation(logits[:, order], of_permuted)


def cache_bytes(config: ModelConfig, tokens: int) -> int:
    """Returns the bytes of the keys and values of one sequence of ``tokens`` in bf16."""
    cache = Cache(config, 1, torch.bfloat16, torch.device("meta"))
    cache.reserve(tokens)
    return cache.bytes_per_row


def score_bytes(config: ModelConfig, tokens: int) -> int:
    """Returns the bytes of all scores of a layer's heads in bf16, for a row of ``tokens``."""
    q_BNTD = torch.empty(1, config.heads, tokens, config.head_width, dtype=torch.bfloat16, device="meta")
    return attention_scores(q_BNTD, q_BNTD).nbytes


def visible_pairs(stack: StackName, attention: AttentionName, window: int | None, tokens: int) -> int:
    """Returns the number of pairs of a query and a key that it sees in a row of ``tokens``, of ``tokens``² pairs."""
    shape = dataclasses.replace(_config(stack), attention_pattern=(attention,), window=window)
    visibility = in_layer(OF_STACK[stack], attention, shape)
    visible_BNTS = logit_mask(visibility, None, 1, 1, torch.arange(tokens)[None], tokens).visible_BNTS
    return int(visible_BNTS.expand(1, 1, tokens, tokens).sum())


def _deviation(first: Tensor, second: Tensor) -> float:
    return float((first - second).abs().max() / first.abs().max())
