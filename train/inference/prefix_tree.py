"""A tree of the beginnings that several sequences share, so that each is read once. Free of torch.

Question: … Answer: │ yes, it │ is        a tree of segments: a segment is read after those between it and the root
                    │         │ was
                    │ no
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

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
