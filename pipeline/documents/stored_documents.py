"""The documents in the shards of an artifact: all of them, those of an id or URL, in given lines, dropped by a rule.

    id   pages.jsonl:2            ──> the tasks that read the file pages.jsonl: one shard to search, or a few
    url  https://example.org/a    ──> every shard of texts
    line (shard 7, row 40)        ──> the shard is read up to this line

Shards are read as streams of zstd JSON lines. Only lines that hold the id or URL as JSON are parsed. A document keeps
its shard and line from ``unique`` on, so columns have their values in the same place.

    gopher_quality.word_count ── thresholds_of ──> {"min_words": 50.0, "max_words": 100000.0}
    {"drop": {"rule": "gopher_quality.word_count", "value": "49"}} ── number_of ──> 49.0
"""

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import orjson
from datatrove.data import Document

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.column import Column
from headrace.data_prep.columns.scorer import read_values, values_or_none
from headrace.data_prep.document import DOCUMENTS, documents_named, read_documents
from headrace.data_prep.filters.filter import Filter, GlobalFilter, Value, deciding, limits_in, routed
from headrace.data_prep.filters.page_filter import PageRule
from headrace.data_prep.filters.urls import normalize_url
from headrace.pipeline.core.artifact import Artifact, shard_name
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.stage import OF_KIND, kind_of
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.report.funnel import DROPPED

KINDS = ("documents", "dropped")
"""Kept and dropped documents of a stage."""
COLUMNS_FIELD = "columns"
"""Metadata of a document that is shown or exported: its values by the names of their columns."""

Artifacts = Mapping[str, Artifact]
Located = tuple[int, Document]
"""A document, after the number of its shard."""
Location = tuple[int, int]
"""(shard, row): the place of a kept document, rows from 0."""


@dataclasses.dataclass(frozen=True)
class StoredDocument:
    """A document in line ``row`` (from 0) of shard ``shard`` of ``kind``."""

    artifact: Artifact
    kind: str
    shard: int
    row: int
    document: Document

    @property
    def is_kept(self) -> bool:
        return self.kind == "documents"

    @property
    def location(self) -> str:
        """The file and its line."""
        return f"{self.artifact.folder / shard_name(self.kind, self.shard, DOCUMENTS)}, line {self.row + 1}"


def rule_of(document: Document) -> str:
    """Returns the rule that dropped ``document``; empty for a kept one."""
    return str((document.metadata.get("drop") or {}).get("rule", ""))


def matches(rule: str, name: str) -> bool:
    """Whether ``name`` is ``rule`` or a rule of the filter ``rule``; an empty ``rule`` matches every name."""
    return not rule or name == rule or name.startswith(f"{rule}.")


def names(artifact: Artifact, kind: str) -> list[str]:
    """Returns the names of the shards of ``kind``; unlike ``Artifact.shards``, this opens none."""
    return sorted(name for name in artifact.manifest["files"] if name.startswith(f"{kind}/"))


def shard_of(name: str) -> int:
    """Returns the number of the shard ``name``: ``documents/00007.jsonl.zst`` → 7."""
    return int(PurePath(name).name.partition(".")[0])


def located(artifact: Artifact, kind: str) -> Iterator[Located]:
    """Yields all documents of ``kind`` with the numbers of their shards."""
    for name in names(artifact, kind):
        yield from ((shard_of(name), document) for document in read_documents(artifact.path(name)))


def with_ids(artifact: Artifact, ids: Iterable[tuple[int, str]]) -> dict[str, Document]:
    """Returns kept documents by id, of the (shard, id) pairs ``ids``; each shard is read once, up to the last one."""
    by_shard: dict[int, set[str]] = {}
    for shard, identity in ids:
        by_shard.setdefault(shard, set()).add(identity)
    paths = {shard: artifact.shard("documents", shard, DOCUMENTS) for shard in sorted(by_shard)}
    return {
        document.id: document for shard, path in paths.items() for document in documents_named(path, by_shard[shard])
    }


def in_rows(artifact: Artifact, locations: Collection[Location]) -> dict[Location, Document]:
    """Returns the kept documents at ``locations``; each shard is read once, up to the last of its rows."""
    rows: dict[int, set[int]] = {}
    for shard, row in locations:
        rows.setdefault(shard, set()).add(row)
    return {
        (shard, row): _parsed(line)
        for shard, wanted in sorted(rows.items())
        for row, line in enumerate(_lines(artifact, "documents", shard, max(wanted) + 1))
        if row in wanted
    }


def id_and_url(document: Document) -> str:
    """Returns the id of ``document``, and its URL if it has one."""
    return f"{document.id} {document.metadata.get('url') or ''}".rstrip()


def document_named(artifact: Artifact, shard: int, identity: str) -> StoredDocument | None:
    """Returns the document with the id ``identity`` in ``shard``, kept or dropped."""
    needle = b'{"id":' + orjson.dumps(identity) + b","
    return next((match for match in holding(artifact, [shard], needle) if match.document.id == identity), None)


def documents_at(artifact: Artifact, url: str) -> Iterator[StoredDocument]:
    """Yields every document whose URL is ``url``."""
    needle = b'"url":' + orjson.dumps(url)
    every = holding(artifact, range(artifact.shard_count), needle)
    return (match for match in every if match.document.metadata.get("url") == url)


def same_page(artifact: Artifact, url: str) -> str | None:
    """Returns the URL of a document that equals ``url`` apart from scheme, ``www.`` and other parts that C4 removes."""
    page = normalize_url(url)
    every = holding(artifact, range(artifact.shard_count if page else 0), orjson.dumps(page)[1:-1])
    urls = (match.document.metadata.get("url") for match in every)
    return next((other for other in urls if other and normalize_url(other) == page), None)


def holding(artifact: Artifact, shards: Iterable[int], needle: bytes) -> Iterator[StoredDocument]:
    """Yields the documents of ``shards``, kept ones of a shard first, whose lines hold ``needle``."""
    for shard, kind in itertools.product(shards, KINDS):
        for row, line in enumerate(_lines(artifact, kind, shard)):
            if needle in line:
                yield StoredDocument(artifact, kind, shard, row, _parsed(line))


def _lines(artifact: Artifact, kind: str, shard: int, number: int | None = None) -> Iterator[bytes]:
    return itertools.islice(read_lines(artifact.shard(kind, shard, DOCUMENTS)), number)


def _parsed(line: bytes) -> Document:
    record: dict[str, Any] = orjson.loads(line)
    return Document(text=record["text"], id=record["id"], metadata=record["metadata"])


def columns_in(artifacts: Artifacts) -> dict[str, Artifact]:
    """Returns the columns among ``artifacts``, by their names."""
    stages = [name for name in artifacts if kind_of(name) == Column.name]
    return {name.partition(OF_KIND)[2]: artifacts[name] for name in stages}


def with_columns(documents: Iterable[Document], columns: Artifacts, shard: int) -> Iterator[Document]:
    """Yields the ``documents`` of a shard of ``unique`` with their values in the metadata, under ``columns``."""
    values = {name: values_or_none(read_values(column, shard)) for name, column in columns.items()}
    for row, document in enumerate(documents):
        document.metadata[COLUMNS_FIELD] = {name: of_column[row] for name, of_column in values.items()}
        yield document


def shown(value: Value | None) -> str:
    """Returns the value of a column as text."""
    return f"{value:g}" if isinstance(value, float) else value or "none"


NUMBER = re.compile(r"(?:\S+ )?(\d+(?:\.\d+)?)")
"""A stored value that is a number, perhaps after a name: ``49``, ``0.3125``, ``de 0.9712``."""


def counted_rules(artifact: Artifact, *beginnings: str) -> set[str]:
    """Returns the rules that ``artifact`` counts under names that begin with one of ``beginnings``."""
    return {key.partition(":")[2] for key in artifact.counts if key.startswith(beginnings)}


def dropping_rules(artifact: Artifact) -> set[str]:
    """Returns the rules that dropped documents of ``artifact``, and the filters that have such rules."""
    rules = counted_rules(artifact, DROPPED)
    return rules | {rule.partition(".")[0] for rule in rules}


def check_rule(artifact: Artifact, rule: str) -> None:
    """Checks that ``rule``, or a filter of that name, dropped documents of ``artifact``.

    Raises:
        ConfigError: with the nearest name, when it did not.
    """
    if rule not in (known := dropping_rules(artifact)):
        raise ConfigError("RULE", f"{artifact.folder.parent.name} dropped nothing by {rule!r}", suggestion(rule, known))


def number_of(document: Document, rule: str) -> float | None:
    """Returns the number by which ``rule`` dropped ``document``; None when another rule did, or it stores no number."""
    return number_in(str(document.metadata["drop"].get("value", ""))) if rule_of(document) == rule else None


def number_in(value: str) -> float | None:
    """Returns the number in the stored ``value`` of a drop; None when it holds none."""
    match = NUMBER.fullmatch(value)
    return float(match[1]) if match else None


def limits_of(artifact: Artifact, cleaning: Cleaning, rule: str) -> dict[str, float]:
    """Returns the thresholds of ``rule``, which dropped pages of ``artifact``: its settings ``min_…`` and ``max_…``.

    Raises:
        ConfigError: when it dropped nothing, or has no threshold.
    """
    known = counted_rules(artifact, DROPPED)
    if rule not in known:
        raise ConfigError("RULE", f"clean dropped nothing by {rule!r}", suggestion(rule, known))
    limits = thresholds_of(cleaning, rule)
    if not limits:
        raise ConfigError("RULE", f"{rule!r} has no threshold", "give a rule that measures, such as c4_lines.sentences")
    return limits


def thresholds_of(cleaning: Cleaning, rule: str) -> dict[str, float]:
    """Returns the settings ``min_…`` and ``max_…`` of ``rule``; none for a rule that does not measure."""
    holder = threshold_holder(cleaning, rule)
    return limits_in(holder) if holder else {}


def is_stricter(name: str, limit: float, other: float) -> bool:
    """Whether a rule drops more with ``other`` as the threshold ``name`` than with ``limit``."""
    return other > limit if name.startswith("min_") else other < limit


def threshold_holder(cleaning: Cleaning, rule: str) -> Filter | GlobalFilter | PageRule | None:
    """Returns the settings that hold the thresholds of ``rule``: those of the rule, else those of its filter."""
    inner, filters = routed(rule, cleaning.filters)
    owners, reason = deciding(inner, filters), inner.partition(".")[2]
    rules = (rule for owner in owners for rule in getattr(owner, "rules", ()) if isinstance(rule, PageRule))
    return next(itertools.chain((rule for rule in rules if rule.reason == reason), owners), None)
