"""Checks of a release without computing anything again: checksums, addresses, the data below the root, documents.

    SHA256SUMS.sig ── public key ──> signature  SHA256SUMS ── every file ──> files
    run.json, manifests ── hashes of what they describe ──> addresses      ── names that a release has ──> contents
    manifests ── files below the root ──> data             artifacts ── written again ──> documents

Each check gives a Finding.
"""

import dataclasses
import functools
import os
import re
import stat
import subprocess
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from pyarrow import parquet

from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.artifact_files import refuse_outside, sha256_of
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError
from headrace.pipeline.core.stage import kind_of, label_of_manifest
from headrace.pipeline.papers.page_samples import FILES, sampled, write_part
from headrace.pipeline.papers.release_folder import (
    ARTIFACTS,
    FACTS_FILE,
    Release,
    is_published,
    is_same_code,
    records_of,
)
from headrace.pipeline.papers.release_writing import generated
from headrace.pipeline.papers.whole_folder import CHECKSUMS
from headrace.pipeline.run.mirror import label_of
from headrace.pipeline.run.saved_run import RUN_JSON
from headrace.train.checkpoint.names import CHECKPOINTS, MANIFEST, manifests, step_of
from headrace.train.families.initial_weights import TOKENIZER_FILES

SAME, OTHER, UNCHECKED = "verified", "DIFFERS", "not verified"
SHOWN = 5
"""The most differing names that are listed."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """The subject of a check, its outcome (SAME, OTHER or UNCHECKED), and how it was checked or why not."""

    subject: str
    outcome: str
    text: str


def checked(subject: str, check: Callable[[], Finding]) -> Finding:
    """Returns the finding of ``check``; UNCHECKED with the reason when it cannot be made."""
    try:
        return check()
    except HeadraceError as error:
        return Finding(subject, UNCHECKED, str(error))


def compared(subject: str, differing: list[str], same: str) -> Finding:
    """Returns OTHER with the names ``differing``; without any, SAME with the text ``same``."""
    if not differing:
        return Finding(subject, SAME, same)
    more = f" and {len(differing) - SHOWN:,} more" * (len(differing) > SHOWN)
    return Finding(subject, OTHER, ", ".join(differing[:SHOWN]) + more)


SIGNATURE = f"{CHECKSUMS}.sig"
MODEL = ("config.json", "model.safetensors", *TOKENIZER_FILES[:2])
"""The files of a model whose first weights were random."""
_OTHER_MODEL = "|".join(map(re.escape, {*MODEL, *TOKENIZER_FILES}))
_TRAINED = (
    rf"metrics\.jsonl|row\.json|origin\.json|{CHECKPOINTS}/step_\d{{8,}}/(manifest\.json|state/\d{{5}}\.safetensors)"
)
KINDS = {
    "tokenizer": "|".join(map(re.escape, TOKENIZER_FILES[:2])),
    "weights": rf"{_TRAINED}|hf/(generator/)?({'|'.join(map(re.escape, MODEL))})",
    "finetuned": rf"scores\.json|seed_\d+/((metrics|(test_)?predictions)\.jsonl|result\.json)|hf/({_OTHER_MODEL})",
    "scores": r"scores\.(json|md)|samples/[^/]+\.jsonl|lm_eval/(results|samples)_[^/]+\.jsonl?",
    "report": r"report\.html",
}
"""Stage of a release → the names of the files that it writes."""
CONTINUED = rf"{_TRAINED}|hf/(generator/)?({_OTHER_MODEL})"
"""The names of weights that began from a published model: they keep the files of its tokenizer."""
SHARD = r"\w+/(\w+-)?\d{5,}\.[\w.]+|[\w.-]+\.(json|npy|npz|bin|txt)"
"""The names of the files of other stages: shards, and tables of their own."""


def signature(folder: Path, key: str) -> Finding:
    """Compares SHA256SUMS of the release in ``folder`` with its signature by the public ``key``, a file of OpenSSH.

    Raises:
        ConfigError: when the file is no public key, or there is no ssh-keygen.
    """
    subject, file = "signature", folder / SIGNATURE
    if not key:
        return Finding(subject, UNCHECKED, f"give --key FILE, the author's public key, for {SIGNATURE}")
    try:
        kind, value = Path(key).expanduser().read_text(encoding="utf-8").split()[:2]
    except (OSError, ValueError):
        raise ConfigError(
            "--key", f"{key!r} holds no public key", "give one of OpenSSH, such as id_ed25519.pub"
        ) from None
    if not file.is_file() or file.is_symlink():
        return compared(subject, [f"there is no {SIGNATURE}"], "")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as allowed, (folder / CHECKSUMS).open("rb") as signed:
        print(f"author {kind} {value}", file=allowed, flush=True)
        command = ["ssh-keygen", "-Y", "verify", "-f", allowed.name, "-I", "author", "-n", "file", "-s", str(file)]
        try:
            ended = subprocess.run(command, stdin=signed, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        except OSError:
            raise ConfigError("--key", "there is no ssh-keygen on this machine", "install OpenSSH") from None
    differing = [f"{key} did not sign {CHECKSUMS} as it is"] * bool(ended.returncode)
    return compared(subject, differing, f"{CHECKSUMS} is signed by {key}")


def odd_entries(folder: Path) -> list[str]:
    """Returns what in ``folder`` is neither a folder with files nor a file of its own, and names that collide."""
    entries = {
        Path(parent, name).relative_to(folder).as_posix(): Path(parent, name).lstat()
        for parent, folders, names in os.walk(folder, onerror=_raise)  # it follows no link
        for name in (*folders, *names)
    }
    links = Counter((own.st_dev, own.st_ino) for own in entries.values())
    used = {
        str(parent)
        for name, own in entries.items()
        if stat.S_ISREG(own.st_mode)
        for parent in PurePosixPath(name).parents
    }
    names = Counter(unicodedata.normalize("NFC", name).casefold() for name in entries)
    odd = []
    for name, own in entries.items():
        if stat.S_ISDIR(own.st_mode):
            odd += [f"{name} is an empty folder"] * (name not in used)
        elif not stat.S_ISREG(own.st_mode):
            odd.append(f"{name} is {'a symbolic link' if stat.S_ISLNK(own.st_mode) else 'no file'}")
        elif own.st_nlink > links[own.st_dev, own.st_ino]:
            odd.append(f"{name} is also a file elsewhere (a hard link)")
        if names[unicodedata.normalize("NFC", name).casefold()] > 1:
            odd.append(f"{name} and another name differ in capitals or accents alone")
    return sorted(odd)


def _raise(error: OSError) -> None:
    raise ArtifactError(str(error.filename), f"cannot be read ({error.strerror})", "make it readable")


def files(folder: Path) -> Finding:
    """Compares every file of the release in ``folder`` with SHA256SUMS."""
    try:
        listed = _listed(folder / CHECKSUMS)
    except ArtifactError as error:
        return compared("files", [str(error)], "")
    damaged = [name for name, sha256 in listed.items() if not _has(folder / name, sha256)]
    added = sorted(_present(folder) - listed.keys() - {CHECKSUMS, SIGNATURE} - _of_manifests(folder))
    differing = [*(f"{name} is damaged or missing" for name in damaged), *(f"{name} was added" for name in added)]
    return compared("files", differing, f"{len(listed):,} files have their checksums in {CHECKSUMS}")


def _present(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def contents(release: Release) -> Finding:
    """Compares the names of all files with those that ``headrace release`` writes, and ``headrace push`` adds."""
    runs = f"{ARTIFACTS}/runs/{release.run.id}/{RUN_JSON}"
    needed = {CHECKSUMS, FACTS_FILE, runs, *generated(release)}
    needed |= set(FILES.values()) if release.document_stages else set()
    present, differing = _present(release.folder), list[str]()
    for name, artifact in release.artifacts.items():
        own = artifact.folder.relative_to(release.folder).as_posix()
        records = records_of(artifact)
        pattern = KINDS.get(kind_of(name), SHARD)
        if kind_of(name) == "weights":
            steps = [step_of(path.parent) for path in manifests(artifact.folder / CHECKPOINTS)]
            differing += [f"{own} has checkpoints of other steps"] * (release.facts.get("checkpoints", steps) != steps)
            pattern = CONTINUED if release.run.config.training.initial_weights else pattern
        listed = {f"{own}/{file}" for file in records if re.fullmatch(pattern, file)}
        needed |= {f"{own}/{MANIFEST}"}
        if is_published(name) or listed & present:
            needed |= listed
    differing += [f"{name} is missing" for name in sorted(needed - present)]
    differing += [f"{name} is no file of a release" for name in sorted(present - needed - {SIGNATURE})]
    return compared("contents", differing, f"{len(present):,} files, and no other, as a release has them")


def _listed(path: Path) -> dict[str, str]:
    """Returns the checksums in the file ``path``, by file."""
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        listed = {name: sha256 for sha256, name in (line.split("  ", 1) for line in lines)}
        if len(listed) < len(lines):
            raise ValueError("a name stands there twice")
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
