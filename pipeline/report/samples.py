"""Samples a few documents for each rule: a kept and a dropped one side by side, with removed lines marked.

    rule that drops           any kept document              | a document that it dropped
    rule that removes lines   one that it removed lines from | a document that its filter dropped

Only a few shards at equal distances are opened, and each is read only as far as needed. To mark removed lines, only the
first records of raw files are read again. So the cost of a report does not grow with the data.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from datatrove.data import Document

from headrace.data_prep.clean import Clean
from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.facts import alternately
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.report.marking import Line, Page, folded, pages

T = TypeVar("T")
Rules = Mapping[str, int]
"""The number of documents to find for each rule."""

SHARDS = 8
"""Shards that samples are taken from."""
DOCUMENTS_PER_SHARD = 5_000
"""The maximum number of documents of a shard that are searched for rare rules."""
RECORDS_PER_FILE = 500
"""The maximum number of records of a raw file that are read again."""
PER_RULE = 3
KEPT = 12
"""The number of kept documents that are shown beside dropped ones, in turn."""
CHARACTERS = 300
VALUE_CHARACTERS = 150
LINES = 6
ANY = ""
"""The rule of every document."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """A document on the page: some of its lines, removed ones with their rules, and the numbers of lines left out."""

    id: str
    url: str
    rule: str
    """The rule that dropped it; empty when it was kept."""
    value: str
    lines: list[Line | int]

    @classmethod
    def of(cls, page: Page, rule: str) -> "Sample":
        """Returns ``page`` as an example of the effect of ``rule``."""
        document = page.document
        return cls(
            visible(document.id, CHARACTERS),
            visible(str(document.metadata.get("url") or ""), CHARACTERS),
            str(page.drop.get("rule", "")),
            visible(str(page.drop.get("value", "")), VALUE_CHARACTERS),
            [line if isinstance(line, int) else _shown(line) for line in folded(page.lines, LINES, rule)],
        )


def _shown(line: Line) -> Line:
    return Line(visible(line.text, CHARACTERS), line.rule)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A kept document and a dropped one; either may be missing."""

    kept: Sample | None
    dropped: Sample | None


def side_by_side(
    artifact: Artifact, clean: Clean, dropping: Sequence[str], removing: Sequence[str] = (), kept: int = KEPT
) -> dict[str, list[Pair]]:
    """Returns up to ``PER_RULE`` pairs for each rule that dropped documents or removed parts of kept ones.

    ``kept`` is the number of different kept documents beside dropped ones.
    """
    any_kept = {ANY: kept} if kept else {}
    left = chosen(artifact, "documents", any_kept | dict.fromkeys(removing, PER_RULE), _removed_by)
    wanted = dict.fromkeys([*dropping, *map(_filter, removing)], PER_RULE)
    right = chosen(artifact, "dropped", wanted, _dropped_by)
    documents = {one.id: one for found in (left, right) for some in found.values() for one in some}
    by_id = {page.document.id: page for page in pages(list(documents.values()), clean, RECORDS_PER_FILE)}

    def sample(document: Document | None, rule: str) -> Sample | None:
        return None if document is None else Sample.of(by_id[document.id], rule)

    contrast = itertools.cycle(left.get(ANY) or [None])
    found = {
        rule: [Pair(sample(next(contrast), ANY), sample(one, rule)) for one in right[rule]]
        for rule in dropping
        if rule in right
    }
    for rule in removing:
        both = itertools.zip_longest(left.get(rule, []), right.get(_filter(rule), []))
        found[rule] = [Pair(sample(kept_one, rule), sample(dropped_one, rule)) for kept_one, dropped_one in both]
    return found


def chosen(
    artifact: Artifact, kind: str, wanted: Rules, rules_of: Callable[[Document], Collection[str]]
) -> dict[str, list[Document]]:
    """Returns up to the ``wanted`` number of documents of ``kind`` for each rule, from several shards."""
    found: dict[str, list[list[Document]]] = defaultdict(list)
    for name in spread(names(artifact, kind), SHARDS) if wanted else []:
        for rule, documents in _of_shard(artifact.path(name), wanted, rules_of).items():
            found[rule].append(documents)
    return {rule: alternately(shards)[: wanted[rule]] for rule, shards in sorted(found.items())}


def _of_shard(path: Path, wanted: Rules, rules_of: Callable[[Document], Collection[str]]) -> dict[str, list[Document]]:
    """Returns the first documents of a shard for each rule; it stops when all rules have theirs."""
    found: dict[str, list[Document]] = defaultdict(list)
    missing = dict(wanted)
    for document in itertools.islice(read_documents(path), DOCUMENTS_PER_SHARD):
        for rule in missing.keys() & rules_of(document):
            found[rule].append(document)
            missing[rule] -= 1
            if not missing[rule]:
                del missing[rule]
        if not missing:
            break
    return found


def _dropped_by(document: Document) -> Collection[str]:
    rule = str((document.metadata.get("drop") or {}).get("rule", ""))
    return {rule, _filter(rule)}


def _filter(rule: str) -> str:
    return rule.partition(".")[0]


def _removed_by(document: Document) -> Collection[str]:
    return {ANY, *document.metadata.get("removed_lines", {}), *document.metadata.get("removed_sentences", {})}


def names(artifact: Artifact, kind: str) -> list[str]:
    """Returns the names of the shards of ``kind``; unlike ``Artifact.shards``, it opens none."""
    return sorted(name for name in artifact.manifest["files"] if name.startswith(f"{kind}/"))


def spread(items: Sequence[T], wanted: int) -> list[T]:
    """Returns at most ``wanted`` of the ``items``, at equal distances, beginning with the first."""
    step = max(1.0, len(items) / wanted)
    return [items[int(i * step)] for i in range(min(wanted, len(items)))]
