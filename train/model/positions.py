"""Position schemes: how a model knows where a token is.

Shapes: B rows, T positions, M model width, N heads, D head width, K half of a head's width.

    learned    a vector for each position, added to the embedding (GPT-2)
    rope       a rotation of queries and keys (RoPE, Su et al. 2021)

A scheme can change the embeddings, rotate queries and keys, and add a bias to the logits of attention.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.model.visibility import Bias
from headrace.train.parts import PositionsName

Rotation = tuple[Tensor, Tensor]
"""cos_B1TK and sin_B1TK, fp32."""


class Positions(nn.Module):
    """Base of the position schemes; each overrides what it changes."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        """Returns the embeddings with their positions, and the rotation of queries and keys."""
        return x_BTM, None

    def bias(self) -> Bias | None:
        """Returns what is added to the logits of attention; None adds nothing."""
        return None


class LearnedPositions(Positions):
    """A table of ``context`` vectors."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.empty(config.context, config.width))
        nn.init.normal_(self.weight)

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        return x_BTM + functional.embedding(positions_BT, self.weight), None


class RotaryPositions(Positions):
    """RoPE: pair k of a head's values is rotated by the angle position · θ^(-k/K).

    Each head's vector is cut into halves (a_K, b_K), and pair k is (a_k, b_k):

        (a, b) -> (a cos - b sin, b cos + a sin)

    This is the layout of GPT-NeoX and of LLaMA's Hugging Face weights. The paper pairs neighbours, which is the same up
    to a permutation of the columns of the projections.
    """

    def forward(self, x_BTM: Tensor, positions_BT: Tensor) -> tuple[Tensor, Rotation | None]:
        """Computes the angles from the positions in each call, in fp32.

        A table in the module would be rounded to bf16 together with its weights.
        """
        k_K = torch.arange(0, self.config.head_width, 2, dtype=torch.float32, device=positions_BT.device)
        frequencies_K = 1.0 / self.config.rope_theta ** (k_K / self.config.head_width)
        angles_B1TK = positions_BT[:, None, :, None].float() * frequencies_K
        return x_BTM, (angles_B1TK.cos(), angles_B1TK.sin())


POSITIONS: Mapping[PositionsName, Callable[[ModelConfig], Positions]] = {
    "learned": LearnedPositions,
    "rope": RotaryPositions,
}


def rotate(x_BNTD: Tensor, rotation: Rotation) -> Tensor:
    """Returns queries or keys, rotated."""
    cos_B1TK, sin_B1TK = (part.to(x_BNTD.dtype) for part in rotation)
    a_BNTK, b_BNTK = x_BNTD.chunk(2, dim=-1)
    return torch.cat((a_BNTK * cos_B1TK - b_BNTK * sin_B1TK, b_BNTK * cos_B1TK + a_BNTK * sin_B1TK), dim=-1)
