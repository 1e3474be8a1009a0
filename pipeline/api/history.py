"""The history of one document for the Python API: each stage's decision, its texts, and what it became."""

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import escape

from headrace.pipeline.api.documents import DropExplanations
from headrace.pipeline.api.tables import Table
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.document_path import of_record, path, records_named
from headrace.pipeline.documents.lookup import texts_stage, whole
from headrace.pipeline.output.terminal import NAME_WIDTH, Fact, one_line
from headrace.pipeline.run.planned_stage import PlannedStage

STAGE_COLUMNS = ("stage", "kept", "rule", "value", "threshold", "reason", "characters")


@dataclasses.dataclass(frozen=True)
class DocumentHistory:
    """One document and what became of it; ``print`` shows what ``headrace why`` prints."""

    id: str
    url: str | None
    stages: Table
    """One row for each stage that decided on it: ``stage``, ``kept``, ``rule``, ``value``, ``threshold``, ``reason``
    (None for a kept document) and ``characters``, the length of its text."""
    texts: Mapping[str, str]
    """Stage → its text there; cleaning may change it."""
    facts: Sequence[Fact]
    """Names and values, as ``headrace why`` prints them: also duplicates, tokens and rows. A name may occur again."""

    @property
    def kept(self) -> bool:
        """Whether the last stage that decided on it kept it."""
        return bool(self.stages[-1]["kept"])

    @property
    def text(self) -> str:
        """Its text after the last stage that decided on it."""
        return self.texts[self.stages[-1]["stage"]]

    @classmethod
    def of(cls, stages: Sequence[PlannedStage], name: str, drops: DropExplanations) -> "DocumentHistory":
        """Returns the history of the document that ``name``, an id or a URL, names.

        Raises:
            ConfigError: when it names none, or several.
            ArtifactError: when ``texts`` is not finished.
        """
        records = records_named(stages, name)
        if len(records) > 1:
            several = ", ".join(match.document.id for match in records)
            raise ConfigError("document", f"{name!r} is the URL of {len(records)} documents: {several}", "give an id")
        (record,) = records
        artifacts = whole(stages)
        at = {stage: at_stage.document for stage, at_stage in path(record, artifacts).items()}
        rows = [
            {"stage": stage, "characters": len(document.text), **drops.record(document)}
            for stage, document in at.items()
        ]
        return cls(
            id=record.document.id,
            url=record.document.metadata.get("url"),
            stages=Table(STAGE_COLUMNS, rows),
            texts={stage: document.text for stage, document in at.items()},
            facts=list(of_record(record, artifacts, texts_stage(stages), drops.cleaning.filters)),
        )

    def __str__(self) -> str:
        return "\n".join(f"{name:<{NAME_WIDTH}}{one_line(value)}" for name, value in self.facts)

    def _repr_html_(self) -> str:
        """Returns the facts for Jupyter. All texts are escaped."""
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(one_line(value))}</td></tr>" for name, value in self.facts)
        return f"<table>{''.join(rows)}</table>"
