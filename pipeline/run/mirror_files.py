"""The files of a mirror: read, put and verified with fsspec, whatever its URL or folder.

A file appears whole: a put to an object store is atomic; elsewhere a file has a temporary name until it is written.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import fsspec
from fsspec.callbacks import Callback
from fsspec.implementations.local import LocalFileSystem

from headrace.data_prep.sources.file_search import CLOUDS
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.file_records import FileRecord, sync
from headrace.pipeline.core.owner import UNFINISHED, Owner, temporary_path
from headrace.pipeline.core.settings import refuse_secrets
from headrace.pipeline.core.system_errors import explained

READ_BYTES = 1 << 22
ATOMIC_PUTS = frozenset({*CLOUDS, "abfs", "abfss", "az", "memory"})
"""The schemes with which a file that is being put is not visible before it is whole."""


class MirrorFiles:
    """The files at a URL or in a folder, by their names below it."""

    def __init__(self, url: str) -> None:
        """Opens it; nothing is read yet.

        Raises:
            ConfigError: when ``url`` holds a secret, or a package that reads it is not installed.
        """
        refuse_secrets(url, "mirror")
        self.url = url.rstrip("/") or "/"
        scheme = url.partition("://")[0] if "://" in url else "file"
        if module := CLOUDS.get(scheme):
            require("mirror", module)
        try:
            self._system, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            problem = f"cannot open {url!r} ({error})"
            raise ConfigError("mirror", problem, "install what the scheme needs, or give another URL") from None
        self._root = root.rstrip("/")
        self._puts_whole_files = scheme in ATOMIC_PUTS

    def location(self, name: str) -> str:
        """Returns the URL of the file or folder ``name``, for messages."""
        return f"{self.url.rstrip('/')}/{name}"

    def sizes(self, folder: str) -> dict[str, int]:
        """Returns the size of each file in ``folder``, by its name below it; nothing when there is none."""
        self._system.invalidate_cache()
        try:
            entries = self._system.find(self._path(folder), detail=True)
        except FileNotFoundError:
            return {}
        return {path.rpartition(f"/{folder}/")[2]: int(info["size"]) for path, info in entries.items()}

    def matching(self, pattern: str) -> list[str]:
        """Returns the names of the files that match ``pattern``, which has as many folders as they have."""
        self._system.invalidate_cache()
        depth = len(PurePosixPath(pattern).parts)
        return ["/".join(PurePosixPath(path).parts[-depth:]) for path in sorted(self._system.glob(self._path(pattern)))]

    def read(self, name: str) -> bytes:
        """Returns the content of the file ``name``."""
        return bytes(self._system.cat_file(self._path(name)))

    def sha256(self, name: str) -> str:
        """Returns the SHA-256 of the file ``name``: it is read, because stores have other checksums."""
        total = hashlib.sha256()
        with self._system.open(self._path(name), "rb") as stream:
            while block := stream.read(READ_BYTES):
                total.update(block)
        return total.hexdigest()

    def put(self, source: Path, name: str, callback: Callback) -> None:
        """Puts the file ``source`` as ``name``: it is visible when it is whole."""
        path = self._path(name)
        if self._puts_whole_files:
            self._system.put_file(str(source), path, callback=callback)
            return
        self._system.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        temporary = str(temporary_path(Path(path)))
        try:
            self._system.put_file(str(source), temporary, callback=callback)
            if isinstance(self._system, LocalFileSystem):
                sync(Path(temporary))
            self._system.mv(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self._system.rm_file(temporary)
            raise

    def get(self, name: str, record: FileRecord, final: Path, callback: Callback) -> None:
        """Copies the file ``name`` to ``final``. It gets this name when it is compared with its ``record``.

        Raises:
            ArtifactError: when it is missing or has other bytes.
        """
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(final)
        try:
            with contextlib.suppress(FileNotFoundError):
                self._system.get_file(self._path(name), str(temporary), callback=callback)
            if not record.fits(temporary):
                state = "has other bytes than the manifest lists" if temporary.is_file() else "is missing"
                remedy = "remove its artifact there, and push it again from a root that has it"
                raise ArtifactError(self.location(name), state, remedy)
            sync(temporary)
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)

    def remove_abandoned(self, folder: str, names: Iterable[str]) -> None:
        """Removes temporary files among ``names`` in ``folder`` whose publisher on this machine was killed."""
        for name in names:
            file = PurePosixPath(name).name
            owner = Owner.of_unfinished(file) if file.startswith(UNFINISHED) else None
            if owner and owner.is_dead:
                with contextlib.suppress(FileNotFoundError):  # another publisher removed it
                    self._system.rm_file(self._path(f"{folder}/{name}"))

    @contextlib.contextmanager
    def errors_explained(self, action: str) -> Iterator[None]:
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
