"""Samples of the report. Of each rule: a kept and a dropped one side by side, with removed lines marked.

    rule that drops           any kept document                | a document that it dropped
    rule that removes lines   a kept document that lost lines  | a document that its filter dropped

Only a few evenly spaced shards are read, each only as far as needed; the same shards of ``texts`` are read for the
lines that were removed. So the cost of a report does not grow with the data.

Likewise the pages of HTML that extraction took most and least from, with what it kept and what it left out:

    left_out/00007.jsonl.zst of texts ── split_pages ──> SplitSample(id, share, kept lines, lines left out), …

And near duplicates side by side, with the sizes of clusters:

    duplicates/removed/00007.npy    row, survivor (shard · 2^32 + row), survivor_id, jaccard, exact
    clean/documents/00007.jsonl.zst    the texts of both
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.extremes import SplitPage, read_extremes
from headrace.data_prep.filters.filter import removed_parts
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.document_choice import DOCUMENTS_PER_SHARD, SHARDS, first_of_rules, spread
from headrace.pipeline.documents.marking import MarkedLine, Page, excerpt, pages
from headrace.pipeline.documents.stored_documents import Located, Location, in_rows, names, rule_of, shard_of
from headrace.pipeline.report.formatting import visible

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
    left = first_of_rules(artifact, "documents", any_kept | dict.fromkeys(removing, PER_RULE), _removed_by)
    wanted = dict.fromkeys([*dropping, *map(_filter, removing)], PER_RULE)
    right = first_of_rules(artifact, "dropped", wanted, _dropped_by)
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


def _dropped_by(document: Document) -> Collection[str]:
    return {rule_of(document), _filter(rule_of(document))}


def _filter(rule: str) -> str:
    return rule.partition(".")[0]


def _removed_by(document: Document) -> Collection[str]:
    return {ANY, *(rule for _, rule, _ in removed_parts(document))}


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


MAX_PAIRS = 6


@dataclasses.dataclass(frozen=True)
class NearDuplicate:
    """A removed document and the document that was kept instead; ``jaccard`` compares their shingle sets."""

    jaccard: float
    removed_id: str
    removed_text: str
    survivor_id: str
    survivor_text: str


def near_duplicates(clean: Artifact, duplicates: Artifact) -> list[NearDuplicate]:
    """Returns up to ``MAX_PAIRS`` near duplicates from a few shards, the most similar first."""
    by_similarity = {round(candidate[0], 2): candidate for candidate in sorted(_candidates(duplicates), reverse=True)}
    chosen = sorted(spread(sorted(by_similarity.values()), MAX_PAIRS), reverse=True)
    texts = in_rows(clean, [location for _, removed, survivor in chosen for location in (removed, survivor)])
    return [
        NearDuplicate(
            jaccard,
            visible(texts[removed].id, CHARACTERS),
            visible(texts[removed].text, CHARACTERS),
            visible(texts[survivor].id, CHARACTERS),
            visible(texts[survivor].text, CHARACTERS),
        )
        for jaccard, removed, survivor in chosen
        if removed in texts and survivor in texts
    ]


def cluster_sizes(duplicates: Artifact) -> list[tuple[str, int]]:
    """Returns the number of clusters by size: ``("2", n), ("3–4", n), ("5–8", n), …``. Kept documents count, too."""
    removed: Counter[int] = Counter()
    for name in names(duplicates, "removed"):
        survivors, numbers = np.unique(np.load(duplicates.path(name))["survivor"], return_counts=True)
        removed.update(dict(zip(survivors.tolist(), numbers.tolist(), strict=True)))
    by_power = Counter(n.bit_length() for n in removed.values())
    last = max(by_power, default=0)
    return [(_sizes(power), by_power[power]) for power in range(1, last + 1)]


def _sizes(power: int) -> str:
    low, high = (1 << (power - 1)) + 1, 1 << power
    return f"{low}–{high}" if high > low else str(low)


def _candidates(duplicates: Artifact) -> Iterable[tuple[float, Location, Location]]:
    """Yields (jaccard, removed, survivor) of near duplicates near the beginnings of their shards."""
    for name in spread(names(duplicates, "removed"), SHARDS):
        table: Any = np.load(duplicates.path(name))
        near = table[~table["exact"] & (table["row"] < DOCUMENTS_PER_SHARD)]
        for row, survivor, jaccard in zip(*(near[key].tolist() for key in ("row", "survivor", "jaccard")), strict=True):
            shard, survivor_row = divmod(survivor, 1 << 32)
            if shard < duplicates.shard_count and survivor_row < DOCUMENTS_PER_SHARD:
                yield jaccard, (shard_of(name), row), (shard, survivor_row)
