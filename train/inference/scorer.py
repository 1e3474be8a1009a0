"""Log-likelihoods of continuations under a causal model: each shared beginning once, in batches of about one length.

    whole sequence   c c c c t t t      context, continuation
    inputs           c c c c t t        all but the last token, at most ``window_tokens`` of them (cut on the left)
    targets                t t t        predicted by the last as many positions

    queries ── pieces ──> inputs ── prefixes.tree ──> segments, level by level:
        Question: … Answer: │ yes        its keys and values are kept for what follows it (train/model/cache.py);
                            │ no         logits only of positions that predict a target

Shape legend: B rows of a batch, T positions, P new tokens of all rows (or pairs of positions), M features, V tokens of
the vocabulary, N positions that predict a target.

On a CPU with one or two threads a query scores the same to the last bit whatever other queries there are, their order
and ``batch_tokens``, as far as train/model/cache.py can say. With more threads, on a GPU, and for a model that only
``transformers`` computes, rounding may differ with the batch.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from headrace.pipeline.core.errors import ArtifactError, ConfigError, TaskError
from headrace.train.families.hf_folder import load
from headrace.train.inference.item import Answer, Attention, HeadWeights, Tokens
from headrace.train.inference.pieces import Piece, PieceKey, pieces
from headrace.train.inference.prefix_tree import Segment, alone, tree
from headrace.train.inference.settings import Inference
from headrace.train.model.recomputing import AnyCache, Extendable, Model, extendable

POSITIONS_AT_ONCE = 256
"""That many rows of logits exist at once: 50 MB of GPT-2. Fewer cost more each: the matrix is read for all of them."""


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

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


@dataclasses.dataclass(frozen=True)
class Place:
    """A segment to read behind what row ``row`` of a cache knows."""

    segment: Segment
    row: int

    @property
    def key(self) -> tuple[int, int, bytes, int]:
        """Sorts the longest first."""
        return -len(self.segment.tokens), -self.segment.end, self.segment.tokens.tobytes(), self.row


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scorer:
    """Scores queries with one model."""

    model: Model
    window_tokens: int
    """Positions that the model has."""
    batch_tokens: int
    """Rows times positions of a batch, padding and known beginnings included; a longer row is a batch of its own."""
    device: torch.device
    origin: str = "evaluation"
    """Where the model comes from, for errors."""

    def answers(self, queries: Sequence[Tokens]) -> tuple[list[Answer], Tally]:
        """One answer per query, in their order. Equal pieces are computed once.

        Raises:
            TaskError: when a log-likelihood is not finite.
        """
        tally = Tally()
        askers: dict[PieceKey, list[int]] = defaultdict(list)
        distinct: dict[PieceKey, Piece] = {}
        for number, query in enumerate(queries):
            self._count(query, tally)
            for piece in pieces(query, self.window_tokens):
                askers[piece.key].append(number)
                distinct[piece.key] = piece
        sums, greedy = np.zeros(len(queries)), np.ones(len(queries), bool)
        reading = Reading(extendable(self.model, self.device), list(distinct.values()), self.batch_tokens, self.device)
        for key, values, likeliest in zip(distinct, *reading.results(), strict=True):
            for number in askers[key]:
                sums[number] += values.sum()
                greedy[number] &= likeliest.all()
        if not np.isfinite(sums).all():
            wrong = f"gives a log-likelihood of {sums[~np.isfinite(sums)][0]}"
            raise TaskError(self.origin, wrong, "try evaluation.precision=fp32, or give a model that was trained well")
        found = zip(sums.tolist(), greedy.tolist(), queries, strict=True)
        return [Answer(total, likeliest, len(query.continuation)) for total, likeliest, query in found], tally

    @torch.inference_mode()
    def head_weights(self, query: Attention) -> HeadWeights:
        """What each head's weights are, in the mean over the pairs of ``query``; its sequence is computed alone."""
        tokens_BT = torch.from_numpy(query.tokens.astype(np.int64))[None].to(self.device)
        rows_P, columns_P = torch.from_numpy(query.pairs).to(self.device).unbind(1)
        layers = self.model.attention_weights(tokens_BT)
        return HeadWeights(tuple(tuple(w[0, :, rows_P, columns_P].double().mean(1).tolist()) for w in layers))

    def _count(self, query: Tokens, tally: Tally) -> None:
        context, continuation = len(query.context), len(query.continuation)
        lost = max(0, context + min(continuation, self.window_tokens) - 1 - self.window_tokens)
        tally.queries += 1
        tally.tokens += continuation
        tally.truncated_contexts += lost > 0
        tally.truncated_tokens += lost
        tally.split_continuations += continuation > self.window_tokens


class Reading:
    """One pass of a model over ``pieces``."""

    def __init__(self, model: Extendable, pieces: Sequence[Piece], batch_tokens: int, device: torch.device) -> None:
        self._model, self._pieces, self._batch_tokens, self._device = model, pieces, batch_tokens, device
        self._values = [np.zeros(piece.targets) for piece in pieces]
        self._likeliest = [np.zeros(piece.targets, bool) for piece in pieces]
        self._waiting: list[tuple[torch.Tensor, list[tuple[int, int]]]] = []

    @torch.inference_mode()
    def results(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """For each piece the log-probability of each target, and whether it was the likeliest token.

        Log-probabilities are taken in fp32, to be summed in fp64.
        """
        inputs = [piece.inputs for piece in self._pieces]
        roots = tree(inputs) if self._model.keeps_prefixes else alone(inputs)
        self._read([Place(segment, 0) for segment in roots], self._model.new_cache(1))
        if self._waiting:
            self._score(self._waiting)
        return self._values, self._likeliest

    def _read(self, places: Sequence[Place], known: AnyCache) -> None:
        """Read ``places``, whose rows are those of ``known``, and all that follows them."""
        for batch in batches(places, self._batch_tokens):
            end = max(place.segment.end for place in batch)
            cache = known.of_rows(self._tensor([place.row for place in batch]), end)
            tokens_P = np.concatenate([place.segment.tokens for place in batch])
            sizes_B = self._tensor([len(place.segment.tokens) for place in batch])
            x_PM = self._model.extend(cache, torch.from_numpy(tokens_P).to(self._device), sizes_B)
            self._predict([place.segment for place in batch], x_PM)
            following = [Place(segment, row) for row, place in enumerate(batch) for segment in place.segment.next]
            if following:
                self._read(following, cache)

    def _predict(self, segments: Sequence[Segment], x_PM: torch.Tensor) -> None:
        """Score the targets of the ``segments``, or keep them until there are enough; a position has its logits
        computed once for all members."""
        wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        before = 0
        for segment in segments:
            for member in segment.members:
                piece = self._pieces[member]
                first = len(piece.inputs) - piece.targets
                for position in range(max(first, segment.start), segment.end):
                    wanted[before + position - segment.start].append((member, position - first))
            before += len(segment.tokens)
        self._waiting += zip(x_PM[self._tensor(list(wanted))], wanted.values(), strict=True)
        while len(self._waiting) >= POSITIONS_AT_ONCE:
            self._score(self._waiting[:POSITIONS_AT_ONCE])
            del self._waiting[:POSITIONS_AT_ONCE]

    def _score(self, positions: Sequence[tuple[torch.Tensor, list[tuple[int, int]]]]) -> None:
        """Keep what each target scores; a position is x_M and who asks for it: a member and which of its targets."""
        logits_NV = self._model.logits(torch.stack([x_M for x_M, _ in positions])).float()
        asked = [(place, *one) for place, (_, askers) in enumerate(positions) for one in askers]
        places = self._tensor([place for place, _, _ in asked])
        targets = self._tensor([int(self._pieces[member].predicted[number]) for _, member, number in asked])
        values = functional.log_softmax(logits_NV, 1)[places, targets].tolist()
        likeliest = (logits_NV.argmax(1)[places] == targets).tolist()
        for (place, member, number), value, is_likeliest in zip(asked, values, likeliest, strict=True):
            self._values[member][number], self._likeliest[member][number] = value, is_likeliest
            if self._pieces[member].passed_over and number == 0:
                self._likeliest[member][number] = likeliest_of_rest(logits_NV[place], self._pieces[member])

    def _tensor(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)


def load_scorer(folder: Path, settings: Inference) -> Scorer:
    """A scorer of the exported model in Hugging Face's ``folder``, on the device and in the precision asked for.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
        ArtifactError: when the folder holds no whole model.
    """
    model = load(folder)
    check_finite(model, str(folder))
    return scorer_of(model, model.config.context, settings, str(folder))


def check_finite(model: torch.nn.Module, origin: str) -> None:
    """Refuse a model with a weight that is NaN or infinite: nothing that it says could be written down.

    Raises:
        ArtifactError: naming ``origin``, where the model comes from, and the first such weight.
    """
    for name, value in model.named_parameters():
        if not torch.isfinite(value).all():
            wrong = f"holds weights that are NaN or infinite ({name})"
            raise ArtifactError(origin, wrong, "give a model whose training went well, an earlier checkpoint, say")


def scorer_of(model: torch.nn.Module, window_tokens: int, settings: Inference, origin: str) -> Scorer:
    """A scorer of ``model``, which it moves to the device and casts to the precision asked for.

    Raises:
        ConfigError: when a GPU is asked for and there is none.
    """
    there = torch.cuda.is_available()
    if settings.device == "cuda" and not there:
        raise ConfigError("evaluation.device", "no GPU is visible here", "take auto or cpu")
    device = torch.device("cuda" if there and settings.device != "cpu" else "cpu")
    model = model.to(device, torch.bfloat16 if settings.precision == "bf16" else torch.float32)
    return Scorer(
        model=model, window_tokens=window_tokens, batch_tokens=settings.batch_tokens, device=device, origin=origin
    )


def likeliest_of_rest(logits_V: torch.Tensor, piece: Piece) -> bool:
    """Whether the first target of ``piece`` is the likeliest but for the tokens passed over."""
    target, rest_V = int(piece.predicted[0]), logits_V.clone()
    rest_V[list(piece.passed_over)] = -torch.inf
    rest_V[target] = logits_V[target]
    return int(rest_V.argmax()) == target


def batches(places: Sequence[Place], batch_tokens: int) -> Iterator[list[Place]]:
    """Cut ``places``, the longest first, so that one that does not fit in memory fails at once.

    The rows of a batch times its longest segment, times the furthest end of one, stay within ``batch_tokens``.
    """
    batch: list[Place] = []
    end = 0
    for place in sorted(places, key=lambda place: place.key):
        end = max(end, place.segment.end)
        if batch and (len(batch) + 1) * end > batch_tokens:
            yield batch
            batch, end = [], place.segment.end
        batch.append(place)
    if batch:
        yield batch
