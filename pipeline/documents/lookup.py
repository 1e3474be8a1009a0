"""Finds a document in the artifacts of a run by its id or URL, reading zstd JSON lines as streams.

    id   pages.jsonl:2            ──> the tasks that read the file pages.jsonl: one shard to search, or a few
    url  https://example.org/a    ──> every shard of texts

Only lines that hold the id or URL as JSON are parsed.
"""

import dataclasses
import difflib
import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import orjson
from datatrove.data import Document

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.document import split_id
from headrace.data_prep.filters.urls import normalize_url
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.artifact import Artifact, is_whole, shard_name
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.core.text_files import read_lines
from headrace.pipeline.report.funnel import DROPPED
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.saved_runs import AnyStage

KINDS = ("documents", "dropped")
"""Kept and dropped documents of a stage."""
TokenIndex = tuple[int, int]
"""(token shard, index of a document in it)."""


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
        return f"{self.artifact.folder / shard_name(self.kind, self.shard, 'jsonl.zst')}, line {self.row + 1}"


def whole(stages: Sequence[AnyStage]) -> dict[str, Artifact]:
    """Returns the finished artifacts of ``stages``, by stage."""
    return {stage.name: Artifact(stage.folder) for stage in stages if stage.is_whole}


def need(stage: str, stages: Sequence[AnyStage]) -> Artifact:
    """Returns the artifact of ``stage``.

    Raises:
        ConfigError: when ``stages`` end before it.
        ArtifactError: when it is not finished.
    """
    folder = next((planned.folder for planned in stages if planned.name == stage), None)
    if folder is None:
        raise ConfigError("until", f"the run ends before {stage!r}, which is needed here", f"give until={stage}")
    if not is_whole(folder):
        raise ArtifactError(stage, f"is not finished ({folder})", "give the run's own overrides, or run it first")
    return Artifact(folder)


def document_stage(stage: str, stages: Sequence[AnyStage]) -> Artifact:
    """Returns the artifact of ``stage``, which keeps and drops documents.

    Raises:
        ConfigError: when it does neither, or ``stages`` end before it.
        ArtifactError: when it is not finished.
    """
    if stage not in STORING:
        remedy = f"give one of {', '.join(STORING)}"
        raise ConfigError("STAGE", f"{stage!r} does not keep or drop documents", remedy)
    return need(stage, stages)


def cleaning_of(stages: Sequence[PlannedStage]) -> Cleaning:
    """Returns the settings of the cleaning of ``stages``; no filters when they end before it."""
    return next(
        (planned.stage.cleaning for planned in stages if isinstance(planned.stage, Clean)), Cleaning(filters=())
    )


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


def rule_of(document: Document) -> str:
    """Returns the rule that dropped ``document``; empty for a kept one."""
    return str((document.metadata.get("drop") or {}).get("rule", ""))


def document_named(artifact: Artifact, shard: int, identity: str) -> StoredDocument | None:
    """Returns the document with the id ``identity`` in ``shard``, kept or dropped."""
    needle = b'{"id":' + orjson.dumps(identity) + b","
    matches = (
        match for kind in KINDS for match in _matches(artifact, kind, shard, needle) if match.document.id == identity
    )
    return next(matches, None)


def documents_at(artifact: Artifact, url: str) -> Iterator[StoredDocument]:
    """Yields every document whose URL is ``url``."""
    needle = b'"url":' + orjson.dumps(url)
    for shard in range(artifact.shard_count):
        for kind in KINDS:
            matches = _matches(artifact, kind, shard, needle)
            yield from (match for match in matches if match.document.metadata.get("url") == url)


def same_page(artifact: Artifact, url: str) -> str | None:
    """Returns the URL of a document that equals ``url`` apart from scheme, ``www.`` and other parts that C4 removes."""
    page = normalize_url(url)
    needle = orjson.dumps(page)[1:-1]
    files = ((shard, kind) for shard in range(artifact.shard_count) for kind in KINDS) if page else ()
    urls = (
        match.document.metadata.get("url") for shard, kind in files for match in _matches(artifact, kind, shard, needle)
    )
    return next((other for other in urls if other and normalize_url(other) == page), None)


def document_in_row(artifact: Artifact, shard: int, row: int) -> StoredDocument:
    """Returns the kept document in line ``row`` (from 0) of ``shard``."""
    return next(match for match in _matches(artifact, "documents", shard, b"", first=row))


@dataclasses.dataclass(frozen=True)
class Identity:
    """The id and the URL of a document; ``url`` is empty when it has none."""

    id: str
    url: str


def identities_in_rows(artifact: Artifact, shard: int, rows: Collection[int]) -> dict[int, Identity]:
    """Returns the kept documents in the lines ``rows`` (from 0) of ``shard``, by line; stops reading at the last."""
    identities = {}
    lines = read_lines(artifact.shard("documents", shard, "jsonl.zst"))
    for row, line in enumerate(itertools.islice(lines, max(rows, default=-1) + 1)):
        if row in rows:
            record = orjson.loads(line)
            identities[row] = Identity(record["id"], str(record["metadata"].get("url") or ""))
    return identities


def _matches(artifact: Artifact, kind: str, shard: int, needle: bytes, first: int = 0) -> Iterator[StoredDocument]:
    """Yields the documents from line ``first`` on whose line holds ``needle``."""
    for row, line in enumerate(read_lines(artifact.shard(kind, shard, "jsonl.zst"))):
        if row >= first and needle in line:
            record = orjson.loads(line)
            document = Document(text=record["text"], id=record["id"], metadata=record["metadata"])
            yield StoredDocument(artifact, kind, shard, row, document)


def find(texts: Artifact, stage: Texts, name: str, run: str = "") -> list[StoredDocument]:
    """Returns the records of ``texts`` with the id or URL ``name``: one record, or all that share the URL.

    An id may begin with the path of the file instead of its name. Errors name ``run``, the asked one.

    Raises:
        ConfigError: when there is none, with the nearest name.
    """
    if not name or any("\ud800" <= character <= "\udfff" for character in name):
        raise ConfigError("document", f"{name!r} is neither an id nor a URL", "give one as the shards hold it")
    identity = normalized_id(stage, name)
    file, record = split_id(identity)
    if record is not None and (shards := stage.shards_by_file.get(file)):
        if match := next(filter(None, (document_named(texts, shard, identity) for shard in shards)), None):
            return [match]
        raise ConfigError("document", f"{file!r} has no record {record}", _records(texts, shards, file))
    at_url = list(documents_at(texts, name)) if record is None or "://" in name else []
    if not at_url:
        same = same_page(texts, name)
        others = ", and --run NAME asks another run (headrace runs lists them)" if run else ""
        remedy = f"did you mean {same!r}?" if same else _nearest(file, record, stage, others)
        asked = f"the run {run}" if run else str(texts.folder)
        raise ConfigError("document", f"{asked} has no id or URL {name!r}", remedy)
    return at_url


def normalized_id(stage: Texts, name: str) -> str:
    """Returns the id that ``name`` means: an id may begin with the path of the file instead of its name.

    A URL, and an id of a file that ``stage`` did not read, are returned unchanged.
    """
    typed, record = split_id(name)
    if record is None or "\0" in name:
        return name
    file = typed if typed in stage.shards_by_file else stage.source.name_at(typed)
    return f"{file}:{record}" if file in stage.shards_by_file else name


def in_tokens(tokens: Artifact, ids: Collection[str]) -> dict[str, TokenIndex]:
    """Returns the index of each document of ``ids`` in ``tokens``; leaves out those that are not there."""
    by_key = {key_of("split", identity): identity for identity in ids}
    wanted = np.array(list(by_key), dtype=np.uint64)
    indices = {}
    for shard in range(tokens.shard_count if ids else 0):
        keys = np.load(tokens.shard("keys", shard, "npy"))
        for row in np.flatnonzero(np.isin(keys, wanted)).tolist():
            indices[by_key[int(keys[row])]] = (shard, row)
    return indices


def text_bounds(tokens: Artifact, index: TokenIndex) -> tuple[int, int]:
    """Returns the offsets of the ends of text before and after a document."""
    bounds = np.load(tokens.shard("bounds", index[0], "npy"), mmap_mode="r")
    first, last = bounds[index[1] : index[1] + 2].tolist()
    return first, last


def _records(texts: Artifact, shards: Sequence[int], file: str) -> str:
    """Returns the remedy that says how many records ``file`` has."""
    needle = b'{"id":' + orjson.dumps(f"{file}:")[:-1]
    files = ((shard, kind) for shard in shards for kind in KINDS)
    split_ids = (split_id(match.document.id) for shard, kind in files for match in _matches(texts, kind, shard, needle))
    last = max((record for name, record in split_ids if name == file and record is not None), default=None)
    return "it has none at all" if last is None else f"its records go from {file}:0 to {file}:{last}"


def _nearest(typed: str, record: int | None, stage: Texts, others: str) -> str:
    """Returns the remedy with the id that was probably meant by ``record`` of ``typed``, the name or path of a file;
    without one, the forms of ids and URLs, and ``others``.
    """
    files = stage.shards_by_file
    for file in (typed, stage.source.name_at(typed)):
        if near := difflib.get_close_matches(file, files, n=1):
            return f"did you mean '{near[0]}:{record or 0}'?"
    return f"an id reads like '{next(iter(files))}:0', a URL must be exact{others}"
