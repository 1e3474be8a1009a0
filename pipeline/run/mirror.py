"""A mirror: finished artifacts at a URL or in a folder, from which other roots take them by their addresses.

    <mirror>/<stage>/<address>/     the files of the artifact, then its manifest.json, which makes it whole
    <mirror>/runs/<id>/run.json     of a run that ``headrace push`` has put there with its artifacts

    artifact ── publish ──> mirror ── take ──> the same artifact below another root

Several publishers of one artifact write the same bytes under the same names, in any order. A publish after a kill goes
on with the files that are there: their sizes and SHA-256 are compared. What a mirror holds is never trusted: each file
that is taken is compared with its size and SHA-256 in the manifest.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from fsspec.callbacks import Callback

from headrace.pipeline.core.artifact import Artifact, check_format, clear_work, identity_of, is_whole
from headrace.pipeline.core.claim import claimed_when_free
from headrace.pipeline.core.errors import ArtifactError, RetryableError
from headrace.pipeline.core.file_records import FileRecord, refuse_outside
from headrace.pipeline.core.json_files import read_sealed, unsealed, write_sealed
from headrace.pipeline.core.stage import label_of_manifest
from headrace.pipeline.run.mirror_files import MirrorFiles
from headrace.pipeline.run.run_files import RUN_JSON
from headrace.pipeline.run.transfers import transferred
from headrace.train.checkpoint.names import CHECKPOINTS

MANIFEST = "manifest.json"
RUN_ID = re.compile(r"[0-9a-f]{12}")


class Mirror:
    """The artifacts at a URL or in a folder."""

    def __init__(self, url: str) -> None:
        """Opens it; nothing is read yet.

        Raises:
            ConfigError: when ``url`` holds a secret, or a package that reads it is not installed.
        """
        self.files = MirrorFiles(url)

    def publish(self, artifact: Artifact) -> int:
        """Puts the files of ``artifact`` that are not there yet, then its manifest. Returns the number of files put.

        Raises:
            ArtifactError: when a file of ``artifact`` is damaged, or the mirror has other results at this address.
            TaskError: when the mirror cannot be read or written.
        """
        label = label_of(artifact.folder)
        with self.files.errors_explained("written to"):
            sizes = self.files.sizes(label)
            records = {name: FileRecord(**record) for name, record in artifact.manifest["files"].items()}
            records |= self._checkpoint(artifact)
            if MANIFEST not in sizes:
                put = self._put_missing(label, artifact, records, sizes)
                self.files.put(artifact.folder / MANIFEST, f"{label}/{MANIFEST}", Callback())
                return put + 1
            self._refuse_others(label, artifact)
            lost = {name: record for name, record in records.items() if sizes.get(name) != record.bytes}
            return self._put_missing(label, artifact, lost, sizes)

    def _put_missing(
        self, label: str, artifact: Artifact, records: Mapping[str, FileRecord], sizes: Mapping[str, int]
    ) -> int:
        """Puts the files of ``records`` that the mirror, whose files have ``sizes``, does not have. Returns how many.

        Raises:
            RetryableError: when the mirror does not have all of them afterwards.
        """
        put = list[str]()

        def put_if_missing(name: str, record: FileRecord, callback: Callback) -> None:
            if sizes.get(name) != record.bytes or self.files.sha256(f"{label}/{name}") != record.sha256:
                self._verify(artifact, name, record)
                self.files.put(artifact.folder / name, f"{label}/{name}", callback)
                put.append(name)

        transferred(f"push {label}", records, put_if_missing)
        self.files.remove_abandoned(label, sizes)
        now = self.files.sizes(label) if put else sizes
        for name, record in records.items():
            if now.get(name) != record.bytes:
                problem = f"has {now.get(name, 0)} of {record.bytes} bytes after it was put"
                raise RetryableError(self.files.location(f"{label}/{name}"), problem, "push it again")
        return len(put)

    def take(self, folder: Path) -> bool:
        """Copies the artifact of ``folder`` from the mirror, unless it is whole. Returns whether it is whole now.

        Raises:
            ArtifactError: when a file in the mirror has other bytes than its manifest lists, or is missing.
            TaskError: when the mirror cannot be read.
        """
        label = label_of(folder)
        if is_whole(folder):
            return True
        with self.files.errors_explained("read"):
            if MANIFEST not in self.files.sizes(label):
                return False
            with claimed_when_free(folder / "logs" / "finish.claim", f"pull {label}"):
                if not is_whole(folder):
                    self._take_all(label, folder)
        return True

    def _take_all(self, label: str, folder: Path) -> None:
        manifest = self._manifest(label)
        records = {name: FileRecord(**record) for name, record in manifest["files"].items()}

        def get_if_missing(name: str, record: FileRecord, callback: Callback) -> None:
            if not record.fits(folder / name):
                self.files.get(f"{label}/{name}", record, folder / name, callback)

        transferred(f"pull {label}", records, get_if_missing)
        sizes = self.files.sizes(label)
        saved = checkpoint_records(folder, records)
        if any(name in sizes for name in saved):  # it was published with its checkpoint
            transferred(f"pull {label}", saved, get_if_missing)
        clear_work(folder)
        write_sealed(folder / MANIFEST, manifest)
        artifact = Artifact(folder)
        for name in records:
            artifact.take_as_whole(name)

    def publish_run(self, run_json: Path) -> None:
        """Puts the ``run.json`` of a run, by which other roots take its artifacts.

        Raises:
            TaskError: when the mirror cannot be written.
        """
        with self.files.errors_explained("written to"):
            self.files.put(run_json, f"runs/{run_json.parent.name}/{RUN_JSON}", Callback())

    def runs(self) -> dict[str, dict[str, Any]]:
        """Returns the values of each run.json in the mirror by the id of its run.

        Raises:
            ArtifactError: when one is damaged.
            TaskError: when the mirror cannot be read.
        """
        with self.files.errors_explained("read"):
            names = self.files.matching(f"runs/*/{RUN_JSON}")
            ids = {name: PurePosixPath(name).parent.name for name in names}
            return {run: self._run(name) for name, run in ids.items() if RUN_ID.fullmatch(run)}

    def _run(self, name: str) -> dict[str, Any]:
        where = self.files.location(name)
        values = unsealed(self.files.read(name), where)
        check_format(where, values)
        return values

    def command(self, name: str, what: str, root: Path) -> str:
        """Returns the command ``name`` (push, pull) for ``what``, a run or an artifact below ``root``."""
        return shlex.join(["headrace", name, what, self.files.url, f"root={root}"])

    def _manifest(self, label: str) -> dict[str, Any]:
        """Returns the manifest of the artifact in the mirror.

        Raises:
            ArtifactError: when it is damaged, has another format, or is that of another artifact.
        """
        where = self.files.location(f"{label}/{MANIFEST}")
        manifest = unsealed(self.files.read(f"{label}/{MANIFEST}"), where)
        check_format(where, manifest)
        refuse_outside(where, [*manifest["files"], *manifest["inputs"].values()])
        if label != (own := label_of_manifest(manifest)):
            raise ArtifactError(where, f"is the manifest of {own}", "remove this folder there, and push it again")
        return manifest

    def _refuse_others(self, label: str, artifact: Artifact) -> None:
        """Refuses to replace other results in the mirror by those of ``artifact``."""
        if identity_of(self._manifest(label)) != artifact.identity:
            problem = f"has other results than {artifact.folder}, and is not replaced"
            raise ArtifactError(self.files.location(label), problem, "keep one of them: remove the other")

    def _checkpoint(self, artifact: Artifact) -> dict[str, FileRecord]:
        """Returns the files of the last checkpoint of ``artifact``, a training; nothing when it was removed."""
        listed = [name for name in artifact.manifest["files"] if _is_checkpoint(name)]
        for name in listed:
            artifact.path(name)
        records = checkpoint_records(artifact.folder, listed)
        return records if all((artifact.folder / name).is_file() for name in records) else {}

    def _verify(self, artifact: Artifact, name: str, record: FileRecord) -> None:
        """Compares the file ``name`` of ``artifact`` with its checksum before others see it."""
        if name in artifact.manifest["files"]:
            artifact.path(name)
        elif not record.fits(artifact.folder / name):
            raise ArtifactError(str(artifact.folder / name), "is damaged", "remove this checkpoint")


def label_of(folder: Path) -> str:
    """Returns ``<stage>/<address>`` of the artifact at ``folder``."""
    return f"{folder.parent.name}/{folder.name}"


def _is_checkpoint(name: str) -> bool:
    return name.startswith(f"{CHECKPOINTS}/") and name.endswith(f"/{MANIFEST}")


def checkpoint_records(folder: Path, names: Iterable[str]) -> dict[str, FileRecord]:
    """Returns the files that the manifests of checkpoints among ``names`` list, by their names below ``folder``."""
    records = dict[str, FileRecord]()
    for name in filter(_is_checkpoint, names):
        files = read_sealed(folder / name)["files"]
        refuse_outside(folder / name, files)
        above = PurePosixPath(name).parent
        records |= {f"{above / file}": FileRecord(**record) for file, record in files.items()}
    return records
