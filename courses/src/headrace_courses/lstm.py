"""A recurrent language model with its own small training loop: the baseline that Transformers replaced.

    tokens ── embedding ── LSTM layers (Hochreiter and Schmidhuber 1997) ── the embedding transposed ──> next token

It reads the spans of training rows as a Transformer does: each begins with an empty state, its first token is given and
all others are predicted. AdamW; the learning rate rises over a tenth of the steps and falls to 0 along a cosine.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from headrace.train.data.batches import IGNORED

TokenPiece = NDArray[np.integer]
CLIP_NORM = 1.0


class LstmShape(Protocol):
    """The sizes of a model and of its training."""

    @property
    def layers(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def train_tokens(self) -> int: ...
    @property
    def batch_tokens(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def seed(self) -> int: ...


class Lstm(nn.Module):
    """Embedding, LSTM layers of the same width, and the embedding as output layer."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.layers = nn.LSTM(width, width, layers, batch_first=True)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Returns logits_BTV."""
        scaled_BTM = self.embedding(tokens_BT) * self.embedding.embedding_dim**0.5
        x_BTM, _ = self.layers(scaled_BTM)
        logits_BTV: Tensor = functional.linear(x_BTM, self.embedding.weight)
        return logits_BTV


def trained(pieces: Sequence[TokenPiece], vocabulary: int, shape: LstmShape) -> Lstm:
    """Returns a model trained on ``pieces``, again and again until it has predicted ``shape.train_tokens``."""
    generator = torch.Generator().manual_seed(shape.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(shape.seed)
        model = Lstm(vocabulary, shape.width, shape.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=shape.learning_rate)
    steps = max(1, shape.train_tokens // shape.batch_tokens)
    order: list[int] = []
    for step in range(steps):
        batch: list[TokenPiece] = []
        while sum(len(piece) - 1 for piece in batch) < shape.batch_tokens:
            order = order or torch.randperm(len(pieces), generator=generator).tolist()
            batch.append(pieces[order.pop()])
        for group in optimizer.param_groups:
            group["lr"] = shape.learning_rate * rate_factor(step, steps)
        optimizer.zero_grad()
        nats_BT, targets_BT = losses(model, batch)
        torch.autograd.backward(nats_BT.sum() / (targets_BT != IGNORED).sum())
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
    return model.eval()


def rate_factor(step: int, steps: int) -> float:
    """Returns the share of the learning rate at ``step``: a linear rise, then a cosine."""
    warmup = max(1, steps // 10)
    return min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * step / steps)))


def losses(model: Lstm, pieces: Sequence[TokenPiece]) -> tuple[Tensor, Tensor]:
    """Returns the loss of each token in nats, nats_BT, 0 in padding, and targets_BT, IGNORED in padding."""
    length = max(len(piece) for piece in pieces) - 1
    inputs = np.zeros((len(pieces), length), np.int64)
    targets = np.full((len(pieces), length), IGNORED, np.int64)
    for row, piece in enumerate(pieces):
        inputs[row, : len(piece) - 1], targets[row, : len(piece) - 1] = piece[:-1], piece[1:]
    targets_BT = torch.from_numpy(targets)
    logits_BTV = model(torch.from_numpy(inputs)).flatten(0, 1)
    nats_N = functional.cross_entropy(logits_BTV, targets_BT.flatten(), ignore_index=IGNORED, reduction="none")
    return nats_N.view_as(targets_BT), targets_BT


@torch.inference_mode()
def nats_of(model: Lstm, pieces: Sequence[TokenPiece], batch_pieces: int = 64) -> list[float]:
    """Returns the loss of each piece in nats, the sum over its tokens."""
    nats: list[float] = []
    for start in range(0, len(pieces), batch_pieces):
        nats_BT, _ = losses(model, pieces[start : start + batch_pieces])
        nats += nats_BT.double().sum(1).tolist()
    return nats
