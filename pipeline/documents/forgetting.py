"""Finds documents that must not be trained on, by id or URL, plans a run whose rows are packed without them, and names
the weights below a root that were trained on them.

    weights ── manifest, else run.json ──> packed of its run and of its mixture ── tokens ── unique ── clean ── texts
    ids of one run ── checksums of the raw files of both texts ──> ids of the other run ── rows of packed ──> seen

The same document has another id in a run with another set of ``source.paths``.
"""

import contextlib
import dataclasses
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.data_prep.document import split_id
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.urls import normalize_url
from headrace.data_prep.packed import SPLITS, forgotten_ids
from headrace.data_prep.unique import COPIES, survivor_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.configuration.overrides import as_overrides
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import STORING, address_of
from headrace.pipeline.documents.document_path import decision, not_selected, rows_of
from headrace.pipeline.documents.lookup import (
    TokenIndex,
    cleaning_of,
    in_tokens,
    need,
    normalized_id,
    text_bounds,
    texts_stage,
    whole,
)
from headrace.pipeline.documents.stored_documents import located
from headrace.pipeline.output.terminal import Fact, few
from headrace.pipeline.report.about import start_command
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run, plan
from headrace.pipeline.run.saved_run import is_trusted, read_saved
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints

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


def fates_of(stages: Sequence[PlannedStage], names: Sequence[str]) -> list[Fate]:
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
        for _, document in located(artifacts[stage], kind):
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


def fate_facts(stages: Sequence[PlannedStage], fates: Sequence[Fate]) -> Iterator[Fact]:
    """Yields spans and rows of documents in tokens; for others the rule that dropped them, or that they are unknown."""
    artifacts, filters = whole(stages), cleaning_of(stages).filters
    for fate in fates:
        if not fate.id:
            hint = f"; did you mean {fate.same_page!r}?" if fate.same_page else ""
            yield "unknown", f"{fate.name}: neither an id nor a URL of {artifacts['texts'].folder}{hint}"
        else:
            yield from _fate_facts(fate, artifacts, filters)
        yield "", ""


def _fate_facts(fate: Fate, artifacts: Mapping[str, Artifact], filters: Sequence[AnyFilter]) -> Iterator[Fact]:
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
    config = decode(RunConfig, values, folder=run.folder, runs_code=True)
    same = {
        stage.name: stage.description for stage in itertools.takewhile(lambda stage: stage.name != "packed", run.stages)
    }
    kept = [override for override in run.overrides if override.lstrip("+").partition("=")[0] not in REPLACED]
    overrides = [*kept, *as_overrides({"packing.forget": path})]
    return Run(config, values, plan(config, same), overrides, run.folder, run.config_dir)


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


def seen_by(root: Path, tokens: Artifact, ids: Collection[str]) -> Iterator[str]:
    """Yields the weights below ``root``, finished or with a checkpoint, and how many documents of ``ids`` they saw.

    ``ids`` are ids of ``tokens``. The number is unknown when the weights, or the artifacts that they were made from,
    are damaged, were removed, or have an older format.
    """
    runs = list(readable_runs(root))
    for folder in sorted((root / "weights").glob("*")):
        try:
            packed = _packed_of(folder, runs)
            trained = {identity for path in packed for identity in _in_training_rows(path, tokens, ids)}
        except ArtifactError as error:
            yield f"unknown for {folder}: {error.where} {error.problem}"
            continue
        if trained:
            yield f"{folder}, trained on {len(trained):,} of them"


def readable_runs(root: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the values of this user's run.json below ``root``, without damaged ones and those of an older format."""
    for path in sorted(root.glob("runs/*/run.json")):
        with contextlib.suppress(ArtifactError):
            if is_trusted(path):
                yield read_saved(path)


def _in_training_rows(packed_folder: Path, own_tokens: Artifact, ids: Collection[str]) -> Iterator[str]:
    """Yields those of ``ids`` that training rows of ``packed_folder`` hold; none when the folder was removed."""
    if not is_whole(packed_folder):
        return
    packed = Artifact(packed_folder)
    tokens = _input(packed, "tokens")
    own_ids = {identity: [identity] for identity in ids}
    if tokens.folder.name != own_tokens.folder.name:
        own_ids = renamed(ids, _texts(own_tokens), _texts(tokens))
    for identity, index in in_tokens(tokens, own_ids).items():
        if ("split", SPLITS[0]) in rows_of(packed, index[0], *text_bounds(tokens, index)):
            yield from own_ids[identity]


def renamed(ids: Collection[str], own_texts: Artifact, texts: Artifact) -> dict[str, list[str]]:
    """Returns the ids that the documents ``ids`` of ``own_texts`` have in ``texts``, each with those of ``ids``.

    A file that has another name in ``texts`` is found by its checksum. If it is not there, the file of the same name is
    taken for a changed version of it.
    """
    checksums = {file["name"]: file["sha256"] for file in own_texts.manifest["raw_files"]}
    names_by_checksum: dict[str, list[str]] = defaultdict(list)
    for file in texts.manifest["raw_files"]:
        names_by_checksum[file["sha256"]].append(file["name"])
    ids_by_name: dict[str, list[str]] = defaultdict(list)
    for identity in ids:
        own_name, record = split_id(identity)
        names = names_by_checksum.get(checksums[own_name], [own_name])
        for name in [own_name] if own_name in names else names:
            ids_by_name[f"{name}:{record}"].append(identity)
    return ids_by_name


def _texts(tokens: Artifact) -> Artifact:
    """Returns the texts that ``tokens`` was made from."""
    return _input(_input(_input(tokens, "unique"), "clean"), "texts")


def _input(artifact: Artifact, stage: str) -> Artifact:
    """Returns the artifact of ``stage`` from which ``artifact`` was made."""
    return Artifact(artifact.folder.parents[1] / stage / artifact.manifest["inputs"][stage])


def _packed_of(weights: Path, runs: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Returns the packed artifacts that ``weights`` was trained on: those of its run and its mixture, and of its trunk.

    The manifest of ``weights`` lists their addresses. Until it is written, one of ``runs`` (read from run.json) does.

    Raises:
        ArtifactError: when the manifest cannot be read, or no run describes weights with a checkpoint.
    """
    if is_whole(weights):
        description: Mapping[str, Any] = Artifact(weights).manifest
    elif checkpoints(weights / CHECKPOINTS):
        planned = {address_of(run["descriptions"]["weights"]): run for run in runs if "weights" in run["descriptions"]}
        if weights.name not in planned:
            raise ArtifactError(str(weights), "is unfinished, and no readable run.json describes it", "run it again")
        description = planned[weights.name]["descriptions"]["weights"]
    else:
        return []
    mixed = description.get("settings", {}).get("mixture", {}).get("sources", [])
    addresses = [description["inputs"]["packed"], *(source["packed"] for source in mixed if source["packed"])]
    folders = [weights.parents[1] / "packed" / str(address) for address in addresses]
    named = {path.name: path for path in _sources(runs)}
    own = [path if path.is_dir() else named.get(path.name, path) for path in folders]
    trunk, _, _ = (description.get("settings", {}).get("training", {}).get("branch_from") or "").partition("@")
    if not trunk:
        return own
    if not weights.with_name(trunk).is_dir():
        raise ArtifactError(str(weights), f"branched from weights/{trunk}, which was removed", "bring it back")
    return [*own, *_packed_of(weights.with_name(trunk), runs)]


def _sources(runs: Sequence[Mapping[str, Any]]) -> Iterator[Path]:
    """Yields the folders that the mixtures of ``runs`` name: an address does not hold its root."""
    for run in runs:
        for source in run["config"].get("mixture", {}).get("sources", []):
            if source.get("packed"):
                yield Path(source["packed"]).resolve()
