"""Beginnings that several sequences share, so that each is read once. No torch here.

Question: … Answer: │ yes, it │ is        a tree of segments: a segment is read after those on its way from the root
                    │         │ was
                    │ no
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

LEAST_SHARED_TOKENS = 8
"""A shorter beginning is read with each of the sequences that share it: a segment more costs more than it saves."""


@dataclasses.dataclass(frozen=True, eq=False)
class Segment:
    """Tokens ``start`` to ``end`` of each of some sequences, which are equal up to there."""

    start: int
    tokens: np.ndarray
    """int64."""
    members: tuple[int, ...]
    """The numbers of the sequences."""
    next: list["Segment"] = dataclasses.field(default_factory=list)
    """What follows in those members that go on."""

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


def alone(sequences: Sequence[np.ndarray]) -> list[Segment]:
    """Each sequence, shared with no other."""
    return [Segment(0, sequence, (number,)) for number, sequence in enumerate(sequences)]


def tree(sequences: Sequence[np.ndarray]) -> list[Segment]:
    """The first segments of all ``sequences`` (int64, none empty); which does not depend on their order."""
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
            going_on = [number for number in group if len(sequences[number]) > end]
            waiting += [(part, end, segment.next) for part in _split(sequences, going_on, end)]
        else:
            waiting += [(part, start, siblings) for part in _split(sequences, group, end)]
    return roots


def shared_tokens(one: np.ndarray, other: np.ndarray) -> int:
    """How many tokens both begin with."""
    length = min(len(one), len(other))
    different = np.flatnonzero(one[:length] != other[:length])
    return int(different[0]) if len(different) else length


def _split(sequences: Sequence[np.ndarray], ordered: Sequence[int], place: int) -> Iterator[list[int]]:
    """Runs of ``ordered`` with the same token at ``place``; those that end before it are a run of their own."""
    run: list[int] = []
    for number in ordered:
        if run and not np.array_equal(sequences[run[-1]][place : place + 1], sequences[number][place : place + 1]):
            yield run
            run = []
        run.append(number)
    if run:
        yield run
