"""The stage ``report``: the results of a run on one HTML page that needs no network.

    counts, samples, metrics.jsonl, scores.json of the stages ──> report.html
    documents of texts ──> removed lines of samples
    checkpoint_scores ──> curves                                   of the checkpoints that are scored so far
    runs/<id>/audit ──> precision and recall of rules              where pages were marked
    run.json, logs/hosts ──> the command, time, cost and hardware  not part of any result

A run that ends earlier (``until=unique``) has a report of its stages: each section needs only its own artifacts.
sections.py collects the content, html_page.py renders it. They are imported when the stage runs: no other process needs
their libraries.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from headrace.data_prep.clean import Cleaning
from headrace.pipeline.core.artifact import TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report(Stage):
    """Writes ``report.html``; counts ``page_bytes``."""

    name: ClassVar[str] = "report"
    version: ClassVar[int] = 17
    accepts_empty: ClassVar[bool] = True

    run: str = ""
    """The id of the run."""
    run_name: str | None = None
    """The name of the run. Another name leads to another page."""
    shown: tuple[str, ...] = dataclasses.field(metadata={"hashed": False})
    """The stages that the page shows. The addresses of their artifacts are hashed."""
    root: str = dataclasses.field(default="", metadata={"hashed": False})
    """The root folder of all artifacts."""
    cleaning: Cleaning = dataclasses.field(metadata={"hashed": False})
    """The filters that cleaned the documents, by the settings of this run.

    The settings in the artifact are not used: in a shared root, another user may have written them.
    """

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.shown

    def description(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Returns the description with the audit and the scores of checkpoints, so that new ones lead to a new page."""
        from headrace.pipeline.documents.audit_estimates import described_audit
        from headrace.pipeline.report.score_history import checkpoint_artifacts

        described = super().description(addresses) | described_audit(Path(self.root) / "runs" / self.run)
        if "weights" not in addresses:
            return described
        scored = checkpoint_artifacts(Path(self.root) / "weights" / addresses["weights"])
        scores = {"checkpoint_scores": [artifact.folder.name for artifact in scored]} if scored else {}
        return described | scores

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("report", 1, self._run),)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        from headrace.pipeline.report.about import About
        from headrace.pipeline.report.html_page import render
        from headrace.pipeline.report.sections import sections

        about = About.of(Path(self.root), self.run, self.run_name, inputs)
        page = render("report.html", sections(inputs, self.cleaning, about)).encode("utf-8", "replace")
        with out.file("report.html") as path:
            path.write_bytes(page)
        return Counter(page_bytes=len(page))
