"""A mirror: finished artifacts at a URL or in a folder, from which other roots take them by their addresses.

    <mirror>/<stage>/<address>/     the files of the artifact, then its manifest.json, which makes it whole
    <mirror>/runs/<id>/run.json     of a run that ``headrace mirror push`` has put there with its artifacts

    artifact ── publish ──> mirror ── take ──> the same artifact below another root

fsspec puts and gets the files. A publish after a kill goes on with those that are there in their full size. What a
mirror holds is never trusted: each file that is taken is compared with its size and SHA-256 in the manifest.

``MirroredRun`` takes the stages of a run from its mirror instead of computing them, and puts there what is finished.
Whatever the mirror does, the run goes on: its own results are whole without it.
"""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from headrace.data_prep.sources.file_search import CLOUDS
from headrace.pipeline.core.artifact import Artifact, check_format, clear_work, identity_of, is_whole
from headrace.pipeline.core.artifact_files import FileRecord, refuse_outside, sync
from headrace.pipeline.core.claim import claimed_when_free, temporary_path
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.json_files import read_sealed, unsealed, write_sealed
from headrace.pipeline.core.settings import refuse_secrets
from headrace.pipeline.core.stage import label_of_manifest
from headrace.pipeline.core.system_errors import explained
from headrace.pipeline.run.saved_run import RUN_JSON, AnyStage, SavedRun
from headrace.train.checkpoint.names import CHECKPOINTS

MANIFEST = "manifest.json"
RUN = re.compile(rf"[0-9a-f]{{12}}/{re.escape(RUN_JSON)}")
AT_A_TIME = 16
"""Files that are taken together: a kill loses at most so many."""


class Mirror:
    """The artifacts at a URL or in a folder."""

    def __init__(self, url: str) -> None:
        """Opens it; nothing is read yet.

        Raises:
            ConfigError: when ``url`` holds a secret, or a package that reads it is not installed.
        """
        refuse_secrets(url, "mirror")
        self.url = url.rstrip("/") or "/"
        self._is_cloud = url.partition("://")[0] in CLOUDS
        if self._is_cloud:
            require("mirror", CLOUDS[url.partition("://")[0]])
        try:
            self._system, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            problem = f"cannot open {url!r} ({error})"
            raise ConfigError("mirror", problem, "install what the scheme needs, or give another URL") from None
        self._root = root.rstrip("/")

    def publish(self, artifact: Artifact) -> int:
        """Puts the files of ``artifact`` that are not there yet, then its manifest. Returns the number of files put.

        Raises:
            ArtifactError: when a file of ``artifact`` is damaged, or the mirror has other results at this address.
            TaskError: when the mirror cannot be read or written.
        """
        folder, label = artifact.folder, label_of(artifact.folder)
        with self._errors_explained("written to"):
            sizes = self._sizes(label)
            if MANIFEST in sizes and identity_of(self._manifest(label)) != artifact.identity:
                problem = f"has other results than {folder}, and is not replaced"
                raise ArtifactError(self._location(label), problem, "keep one of them: remove the other")
            records, saved = _records(artifact.manifest), checkpoint_records(folder, artifact.manifest["files"])
            if all((folder / name).is_file() for name in saved):  # the checkpoint was not removed since
                records |= saved
            missing = [name for name, record in records.items() if sizes.get(name) != record.bytes]
            for name in missing:
                if name not in saved:
                    artifact.path(name)  # compares it
                elif not saved[name].fits(folder / name):
                    raise ArtifactError(str(folder / name), "is damaged", "remove this checkpoint")
            self._put({f"{label}/{name}": folder / name for name in missing})
            if MANIFEST in sizes:
                return len(missing)
            self._put_whole(folder / MANIFEST, f"{label}/{MANIFEST}")
            return len(missing) + 1

    def take(self, folder: Path) -> bool:
        """Copies the artifact of ``folder`` from the mirror, unless it is whole. Returns whether it is whole now.

        Raises:
            ArtifactError: when a file in the mirror has other bytes than its manifest lists, or is missing.
            TaskError: when the mirror cannot be read.
        """
        label = label_of(folder)
        if is_whole(folder):
            return True
        with self._errors_explained("read"):
            sizes = self._sizes(label)
            if MANIFEST not in sizes:
                return False
            with claimed_when_free(folder / "logs" / "finish.claim", f"pull {label}"):
                if not is_whole(folder):
                    self._take_all(label, folder, sizes)
        return True

    def _take_all(self, label: str, folder: Path, sizes: Mapping[str, int]) -> None:
        manifest = self._manifest(label)
        records = _records(manifest)
        self._get(label, folder, records, sizes)
        saved = checkpoint_records(folder, records)
        if saved.keys() & sizes.keys():  # it was published with its checkpoint
            self._get(label, folder, saved, sizes)
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
        with self._errors_explained("written to"):
            self._put_whole(run_json, f"runs/{run_json.parent.name}/{RUN_JSON}")

    def runs(self) -> dict[str, dict[str, Any]]:
        """Returns the values of each run.json in the mirror by the id of its run.

        Raises:
            ArtifactError: when one is damaged.
            TaskError: when the mirror cannot be read.
        """
        with self._errors_explained("read"):
            names = [name for name in sorted(self._sizes("runs")) if RUN.fullmatch(name)]
            return {name.partition("/")[0]: self._read(f"runs/{name}") for name in names}

    def command(self, name: str, what: str, root: Path) -> str:
        """Returns the command ``name`` (push, pull) for ``what``, a run or an artifact below ``root``."""
        return shlex.join(["headrace", "mirror", name, what, self.url, f"root={root}"])

    def _manifest(self, label: str) -> dict[str, Any]:
        """Returns the manifest of the artifact in the mirror.

        Raises:
            ArtifactError: when it is damaged, has another format, or is that of another artifact.
        """
        where = self._location(f"{label}/{MANIFEST}")
        manifest = self._read(f"{label}/{MANIFEST}")
        refuse_outside(where, [*manifest["files"], *manifest["inputs"].values()])
        if label != (known := label_of_manifest(manifest)):
            raise ArtifactError(where, f"is the manifest of {known}", "remove this folder there, and push it again")
        return manifest

    def _read(self, name: str) -> dict[str, Any]:
        values = unsealed(bytes(self._system.cat_file(self._path(name))), self._location(name))
        check_format(self._location(name), values)
        return values

    def _sizes(self, folder: str) -> dict[str, int]:
        """Returns the size of each file in ``folder``, by its name below it; nothing when there is none."""
        self._system.invalidate_cache()
        try:
            entries = self._system.find(self._path(folder), detail=True)
        except FileNotFoundError:
            return {}
        return {path.rpartition(f"/{folder}/")[2]: int(info["size"]) for path, info in entries.items()}

    def _put(self, sources: Mapping[str, Path]) -> None:
        """Puts each of ``sources`` under its name."""
        paths = [self._path(name) for name in sources]
        for folder in () if self._is_cloud else {path.rpartition("/")[0] for path in paths}:
            self._system.makedirs(folder, exist_ok=True)
        self._system.put([str(source) for source in sources.values()], paths)

    def _put_whole(self, source: Path, name: str) -> None:
        """Puts a small file that is never seen in part: it gets its ``name`` at the end."""
        new = temporary_path(Path(name)).as_posix()
        self._put({new: source})
        self._system.mv(self._path(new), self._path(name))

    def _get(self, label: str, folder: Path, records: Mapping[str, FileRecord], sizes: Mapping[str, int]) -> None:
        """Copies the files of ``records`` that ``folder`` lacks. One gets its name when it is compared with its record.

        Raises:
            ArtifactError: when one is missing or has other bytes.
        """
        lacking = [name for name, record in records.items() if not record.fits(folder / name)]
        for names in (lacking[first : first + AT_A_TIME] for first in range(0, len(lacking), AT_A_TIME)):
            there = [name for name in names if sizes.get(name) == records[name].bytes]
            new = {name: temporary_path(folder / name) for name in names}
            try:
                for path in new.values():
                    path.parent.mkdir(parents=True, exist_ok=True)
                self._system.get([self._path(f"{label}/{name}") for name in there], [str(new[name]) for name in there])
                for name, path in new.items():
                    if not records[name].fits(path):
                        state = "has other bytes than the manifest lists" if name in sizes else "is missing"
                        remedy = "remove its artifact there, and push it again from a root that has it"
                        raise ArtifactError(self._location(f"{label}/{name}"), state, remedy)
                    sync(path)
                    path.replace(folder / name)
            finally:
                for path in new.values():
                    path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _errors_explained(self, action: str) -> Iterator[None]:
        """Turns errors of the store into one line; a full disk of this machine keeps its own.

        Raises:
            TaskError: instead of any error that is not ours: the library of each scheme has its own.
        """
        try:
            yield
        except HeadraceError:
            raise
        except Exception as error:
            if isinstance(explanation := explained(error, self.url), RetryableError):
                raise explanation from error
            reason = f"{type(error).__name__}: {error}".strip(": ")
            remedy = "check the address, the network and the rights of this user (credentials are those of the"
            remedy += " environment, ~/.aws or the configuration of fsspec)"
            raise TaskError(self.url, f"cannot be {action} ({reason})", remedy) from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _location(self, name: str) -> str:
        return f"{self.url.rstrip('/')}/{name}"


def label_of(folder: Path) -> str:
    """Returns ``<stage>/<address>`` of the artifact at ``folder``."""
    return f"{folder.parent.name}/{folder.name}"


def _records(manifest: Mapping[str, Any]) -> dict[str, FileRecord]:
    return {name: FileRecord(**record) for name, record in manifest["files"].items()}


def checkpoint_records(folder: Path, names: Iterable[str]) -> dict[str, FileRecord]:
    """Returns the files that the manifests of checkpoints among ``names`` list, by their names below ``folder``."""
    records = dict[str, FileRecord]()
    for name in (name for name in names if name.startswith(f"{CHECKPOINTS}/") and name.endswith(f"/{MANIFEST}")):
        saved = read_sealed(folder / name)
        refuse_outside(folder / name, saved["files"])
        records |= {f"{PurePosixPath(name).parent / file}": record for file, record in _records(saved).items()}
    return records


class MirroredRun:
    """The setting ``mirror`` at work for one run; without it, nothing happens."""

    def __init__(self, run_json: Path) -> None:
        self._run = SavedRun.read(run_json)
        self._mirror: Mirror | None = None
        """None also after an error of its store: each further try would wait for it again."""
        if url := self._run.values["config"].get("mirror"):
            path = url if "://" in url else os.path.join(self._run.values["folder"], os.path.expanduser(url))
            try:
                self._mirror = Mirror(path)
            except HeadraceError as error:  # this job has other packages than the command that submitted it
                _warn(f"{error}; the run goes on without it")

    def take(self, stage: AnyStage) -> bool:
        """Takes the artifact of ``stage`` from the mirror. Returns whether it was taken: it was not whole before."""
        otherwise = f"so {stage.name} is computed here"
        if stage.is_whole or not self._tried(lambda mirror: mirror.take(stage.folder), otherwise):
            return False
        print(f"{stage.name:<11} from the mirror: {stage.folder}", file=sys.stderr, flush=True)
        return True

    def publish(self, stage: AnyStage) -> None:
        """Puts the artifact of ``stage`` into the mirror, if it is finished."""
        if stage.is_whole:
            otherwise = f"{label_of(stage.folder)} is whole here"
            self._tried(lambda mirror: mirror.publish(Artifact(stage.folder)) > 0, otherwise)

    def _tried(self, action: Callable[[Mirror], bool], otherwise: str) -> bool:
        """Returns the result of ``action``; false without a mirror, and after an error, with a warning: of damage, what
        happens ``otherwise``; of its store, how the run is published later."""
        if self._mirror is None:
            return False
        try:
            return action(self._mirror)
        except ArtifactError as error:
            _warn(f"{error}; {otherwise}")
        except HeadraceError as error:
            later = self._mirror.command("push", self._run.label, self._run.root)
            _warn(f"{error}; the run goes on without it; publish it later: {later}")
            self._mirror = None
        return False


def _warn(text: str) -> None:
    print(f"warning: mirror: {text}", file=sys.stderr, flush=True)
