"""Finds the lines of a text that are also in a later version of it, in nearly linear time.

    menu         0        lines that occur once in each, in an order that both have:    A sentence. (1, 0)
    A sentence.  1   0    between those, from the top, the next line that is the same
    menu         2
    Changed.     3   1

``difflib`` finds longer runs, but its time is cubic in the number of equal lines: minutes for one page of 174 kB.
"""

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

Pair = tuple[int, int]
"""The number of a line in one text and in the other."""


def aligned(one: Sequence[str], other: Sequence[str]) -> Iterator[Pair]:
    """Yields pairs of equal lines of ``one`` and ``other``; both numbers rise."""
    numbers = defaultdict[str, list[int]](list)
    for number, line in enumerate(other):
        numbers[line].append(number)
    times = Counter(one)
    only = [(n, numbers[line][0]) for n, line in enumerate(one) if times[line] == len(numbers.get(line, ())) == 1]
    anchors = [*longest_rising(only), (len(one), len(other))]
    for (before, above), (end, last) in itertools.pairwise([(-1, -1), *anchors]):
        for number in range(before + 1, end):
            same = numbers.get(one[number], [])
            index = bisect.bisect_right(same, above)
            if index < len(same) and same[index] < last:
                above = same[index]
                yield number, above
        if end < len(one):
            yield end, last


def longest_rising(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the longest part of ``pairs``, sorted by first number, whose second numbers rise too."""
    ends: list[int] = []
    chains: list[int] = []
    before: list[int] = []
    for number, (_, second) in enumerate(pairs):
        length = bisect.bisect_left(ends, second)
        before.append(chains[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        chains[length : length + 1] = [number]
    found: list[Pair] = []
    number = chains[-1] if chains else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]
