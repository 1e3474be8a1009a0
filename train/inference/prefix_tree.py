"""A tree of the beginnings that several sequences share, so that each is read once. Free of torch.

Question: … Answer: │ yes, it │ is        a tree of segments: a segment is read after those between it and the root
                    │         │ was
                    │ no
"""

import dataclasses
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
    ordered = sorted(range(len(sequences)), key=lambda number: sequences[number].astype(">i8").tobytes())
    roots: list[Segment] = []
    waiting = [(group, 0, roots) for group in _split(sequences, ordered, 0)]
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
    return roots


def shared_tokens(one: np.ndarray, other: np.ndarray) -> int:
    """Returns the number of tokens that both begin with."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
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
