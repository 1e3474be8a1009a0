"""A release: a folder that gives a run to others, how it is read, and the environment that it names.

    <release>/
        release.json            date, environment, machines, threads: what no artifact says
        artifacts/              as below a root: the manifest of each stage, and all files of the stages in PUBLISHED
            runs/<id>/run.json
            weights/<address>/checkpoints/step_*/     weights and optimizer state of each step that was kept
        README.md, …            documents that follow from the artifacts (release_writing.py)
        samples/                random pages that the run kept and dropped
        SHA256SUMS              of every other file; SHA256SUMS.sig is left to who signs it

Documents and tokens are not in it: others may have rights to these texts. They are read from a root that has them
(``headrace mirror pull``), or from the release itself after ``headrace mirror push RUN <release>/artifacts``.

    headrace ── requirements of installed packages, and theirs ──> torch 2.13.0, SHA-256 of its RECORD, …

RECORD of a package lists the SHA-256 of each of its files (the specification of binary distributions, PyPA). An
editable installation of Headrace has none of its modules there, so the hash of Headrace is that of its source files.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.command_line.request import opened_of_anyone
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.artifact_files import FileRecord
from headrace.pipeline.core.environment import PACKAGES
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.stage import STORING, kind_of
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.run.mirror import MANIFEST, checkpoint_records
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.saved_run import RUN_JSON, SavedRun
from headrace.train.checkpoint.names import CHECKPOINTS, manifests

ARTIFACTS = "artifacts"
FACTS_FILE = "release.json"
PUBLISHED = ("tokenizer", "weights", "finetuned", "scores", "report")
"""The stages whose files are in a release."""


@dataclasses.dataclass(frozen=True, eq=False)
class Release:
    """A release in ``folder``, with the artifacts below ``root`` that are not in it. What is read of it is kept."""

    folder: Path
    root: Path
    run: Run
    """Its stages are those in the release."""
    facts: Mapping[str, Any]
    """``date`` (ISO 8601), ``environment`` (see the function), ``machines``, by stage, and ``threads`` of a rank of the
    training on CPUs."""

    @classmethod
    def open(cls, folder: Path, root: Path) -> "Release":
        """Opens the release in ``folder``, of whatever user. No file is compared with its checksum.

        Raises:
            ConfigError: when it is no release.
            ArtifactError: when one of its descriptions is damaged.
        """
        run = opened_of_anyone(SavedRun.read(saved_run(folder)))
        return cls(folder, root, run, read_sealed(folder / FACTS_FILE))

    @functools.cached_property
    def artifacts(self) -> dict[str, Artifact]:
        """The finished stages by name. Files of stages outside PUBLISHED may be missing."""
        return whole(self.run.stages)

    def artifact(self, stage: str) -> Artifact:
        """Returns the artifact of ``stage`` with all its files, from the release or the root.

        Raises:
            ArtifactError: when neither has them.
        """
        if (artifact := self._places.get(stage)) is None:
            raise ArtifactError(stage, f"is neither in the release nor below {str(self.root)!r}", "give root=FOLDER")
        return artifact

    def stage(self, name: str) -> PlannedStage:
        """Returns the stage ``name``, one of ``artifacts``."""
        return next(stage for stage in self.run.stages if stage.name == name)

    @property
    def document_stages(self) -> list[str]:
        """The stages that store documents, in their order; those that remain are in the last one."""
        return [stage for stage in STORING if stage in self.artifacts]

    @functools.cached_property
    def _places(self) -> dict[str, Artifact | None]:
        return {name: self._place(artifact) for name, artifact in self.artifacts.items()}

    def _place(self, artifact: Artifact) -> Artifact | None:
        for folder in (artifact.folder, self.in_root(artifact)):
            if is_whole(folder) and all((folder / name).is_file() for name in artifact.manifest["files"]):
                with contextlib.suppress(ArtifactError):  # stored_files.py names what is damaged
                    if (other := Artifact(folder)).identity == artifact.identity:
                        return other
        return None

    def in_root(self, artifact: Artifact) -> Path:
        """Returns the folder below the root that ``artifact`` has there."""
        return self.root / artifact.folder.parent.name / artifact.folder.name


def saved_run(folder: Path) -> Path:
    """Returns the path of the run.json in the release in ``folder``.

    Raises:
        ConfigError: when it is no release.
    """
    files = list((folder / ARTIFACTS / "runs").glob(f"*/{RUN_JSON}"))
    if len(files) != 1 or not (folder / FACTS_FILE).is_file():
        raise ConfigError("DIR", f"{str(folder)!r} is no release", "give a folder that headrace release wrote")
    return files[0]


def is_published(stage: str) -> bool:
    """Whether the files of ``stage`` are in a release."""
    return kind_of(stage) in PUBLISHED


def records_of(artifact: Artifact) -> dict[str, FileRecord]:
    """Returns the files of ``artifact`` by name; of a training also those of all its checkpoints.

    Raises:
        ArtifactError: when the manifest of a checkpoint is damaged.
    """
    saved = [f"{CHECKPOINTS}/{path.parent.name}/{MANIFEST}" for path in manifests(artifact.folder / CHECKPOINTS)]
    records = {name: FileRecord.of(artifact.folder / name) for name in saved}
    records |= checkpoint_records(artifact.folder, saved)
    return records | {name: FileRecord(**record) for name, record in artifact.manifest["files"].items()}


OWN = "headrace"
NOT_RUN = re.compile(r"extra\s*==\s*['\"](?:dev|docs|peers|extractors)['\"]")
"""The requirements of Headrace that no run uses."""


def environment() -> dict[str, Any]:
    """Returns Python's version, the platform, and ``packages``: name → version and SHA-256 in hex."""
    packages = dict[str, dict[str, str]]()
    _add(OWN, packages)
    packages[OWN] = {"version": packages.get(OWN, {}).get("version", ""), "sha256": _source_hash()}
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": packages}


def _add(name: str, packages: dict[str, dict[str, str]]) -> None:
    """Adds the installed package ``name`` and what it requires to ``packages``."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    if normal in packages:
        return
    record = distribution.read_text("RECORD") or ""
    packages[normal] = {"version": distribution.version, "sha256": hashlib.sha256(record.encode()).hexdigest()}
    for requirement in distribution.requires or ():
        wanted = re.match(r"[A-Za-z0-9._-]+", requirement)
        is_extra = NOT_RUN.search(requirement) if normal == OWN else "extra ==" in requirement
        if wanted and not is_extra:
            _add(wanted[0], packages)


def _source_hash() -> str:
    """Returns the SHA-256 of the names and checksums of our files, sorted by name."""
    rooms = [path for path in (PACKAGES / OWN).iterdir() if path.is_dir()]  # links to folders
    files = [path for room in rooms for path in room.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    lines = sorted(f"{path.relative_to(PACKAGES)} {FileRecord.of(path).sha256}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def package_versions(record: dict[str, Any]) -> dict[str, str]:
    """Returns name → version of the packages of an ``environment``."""
    return {name: package["version"] for name, package in record["packages"].items()}


def is_same_code(record: dict[str, Any]) -> bool:
    """Whether the environment ``record`` had the source files that run now."""
    return bool(record["packages"][OWN]["sha256"] == _source_hash())
