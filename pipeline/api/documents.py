"""Documents for the Python API: those of one stage, read shard by shard when asked for, and the history of one.

<stage>/<address>/documents/00007.jsonl.zst ──> {"id": …, "url": …, "kept": True, "rule": None, …, "text": …}
                  dropped/00007.jsonl.zst   ──> {…, "kept": False, "rule": "c4_lines.sentences", "value": "0",
                                                 "threshold": 3.0, "reason": "0 sentences left, 3 needed", …}
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from datatrove.data import Document
from markupsafe import escape

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.explanations import Explanation, explained
from headrace.pipeline.api.tables import Table, TableRow
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.document_path import of_record, path, records_named
from headrace.pipeline.documents.lookup import texts_stage, whole
from headrace.pipeline.documents.stored_documents import (
    KINDS,
    is_stricter,
    matches,
    names,
    number_in,
    rule_of,
    thresholds_of,
)
from headrace.pipeline.output.terminal import NAME_WIDTH, Fact, one_line
from headrace.pipeline.papers.export_data import with_split
from headrace.pipeline.papers.table_files import flat
from headrace.pipeline.report.funnel import dropped
from headrace.pipeline.run.planned_stage import PlannedStage

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ("id", "url", "kept", "split", "rule", "value", "threshold", "reason", "text")
"""The columns of a document, unless others are chosen."""
SHOWN = 5
HISTORY_COLUMNS = ("stage", "kept", "rule", "value", "threshold", "reason", "characters")


@dataclasses.dataclass(frozen=True)
class DropExplanations:
    """Explains why documents were dropped, with the rules of ``cleaning``."""

    cleaning: Cleaning
    similarity: float
    """The least Jaccard similarity of near duplicates."""
    _known: dict[str, tuple[Explanation, Mapping[str, float]]] = dataclasses.field(default_factory=dict, compare=False)
    """Rule → its words, and the thresholds in its settings."""

    def record(self, document: Document) -> TableRow:
        """Returns why ``document`` was dropped: ``kept``, ``rule``, ``value`` (as stored), ``threshold`` (a number, if
        the rule compares with one) and ``reason`` (in words). All but ``kept`` are None for a kept document."""
        rule = rule_of(document)
        if not rule:
            return {"kept": True, "rule": None, "value": None, "threshold": None, "reason": None}
        value = str(document.metadata["drop"].get("value", ""))
        (explanation, limits), number = self._rule(rule), number_in(value)
        missed = (limit for name, limit in limits.items() if number is not None and is_stricter(name, number, limit))
        threshold = self.similarity if rule == "near_duplicate" else next(missed, None)
        reason = explanation.of_value(value) or value
        return {"kept": False, "rule": rule, "value": value, "threshold": threshold, "reason": reason}

    def meaning(self, rule: str) -> str:
        """Returns the effect of ``rule`` as a sentence; empty for a class of one's own without a docstring."""
        return self._rule(rule)[0].sentence

    def _rule(self, name: str) -> tuple[Explanation, Mapping[str, float]]:
        if name not in self._known:
            self._known[name] = explained(name, self.cleaning.filters), thresholds_of(self.cleaning, name)
        return self._known[name]


@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents of one stage, as records. Every iteration reads them again, one shard at a time.

    ``len()`` is known without reading any document.
    """

    artifact: Artifact
    drops: DropExplanations
    kept: bool | None
    """True for kept documents, False for dropped ones, None for both: the kept ones come first."""
    rule: str
    """The rule, or the filter, that dropped them; empty for any."""
    columns: tuple[str, ...]
    validation_fraction: float
    """The share of the documents that the run holds out: their ``split`` is ``validation``."""

    def __iter__(self) -> Iterator[TableRow]:
        """Yields one record per document, with a value for each column.

        Raises:
            ArtifactError: when a shard is damaged or missing.
        """
        for kind in self._kinds:
            for name in names(self.artifact, kind):
                for document in read_documents(self.artifact.path(name)):
                    if matches(self.rule, rule_of(document)):
                        yield self._record(document)

    def __len__(self) -> int:
        counts = self.artifact.counts
        number = sum(number for name, number in dropped(counts).items() if matches(self.rule, name))
        return sum({"documents": counts["kept"], "dropped": number}[kind] for kind in self._kinds)

    def batches(self, rows: int = 1000) -> Iterator[Table]:
        """Yields the documents in tables of ``rows`` rows; the last one may be shorter.

        Raises:
            ConfigError: when ``rows`` is not positive.
        """
        if rows < 1:
            raise ConfigError("rows", f"a batch cannot have {rows} rows", "give 1 or more")
        documents = iter(self)
        while batch := Table(self.columns, itertools.islice(documents, rows)):
            yield batch

    def head(self, rows: int = SHOWN) -> Table:
        """Returns the first ``rows`` documents."""
        return Table(self.columns, itertools.islice(self, rows))

    def to_arrow(self) -> "pyarrow.Table":
        """Reads all documents into a table of pyarrow."""
        return Table(self.columns, self).to_arrow()

    def __repr__(self) -> str:
        return f"{self._title}\n{self.head()!r}"

    def _repr_html_(self) -> str:
        return f"<p>{self._title}</p>{self.head()._repr_html_()}"

    @property
    def _title(self) -> str:
        which = {True: " kept", False: " dropped", None: ""}[self.kept]
        by = f" by {self.rule}" * bool(self.rule)
        return f"{len(self):,}{which} documents of {self.artifact.folder.parent.name}{by}"

    @property
    def _kinds(self) -> Sequence[str]:
        """The folders that hold them."""
        return {True: KINDS[:1], False: KINDS[1:], None: KINDS}[False if self.rule else self.kept]

    def _record(self, document: Document) -> TableRow:
        drop = self.drops.record(document)
        fields = {**(with_split(document, self.validation_fraction) if drop["kept"] else flat(document)), **drop}
        return {name: fields.get(name) for name in self.columns}


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
        texts = {stage: document.text for stage, document in at.items()}
        rows = ({"stage": stage, "characters": len(texts[stage]), **drops.record(at[stage])} for stage in at)
        facts = list(of_record(record, artifacts, texts_stage(stages), drops.cleaning.filters))
        url = record.document.metadata.get("url")
        return cls(record.document.id, url, Table(HISTORY_COLUMNS, rows), texts, facts)

    def __str__(self) -> str:
        return "\n".join(f"{name:<{NAME_WIDTH}}{one_line(value)}" for name, value in self.facts)

    def _repr_html_(self) -> str:
        """Returns the facts for Jupyter. All texts are escaped."""
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(one_line(value))}</td></tr>" for name, value in self.facts)
        return f"<table>{''.join(rows)}</table>"
