"""Log-likelihoods of continuations under a causal model, in batches of about one length.

    whole sequence   c c c c t t t      context, continuation
    inputs           c c c c t t        all but the last token, at most ``window_tokens`` of them (cut on the left)
    targets                t t t        predicted by the last as many positions

Shape legend: B rows of a batch, T positions, V tokens of the vocabulary, N targets of a batch.

What a query scores does not depend on the others or their order: causal attention never looks at the padding on the
right, and the set of queries alone, sorted by length and content, decides the batches.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from pipeline.core.errors import ConfigError
from train.evaluation.benchmark import Evaluation
from train.evaluation.item import Answer, Tokens
from train.export import load


class Model(Protocol):
    """A causal language model: int64 tokens, positions from 0, document numbers (-1 = padding) -> logits."""

    def __call__(
        self, tokens_BT: torch.Tensor, positions_BT: torch.Tensor, documents_BT: torch.Tensor
    ) -> torch.Tensor: ...


@dataclasses.dataclass
class Tally:
    """What was asked and what did not fit."""

    queries: int = 0
    tokens: int = 0
    """Tokens of the continuations."""
    truncated_contexts: int = 0
    """Queries whose context lost tokens on the left, because it did not fit the window with the continuation."""
    truncated_tokens: int = 0
    """Context tokens lost."""
    split_continuations: int = 0
    """Continuations longer than the window, scored in pieces (see ``pieces``)."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """One row of a batch: ``sequence`` (T + 1,) int64, of which the last ``targets`` tokens are predicted."""

    sequence: np.ndarray
    targets: int

    @property
    def key(self) -> tuple[int, int, bytes]:
        """Equal for equal pieces; sorts the longest first, so that a batch that does not fit fails at once."""
        return -len(self.sequence), self.targets, self.sequence.tobytes()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores queries with one model."""

    model: Model
    window_tokens: int
    """Positions that the model has."""
    batch_tokens: int
    """Rows times positions of a batch, padding included; a longer row is a batch of its own."""
    device: torch.device

    @torch.inference_mode()
    def answers(self, queries: Sequence[Tokens]) -> tuple[list[Answer], Tally]:
        """One answer per query, in their order. Equal pieces are computed once."""
        tally = Tally()
        askers: dict[tuple[int, int, bytes], list[int]] = defaultdict(list)
        distinct: dict[tuple[int, int, bytes], Piece] = {}
        for number, query in enumerate(queries):
            self._count(query, tally)
            for piece in pieces(query, self.window_tokens):
                askers[piece.key].append(number)
                distinct[piece.key] = piece
        sums, greedy = np.zeros(len(queries)), np.ones(len(queries), bool)
        for batch in batches([distinct[key] for key in sorted(distinct)], self.batch_tokens):
            for piece, (log_likelihood, likeliest) in zip(batch, self._score(batch), strict=True):
                for number in askers[piece.key]:
                    sums[number] += log_likelihood
                    greedy[number] &= likeliest
        found = zip(sums.tolist(), greedy.tolist(), queries, strict=True)
        return [Answer(total, likeliest, len(query.continuation)) for total, likeliest, query in found], tally

    def _count(self, query: Tokens, tally: Tally) -> None:
        context, continuation = len(query.context), len(query.continuation)
        lost = max(0, context + min(continuation, self.window_tokens) - 1 - self.window_tokens)
        tally.queries += 1
        tally.tokens += continuation
        tally.truncated_contexts += lost > 0
        tally.truncated_tokens += lost
        tally.split_continuations += continuation > self.window_tokens

    def _score(self, batch: Sequence[Piece]) -> Iterator[tuple[float, bool]]:
        """(log-likelihood, greedy) of each piece; log-probabilities in fp32, their sums in fp64."""
        rows, length = len(batch), len(batch[0].sequence) - 1
        tokens_BT = np.zeros((rows, length), np.int64)
        documents_BT = np.full((rows, length), -1, np.int64)
        predicts_BT = np.zeros((rows, length), bool)
        for row, piece in enumerate(batch):
            size = len(piece.sequence) - 1
            tokens_BT[row, :size] = piece.sequence[:-1]
            documents_BT[row, :size] = 0
            predicts_BT[row, size - piece.targets : size] = True
        targets_N = self._on_device(np.concatenate([piece.sequence[-piece.targets :] for piece in batch]))
        positions_BT = torch.arange(length, device=self.device).expand(rows, length)
        logits_BTV = self.model(self._on_device(tokens_BT), positions_BT, self._on_device(documents_BT))
        logits_NV = logits_BTV[self._on_device(predicts_BT)].float()
        chosen_N = logits_NV.gather(1, targets_N[:, None])[:, 0] - logits_NV.logsumexp(1)
        ends = np.cumsum([piece.targets for piece in batch])[:-1]
        sums = np.split(chosen_N.double().cpu().numpy(), ends)
        likeliest = np.split((logits_NV.argmax(1) == targets_N).cpu().numpy(), ends)
        return ((float(a.sum()), bool(b.all())) for a, b in zip(sums, likeliest, strict=True))

    def _on_device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)


def load_scorer(folder: Path, evaluation: Evaluation) -> Scorer:
    """A scorer of the exported model in Hugging Face's ``folder``, on the device and in the precision asked for.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
        ArtifactError: when the folder holds no whole model.
    """
    model = load(folder)
    return scorer_of(model, model.config.context, evaluation)


def scorer_of(model: torch.nn.Module, window_tokens: int, evaluation: Evaluation) -> Scorer:
    """A scorer of ``model``, which it moves to the device and casts to the precision asked for.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
    """
    there = torch.cuda.is_available()
    if evaluation.device == "cuda" and not there:
        raise ConfigError("evaluation.device", "no GPU is visible here", "take auto or cpu")
    device = torch.device("cuda" if there and evaluation.device != "cpu" else "cpu")
    model = model.to(device, torch.bfloat16 if evaluation.precision == "bf16" else torch.float32)
    return Scorer(model=model, window_tokens=window_tokens, batch_tokens=evaluation.batch_tokens, device=device)


def pieces(query: Tokens, window: int) -> Iterator[Piece]:
    """The rows that score ``query`` with a model of ``window`` positions.

    One row with as much of the context as fits (lm-evaluation-harness, HFLM._loglikelihood_tokens). A continuation
    longer than the window is cut into consecutive parts of ``window`` tokens, each conditioned on what fits before its
    end: one token for a full part (the harness's disjoint rolling windows, lm_eval/utils.py).
    """
    whole = np.concatenate([query.context, query.continuation]).astype(np.int64)
    for start in range(len(query.context), len(whole), window):
        end = min(start + window, len(whole))
        yield Piece(whole[max(0, end - window - 1) : end], end - start)


def batches(ordered: Sequence[Piece], batch_tokens: int) -> Iterator[list[Piece]]:
    """Cut pieces, longest first, into batches whose rows times longest row stay within ``batch_tokens``."""
    batch: list[Piece] = []
    for piece in ordered:
        if batch and (len(batch) + 1) * (len(batch[0].sequence) - 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch
