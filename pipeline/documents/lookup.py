"""Finds the artifacts of a run, and documents in them: by id or URL in ``texts``, by id in ``tokens``.

pages.jsonl:2, https://example.org/a ── find ──> records of texts
pages.jsonl:2 ── key ──> (token shard, index) ── bounds ──> the tokens of the document
"""

import difflib
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import orjson

from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.column import Column, column_stage
from headrace.data_prep.columns.scorer import holds_text, read_values
from headrace.data_prep.document import split_id
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.stage import FACTS, OF_KIND, STORING, kind_of
from headrace.pipeline.documents.stored_documents import (
    StoredDocument,
    document_named,
    documents_at,
    holding,
    same_page,
)
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.saved_run import AnyStage

TokenIndex = tuple[int, int]
"""(token shard, index of a document in it)."""


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
    if stage not in FACTS:
        raise ConfigError("STAGE", f"no stage is named {stage!r}", suggestion(stage, STORING))
    if stage not in STORING:
        remedy = f"give one of {', '.join(STORING)}"
        raise ConfigError("STAGE", f"{stage!r} does not keep or drop documents", remedy)
    return need(stage, stages)


def cleaning_of(stages: Sequence[PlannedStage]) -> Cleaning:
    """Returns the settings of the cleaning of ``stages``; no filters when they end before it."""
    return next(
        (planned.stage.cleaning for planned in stages if isinstance(planned.stage, Clean)), Cleaning(filters=())
    )


def texts_stage(stages: Iterable[PlannedStage]) -> Texts:
    """Returns the stage that reads the source."""
    return next(planned.stage for planned in stages if isinstance(planned.stage, Texts))


def column_named(name: str, stages: Sequence[AnyStage], where: str = "--score") -> Artifact:
    """Returns the column ``name`` of numbers, which the argument ``where`` names.

    Raises:
        ConfigError: when the run has no such column, or it holds texts.
        ArtifactError: when it is not finished.
    """
    known = [stage.name.partition(OF_KIND)[2] for stage in stages if kind_of(stage.name) == Column.name]
    if name not in known:
        remedy = suggestion(name, known) if known else f"run with columns=basic, say, and until=column.{name} or later"
        raise ConfigError(where, f"the run has computed no column {name!r}", remedy)
    column = need(column_stage(name), stages)
    if holds_text(read_values(column, 0)):
        raise ConfigError(where, f"the column {name!r} holds texts", "name one of numbers")
    return column


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
    split_ids = (split_id(match.document.id) for match in holding(texts, shards, needle))
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
