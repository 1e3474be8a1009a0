"""Pages of HTML that extraction took most and least from: what it kept, and what it left out.

left_out/00007.jsonl.zst of texts ── split_pages ──> SplitSample(id, share, kept lines, lines left out), …

Only a few evenly spaced shards are read, so the cost of a report does not grow with the data.
"""

import dataclasses
import itertools

from headrace.data_prep.extremes import SplitPage, read_extremes
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.report.documents.document_samples import CHARACTERS, SHARDS, names, spread
from headrace.pipeline.report.documents.marking import MarkedLine, excerpt
from headrace.pipeline.report.formatting import visible

PAGES = 3
"""Pages of each extreme that are shown."""
LINES = 10


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
    return excerpt([MarkedLine(visible(text, CHARACTERS)) for kept, text in page.blocks if kept == is_kept], LINES)
