"""Compares cleaned documents with their texts before cleaning, and marks each removed line with its rule.

    document of texts   menu             - c4_lines.end_mark
                        A sentence.
                        Shared words.    - unique_lines
    cleaned document    A sentence.

The document is in the same shard of ``texts`` as of ``clean`` and ``unique``.

Rules that judge single lines are applied again. The other missing lines were removed by rules that the document's
metadata names: if there is one such rule, the lines are marked with its name, else with ``removed``.

The lines that a later version still has are found by a patience diff, in O(n log n) time:

    menu         0        1. lines that occur once in each text, in the same order:  A sentence. (1, 0)
    A sentence.  1   0    2. between these, from the top, the next equal line
    menu         2
    Changed.     3   1

``difflib`` finds longer runs, but its time grows with the cube of the number of equal lines: minutes for one page of
174 kB.
"""

import bisect
import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.filter import LineFilter, apply_rules, is_within, removed_parts
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.stored_documents import Located, matches, rule_of, with_ids

REMOVED = "removed"
REWRITTEN = "rewritten"
"""Marks of lines that an unknown rule removed or replaced."""


@dataclasses.dataclass(frozen=True)
class MarkedLine:
    """A line of a page, with the rule that removed it or dropped the page because of it; empty for a kept line."""

    text: str
    rule: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A document with its lines, those that were removed among them."""

    document: Document
    lines: list[MarkedLine]
    filters: Sequence[AnyFilter] = ()
    """The filters that cleaned it."""

    @property
    def drop(self) -> Mapping[str, Any]:
        """The rule and the value that dropped it; empty for a kept document."""
        return self.document.metadata.get("drop") or {}


def pages(documents: Sequence[Located], texts: Artifact | None, cleaning: Cleaning) -> list[Page]:
    """Returns documents of clean or unique with their lines before ``cleaning``, in the artifact ``texts``.

    Without ``texts``, these are documents of that artifact, which have lost no line.
    """
    originals = {} if texts is None else with_ids(texts, [(shard, document.id) for shard, document in documents])
    return [
        Page(
            document,
            marked_lines(document, originals[document.id].text if document.id in originals else None, cleaning),
            cleaning.filters,
        )
        for _, document in documents
    ]


def marked_lines(document: Document, original: str | None, cleaning: Cleaning) -> list[MarkedLine]:
    """Returns the non-blank lines of ``original``, those missing from ``document`` with the rule that removed them.

    Without ``original``, these are the lines of ``document``.
    """
    filters = cleaning.filters
    drop = rule_of(document)
    last = next((n for n, page_filter in enumerate(filters) if is_within(page_filter.base_reason, drop)), len(filters))
    known = _non_blank(document.text)
    lines = [MarkedLine(text) for text in known]
    if original is not None and _non_blank(original) != known:
        lines = _judged([MarkedLine(text) for text in _non_blank(original)], filters[:last])
        lines = list(_aligned(lines, known, _other_rule(document, filters)))
    return _judged(lines, filters[last : last + 1])


def _non_blank(text: str) -> list[str]:
    return list(filter(None, map(str.strip, text.splitlines())))


def _judged(lines: list[MarkedLine], filters: Iterable[object]) -> list[MarkedLine]:
    """Returns ``lines`` after those of the ``filters`` that judge single lines."""
    for line_filter in filters:
        if isinstance(line_filter, LineFilter):
            lines = [line if line.rule else _judged_line(line.text, line_filter) for line in lines]
    return lines


def _judged_line(text: str, line_filter: LineFilter) -> MarkedLine:
    text, failed = apply_rules(line_filter.rules, text)
    return MarkedLine(text.strip()) if failed is None else MarkedLine(text, line_filter.reason(failed.type))


def _other_rule(document: Document, filters: Iterable[object]) -> str:
    """Returns the only rule that removed parts of ``document`` and is not applied again here, else ``REMOVED``."""
    line_filters = {page_filter.type for page_filter in filters if isinstance(page_filter, LineFilter)}
    names = {name for _, name, _ in removed_parts(document)}
    others = {name for name in names if name.partition(".")[0] not in line_filters}
    return others.pop() if len(others) == 1 else REMOVED


def _aligned(lines: Sequence[MarkedLine], known: Sequence[str], rule: str) -> Iterator[MarkedLine]:
    """Yields ``lines``; those missing from ``known`` are marked with ``rule``, and rewritten lines are inserted."""
    left = [line.text for line in lines if not line.rule]
    first, *edits = _deletions(left, known, rule) or _edits(left, known, rule)
    remaining = iter(edits)
    yield from first
    for line in lines:
        if line.rule:
            yield line
        else:
            yield from next(remaining)


def _deletions(left: Sequence[str], known: Sequence[str], rule: str) -> list[list[MarkedLine]]:
    """Returns ``_edits`` if lines were only removed from ``left``; else an empty list."""
    index, edits = 0, [list[MarkedLine]()]
    for text in left:
        is_kept = index < len(known) and known[index] == text
        index += is_kept
        edits.append([MarkedLine(text, "" if is_kept else rule)])
    return edits if index == len(known) else []


def _edits(left: Sequence[str], known: Sequence[str], rule: str) -> list[list[MarkedLine]]:
    """Returns the lines inserted before ``left``, then for each of its lines: itself and the lines inserted after it.

    Lines that are missing from ``known`` are marked.
    """
    edits = [list[MarkedLine](), *([MarkedLine(text)] for text in left)]
    rewriting = REWRITTEN if rule == REMOVED else rule
    pairs = [(-1, -1), *aligned_lines(left, known), (len(left), len(known))]
    for (before, above), (end, last) in itertools.pairwise(pairs):
        name = rewriting if last > above + 1 else rule
        edits[before + 2 : end + 1] = [[MarkedLine(text, name)] for text in left[before + 1 : end]]
        edits[end] += [MarkedLine(text) for text in known[above + 1 : last]]
    return edits


def excerpt(lines: Sequence[MarkedLine], number: int, rule: str = "") -> list[MarkedLine | int]:
    """Returns at most ``number`` of ``lines`` in their order, and between them the number of lines left out.

    Lines that ``rule`` removed (any rule if it is empty) and their neighbours are preferred, then the first lines.
    """
    removed = [n for n, line in enumerate(lines) if line.rule and matches(rule, line.rule)]
    near = {n + offset for n in removed for offset in (-1, 0, 1)}
    chosen = sorted(sorted(range(len(lines)), key=lambda n: (n not in near, n))[:number])
    shown: list[MarkedLine | int] = []
    for before, n in itertools.pairwise([-1, *chosen, len(lines)]):
        if n - before > 1:
            shown.append(n - before - 1)
        if n < len(lines):
            shown.append(lines[n])
    return shown


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
