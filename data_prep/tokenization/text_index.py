"""Finds the passages of one text that stand in a corpus, token for token.

    text      a b c d b          corpus    … x a b c x … b c d b y …
    passages  a b c, b c d b     the longest ones: none is a part of another one at the same place of the text

The corpus is read once, and once more for the places, by an automaton of the text: each state is a set of sequences of
tokens that end at the same places of the text. After each token of the corpus, the automaton knows the longest sequence
that ends there and stands in the text (Blumer et al., "The smallest automaton recognizing the subwords of a text",
Theoretical Computer Science 40, 1985). A step takes constant time on average, however often the text or the corpus
repeats itself. The memory is linear in the text. Nothing is hashed without being compared, so the result is exact.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.kernel import int64, kernel, kernel_in_place
from headrace.data_prep.tokenization.packing import Index

NONE = -1
"""No token of the text, no state, no passage, or an empty slot."""


@dataclasses.dataclass(frozen=True)
class CorpusPart:
    """Consecutive tokens of one shard, some of which belong to the corpus."""

    shard: int
    """Its number in the corpus, from 0."""
    offset: int
    """The offset of the first of ``tokens`` in the shard."""
    tokens: NDArray[Any]
    starts: Index
    """(parts,): where the parts that belong to the corpus start in ``tokens``, in rising order."""
    stops: Index
    """(parts,): where they stop."""
    goes_on: bool
    """Whether the first part goes on from the last one before."""


@dataclasses.dataclass(frozen=True)
class SharedPassage:
    """A sequence of tokens of the text that stands in the corpus."""

    starts: Sequence[int]
    """The indices in the text where it stands and no longer one does."""
    length: int
    """Its number of tokens."""
    log_probability: float
    """The sum of ln(number of a token in the corpus / tokens of the corpus): how rare its tokens are."""
    state: int
    """The state of the automaton that stands for it, and for no other passage."""


@dataclasses.dataclass(frozen=True)
class Places:
    """The places of a passage in the corpus."""

    number: int
    """Their number."""
    first: Sequence[tuple[int, int]]
    """(shard, offset of its first token), once for each of the first documents."""


class TextIndex:
    """All sequences of tokens of one text."""

    def __init__(self, tokens: NDArray[Any], end_of_text: int) -> None:
        """Builds the automaton.

        Args:
            tokens: (n,), the text.
            end_of_text: the token between documents, which is a part of no passage.
        """
        alphabet, own = np.unique(np.append(tokens.astype(np.int64), end_of_text), return_inverse=True)
        self._own: Index = own[:-1].astype(np.int64)
        self._numbers = np.full(int(alphabet[-1]) + 1, NONE, np.int64)
        """(largest token + 1,): the number of each token of the text, from 0."""
        self._numbers[alphabet] = np.arange(alphabet.size)
        self._numbers[end_of_text] = NONE
        self._lengths, self._links, self._ends, self._keys, self._targets = _automaton(self._own, alphabet.size)
        self._alphabet_size = alphabet.size

    def passages(self, corpus: Iterable[CorpusPart], least: int) -> tuple[list[SharedPassage], int]:
        """Returns the longest passages of ``least`` or more tokens, the rarest first, and the tokens of the corpus."""
        longest, counts = np.zeros(self._lengths.size, np.int64), np.zeros(self._alphabet_size, np.int64)
        carried, total = np.zeros(2, np.int64), 0
        for part in corpus:
            total += int((part.stops - part.starts).sum())
            _measure(part.tokens, part.starts, part.stops, *self._arrays(part, carried), longest, counts)
        order = np.argsort(self._lengths, kind="stable")
        _spread(longest, order, self._lengths, self._links)
        states = _nearest(longest > 0, order, self._links)[self._ends]
        lengths = np.where(states == NONE, 0, longest[states])
        is_longest = np.append(lengths[1:] <= lengths[:-1], True)[: lengths.size] & (lengths >= least)
        starts_of: dict[int, list[int]] = {}
        for end in np.flatnonzero(is_longest).tolist():
            starts_of.setdefault(int(states[end]), []).append(end + 1 - int(lengths[end]))
        logs = np.log(np.maximum(counts, 1) / max(total, 1))[self._own]
        sums = np.append(0.0, np.cumsum(logs))
        passages = []
        for state, starts in starts_of.items():
            length = int(longest[state])
            passages.append(SharedPassage(starts, length, float(sums[starts[0] + length] - sums[starts[0]]), state))
        return sorted(passages, key=lambda passage: (passage.log_probability, passage.starts)), total

    def places(
        self,
        corpus: Iterable[CorpusPart],
        bounds: Callable[[int], NDArray[np.uint64]],
        chosen: Sequence[SharedPassage],
        documents: int,
    ) -> list[Places]:
        """Returns where each of the ``chosen`` passages stands, with a place in each of the first ``documents``.

        The time is linear in the corpus, times the number of chosen passages that end with one another.

        Args:
            corpus: the same as that of ``passages``.
            bounds: shard → offsets of the ends of text before each of its documents, and of the last one.
            chosen: some of the result of ``passages``.
            documents: the most documents of each passage.
        """
        wanted = np.full(self._lengths.size, NONE, np.int64)
        wanted[[passage.state for passage in chosen]] = np.arange(len(chosen))
        nearest = _nearest(wanted != NONE, np.argsort(self._lengths, kind="stable"), self._links)
        lengths = np.array([passage.length for passage in chosen], np.int64)
        numbers, stored = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.int64)
        first = np.full((len(chosen), documents, 3), NONE, np.int64)
        carried = np.zeros(2, np.int64)
        for part in corpus:
            place = (part.shard, part.offset, bounds(part.shard).astype(np.int64))
            arrays = (wanted, nearest, lengths, numbers, stored, first)
            _locate(part.tokens, part.starts, part.stops, *self._arrays(part, carried), *place, *arrays)
        return [
            Places(int(number), [(shard, offset) for shard, _, offset in rows[:known].tolist()])
            for number, known, rows in zip(numbers, stored, first, strict=True)
        ]

    def _arrays(self, part: CorpusPart, carried: Index) -> tuple[Index, int, Index, Index, Index, Index, Index]:
        """Returns what the kernels read of the automaton, which stands at its beginning if ``part`` does not go on."""
        if not part.goes_on:
            carried[:] = 0
        return self._numbers, self._alphabet_size, self._lengths, self._links, self._keys, self._targets, carried


@kernel
def _automaton(text: Index, alphabet: int) -> tuple[Index, ...]:  # pragma: no cover (compiled)
    """Builds the suffix automaton of ``text``, numbers below ``alphabet``, token by token (Blumer et al. 1985).

    Returns:
        The length of the longest sequence of each state, (states,); the state of the longest end of it that stands at
        more places, (states,); the state of each beginning of the text, (n,); and the transitions as a hash table with
        open addressing: state · alphabet + token, and the next state.
    """
    n_states, most = 1, 2 * text.size + 1
    lengths, links = np.zeros(most, np.int64), np.full(most, NONE, np.int64)
    size = 8
    while size < 6 * text.size:  # a text of n tokens has less than 3 n transitions
        size *= 2
    keys, targets = np.full(size, NONE, np.int64), np.full(size, NONE, np.int64)
    heads, others = np.full(most, NONE, np.int64), np.full(size, NONE, np.int64)  # lists of the slots of each state
    ends = np.zeros(text.size, np.int64)
    last = 0
    for place in range(text.size):
        token = text[place]
        new, before, last = n_states, last, n_states
        n_states += 1
        lengths[new] = place + 1
        while before != NONE and keys[_slot(keys, before * alphabet + token)] == NONE:
            _add(keys, targets, heads, others, before, alphabet, token, new)
            before = links[before]
        links[new] = 0
        if before != NONE:
            after = targets[_slot(keys, before * alphabet + token)]
            links[new] = after
            if lengths[after] != lengths[before] + 1:
                clone = n_states
                n_states += 1
                lengths[clone], links[clone] = lengths[before] + 1, links[after]
                slot = heads[after]
                while slot != NONE:
                    _add(keys, targets, heads, others, clone, alphabet, keys[slot] % alphabet, targets[slot])
                    slot = others[slot]
                while before != NONE and targets[_slot(keys, before * alphabet + token)] == after:
                    targets[_slot(keys, before * alphabet + token)] = clone
                    before = links[before]
                links[after] = links[new] = clone
        ends[place] = new
    return lengths[:n_states], links[:n_states], ends, keys, targets


@kernel_in_place
def _slot(keys: Index, key: int) -> int:  # pragma: no cover (compiled)
    """Returns the slot of ``key``, or the empty one where it belongs."""
    mask = np.uint64(keys.size - 1)
    slot = ((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while keys[slot] != NONE and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return int64(slot)


@kernel_in_place
def _add(
    keys: Index, targets: Index, heads: Index, others: Index, state: int, alphabet: int, token: int, target: int
) -> None:  # pragma: no cover (compiled)
    """Adds the transition of ``state`` with ``token``, which it does not have yet, to ``target``."""
    slot = _slot(keys, state * alphabet + token)
    keys[slot], targets[slot] = state * alphabet + token, target
    others[slot], heads[state] = heads[state], slot


@kernel_in_place
def _follow(
    token: int, numbers: Index, alphabet: int, lengths: Index, links: Index, keys: Index, targets: Index,
    carried: Index,
) -> None:  # fmt: skip  # pragma: no cover (compiled)
    """Moves ``carried``, a state and the length of the longest match, past one token of the corpus."""
    number = numbers[token] if token < numbers.size else NONE
    if number == NONE:
        carried[0] = carried[1] = 0
        return
    state, length = carried[0], carried[1]
    target = targets[_slot(keys, state * alphabet + number)]
    while target == NONE and state:
        state = links[state]
        length = lengths[state]
        target = targets[_slot(keys, state * alphabet + number)]
    carried[0], carried[1] = target, length + 1


@kernel
def _measure(
    tokens: NDArray[Any], starts: Index, stops: Index, numbers: Index, alphabet: int, lengths: Index,
    links: Index, keys: Index, targets: Index, carried: Index, longest: Index, counts: Index,
) -> None:  # fmt: skip  # pragma: no cover (compiled)
    """Raises ``longest`` of each state to the length of its longest match, and counts the tokens of the text."""
    for part in range(starts.size):
        if part:
            carried[:] = 0
        for place in range(starts[part], stops[part]):
            token = int64(tokens[place])
            _follow(token, numbers, alphabet, lengths, links, keys, targets, carried)
            if carried[1]:
                counts[numbers[token]] += 1
                longest[carried[0]] = max(longest[carried[0]], carried[1])


@kernel
def _locate(
    tokens: NDArray[Any], starts: Index, stops: Index, numbers: Index, alphabet: int, lengths: Index,
    links: Index, keys: Index, targets: Index, carried: Index, shard: int, offset: int, bounds: Index,
    wanted: Index, nearest: Index, sizes: Index, times: Index, stored: Index, first: Index,
) -> None:  # fmt: skip  # pragma: no cover (compiled)
    """Counts the places of the passages ``wanted`` by state, and stores ``first``: shard, document, and offset."""
    for part in range(starts.size):
        if part:
            carried[:] = 0
        for place in range(starts[part], stops[part]):
            _follow(int64(tokens[place]), numbers, alphabet, lengths, links, keys, targets, carried)
            state = nearest[carried[0]]
            if state == carried[0] and state != NONE and carried[1] < sizes[wanted[state]]:
                state = nearest[links[state]]
            while state != NONE:
                passage = wanted[state]
                times[passage] += 1
                known = stored[passage]
                if known < first.shape[1]:
                    document = np.searchsorted(bounds, offset + place, side="left") - 1
                    if not known or first[passage, known - 1, 0] != shard or first[passage, known - 1, 1] != document:
                        first[passage, known] = shard, document, offset + place + 1 - sizes[passage]
                        stored[passage] += 1
                state = nearest[links[state]]


@kernel
def _spread(longest: Index, order: Index, lengths: Index, links: Index) -> None:  # pragma: no cover (compiled)
    """Raises ``longest`` of the states whose sequences end matches of other states. ``order``: rising lengths."""
    for i in range(order.size - 1, 0, -1):
        if longest[order[i]]:
            longest[links[order[i]]] = lengths[links[order[i]]]


@kernel
def _nearest(is_marked: NDArray[np.bool_], order: Index, links: Index) -> Index:  # pragma: no cover (compiled)
    """Returns for each state itself if it is marked, else the nearest marked one along its links, or NONE."""
    nearest = np.full(order.size, NONE, np.int64)
    for state in order:
        nearest[state] = state if is_marked[state] else NONE if links[state] == NONE else nearest[links[state]]
    return nearest
