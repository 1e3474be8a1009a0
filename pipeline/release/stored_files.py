"""Checks of a release without computing anything again: checksums, addresses, the data below the root, documents.

SHA256SUMS ── every file ──> files         run.json, manifests ── hashes of what they describe ──> addresses
manifests ── files below the root ──> data             artifacts ── written again ──> documents
"""

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyarrow import parquet

from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.file_records import refuse_outside, sha256_of
from headrace.pipeline.core.stage import label_of_manifest
from headrace.pipeline.export.whole_folder import CHECKSUMS
from headrace.pipeline.release.environment_record import is_same_code
from headrace.pipeline.release.finding import UNCHECKED, Finding, checked, compared
from headrace.pipeline.release.generated_files import generated
from headrace.pipeline.release.page_samples import FILES, sampled, write_part
from headrace.pipeline.release.release_folder import ARTIFACTS, Release, is_published, records_of
from headrace.pipeline.run.mirror import label_of


def files(folder: Path) -> Finding:
    """Compares every file of the release in ``folder`` with SHA256SUMS."""
    try:
        listed = _listed(folder / CHECKSUMS)
    except ArtifactError as error:
        return compared("files", [str(error)], "")
    damaged = [name for name, sha256 in listed.items() if not _has(folder / name, sha256)]
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    added = sorted(present - listed.keys() - {CHECKSUMS} - _of_manifests(folder))
    differing = [*(f"{name} is damaged or missing" for name in damaged), *(f"{name} was added" for name in added)]
    return compared("files", differing, f"{len(listed):,} files have their checksums in {CHECKSUMS}")


def _listed(path: Path) -> dict[str, str]:
    """Returns the checksums in the file ``path``, by file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        listed = {name: sha256 for sha256, name in (line.split("  ", 1) for line in lines)}
    except (OSError, ValueError):
        raise ArtifactError(str(path), "is missing or damaged", "give a folder that headrace release wrote") from None
    refuse_outside(path, listed)
    return listed


def _has(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path, path.stat().st_size) == sha256


def _of_manifests(folder: Path) -> set[str]:
    """Returns the files that manifests in the release list: ``headrace push`` may have added them."""
    names = set[str]()
    for path in (folder / ARTIFACTS).glob("*/*/manifest.json"):
        own = path.parent.relative_to(folder).as_posix()
        names |= {f"{own}/{name}" for name in _manifest_files(path.parent)}
    return names


def _manifest_files(folder: Path) -> list[str]:
    try:
        return list(Artifact(folder).manifest["files"])
    except ArtifactError:  # it differs from its checksum, or ``addresses`` finds it
        return []


def addresses(release: Release) -> Finding:
    """Compares the address of each stage with the hash of its description, in run.json and in the manifests."""
    differing = []
    for stage in release.run.stages:
        if stage.name not in release.artifacts:
            differing += [f"{label_of(stage.folder)} is not in the release"] * (stage.name in release.facts["machines"])
        elif (own := label_of_manifest(release.artifacts[stage.name].manifest)) != label_of(stage.folder):
            differing.append(f"{label_of(stage.folder)} has the manifest of {own}")
    number = len(release.artifacts)
    return compared("addresses", differing, f"{number} addresses are hashes of settings, inputs and raw files")


def data(release: Release) -> Iterator[Finding]:
    """Yields a finding for each stage: its files, in the release or below the root, have the manifest's checksums."""
    yield from (_data(release, name, artifact) for name, artifact in release.artifacts.items())


def _data(release: Release, name: str, artifact: Artifact) -> Finding:
    subject, folder = f"data {name}", release.in_root(artifact)
    if is_published(name) or all((artifact.folder / file).is_file() for file in artifact.manifest["files"]):
        folder = artifact.folder
    elif not is_whole(folder):
        return Finding(subject, UNCHECKED, f"{folder} is not there; give root=FOLDER, or headrace pull it")
    try:
        own = Artifact(folder)
        records = records_of(own)
    except ArtifactError as error:
        return compared(subject, [str(error)], "")
    if own.identity != artifact.identity:
        return compared(subject, [f"{folder} has other results than the release"], "")
    damaged = [name for name, record in records.items() if not _has(folder / name, record.sha256)]
    differing = [f"{folder / name} is damaged or missing" for name in damaged]
    return compared(subject, differing, f"{len(records):,} files in {folder} have their checksums")


def documents(release: Release) -> Iterator[Finding]:
    """Yields a finding for each document of the release: it is what the artifacts give."""
    for name, text_of in generated(release).items():
        yield checked(name, functools.partial(_document, release, name, text_of))
    if release.document_stages:
        yield checked("samples", lambda: _samples(release))


def _document(release: Release, name: str, text_of: Callable[[Release], str]) -> Finding:
    path, text = release.folder / name, text_of(release)
    is_same = path.is_file() and path.read_bytes() == text.encode()
    if not is_same and not is_same_code(release.facts["environment"]):
        problem = "another headrace wrote it, and this one gives another text; install its version (REPRODUCE.md)"
        return Finding(name, UNCHECKED, problem)
    return compared(name, [] if is_same else ["the artifacts give another text"], "written again, same bytes")


def _samples(release: Release) -> Finding:
    """Compares the rows of the samples: files of other versions of Arrow have other bytes."""
    rows, differing = sampled(release), []
    with tempfile.TemporaryDirectory() as folder:
        for part, name in FILES.items():
            write_part(Path(folder, name), rows[part])
            if not parquet.read_table(Path(folder, name)).equals(parquet.read_table(release.folder / name)):
                differing.append(f"{name} has other rows")
    return compared("samples", differing, f"{sum(map(len, rows.values())):,} rows drawn again")
