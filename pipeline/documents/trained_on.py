"""Finds the rows of a document, and the weights below a root that were trained on given documents.

    weights ── manifest, else run.json ──> packed of its run and of its mixture ── tokens ── unique ── clean ── texts
    ids of one run ── checksums of the raw files of both texts ──> ids of the other run ── rows of packed ──> seen

The same document has another id in a run with another set of ``source.paths``.
"""

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.data_prep.document import split_id
from headrace.data_prep.packed import SPLITS
from headrace.data_prep.tokenization.shards import PackedRows
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.stage import address_of
from headrace.pipeline.documents.lookup import in_tokens, text_bounds
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.run_files import is_trusted
from headrace.pipeline.run.saved_runs import read_saved
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints


def seen_by(root: Path, tokens: Artifact, ids: Collection[str]) -> Iterator[str]:
    """Yields the weights below ``root``, finished or with a checkpoint, and how many documents of ``ids`` they saw.

    ``ids`` are ids of ``tokens``. The number is unknown when the weights, or the artifacts that they were made from,
    are damaged, were removed, or have an older format.
    """
    runs = list(_readable_runs(root))
    for folder in sorted((root / "weights").glob("*")):
        try:
            packed = _packed_of(folder, runs)
            trained = {identity for path in packed for identity in _in_training_rows(path, tokens, ids)}
        except ArtifactError as error:
            yield f"unknown for {folder}: {error.where} {error.problem}"
            continue
        if trained:
            yield f"{folder}, trained on {len(trained):,} of them"


def _readable_runs(root: Path) -> Iterator[Mapping[str, Any]]:
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


def rows_of(packed: Artifact, shard: int, first: int, last: int) -> Iterable[Fact]:
    """Yields the split and the rows of the document between the ends of text ``first`` and ``last`` of a shard."""
    for split in SPLITS:
        rows, spans = PackedRows(packed, split).spans_with_targets(shard, first, last)
        if rows.size:
            yield "split", split
        for row, (_, start, length) in zip(rows.tolist(), spans.tolist(), strict=True):
            yield "row", f"{row} of {split}: {length:,} tokens from {start} on"
