"""A discriminator and its generator, trained together (ELECTRA, Clark et al. 2020).

    inputs      the [MASK] cooked the [MASK]                   labels      0   1      0    0   1
                   │                                                       │   │      │    │   │
    generator   ── p(token) at the masked positions ── drawn tokens ──> the artist cooked the dish   discriminator

The generator learns from -ln p of the hidden tokens, the discriminator from the labels. No gradient passes the drawn
tokens. A drawn token that equals the hidden one is no replacement. Both models have one embedding: token, position and
segment vectors, and their normalization (google-research/electra).

Shapes: B rows, T positions, K masked positions of a row, N of all rows, E width of the embedding, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from headrace.train.config import CHUNK_LOGITS, ModelConfig
from headrace.train.data.batches import DRAW_BITS, IGNORED
from headrace.train.model.transformer import Transformer, chosen
from headrace_courses.replaced_tokens import generator_of

SHARED = ("embedding", "positions", "segments", "embedding_norm")
"""The modules whose weights both models have."""


class Discriminator(Transformer):
    """A discriminator with the generator that replaces tokens for it."""

    def __init__(self, config: ModelConfig, vocabulary: int, generator_width: int) -> None:
        super().__init__(config, vocabulary)
        self.generator = Transformer(generator_of(config, generator_width), vocabulary)
        for name, weight in list(self.named_parameters()):
            module, _, leaf = name.rpartition(".")
            if module in SHARED:
                setattr(self.generator.get_submodule(module), leaf, weight)
        self.generator.head.weight = self.generator.embedding.weight

    def forward(self, *rows: Any, **options: Any) -> Tensor:
        """Returns the sums of both models."""
        return self.sums(*rows, **options)

    def sums(
        self,
        tokens_BT: Tensor,
        positions_BT: Tensor,
        documents_BT: Tensor,
        targets_BK: Tensor,
        at_BK: Tensor,
        draws_BK: Tensor,
    ) -> Tensor:
        """Returns four sums, (4,) in fp32: -ln p of the hidden tokens under the generator; -ln p of the labels of all
        tokens under the discriminator; how many tokens it labels wrongly; and how many are replaced.

        Args:
            tokens_BT: int64 ids with the hidden tokens replaced by [MASK].
            positions_BT: int64, counted from 0 in each document.
            documents_BT: int64 number of the document of a position, -1 for padding.
            targets_BK: int64 hidden tokens, -100 after the last one of a row.
            at_BK: int64 their positions; 0 after the last one, where the row has a token that is never hidden.
            draws_BK: int64 random numbers in [0, 2^53), one for each drawn token.
        """
        x_BTM = self.generator.attended(self.generator.embedding(tokens_BT), positions_BT, documents_BT)
        states_BKE = self.generator.transform(self.generator.normed(chosen(x_BTM, at_BK)))
        mlm = self.generator.head(states_BKE, targets_BK)
        drawn_BK = self._drawn(states_BKE, draws_BK)
        original_BT = _filled(tokens_BT, at_BK, targets_BK, targets_BK)
        given_BT = _filled(tokens_BT, at_BK, targets_BK, drawn_BK)
        logits_BT = super().forward(given_BT, positions_BT, documents_BT)[:, :, 0].float()
        is_token_BT, is_replaced_BT = documents_BT >= 0, given_BT != original_BT
        labels_BT = is_replaced_BT.to(logits_BT.dtype)
        losses_BT = functional.binary_cross_entropy_with_logits(logits_BT, labels_BT, reduction="none")
        wrong_BT = ((logits_BT > 0) != is_replaced_BT) & is_token_BT
        detection = (losses_BT * is_token_BT).sum()
        return torch.stack((mlm, detection, wrong_BT.sum().float(), is_replaced_BT.sum().float()))

    @torch.no_grad()
    def _drawn(self, states_BKE: Tensor, draws_BK: Tensor) -> Tensor:
        """Returns tokens_BK, drawn from the distributions of the generator, in chunks that bound the memory: each logit
        has a cumulative probability in fp64, too."""
        states_NE, uniform_N = states_BKE.flatten(0, 1), draws_BK.flatten().double() * 2.0**-DRAW_BITS
        chunk = max(1, CHUNK_LOGITS["cpu"] // 8 // self.vocabulary)
        parts = [
            drawn_tokens(self.generator.head(states_NE[start : start + chunk]), uniform_N[start : start + chunk])
            for start in range(0, len(states_NE), chunk)
        ]
        return torch.cat(parts).view_as(draws_BK)


def drawn_tokens(logits_nV: Tensor, uniform_n: Tensor) -> Tensor:
    """Returns tokens_n with the probabilities softmax(logits): the first one whose cumulative probability is above its
    number, which is uniform in [0, 1)."""
    cumulative_nV = logits_nV.float().softmax(-1).cumsum(-1, dtype=torch.float64)
    bounds_n1 = uniform_n[:, None] * cumulative_nV[:, -1:]
    return torch.searchsorted(cumulative_nV, bounds_n1, right=True)[:, 0].clamp(max=logits_nV.shape[1] - 1)


def _filled(tokens_BT: Tensor, at_BK: Tensor, targets_BK: Tensor, values_BK: Tensor) -> Tensor:
    """Returns ``tokens_BT`` with ``values_BK`` at the hidden positions; the slots after the last one change nothing."""
    values_BK = torch.where(targets_BK == IGNORED, tokens_BT.gather(1, at_BK), values_BK)
    return tokens_BT.scatter(1, at_BK, values_BK)
