"""Counts of an artifact as rows that a page can show.

{"dropped:few_words": 30, "dropped:curly_bracket": 10, "kept": 60} ── tallies("dropped:", of=100) ──>
    few_words        30   30 %   ███████████
    curly_bracket    10   10 %   ███▋
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Tally:
    """One name with its count; ``share`` is of a whole, ``bar`` of the largest count beside it (both 0 to 1)."""

    name: str
    count: int
    share: float | None
    bar: float


def tallies(counts: Mapping[str, int], prefix: str, of: int) -> list[Tally]:
    """Returns the counts whose keys begin with ``prefix``, largest first, as shares of ``of`` (unknown when 0)."""
    found = {key.removeprefix(prefix): n for key, n in counts.items() if key.startswith(prefix) and n > 0}
    largest = max(found.values(), default=1)
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Tally(name, n, n / of if of else None, n / largest) for name, n in ranked]


def shortened(ranked: list[Tally], shown: int) -> list[Tally]:
    """Returns the first ``shown`` of ``ranked``, and the others, when there are several, as a single row."""
    if len(ranked) <= shown + 1:
        return ranked
    rest, largest = ranked[shown:], ranked[0].count
    count = sum(tally.count for tally in rest)
    share = None if rest[0].share is None else sum(tally.share or 0 for tally in rest)
    return [*ranked[:shown], Tally(f"{len(rest)} others", count, share, min(1.0, count / largest))]


def histogram(counts: Mapping[str, int], prefix: str) -> list[tuple[int, int]]:
    """Returns ``(lower bound, count)`` of keys ``<prefix><power of two>``, ascending, with the empty powers."""
    found = {int(key.removeprefix(prefix)): n for key, n in counts.items() if key.startswith(prefix)}
    if not found:
        return []
    first, last = min(found).bit_length(), max(found).bit_length()
    bounds = [1 << (bits - 1) if bits else 0 for bits in range(first, last + 1)]
    return [(bound, found.get(bound, 0)) for bound in bounds]
