"""Where a token stands: learned vectors, or a rotation of queries and keys (RoPE, Su et al. 2021).

Shapes: B rows, T positions, N heads, K half of a head's width.

Each head's vector is cut into halves (a_K, b_K); pair k turns by the angle position · θ^(-k/K):

    (a, b) -> (a cos - b sin, b cos + a sin)

the layout of GPT-NeoX and of LLaMA's Hugging Face weights (the paper pairs neighbours: the same up to a permutation of
the columns of the projections).
"""

import torch
from torch import Tensor

Rotation = tuple[Tensor, Tensor]
"""cos_B1TK and sin_B1TK, fp32."""


def rotation(positions_BT: Tensor, head_width: int, theta: float) -> Rotation:
    """Cosines and sines of every position's angles.

    Computed anew from the positions, in fp32: a table kept in the module would be rounded with its weights to bf16.
    """
    k_K = torch.arange(0, head_width, 2, dtype=torch.float32, device=positions_BT.device)
    angles_B1TK = positions_BT[:, None, :, None].float() * (1.0 / theta ** (k_K / head_width))
    return angles_B1TK.cos(), angles_B1TK.sin()


def rotate(x_BNTD: Tensor, turn: Rotation) -> Tensor:
    """Queries or keys, turned."""
    cos_B1TK, sin_B1TK = (part.to(x_BNTD.dtype) for part in turn)
    a_BNTK, b_BNTK = x_BNTD.chunk(2, dim=-1)
    return torch.cat((a_BNTK * cos_B1TK - b_BNTK * sin_B1TK, b_BNTK * cos_B1TK + a_BNTK * sin_B1TK), dim=-1)
