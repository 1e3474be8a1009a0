"""The stage ``report``: all results of a run on one page that needs no network.

    counts, samples, metrics.jsonl, scores.json of all stages ──> report.html
    raw files, the first records ──> removed lines of samples      as far as the files are still there
    checkpoint_scores ──> curves                                   of the checkpoints that are scored by then

sections.py collects the content of the page, page.py renders it.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from headrace.data_prep.clean import Clean
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage
from headrace.pipeline.report.page import render
from headrace.pipeline.report.score_history import watched
from headrace.pipeline.report.sections import sections


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report(Stage):
    """``report.html``; counts ``page_bytes``."""

    name: ClassVar[str] = "report"
    version: ClassVar[int] = 4
    inputs: ClassVar[tuple[str, ...]] = (
        "clean",
        "signatures",
        "duplicates",
        "unique",
        "tokenizer",
        "tokens",
        "packed",
        "weights",
        "scores",
    )

    root: str = dataclasses.field(default="", metadata={"hashed": False})
    """The folder that artifacts are written below."""
    clean: Clean = dataclasses.field(metadata={"hashed": False})
    """The cleaning stage by this run's settings: the manifest in a shared root may name other files."""

    def description(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Includes the scored checkpoints: when there are more of them, a new page is made."""
        scored = watched(Path(self.root) / "weights" / addresses["weights"])
        more = {"checkpoint_scores": [artifact.folder.name for artifact in scored]} if scored else {}
        return super().description(addresses) | more

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("report", 1, self._run),)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        page = render("template.html", sections(inputs, self.clean)).encode("utf-8", "replace")
        with out.file("report.html") as path:
            path.write_bytes(page)
        return Counter(page_bytes=len(page))
