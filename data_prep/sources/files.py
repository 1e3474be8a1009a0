"""Files of a source: finds them by paths, folders, patterns and URLs, computes checksums, and opens them.

    "crawl/*.warc.gz"         ──┐
    "crawl"  (a folder)       ──┼── listing ──> ListedFile("crawl/00.warc.gz", 71_303_168), ...
    "s3://bucket/crawl/*.gz"  ──┘

The name of a file is the path or URL that names it alone, and it becomes part of document ids. A name without scheme is
a local path. All other names are opened by fsspec.
"""

import dataclasses
import functools
import glob
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, cast

import fsspec

from headrace.data_prep.sources.source import ListedFile, Source
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import FilePaths
from headrace.pipeline.core.stage import RawFile, changed, file_state

READ_BYTES = 1 << 20
COMPRESSIONS = ("", ".gz", ".zst", ".bz2")
"""Suffixes that may follow the suffix of a format when a folder is searched. How a file is read depends on its content
alone."""
CONTENT_KEYS = ("ETag", "etag", "md5Hash", "content_md5", "sha256", "md5", "checksum", "crc32c")
"""Keys of fsspec's info whose value changes with the content, in s3fs, gcsfs, adlfs and http."""

TIMES = ("created", "mtime", "LastModified")
"""Keys of fsspec's info for times."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A source that reads the files that ``paths`` name."""

    paths: FilePaths
    """Files, folders (searched recursively), patterns (``*``, ``?``, ``[…]``, ``**``) and fsspec URLs (``s3://…``)."""

    def listing(self) -> tuple[ListedFile, ...]:
        found = {file.name: file for path in self.paths for file in _matches(path, self.suffixes())}
        if not found:
            raise ConfigError("source.paths", "names no file", "give it files, folders or patterns")
        return tuple(found[name] for name in sorted(found))

    def files(self) -> tuple[RawFile, ...]:
        listed = self.listing()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            sums = pool.map(checksum, [file.name for file in listed])
            return tuple(RawFile(file.name, file.bytes, sha256) for file, sha256 in zip(listed, sums, strict=True))

    def checksum(self, name: str) -> str:
        return checksum(name)

    def state(self, name: str) -> str:
        return ":".join(map(str, _state(name)))

    def suffixes(self) -> tuple[str, ...]:
        """Returns the file name suffixes, without those of compression, that a folder is searched for."""
        raise TypeError(f"{type(self).__name__} does not define suffixes()")


def _matches(path: str, suffixes: tuple[str, ...]) -> list[ListedFile]:
    """Returns the files that ``path`` names.

    Raises:
        ConfigError: when there are none.
    """
    wanted = tuple(suffix + compression for suffix in suffixes for compression in COMPRESSIONS)
    found = list(_remote(path, wanted) if "://" in path else _local(os.path.expanduser(path), wanted))
    if not found:
        searched = _is_folder(path) and f"{path!r} holds no file that ends in {', '.join(suffixes)}"
        raise ConfigError("source.paths", searched or f"{path!r} matches no file", "correct the path or pattern")
    return found


def _is_folder(path: str) -> bool:
    if "://" not in path:
        return os.path.isdir(os.path.expanduser(path))
    system, root = fsspec.core.url_to_fs(path)
    return bool(system.isdir(root))


def _local(path: str, wanted: tuple[str, ...]) -> Iterator[ListedFile]:
    named = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    for name in named:
        if os.path.isdir(name):
            yield from (_listed(file) for file in _walk(name) if file.lower().endswith(wanted))
        else:
            yield _listed(os.path.normpath(name))


def _walk(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.normpath(os.path.join(parent, name)) for name in names if not name.startswith("."))


def _listed(name: str) -> ListedFile:
    try:
        name.encode()
        return ListedFile(name, os.stat(name).st_size)
    except UnicodeEncodeError:
        raise ConfigError("source.paths", f"the file name {name!r} is not UTF-8", "rename the file") from None
    except OSError as error:
        wrong = f"{name!r} cannot be read ({error.strerror})"
        raise ConfigError("source.paths", wrong, "remove the link, or correct where it leads") from None


def _remote(path: str, wanted: tuple[str, ...]) -> Iterator[ListedFile]:
    try:
        system, root = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise ConfigError("source.paths", f"cannot read {path!r} ({error})", "install what the scheme needs") from None
    prefix = path.removesuffix(root) if path.endswith(root) else path.removesuffix(root.lstrip("/"))
    found = system.glob(root, detail=True) if glob.has_magic(root) else _one(system, root)
    for name, info in sorted(found.items()):
        inside = system.find(name, detail=True) if info["type"] == "directory" else {name: info}
        for file, details in inside.items():
            if info["type"] != "directory" or file.lower().endswith(wanted):
                yield ListedFile(prefix + (file if path.endswith(root) else file.lstrip("/")), int(details["size"]))


def _one(system: Any, root: str) -> dict[str, Any]:
    return {root: system.info(root)} if system.exists(root) else {}


def open_raw(name: str) -> BinaryIO:
    """Opens the file ``name`` for its stored bytes, which may be compressed.

    Raises:
        ArtifactError: when the file cannot be opened.
    """
    try:
        return cast(BinaryIO, fsspec.open(name, "rb").open() if "://" in name else open(name, "rb"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ArtifactError(name, f"cannot be opened ({reason})", "correct source.paths or its permissions") from None


def checksum(name: str) -> str:
    """Returns the SHA-256 of a file. This process reads the file again only when its state has changed.

    A remote file whose store has a checksum or ETag is not read. The result is then a hash of that value.
    """
    state = _state(name)
    if state[0] in CONTENT_KEYS:
        return hashlib.sha256(":".join(map(str, state)).encode()).hexdigest()
    return _content_sha256(name, state)


def _state(name: str) -> tuple[object, ...]:
    """Returns values that change with the content of a file: (key, value, size) if its store has a checksum or ETag,
    else size and times.

    Raises:
        RetryableError: when the file no longer exists.
    """
    try:
        if "://" not in name:
            return file_state(name)
        system, path = fsspec.core.url_to_fs(name)
        system.invalidate_cache()
        info = system.info(path)
    except FileNotFoundError:
        raise changed(name, "was removed") from None
    for key in CONTENT_KEYS:
        if info.get(key):
            return key, info[key], info["size"]
    return info["size"], *(str(info[key]) for key in TIMES if key in info)


@functools.cache
def _content_sha256(name: str, state: tuple[object, ...]) -> str:
    total = hashlib.sha256()
    with open_raw(name) as stream:
        while block := stream.read(READ_BYTES):
            total.update(block)
    return total.hexdigest()
