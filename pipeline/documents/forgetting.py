"""Finds documents that must not be trained on, by id or URL, and plans a run whose rows are packed without them."""

import dataclasses
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.urls import normalize_url
from headrace.data_prep.packed import forgotten_ids
from headrace.data_prep.unique import COPIES, survivor_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.documents.document_columns import not_selected
from headrace.pipeline.documents.document_path import decision, texts_stage
from headrace.pipeline.documents.lookup import (
    TokenIndex,
    cleaning_of,
    in_tokens,
    need,
    normalized_id,
    text_bounds,
    whole,
)
from headrace.pipeline.documents.trained_on import rows_of
from headrace.pipeline.output.terminal import Fact, few
from headrace.pipeline.report.about import start_command
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, plan

REPLACED = ("packing.forget", "until", "name")
"""The settings in which the run without the documents differs."""


@dataclasses.dataclass(frozen=True)
class Fate:
    """The fate of a document that ``name``, its id or URL, names. Without ``id``, no document has this name."""

    name: str
    id: str = ""
    index: TokenIndex | None = None
    """The position of its tokens."""
    dropped_by: str = ""
    """The stage that dropped it."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The metadata of a dropped document."""
    same_page: str = ""
    """The URL of a document that differs from ``name`` only in the parts that C4's code removes from URLs."""

    @property
    def is_in_tokens(self) -> bool:
        return self.index is not None


def find(stages: Sequence[PlannedStage], names: Sequence[str]) -> list[Fate]:
    """Returns the fate of every document that ``names`` name, in their order. An id may begin with the file's path.

    Raises:
        ArtifactError: when texts, clean, unique or tokens are not finished.
    """
    tokens, artifacts = need("tokens", stages), {stage: need(stage, stages) for stage in STORING}
    names = list(dict.fromkeys(normalized_id(texts_stage(stages), name) for name in names))
    indices = in_tokens(tokens, names)
    left = {name for name in names if name not in indices}
    named: dict[str, list[Fate]] = defaultdict(list, {name: [Fate(name, name, indices[name])] for name in indices})
    at_url: dict[str, list[str]] = defaultdict(list)
    pages = {normalize_url(name): "" for name in left}
    for stage, kind in (("clean", "documents"), *((stage, "dropped") for stage in STORING)) if left else ():
        for document in _documents(artifacts[stage], kind):
            url = str(document.metadata.get("url") or "")
            if (page := normalize_url(url)) in pages:
                pages[page] = url
            for name in left & {document.id, url}:
                if kind == "dropped":
                    named[name].append(Fate(name, document.id, dropped_by=stage, metadata=document.metadata))
                else:
                    at_url[name].append(document.id)
    indices = in_tokens(tokens, [identity for ids in at_url.values() for identity in ids])
    for name, ids in at_url.items():
        named[name] += [Fate(name, identity, indices[identity]) for identity in ids if identity in indices]
    unknown = {name: Fate(name, same_page=pages[normalize_url(name)]) for name in left}
    return [fate for name in names for fate in sorted(named[name], key=lambda fate: fate.id) or [unknown[name]]]


def _documents(artifact: Artifact, kind: str) -> Iterator[Document]:
    for shard in range(artifact.shard_count):
        yield from read_documents(artifact.shard(kind, shard, "jsonl.zst"))


def explain(stages: Sequence[PlannedStage], fates: Sequence[Fate]) -> Iterator[Fact]:
    """Yields spans and rows of documents in tokens; for others the rule that dropped them, or that they are unknown."""
    artifacts, filters = whole(stages), cleaning_of(stages).filters
    for fate in fates:
        if not fate.id:
            hint = f"; did you mean {fate.same_page!r}?" if fate.same_page else ""
            yield "unknown", f"{fate.name}: neither an id nor a URL of {artifacts['texts'].folder}{hint}"
        else:
            yield from _fate(fate, artifacts, filters)
        yield "", ""


def _fate(fate: Fate, artifacts: Mapping[str, Artifact], filters: Sequence[AnyFilter]) -> Iterator[Fact]:
    yield "id", fate.id
    if fate.name != fate.id:
        yield "url", fate.name
    if fate.index is not None:
        first, last = text_bounds(artifacts["tokens"], fate.index)
        yield "tokens", f"{last - first - 1:,} in token shard {fate.index[0]}, [{first + 1}:{last}]"
        if "packed" in artifacts:
            rows = list(rows_of(artifacts["packed"], fate.index[0], first, last))
            absent = not_selected(artifacts, *fate.index) or "forgotten before"
            yield from few(rows, "row") if rows else [("row", f"none: {absent}")]
    else:
        yield "dropped by", fate.dropped_by
        yield from decision(fate.metadata, filters)
        if fate.dropped_by == "unique" and fate.metadata["drop"]["rule"] in COPIES:
            survivor = survivor_of(fate.metadata["drop"]["value"])
            yield "still there", f"{survivor} says the same: list it to forget that, too"


def without(run: Run, fates: Sequence[Fate]) -> Run:
    """Returns ``run`` up to packed, without the documents of ``fates`` and those that it forgot before.

    Writes the list of their ids below the root, under the hash of its content.
    """
    ids = {fate.id for fate in fates if fate.id} | set(forgotten_ids(run.config.packing.forget))
    text = "".join(f"{identity}\n" for identity in sorted(ids))
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = Path(run.config.root).resolve() / "forget" / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
    packing = {**run.values["packing"], "forget": str(path)}
    values = {**run.values, "name": None, "root": run.config.root, "until": "packed", "packing": packing}
    config = decode(RunConfig, values, folder=run.folder)
    same = {
        stage.name: stage.description for stage in itertools.takewhile(lambda stage: stage.name != "packed", run.stages)
    }
    kept = [override for override in run.overrides if override.lstrip("+").partition("=")[0] not in REPLACED]
    overrides = [*kept, f"packing.forget={quoted(str(path))}"]
    return Run(config, values, plan(config, same), overrides, run.folder, run.config_dir)


def quoted(value: str) -> str:
    """Quotes ``value`` for Hydra's grammar of overrides."""
    if re.fullmatch(r"[\w./-]+", value, re.ASCII):
        return value
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"


def outcome(run: Run, fates: Sequence[Fate], seen: Sequence[str]) -> Iterator[Fact]:
    """Yields what was forgotten, how to train without it, and which weights were trained with it (``seen_by``)."""
    artifacts = whole(run.stages)
    indices = {fate.index for fate in fates if fate.index is not None}
    tokens = sum(last - first - 1 for first, last in (text_bounds(artifacts["tokens"], index) for index in indices))
    yield "forgotten", f"{len(indices):,} documents, {tokens:,} tokens"
    yield "list", str(run.config.packing.forget)
    yield "packed", str(artifacts["packed"].folder)
    yield "train without", start_command(run.overrides, run.config_dir)
    yield from (("seen by", weights) for weights in seen or [f"no weights below {run.config.root}"])
    stages = ", ".join(str(artifacts[stage].folder) for stage in (*STORING, "tokens"))
    yield "still on disk", f"their texts, in {stages}"
