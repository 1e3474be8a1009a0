"""The artifacts of wandb: references to the manifests of our artifacts, which have the checksums of all files.

    texts-41c0… <- clean-b8e4… <- … <- tokens-77d1… <- packed-03aa… <- weights-5d2e… <- scores-9f01…

An artifact of wandb has the name of its stage and its address. Its only entry is the manifest, so wandb finds an equal
version by the manifest's checksum: to record an artifact again adds no version. No file is uploaded.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.settings import digest

MAX_COUNTS = 50
"""The number of counts in the metadata: wandb refuses metadata with more than 100 keys."""


@dataclasses.dataclass(frozen=True)
class Product:
    """An artifact as wandb lists it."""

    stage: str
    address: str
    manifest: Path
    inputs: tuple[str, ...]
    """The names of the artifacts that it was made from."""
    facts: Mapping[str, Any]
    """Sizes, counts and settings, for the metadata."""

    @property
    def name(self) -> str:
        return name_of(self.stage, self.address)

    @property
    def metadata(self) -> dict[str, Any]:
        """The address, the inputs, the checksum of the manifest, and the facts."""
        sha256 = hashlib.sha256(self.manifest.read_bytes()).hexdigest()
        return {"address": self.address, "inputs": list(self.inputs), "manifest_sha256": sha256, **self.facts}

    @classmethod
    def of(cls, artifact: Artifact) -> "Product":
        """Returns the product of a finished ``artifact``. Facts that its manifest lacks are left out or 0."""
        manifest = artifact.manifest
        files, raw_files = manifest["files"].values(), manifest.get("raw_files", ())
        facts = {
            "version": manifest.get("version"),
            "settings_digest": digest(manifest.get("hashed", {})),
            "files": len(files),
            "bytes": sum(file["bytes"] for file in files),
            "shards": artifact.shard_count,
            "raw_files": len(raw_files),
            "raw_bytes": sum(file["bytes"] for file in raw_files),
            "counts": dict(list(plain_counts(artifact).items())[:MAX_COUNTS]),
        }
        stage, inputs = manifest.get("stage", artifact.folder.parent.name), input_names(manifest.get("inputs", {}))
        return cls(stage, artifact.folder.name, artifact.folder / "manifest.json", inputs, facts)

    @classmethod
    def of_checkpoint(cls, manifest: Path, stage: str, address: str, inputs: Mapping[str, str], step: int) -> "Product":
        """Returns the product of the training ``address`` after ``step``: the checkpoint with the ``manifest``."""
        return cls(stage, address, manifest, input_names(inputs), {"step": step})


def name_of(stage: str, address: str) -> str:
    """Returns the name of an artifact in wandb: ``clean-b8e44e9d7440``."""
    return f"{stage}-{address}"


def input_names(addresses: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of the artifacts at ``addresses``, which are given by stage."""
    return tuple(name_of(stage, address) for stage, address in addresses.items())


def plain_counts(artifact: Artifact) -> dict[str, int]:
    """Returns the counts of ``artifact`` that are no parts of another one: not those of single rules and lengths."""
    return {name: number for name, number in sorted(artifact.counts.items()) if ":" not in name}


@dataclasses.dataclass(frozen=True)
class WandbTable:
    """A table of a wandb run. Each column has values of one type, or None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | None]]


@dataclasses.dataclass(frozen=True)
class Media:
    """The tables, figures and page that wandb shows in a run."""

    tables: Mapping[str, WandbTable] = dataclasses.field(default_factory=dict)
    figures: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Name → plotly's JSON."""
    page: Path | None = None
    """An HTML page."""
