"""Chooses a few documents for each rule: a kept and a dropped one side by side, with removed lines marked.

    rule that drops           any kept document                | a document that it dropped
    rule that removes lines   a kept document that lost lines  | a document that its filter dropped

Only a few evenly spaced shards are read, each only as far as needed; the same shards of ``texts`` are read for the
lines that were removed. So the cost of a report does not grow with the data.

Likewise the pages of HTML that extraction took most and least from, with what it kept and what it left out:

    left_out/00007.jsonl.zst of texts ── split_pages ──> SplitSample(id, share, kept lines, lines left out), …
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TypeVar

from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.extremes import SplitPage, read_extremes
from headrace.data_prep.filters.filter import removed_parts
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.marking import Located, MarkedLine, Page, excerpt, pages
from headrace.pipeline.report.formatting import visible

T = TypeVar("T")
Rules = Mapping[str, int]
"""Rule → the number of documents that are wanted."""

SHARDS = 8
"""The number of shards that samples are taken from."""
DOCUMENTS_PER_SHARD = 5_000
"""The number of documents of a shard that are searched for rules that seldom apply."""
PER_RULE = 3
KEPT_SAMPLES = 12
"""The number of different kept documents that are shown next to dropped ones."""
CHARACTERS = 300
VALUE_CHARACTERS = 150
LINES = 6
ANY = ""
"""In place of a rule: any document is accepted."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """A document on the page."""

    id: str
    url: str
    rule: str
    """The rule that dropped it; empty when it was kept."""
    value: str
    lines: list[MarkedLine | int]
    """Some of its lines, removed ones with their rules; a number counts lines that are left out."""

    @classmethod
    def of(cls, page: Page, rule: str) -> "Sample":
        """Returns the sample of ``page`` that shows the effect of ``rule``."""
        document = page.document
        return cls(
            visible(document.id, CHARACTERS),
            visible(str(document.metadata.get("url") or ""), CHARACTERS),
            str(page.drop.get("rule", "")),
            visible(str(page.drop.get("value", "")), VALUE_CHARACTERS),
            [line if isinstance(line, int) else _shown(line) for line in excerpt(page.lines, LINES, rule)],
        )


def _shown(line: MarkedLine) -> MarkedLine:
    return MarkedLine(visible(line.text, CHARACTERS), line.rule)


@dataclasses.dataclass(frozen=True)
class SamplePair:
    """A kept document and a dropped one; either may be missing."""

    kept: Sample | None
    dropped: Sample | None


def side_by_side(
    artifact: Artifact,
    texts: Artifact | None,
    cleaning: Cleaning,
    dropping: Sequence[str],
    removing: Sequence[str] = (),
    kept: int = KEPT_SAMPLES,
) -> dict[str, list[SamplePair]]:
    """Returns up to ``PER_RULE`` pairs for each rule.

    Args:
        artifact: of texts, clean or unique, with kept and dropped documents.
        texts: the documents before cleaning, to find removed lines; None if ``artifact`` has them.
        cleaning: the filters that cleaned them.
        dropping: rules that dropped documents.
        removing: rules that removed parts of kept documents.
        kept: the number of different kept documents that are shown next to dropped ones.
    """
    any_kept = {ANY: kept} if kept else {}
    left = chosen(artifact, "documents", any_kept | dict.fromkeys(removing, PER_RULE), _removed_by)
    wanted = dict.fromkeys([*dropping, *map(_filter, removing)], PER_RULE)
    right = chosen(artifact, "dropped", wanted, _dropped_by)
    located = {
        document.id: (shard, document)
        for documents_by_rule in (left, right)
        for some in documents_by_rule.values()
        for shard, document in some
    }
    by_id = {page.document.id: page for page in pages(list(located.values()), texts, cleaning)}

    def sample(located_document: Located | None, rule: str) -> Sample | None:
        return None if located_document is None else Sample.of(by_id[located_document[1].id], rule)

    accepted: list[Located | None] = [*left.get(ANY, [])]
    contrast = itertools.cycle(accepted or [None])
    samples = {
        rule: [SamplePair(sample(next(contrast), ANY), sample(dropped, rule)) for dropped in right[rule]]
        for rule in dropping
        if rule in right
    }
    for rule in removing:
        both = itertools.zip_longest(left.get(rule, []), right.get(_filter(rule), []))
        samples[rule] = [
            SamplePair(sample(kept_document, rule), sample(dropped_document, rule))
            for kept_document, dropped_document in both
        ]
    return samples


def chosen(
    artifact: Artifact, kind: str, wanted: Rules, rules_of: Callable[[Document], Collection[str]]
) -> dict[str, list[Located]]:
    """Returns up to the ``wanted`` number of documents of ``kind`` for each rule, from several shards."""
    shards_by_rule: dict[str, list[list[Located]]] = defaultdict(list)
    for name in spread(names(artifact, kind), SHARDS) if wanted else []:
        for rule, documents in _of_shard(artifact.path(name), wanted, rules_of).items():
            shards_by_rule[rule].append([(shard_of(name), document) for document in documents])
    return {rule: alternately(shards)[: wanted[rule]] for rule, shards in sorted(shards_by_rule.items())}


def _of_shard(path: Path, wanted: Rules, rules_of: Callable[[Document], Collection[str]]) -> dict[str, list[Document]]:
    """Returns the first documents of a shard for each rule; stops reading when all are found."""
    documents_by_rule: dict[str, list[Document]] = defaultdict(list)
    missing = dict(wanted)
    for document in itertools.islice(read_documents(path), DOCUMENTS_PER_SHARD):
        for rule in missing.keys() & rules_of(document):
            documents_by_rule[rule].append(document)
            missing[rule] -= 1
            if not missing[rule]:
                del missing[rule]
        if not missing:
            break
    return documents_by_rule


def _dropped_by(document: Document) -> Collection[str]:
    rule = str((document.metadata.get("drop") or {}).get("rule", ""))
    return {rule, _filter(rule)}


def _filter(rule: str) -> str:
    return rule.partition(".")[0]


def _removed_by(document: Document) -> Collection[str]:
    return {ANY, *(rule for _, rule, _ in removed_parts(document))}


def names(artifact: Artifact, kind: str) -> list[str]:
    """Returns the names of the shards of ``kind``; unlike ``Artifact.shards``, this opens none."""
    return sorted(name for name in artifact.manifest["files"] if name.startswith(f"{kind}/"))


def located(artifact: Artifact, kind: str) -> Iterator[Located]:
    """Yields all documents of ``kind`` with the numbers of their shards."""
    for name in names(artifact, kind):
        yield from ((shard_of(name), document) for document in read_documents(artifact.path(name)))


def shard_of(name: str) -> int:
    """Returns the number of the shard ``name``: ``documents/00007.jsonl.zst`` → 7."""
    return int(PurePath(name).name.partition(".")[0])


def alternately(groups: Iterable[Sequence[T]]) -> list[T]:
    """Returns the first item of each group, then the second of each, and so on."""
    rounds = itertools.zip_longest(*groups)
    return [item for group_round in rounds for item in group_round if item is not None]


def spread(items: Sequence[T], wanted: int) -> list[T]:
    """Returns at most ``wanted`` of the ``items``, evenly spaced, beginning with the first."""
    step = max(1.0, len(items) / wanted)
    return [items[int(i * step)] for i in range(min(wanted, len(items)))]


PAGES = 3
"""Pages of each extreme that are shown."""
PAGE_LINES = 10


@dataclasses.dataclass(frozen=True)
class SplitSample:
    """A page on the page of the report."""

    id: str
    url: str
    share: float
    """The share of its characters that was left out."""
    kept: list[MarkedLine | int]
    left_out: list[MarkedLine | int]

    @classmethod
    def of(cls, page: SplitPage) -> "SplitSample":
        return cls(page.id, page.url, page.share, _excerpt(page, True), _excerpt(page, False))


def split_pages(texts: Artifact) -> list[SplitSample]:
    """Returns the pages that lost most, then those that lost least."""
    shards = spread(names(texts, "left_out"), SHARDS)
    extremes = itertools.chain.from_iterable(read_extremes(texts.path(name)) for name in shards)
    ranked = sorted(extremes, key=lambda page: -page.share)
    return [SplitSample.of(page) for page in (ranked if len(ranked) <= 2 * PAGES else ranked[:PAGES] + ranked[-PAGES:])]


def _excerpt(page: SplitPage, is_kept: bool) -> list[MarkedLine | int]:
    """Returns the first blocks that are kept, or that are left out."""
    return excerpt([MarkedLine(visible(text, CHARACTERS)) for kept, text in page.blocks if kept == is_kept], PAGE_LINES)
