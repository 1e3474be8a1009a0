"""The documents that each stage of a run dropped and the parts that it removed, by rule, with samples."""

import dataclasses
from collections import Counter

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import Inputs, counted
from headrace.pipeline.report.count_rows import CountRow, count_rows
from headrace.pipeline.report.documents.document_samples import KEPT_SAMPLES, SamplePair, side_by_side
from headrace.pipeline.report.funnel import DROPPED, StageFunnel, funnel

Samples = dict[str, list[SamplePair]]
"""Pairs of a kept and a dropped document, by rule."""


@dataclasses.dataclass(frozen=True)
class StageDrops:
    """The documents that a stage dropped, and the parts of documents that it removed."""

    rules: list[CountRow]
    total: int
    """The number of dropped documents."""
    documents: int
    """The documents that the stage read."""
    removed: dict[str, list[CountRow]]
    """Units of text → the rules that removed such parts of documents."""
    samples: Samples

    @classmethod
    def of(cls, stage: StageFunnel, artifact: Artifact, texts: Artifact | None, cleaning: Cleaning) -> "StageDrops":
        """Returns what ``stage`` dropped; ``texts`` are the documents before ``cleaning``, None for their own stage."""
        rules, removed = count_rows(stage.counts, DROPPED, stage.read), _removed(stage.counts)
        dropping, removing = [row.name for row in rules], [row.name for rows in removed.values() for row in rows]
        kept, samples = KEPT_SAMPLES if stage.stage == Clean.name else 0, Samples()
        if dropping or removing:
            samples = side_by_side(artifact, texts, cleaning, dropping, removing, kept)
        return cls(rules, stage.dropped.total(), stage.read, removed, samples)


def stage_drops(inputs: Inputs, cleaning: Cleaning) -> dict[str, StageDrops]:
    """Returns what each stage of ``inputs`` that keeps and drops documents dropped, in the order of the line."""
    drops: dict[str, StageDrops] = {}
    for stage in funnel(inputs):
        texts = inputs[next(iter(drops))] if drops else None
        drops[stage.stage] = StageDrops.of(stage, inputs[stage.stage], texts, cleaning)
    return drops


def _removed(counts: "Counter[str]") -> dict[str, list[CountRow]]:
    """Returns the parts of documents that each rule removed, by unit."""
    prefixes = {unit: f"removed_{unit}:" for unit in REMOVED_UNITS}
    rows = {unit: count_rows(counts, prefix, counted(counts, prefix)) for unit, prefix in prefixes.items()}
    return {unit: unit_rows for unit, unit_rows in rows.items() if unit_rows}
