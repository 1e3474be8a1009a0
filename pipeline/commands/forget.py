"""``headrace forget``: the tokens and rows of documents that must not be trained on, and rows packed without them.

    ids, URLs ── keys of tokens ──> shard, from, to ── spans of packed ──> split, rows
       └── texts, clean, unique ──> dropped by …, unknown
    ids ──> <root>/forget/<hash>.txt = packing.forget ──> packed again from the same tokens

headrace forget --ids ids.txt      one id or URL a line; a URL names every document that has it

Ids of documents in tokens are found by their keys, without reading a text. The others, and URLs, take one pass over
clean and over the documents that texts and unique dropped.
"""

import contextlib
import dataclasses
import hashlib
import itertools
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.urls import normalize_url
from headrace.data_prep.packed import SPLITS, forgotten_ids
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.commands import facts
from headrace.pipeline.commands.declaration import command, run_option
from headrace.pipeline.commands.facts import Fact, few
from headrace.pipeline.commands.lookup import DOCUMENT_STAGES, need, whole
from headrace.pipeline.commands.request import run_of
from headrace.pipeline.commands.why import decision, rows_of
from headrace.pipeline.config import RunConfig
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import address_of
from headrace.pipeline.run.line import carry_out
from headrace.pipeline.run.planner import Run, Step, plan
from headrace.pipeline.run.saved import is_trusted, read_saved
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints

DUPLICATES = ("exact_duplicate", "near_duplicate")
"""The rules of unique that drop a document as a copy of another one."""
REPLACED = ("packing.forget", "until", "name")
"""The settings in which the run without the documents differs."""
Place = tuple[int, int]
"""(token shard, document of it)."""


@command
@click.option("--ids", metavar="FILE", required=True, type=click.Path(), help="A file of ids or URLs, one a line.")
@run_option
def forget(overrides: Sequence[str], ids: str, run: str) -> None:
    """Prints the tokens and rows of the documents that FILE lists, by id or URL, and packs again without them."""
    found = run_of(overrides, run)
    fates = find(found.steps, read_lines(ids))
    facts.show(explain(found.steps, fates))
    if not any(fate.is_in_tokens for fate in fates):
        facts.show([("forgotten", "nothing: no row holds any of them")])
        return
    seen = list(seen_by(Path(found.config.root), [fate.id for fate in fates if fate.is_in_tokens]))
    remaining = without(found, fates)
    carry_out(remaining)
    facts.show(outcome(remaining, fates, seen))


@dataclasses.dataclass(frozen=True)
class Fate:
    """The fate of a document that ``name``, its id or URL, names. Without ``id``, no document has this name."""

    name: str
    id: str = ""
    place: Place | None = None
    """The position of its tokens."""
    dropped_by: str = ""
    """The stage that dropped it."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The metadata of a dropped document."""
    same_page: str = ""
    """The URL of a document that differs from ``name`` only in the parts that C4's code removes from URLs."""

    @property
    def is_in_tokens(self) -> bool:
        return self.place is not None


def read_lines(file: str) -> list[str]:
    """Reads the lines of ``file``, without empty ones, spaces around them and repetitions.

    Raises:
        ConfigError: when it cannot be read or holds no line.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError("FILE", f"cannot read {file!r} ({error.strerror})", "name a file of ids or URLs") from None
    except UnicodeDecodeError as error:
        raise ConfigError("FILE", f"{file!r} is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None
    names = list(dict.fromkeys(filter(None, map(str.strip, lines))))
    if not names:
        raise ConfigError("FILE", f"there is no line in {file!r}", "write ids or URLs into it, one a line")
    return names


def find(steps: Sequence[Step], names: Sequence[str]) -> list[Fate]:
    """Returns the fate of every document that ``names`` name, in their order.

    Raises:
        ArtifactError: when texts, clean, unique or tokens are not finished.
    """
    tokens, artifacts = need("tokens", steps), {stage: need(stage, steps) for stage in DOCUMENT_STAGES}
    places = in_tokens(tokens, names)
    left = {name for name in names if name not in places}
    named: dict[str, list[Fate]] = defaultdict(list, {name: [Fate(name, name, places[name])] for name in places})
    at_url: dict[str, list[str]] = defaultdict(list)
    pages = {normalize_url(name): "" for name in left}
    for stage, kind in (("clean", "documents"), *((stage, "dropped") for stage in DOCUMENT_STAGES)) if left else ():
        for document in _documents(artifacts[stage], kind):
            url = str(document.metadata.get("url") or "")
            if (page := normalize_url(url)) in pages:
                pages[page] = url
            for name in left & {document.id, url}:
                if kind == "dropped":
                    named[name].append(Fate(name, document.id, dropped_by=stage, metadata=document.metadata))
                else:
                    at_url[name].append(document.id)
    places = in_tokens(tokens, [identity for ids in at_url.values() for identity in ids])
    for name, ids in at_url.items():
        named[name] += [Fate(name, identity, places[identity]) for identity in ids if identity in places]
    unknown = {name: Fate(name, same_page=pages[normalize_url(name)]) for name in left}
    return [fate for name in names for fate in sorted(named[name], key=lambda fate: fate.id) or [unknown[name]]]


def in_tokens(tokens: Artifact, ids: Collection[str]) -> dict[str, Place]:
    """Returns the positions of the documents ``ids`` in ``tokens``; leaves out those that are not there."""
    by_key = {key_of("split", identity): identity for identity in ids}
    wanted = np.array(list(by_key), dtype=np.uint64)
    found = {}
    for shard in range(tokens.shard_count if ids else 0):
        keys = np.load(tokens.shard("keys", shard, "npy"))
        for row in np.flatnonzero(np.isin(keys, wanted)).tolist():
            found[by_key[int(keys[row])]] = (shard, row)
    return found


def _documents(artifact: Artifact, kind: str) -> Iterator[Document]:
    for shard in range(artifact.shard_count):
        yield from read_documents(artifact.shard(kind, shard, "jsonl.zst"))


def explain(steps: Sequence[Step], fates: Sequence[Fate]) -> Iterator[Fact]:
    """Yields spans and rows of documents in tokens; for others the rule that dropped them, or that they are unknown."""
    artifacts = whole(steps)
    for fate in fates:
        if not fate.id:
            hint = f"; did you mean {fate.same_page!r}?" if fate.same_page else ""
            yield "unknown", f"{fate.name}: neither an id nor a URL of {artifacts['texts'].folder}{hint}"
        else:
            yield from _fate(fate, artifacts)
        yield "", ""


def _fate(fate: Fate, artifacts: Mapping[str, Artifact]) -> Iterator[Fact]:
    yield "id", fate.id
    if fate.name != fate.id:
        yield "url", fate.name
    if fate.place is not None:
        first, last = _bounds(artifacts["tokens"], fate.place)
        yield "tokens", f"{last - first - 1:,} in token shard {fate.place[0]}, [{first + 1}:{last}]"
        if "packed" in artifacts:
            found = list(rows_of(artifacts["packed"], fate.place[0], first, last))
            yield from few(found, "row") if found else [("row", "none: forgotten before")]
    else:
        yield "dropped by", fate.dropped_by
        yield from decision(fate.metadata)
        if fate.dropped_by == "unique" and fate.metadata["drop"]["rule"] in DUPLICATES:
            survivor = fate.metadata["drop"]["value"].rpartition(" jaccard=")[0] or fate.metadata["drop"]["value"]
            yield "still there", f"{survivor} says the same: list it to forget that, too"


def _bounds(tokens: Artifact, place: Place) -> tuple[int, int]:
    """Returns the offsets of the ends of text before and after a document."""
    bounds = np.load(tokens.shard("bounds", place[0], "npy"), mmap_mode="r")
    first, last = bounds[place[1] : place[1] + 2].tolist()
    return first, last


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
    same = {step.name: step.description for step in itertools.takewhile(lambda step: step.name != "packed", run.steps)}
    kept = [one for one in run.overrides if one.lstrip("+").partition("=")[0] not in REPLACED]
    overrides = [*kept, f"packing.forget={quoted(str(path))}"]
    return Run(config, values, plan(config, same), overrides, run.folder)


def quoted(value: str) -> str:
    """Quotes ``value`` for Hydra's grammar of overrides."""
    if re.fullmatch(r"[\w./-]+", value, re.ASCII):
        return value
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), value) + "'"


def outcome(run: Run, fates: Sequence[Fate], seen: Sequence[str]) -> Iterator[Fact]:
    """Yields what was forgotten, how to train without it, and which weights were trained with it (``seen_by``)."""
    artifacts = whole(run.steps)
    found = {fate.place for fate in fates if fate.place is not None}
    tokens = sum(last - first - 1 for first, last in (_bounds(artifacts["tokens"], place) for place in found))
    yield "forgotten", f"{len(found):,} documents, {tokens:,} tokens"
    yield "list", str(run.config.packing.forget)
    yield "packed", str(artifacts["packed"].folder)
    yield "train without", shlex.join(["headrace", *run.overrides])
    yield from (("seen by", weights) for weights in seen or [f"no weights below {run.config.root}"])
    stages = ", ".join(str(artifacts[stage].folder) for stage in (*DOCUMENT_STAGES, "tokens"))
    yield "still on disk", f"their texts, in {stages}"


def seen_by(root: Path, ids: Collection[str]) -> Iterator[str]:
    """Yields the weights below ``root``, finished or with a checkpoint, and how many documents of ``ids`` they saw.

    The number is unknown when the weights, or the rows that they read, are damaged or have an older format.
    """
    runs = list(_readable_runs(root))
    for folder in sorted((root / "weights").glob("*")):
        try:
            trained = {identity for packed in _packed_of(folder, runs) for identity in _in_training_rows(packed, ids)}
        except ArtifactError as error:
            yield f"unknown for {folder}: {error.where} {error.wrong}"
            continue
        if trained:
            yield f"{folder}, trained on {len(trained):,} of them"


def _readable_runs(root: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the values of this user's run.json below ``root``, without damaged ones and those of an older format."""
    for path in sorted(root.glob("runs/*/run.json")):
        with contextlib.suppress(ArtifactError):
            if is_trusted(path):
                yield read_saved(path)


def _in_training_rows(packed_folder: Path, ids: Collection[str]) -> Iterator[str]:
    """Yields those of ``ids`` that training rows of ``packed_folder`` hold; none when the folder was removed."""
    if not (packed_folder / "manifest.json").is_file():
        return
    packed = Artifact(packed_folder)
    tokens = Artifact(packed_folder.parents[1] / "tokens" / packed.manifest["inputs"]["tokens"])
    for identity, place in in_tokens(tokens, ids).items():
        if ("split", SPLITS[0]) in rows_of(packed, place[0], *_bounds(tokens, place)):
            yield identity


def _packed_of(weights: Path, runs: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Returns the packed artifacts that ``weights`` was trained on: the one of its run and those of its mixture.

    The manifest of ``weights`` lists their addresses. Until it is written, one of ``runs`` (read from run.json) does.

    Raises:
        ArtifactError: when the manifest cannot be read, or no run describes weights with a checkpoint.
    """
    if (weights / "manifest.json").is_file():
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
    here = [weights.parents[1] / "packed" / str(address) for address in addresses]
    named = {path.name: path for path in _sources(runs)}
    return [path if path.is_dir() else named.get(path.name, path) for path in here]


def _sources(runs: Sequence[Mapping[str, Any]]) -> Iterator[Path]:
    """Yields the folders that the mixtures of ``runs`` name: an address does not hold its root."""
    for run in runs:
        for source in run["config"].get("mixture", {}).get("sources", []):
            if source.get("packed"):
                yield Path(source["packed"]).resolve()
