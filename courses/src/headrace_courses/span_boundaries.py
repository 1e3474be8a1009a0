"""The span boundary objective: each token of a masked span, from the tokens on both sides of it (Joshi et al. 2020).

    tokens     x₀ x₁ [s₂ s₃ s₄] x₅         left 1 1 1, right 5 5 5, place 0 1 2

    h₀ = [x₁ ; x₅ ; position embedding of the place]
    h₁ = norm(gelu(W₁ h₀))
    y  = norm(gelu(W₂ h₁)) ── output layer ──> p(token)              section 3.2

Spans that touch each other are one, as in facebookresearch/SpanBERT (``merge_intervals``), so an end is never masked.

Shapes: B rows, T positions, K masked positions of a row, M model width, E width of the embedding.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED
from headrace.train.model.norms import build_norm
from headrace.train.model.transformer import Transformer, chosen

PLACES, PLACE_WIDTH = 20, 200
"""The places in a span with an embedding of their own, the last one for all after it, and its width (its code)."""


class SpanBoundaryHead(nn.Module):
    """The vector that the output layer reads of a token, from the ends of its span and its place in it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.places = nn.Embedding(PLACES, PLACE_WIDTH)
        self.first = nn.Linear(2 * config.width + PLACE_WIDTH, config.width)
        self.first_norm = build_norm(config)
        embedding_width = config.embedding_width or config.width
        self.second = nn.Linear(config.width, embedding_width)
        self.second_norm = build_norm(config, embedding_width)

    def forward(self, left_BKM: Tensor, right_BKM: Tensor, place_BK: Tensor) -> Tensor:
        """Returns y_BKE. ``place_BK``: int64 from 0, below PLACES."""
        x_BKM = torch.cat((left_BKM, right_BKM, self.places(place_BK)), dim=-1)
        x_BKM = self.first_norm(functional.gelu(self.first(x_BKM)))
        y_BKE: Tensor = self.second_norm(functional.gelu(self.second(x_BKM)))
        return y_BKE


class SpanBoundaryModel(Transformer):
    """An encoder with this head, which is only trained: no export has it."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        self.boundary_head = SpanBoundaryHead(config)

    def predicted(
        self, tokens_BT: Tensor, positions_BT: Tensor, documents_BT: Tensor, targets_BK: Tensor, at_BK: Tensor
    ) -> Tensor:
        """Returns two sums of -ln p of the targets, (2,): from their own positions, and from the ends of their spans.

        The arguments are those of ``Transformer.forward``.
        """
        x_BTM = self.attended(self.embedding(tokens_BT), positions_BT, documents_BT)
        nll = self.head(self.transform(self.normed(chosen(x_BTM, at_BK))), targets_BK)
        left_BK, right_BK, place_BK = boundaries(at_BK, targets_BK)
        ends = (self.normed(chosen(x_BTM, end_BK)) for end_BK in (left_BK, right_BK))
        return torch.stack((nll, self.head(self.boundary_head(*ends, place_BK), targets_BK)))

    def forward(self, *inputs: Any, at_BK: Tensor | None = None, **options: Any) -> Tensor:
        """Returns what ``predicted`` does of targets at the positions ``at_BK``; without them what the encoder does."""
        if at_BK is None:
            return super().forward(*inputs, **options)
        tokens_BT, positions_BT, documents_BT, targets_BK = inputs
        return self.predicted(tokens_BT, positions_BT, documents_BT, targets_BK, at_BK)


def boundaries(at_BK: Tensor, targets_BK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the positions left and right of the span of each masked position, and its place in it, int64 (B, K).

    Args:
        at_BK: int64, rising in each row up to its last masked position, 0 after it.
        targets_BK: int64, -100 after the last masked position. All three results are 0 there.
    """
    is_target_BK = targets_BK != IGNORED
    index_K = torch.arange(at_BK.shape[1], device=at_BK.device)
    goes_on_BK = functional.pad(at_BK.diff(dim=1) == 1, (1, 0)) & is_target_BK
    first_BK = torch.where(goes_on_BK, 0, index_K).cummax(1).values
    ends_BK = ~functional.pad(goes_on_BK[:, 1:], (0, 1))
    last_BK = torch.where(ends_BK, index_K, at_BK.shape[1]).flip(1).cummin(1).values.flip(1)
    left_BK, right_BK = at_BK.gather(1, first_BK) - 1, at_BK.gather(1, last_BK) + 1
    place_BK = (index_K - first_BK).clamp(max=PLACES - 1)
    return left_BK * is_target_BK, right_BK * is_target_BK, place_BK * is_target_BK
