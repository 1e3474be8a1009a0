"""Finds the lines of a text that a later version of it still has (a patience diff), in O(n log n) time.

    menu         0        1. lines that occur once in each text, in the same order:  A sentence. (1, 0)
    A sentence.  1   0    2. between these, from the top, the next equal line
    menu         2
    Changed.     3   1

``difflib`` finds longer runs, but its time grows with the cube of the number of equal lines: minutes for one page of
174 kB.
"""

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

IndexPair = tuple[int, int]
"""The index of a line in the old text, and in the new one."""


def aligned_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[IndexPair]:
    """Yields the indices of equal lines of ``old`` and ``new``; both indices increase."""
    indices = defaultdict[str, list[int]](list)
    for number, line in enumerate(new):
        indices[line].append(number)
    occurrences = Counter(old)
    unique = [
        (n, indices[line][0]) for n, line in enumerate(old) if occurrences[line] == len(indices.get(line, ())) == 1
    ]
    anchors = [*longest_increasing(unique), (len(old), len(new))]
    for (before, above), (end, last) in itertools.pairwise([(-1, -1), *anchors]):
        for number in range(before + 1, end):
            same = indices.get(old[number], [])
            index = bisect.bisect_right(same, above)
            if index < len(same) and same[index] < last:
                above = same[index]
                yield number, above
        if end < len(old):
            yield end, last


def longest_increasing(pairs: Sequence[IndexPair]) -> list[IndexPair]:
    """Returns the longest subsequence of ``pairs`` with increasing second numbers; the first ones must increase."""
    ends: list[int] = []
    chains: list[int] = []
    before: list[int] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect.bisect_left(ends, second)
        before.append(chains[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        chains[length : length + 1] = [number]
    subsequence: list[IndexPair] = []
    number = chains[-1] if chains else -1
    while number >= 0:
        subsequence.append(pairs[number])
        number = before[number]
    return subsequence[::-1]
