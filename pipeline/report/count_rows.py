"""Turns counts of an artifact into ranked rows for the page.

{"dropped:few_words": 30, "dropped:curly_bracket": 10, "kept": 60} ── count_rows("dropped:", total=100) ──>
    few_words        30   30 %   ███░░░░░░░
    curly_bracket    10   10 %   █░░░░░░░░░

All bars of the page have one scale: a full bar is the whole total.
"""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class CountRow:
    """A name with its count. ``share`` is the count divided by a total, 0 to 1, and the length of the bar."""

    name: str
    count: int
    share: float | None


def count_rows(counts: Mapping[str, int], prefix: str, total: int) -> list[CountRow]:
    """Returns the counts whose keys begin with ``prefix``, largest first.

    Shares are of ``total``; None when it is 0.
    """
    numbers = {key.removeprefix(prefix): n for key, n in counts.items() if key.startswith(prefix) and n > 0}
    ranked = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return [CountRow(name, n, n / total if total else None) for name, n in ranked]


def shortened(ranked: list[CountRow], shown: int) -> list[CountRow]:
    """Returns the first ``shown`` of ``ranked``; two or more others are summed up in one row."""
    if len(ranked) <= shown + 1:
        return ranked
    rest = ranked[shown:]
    share = None if rest[0].share is None else sum(row.share or 0 for row in rest)
    return [*ranked[:shown], CountRow(f"{len(rest)} others", sum(row.count for row in rest), share)]


def histogram(counts: Mapping[str, int], prefix: str) -> list[tuple[int, int]]:
    """Returns (lower bound, count) of the keys ``<prefix><power of two>``, ascending; empty powers between are 0."""
    numbers = {int(key.removeprefix(prefix)): n for key, n in counts.items() if key.startswith(prefix)}
    if not numbers:
        return []
    first, last = min(numbers).bit_length(), max(numbers).bit_length()
    bounds = [1 << (bits - 1) if bits else 0 for bits in range(first, last + 1)]
    return [(bound, numbers.get(bound, 0)) for bound in bounds]
