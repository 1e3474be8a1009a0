"""Log-likelihoods under a causal model: reads each shared beginning once, in batches of similar length.

    whole sequence   c c c c t t t      context, continuation
    inputs           c c c c t t        all but the last token, at most ``window_tokens`` of them (cut on the left);
                                        of an encoder–decoder at most window_tokens of c, and of t
    targets                t t t        predicted at the last positions, one target at each

    queries ── windows ──> inputs ── tree ──> segments, each read after those between it and the root:
        Question: … Answer: │ yes        its keys and values are kept for the segments after it (train/model/cache.py);
                            │ no         logits are computed only at positions that predict a target

Shape legend: B rows of a batch, T positions, P new tokens of all rows, M features, V tokens of the vocabulary,
N positions that predict a target.

A model whose contexts look ahead (prefix LM) reads each distinct context whole; only what follows it is shared further.

On a CPU with one or two threads the score of a query does not depend, to the last bit, on the other queries, their
order and ``batch_tokens`` (train/model/cache.py gives the conditions). With more threads, on a GPU, and for a model
that only ``transformers`` computes, rounding may differ with the batch.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch.nn import functional

from headrace.pipeline.core.errors import TaskError
from headrace.train.context import LEFT_TO_RIGHT, Capacity, ContextForm
from headrace.train.inference.queries import Answer, Tally, TokenQuery
from headrace.train.model.recomputing import AnyCache, Extendable, Model, extendable

LEAST_SHARED_TOKENS = 8
"""A shorter beginning is read with each sequence that has it: one more segment would cost more than it saves."""


@dataclasses.dataclass(frozen=True, eq=False)
class Segment:
    """Tokens ``start`` to ``end`` of sequences that are equal up to ``end``."""

    start: int
    tokens: np.ndarray
    """int64."""
    members: tuple[int, ...]
    """The indices of the sequences."""
    next: list["Segment"] = dataclasses.field(default_factory=list)
    """The segments after this one, in members that are longer."""

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


def alone(sequences: Sequence[np.ndarray]) -> list[Segment]:
    """Returns one segment per sequence; nothing is shared."""
    return [Segment(0, sequence, (number,)) for number, sequence in enumerate(sequences)]


def tree(sequences: Sequence[np.ndarray]) -> list[Segment]:
    """Returns the first segments of ``sequences`` (int64, none empty); they do not depend on the sequences' order."""
    roots: list[Segment] = []
    _grow(sequences, [(group, 0, roots) for group in _split(sequences, _ordered(sequences), 0)])
    return roots


def after_contexts(sequences: Sequence[np.ndarray], contexts: Sequence[int]) -> list[Segment]:
    """Returns one first segment for each distinct context, the first ``contexts[i]`` tokens of sequence i.

    The tokens of a context see each other, so contexts that merely begin alike share nothing; what follows equal
    contexts is shared as by ``tree``.
    """
    members: dict[bytes, list[int]] = defaultdict(list)
    for number in _ordered(sequences):
        members[sequences[number][: contexts[number]].tobytes()].append(number)
    roots: list[Segment] = []
    for group in members.values():
        end = contexts[group[0]]
        root = Segment(0, sequences[group[0]][:end], tuple(group))
        roots.append(root)
        longer = [number for number in group if len(sequences[number]) > end]
        _grow(sequences, [(part, end, root.next) for part in _split(sequences, longer, end)])
    return roots


def _ordered(sequences: Sequence[np.ndarray]) -> list[int]:
    return sorted(range(len(sequences)), key=lambda number: sequences[number].astype(">i8").tobytes())


def _grow(sequences: Sequence[np.ndarray], waiting: list[tuple[list[int], int, list[Segment]]]) -> None:
    """Adds segments to each list of siblings of ``waiting``, for sequences that are equal before an index."""
    while waiting:
        group, start, siblings = waiting.pop()
        first, last = sequences[group[0]], sequences[group[-1]]
        end = shared_tokens(first, last)
        if end - start >= LEAST_SHARED_TOKENS or len(last) == end:
            segment = Segment(start, first[start:end], tuple(group))
            siblings.append(segment)
            longer = [number for number in group if len(sequences[number]) > end]
            waiting += [(part, end, segment.next) for part in _split(sequences, longer, end)]
        else:
            waiting += [(part, start, siblings) for part in _split(sequences, group, end)]


def shared_tokens(first: np.ndarray, other: np.ndarray) -> int:
    """Returns the number of tokens that both begin with."""
    length = min(len(first), len(other))
    different = np.flatnonzero(first[:length] != other[:length])
    return int(different[0]) if len(different) else length


def _split(sequences: Sequence[np.ndarray], ordered: Sequence[int], index: int) -> Iterator[list[int]]:
    """Yields runs of ``ordered`` with the same token at ``index``; sequences that end before it form one run."""
    run: list[int] = []
    for number in ordered:
        if run and not np.array_equal(sequences[run[-1]][index : index + 1], sequences[number][index : index + 1]):
            yield run
            run = []
        run.append(number)
    if run:
        yield run


LOGITS_AT_ONCE = 256
"""The number of positions whose logits exist at once: 50 MB for GPT-2. Fewer cost more each, because the output matrix
is read once for all of them."""

WindowKey = tuple[int, bytes]


@dataclasses.dataclass(frozen=True)
class Window:
    """One sequence that fits the model: (T + 1,) int64, of which the last ``targets`` tokens are predicted."""

    sequence: np.ndarray
    targets: int
    given: int = 0
    """Tokens after the context that are not predicted."""

    @property
    def key(self) -> WindowKey:
        """A key that is equal for equal windows."""
        return self.targets, self.sequence.tobytes()

    @property
    def inputs(self) -> np.ndarray:
        return self.sequence[:-1]

    @property
    def context_tokens(self) -> int:
        """Returns the length of the context; its last token predicts the next one."""
        return len(self.inputs) - self.targets + 1 - self.given

    @property
    def predicted(self) -> np.ndarray:
        return self.sequence[-self.targets :]


def windows(query: TokenQuery, capacity: Capacity, form: ContextForm = LEFT_TO_RIGHT) -> Iterator[Window]:
    """Yields the windows that score ``query`` with a model of this ``capacity``.

    One window with as much of the context as fits (lm-evaluation-harness, HFLM._loglikelihood_tokens). A longer
    continuation is cut into consecutive parts of ``capacity.continuation`` tokens, each conditioned on the tokens
    that fit before it: one token for a full part (the harness's disjoint rolling windows, lm_eval/utils.py).
    The tokens that ``form`` adds are not part of this capacity.
    """
    whole = np.concatenate([query.context, query.continuation]).astype(np.int64)
    for start in range(len(query.context), len(whole), capacity.continuation):
        end = min(start + capacity.continuation, len(whole))
        begin = max(0, start - capacity.context_beside(end - start - 1))
        context, continuation = whole[begin:start].tolist(), whole[start:end].tolist()
        begun = form.begun(context)
        sequence = np.array([*form.read(context), *begun, *continuation], dtype=np.int64)
        yield Window(sequence, end - start, len(begun))


@dataclasses.dataclass(frozen=True, kw_only=True)
class CausalLikelihood:
    """The likelihood of one left-to-right model."""

    network: Model
    window_tokens: int
    batch_tokens: int
    """Rows times positions of a batch, padding and cached beginnings included; a longer row is a batch of its own."""
    device: torch.device
    origin: str = "evaluation"
    """The name of the model in errors."""

    def answers(self, queries: Sequence[TokenQuery]) -> list[Answer]:
        """Returns one answer per query, in the order of the queries. Equal windows are computed once.

        Raises:
            TaskError: when a log-likelihood is not finite.
        """
        network = extendable(self.network, self.device)
        askers: dict[WindowKey, list[int]] = defaultdict(list)
        distinct: dict[WindowKey, Window] = {}
        for number, query in enumerate(queries):
            for window in windows(query, self._capacity(query), network.context_form):
                askers[window.key].append(number)
                distinct[window.key] = window
        sums, greedy = np.zeros(len(queries)), np.ones(len(queries), bool)
        forward = ForwardPass(network, list(distinct.values()), self.batch_tokens, self.device)
        for key, log_probs, is_greedy in zip(distinct, *forward.results(), strict=True):
            for number in askers[key]:
                sums[number] += log_probs.sum()
                greedy[number] &= is_greedy.all()
        if not np.isfinite(sums).all():
            problem = f"gives a log-likelihood of {sums[~np.isfinite(sums)][0]}"
            raise TaskError(
                self.origin, problem, "try evaluation.precision=fp32, or give a model that was trained well"
            )
        answered = zip(sums.tolist(), greedy.tolist(), queries, strict=True)
        return [Answer(total, is_greedy, len(query.continuation)) for total, is_greedy, query in answered]

    def tally(self, queries: Sequence[TokenQuery]) -> Tally:
        """Counts ``queries`` and what of them does not fit the window."""
        tally = Tally()
        for query in queries:
            context, continuation = len(query.context), len(query.continuation)
            capacity = self._capacity(query)
            first = min(continuation, capacity.continuation)
            lost = max(0, context - capacity.context_beside(first - 1))
            tally.count(continuation, lost, capacity.continuation)
        return tally

    def _capacity(self, query: TokenQuery) -> Capacity:
        network = extendable(self.network, self.device)
        return network.context_form.capacity(query.window_tokens or self.window_tokens, network.has_encoder)


@dataclasses.dataclass(frozen=True)
class Extension:
    """A segment to read after the tokens that row ``row`` of a cache holds."""

    segment: Segment
    row: int

    @property
    def key(self) -> tuple[int, int, bytes, int]:
        """A key that sorts the longest first."""
        return -len(self.segment.tokens), -self.segment.end, self.segment.tokens.tobytes(), self.row


class ForwardPass:
    """One pass of a model over ``windows``."""

    def __init__(self, network: Extendable, windows: Sequence[Window], batch_tokens: int, device: torch.device) -> None:
        self._network, self._windows, self._batch_tokens, self._device = network, windows, batch_tokens, device
        self._log_probs = [np.zeros(window.targets) for window in windows]
        self._greedy = [np.zeros(window.targets, bool) for window in windows]
        self._waiting: list[tuple[torch.Tensor, list[tuple[int, int]]]] = []

    @torch.inference_mode()
    def results(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Returns for each window the log-probability of each target, and whether it was the most likely token.

        Log-probabilities are taken in fp32, to be summed in fp64.
        """
        inputs = [window.inputs for window in self._windows]
        if self._network.context_form.looks_ahead:
            roots = after_contexts(inputs, [window.context_tokens for window in self._windows])
        else:
            roots = tree(inputs) if self._network.keeps_prefixes else alone(inputs)
        first = [Extension(segment, 0) for segment in roots]
        self._read(first, self._network.new_cache(1), self._network.read_contexts)
        if self._waiting:
            self._score(self._waiting)
        return self._log_probs, self._greedy

    def _read(self, extensions: Sequence[Extension], cached: AnyCache, extend: Callable[..., torch.Tensor]) -> None:
        """Reads ``extensions`` of the rows of ``cached`` with ``extend``, and all segments after them."""
        for batch in batches(extensions, self._batch_tokens):
            end = max(extension.segment.end for extension in batch)
            cache = cached.of_rows(self._tensor([extension.row for extension in batch]), end)
            tokens_P = np.concatenate([extension.segment.tokens for extension in batch])
            sizes_B = self._tensor([len(extension.segment.tokens) for extension in batch])
            new_P = torch.from_numpy(tokens_P).to(self._device)
            x_PM = extend(cache, new_P, sizes_B)
            self._predict([extension.segment for extension in batch], x_PM)
            following = [
                Extension(after, row) for row, extension in enumerate(batch) for after in extension.segment.next
            ]
            if following:
                self._read(following, cache, self._network.extend)

    def _predict(self, segments: Sequence[Segment], x_PM: torch.Tensor) -> None:
        """Collects the positions that predict targets of the ``segments``, and scores them once there are enough.

        The logits of a position are computed once for all members.
        """
        wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        before = 0
        for segment in segments:
            for member in segment.members:
                window = self._windows[member]
                first = len(window.inputs) - window.targets
                for position in range(max(first, segment.start), segment.end):
                    wanted[before + position - segment.start].append((member, position - first))
            before += len(segment.tokens)
        self._waiting += zip(x_PM[self._tensor(list(wanted))], wanted.values(), strict=True)
        while len(self._waiting) >= LOGITS_AT_ONCE:
            self._score(self._waiting[:LOGITS_AT_ONCE])
            del self._waiting[:LOGITS_AT_ONCE]

    def _score(self, positions: Sequence[tuple[torch.Tensor, list[tuple[int, int]]]]) -> None:
        """Stores the log-probabilities of targets; a position is (x_M, [(window, index of its target), …])."""
        logits_NV = self._network.logits(torch.stack([x_M for x_M, _ in positions])).float()
        asked = [(index, *asker) for index, (_, askers) in enumerate(positions) for asker in askers]
        rows = self._tensor([row for row, _, _ in asked])
        targets = self._tensor([int(self._windows[member].predicted[number]) for _, member, number in asked])
        log_probs = functional.log_softmax(logits_NV, 1)[rows, targets].tolist()
        greedy = (logits_NV.argmax(1)[rows] == targets).tolist()
        for (_, member, number), log_prob, is_greedy in zip(asked, log_probs, greedy, strict=True):
            self._log_probs[member][number], self._greedy[member][number] = log_prob, is_greedy

    def _tensor(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self._device)


def batches(extensions: Sequence[Extension], batch_tokens: int) -> Iterator[list[Extension]]:
    """Yields ``extensions`` in batches, the longest first, so that one that does not fit in memory fails at once.

    The rows of a batch times the furthest end of a segment stay within ``batch_tokens``.
    """
    batch: list[Extension] = []
    end = 0
    for extension in sorted(extensions, key=lambda extension: extension.key):
        end = max(end, extension.segment.end)
        if batch and (len(batch) + 1) * end > batch_tokens:
            yield batch
            batch, end = [], extension.segment.end
        batch.append(extension)
    if batch:
        yield batch
