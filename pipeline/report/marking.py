"""Marks the lines of a page that cleaning removed, each with the rule that removed it.

    the source's record    menu             - c4_lines.end_mark
    (read again)           A sentence.
                           Shared words.    - unique_lines
    the stage's document   A sentence.

Filters that decide line by line are applied again. All other lines that the document lacks were removed by the rules in
its metadata: they are marked with the name of the rule if there is only one, else with ``removed``.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from datatrove.data import Document

from headrace.data_prep.clean import Clean
from headrace.data_prep.document import split_id
from headrace.data_prep.filters.line_rules import LineFilter, apply_rules
from headrace.data_prep.sources import AnySource
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.report.alignment import aligned

REMOVED = "removed"
REWRITTEN = "rewritten"
"""The marks of a line that was removed or rewritten by a rule that is not known."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a page, and the rule that removed it or dropped the page because of it; empty for a kept line."""

    text: str
    rule: str = ""


@dataclasses.dataclass(frozen=True)
class Page:
    """A document and its lines; only the kept ones if its record could not be read again."""

    document: Document
    lines: list[Line]
    is_compared: bool

    @property
    def drop(self) -> Mapping[str, Any]:
        return self.document.metadata.get("drop") or {}


def pages(documents: Sequence[Document], clean: Clean, records: int | None = None) -> list[Page]:
    """Returns ``documents`` that the stage ``clean``, or unique after it, kept or dropped, with their lines.

    Files of the source are read from their beginnings, so a late record of a large file takes long. ``records`` is the
    maximum number of records that are read of each file.
    """
    originals = records_again(clean.source, [document.id for document in documents], records)
    return [
        Page(document, marked(document, originals.get(document.id), clean), document.id in originals)
        for document in documents
    ]


def records_again(source: AnySource, ids: Collection[str], records: int | None = None) -> dict[str, str]:
    """Returns the texts of the documents ``ids`` in ``source``, without those whose file no longer exists.

    Another user may have written the artifact with these ids, so only files that the source lists are opened.
    """
    try:
        listed = {file.name for file in source.listing()} if ids else set()
    except ConfigError:  # no file of the source exists any more
        return {}
    wanted: dict[str, set[int]] = defaultdict(set)
    for file, record in map(split_id, ids):
        if file in listed and record is not None and (records is None or record < records):
            wanted[file].add(record)
    found = {}
    for file, numbers in wanted.items():
        try:
            for document, _ in itertools.islice(source.read(file), max(numbers) + 1):
                if document.id in ids:
                    found[document.id] = document.text.encode("utf-8", "replace").decode("utf-8")
        except ArtifactError:
            continue
    return found


def marked(document: Document, original: str | None, clean: Clean) -> list[Line]:
    """Returns the lines of ``original`` that are not blank: as in ``document``, or with the rule that removed them."""
    filters = clean.cleaning.filters
    drop = str((document.metadata.get("drop") or {}).get("rule", ""))
    decided = next((n for n, one in enumerate(filters) if drop.partition(".")[0] == one.type), len(filters))
    known = _filled(document.text)
    lines = [Line(text) for text in known]
    if original is not None and _filled(original) != known:
        lines = _judged([Line(text) for text in _filled(original)], filters[:decided])
        lines = list(_aligned(lines, known, _other_rule(document, filters)))
    return _judged(lines, filters[decided : decided + 1])


def _filled(text: str) -> list[str]:
    return list(filter(None, map(str.strip, text.splitlines())))


def _judged(lines: list[Line], filters: Iterable[object]) -> list[Line]:
    """Returns ``lines`` after those of ``filters`` that decide line by line."""
    for one in filters:
        if isinstance(one, LineFilter):
            lines = [line if line.rule else _judged_line(line.text, one) for line in lines]
    return lines


def _judged_line(text: str, one: LineFilter) -> Line:
    text, failed = apply_rules(one.rules, text)
    return Line(text.strip()) if failed is None else Line(text, one.reason(failed.type))


def _other_rule(document: Document, filters: Iterable[object]) -> str:
    """Returns the only rule that removed parts of ``document`` and is not applied again here, else ``REMOVED``."""
    asked = {one.type for one in filters if isinstance(one, LineFilter)}
    names = {name for unit in ("lines", "sentences") for name in document.metadata.get(f"removed_{unit}", {})}
    others = {name for name in names if name.partition(".")[0] not in asked}
    return others.pop() if len(others) == 1 else REMOVED


def _aligned(lines: Sequence[Line], known: Sequence[str], rule: str) -> Iterator[Line]:
    """Marks those of ``lines`` with ``rule`` that are missing from ``known``, which may hold rewritten ones."""
    left = [line.text for line in lines if not line.rule]
    first, *edits = _deletions(left, known, rule) or _edits(left, known, rule)
    remaining = iter(edits)
    yield from first
    for line in lines:
        if line.rule:
            yield line
        else:
            yield from next(remaining)


def _deletions(left: Sequence[str], known: Sequence[str], rule: str) -> list[list[Line]]:
    """Returns ``_edits`` if ``known`` is ``left`` without some lines; else nothing."""
    index, found = 0, [list[Line]()]
    for text in left:
        is_kept = index < len(known) and known[index] == text
        index += is_kept
        found.append([Line(text, "" if is_kept else rule)])
    return found if index == len(known) else []


def _edits(left: Sequence[str], known: Sequence[str], rule: str) -> list[list[Line]]:
    """Returns the lines before ``left``, then for each of its lines the line, marked if it was removed, and the lines
    that replace it."""
    found = [list[Line](), *([Line(text)] for text in left)]
    rewriting = REWRITTEN if rule == REMOVED else rule
    pairs = [(-1, -1), *aligned(left, known), (len(left), len(known))]
    for (before, above), (end, last) in itertools.pairwise(pairs):
        name = rewriting if last > above + 1 else rule
        found[before + 2 : end + 1] = [[Line(text, name)] for text in left[before + 1 : end]]
        found[end] += [Line(text) for text in known[above + 1 : last]]
    return found


def folded(lines: Sequence[Line], number: int, rule: str = "") -> list[Line | int]:
    """Returns ``number`` of ``lines`` in their order, and between them the number of lines that are left out.

    Lines that ``rule`` (or any rule) removed and their neighbours are taken first, then the page's first lines.
    """
    wanted = [n for n, line in enumerate(lines) if line.rule and is_by(rule, line.rule)]
    near = {n + offset for n in wanted for offset in (-1, 0, 1)}
    chosen = sorted(sorted(range(len(lines)), key=lambda n: (n not in near, n))[:number])
    found: list[Line | int] = []
    for before, n in itertools.pairwise([-1, *chosen, len(lines)]):
        if n - before > 1:
            found.append(n - before - 1)
        if n < len(lines):
            found.append(lines[n])
    return found


def is_by(rule: str, name: str) -> bool:
    """Whether ``name`` is ``rule`` or a rule of the filter ``rule``; true for an empty ``rule``."""
    return not rule or name == rule or name.startswith(f"{rule}.")
