"""Files of a source: finds them by paths, folders, patterns and URLs, computes checksums, and opens them.

    "crawl/*.warc.gz"         ──┐
    "crawl"  (a folder)       ──┼── listing ──> ListedFile("00.warc.gz", 71_303_168), ...
    "s3://bucket/crawl/*.gz"  ──┘

Names follow from the locations of the files, which are absolute paths or URLs (locations.py). fsspec opens the URLs.
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

from headrace.data_prep.sources.locations import Locations, NamedPath, is_url
from headrace.data_prep.sources.source import ListedFile, Source
from headrace.pipeline.core.codecs import SUFFIXES
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import FilePaths
from headrace.pipeline.core.stage import RawFile, changed, file_state

READ_BYTES = 1 << 20
CONTENT_KEYS = ("ETag", "etag", "md5Hash", "content_md5", "sha256", "md5", "checksum", "crc32c")
"""Keys of fsspec's info whose value changes with the content, in s3fs, gcsfs, adlfs and http."""

TIMES = ("created", "mtime", "LastModified")
"""Keys of fsspec's info for times."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileSource(Source):
    """A source that reads the files that ``paths`` name."""

    paths: FilePaths
    """Files, folders (searched recursively), patterns (``*``, ``?``, ``[…]``, ``**``) and fsspec URLs (``s3://…``)."""

    @functools.cached_property
    def _named_paths(self) -> list[NamedPath]:
        return [NamedPath.of(path) for path in self.paths]

    @functools.cached_property
    def _locations(self) -> Locations:
        return Locations(self._named_paths)

    def listing(self) -> tuple[ListedFile, ...]:
        found = {}
        for path, named in zip(self.paths, self._named_paths, strict=True):
            for location, size in _matches(path, named, self.suffixes()):
                name = self._locations.checked_name(location, named)
                found[name] = ListedFile(name, size)
        if not found:
            raise ConfigError("source.paths", "names no file", "give it files, folders or patterns")
        return tuple(found[name] for name in sorted(found))

    def files(self) -> tuple[RawFile, ...]:
        listed = self.listing()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            sums = pool.map(self.checksum, [file.name for file in listed])
            return tuple(RawFile(file.name, file.bytes, sha256) for file, sha256 in zip(listed, sums, strict=True))

    def location(self, name: str) -> str:
        return self._locations.location(name)

    def name_at(self, path: str) -> str:
        named = NamedPath.literal(path)
        return self._locations.name(named.stem, named)

    def open(self, name: str) -> BinaryIO:
        """Opens the file ``name`` for its stored bytes (``open_raw``)."""
        return open_raw(self.location(name))

    def checksum(self, name: str) -> str:
        return checksum(self.location(name))

    def state(self, name: str) -> str:
        return ":".join(map(str, _state(self.location(name))))

    def suffixes(self) -> tuple[str, ...]:
        """Returns the file name suffixes, without those of compression, that a folder is searched for."""
        raise TypeError(f"{type(self).__name__} does not define suffixes()")


Match = tuple[str, int]
"""The location of a file, and its size in bytes."""


def _matches(typed: str, path: NamedPath, suffixes: tuple[str, ...]) -> list[Match]:
    """Returns the files that ``path`` names. The error messages show it as it was ``typed``.

    Raises:
        ConfigError: when there are none.
    """
    wanted = tuple(suffix + compression for suffix in suffixes for compression in ("", *SUFFIXES))
    found = list(_remote(typed.rstrip("/"), wanted) if path.is_url else _local(path, wanted))
    if not found:
        searched = _is_folder(path) and f"{typed!r} holds no file that ends in {', '.join(suffixes)}"
        raise ConfigError("source.paths", searched or f"{typed!r} matches no file", "correct the path or pattern")
    return found


def _is_folder(path: NamedPath) -> bool:
    if path.pattern:
        return False
    if not path.is_url:
        return os.path.isdir(path.stem or "/")
    system, root = fsspec.core.url_to_fs(path.stem)
    return bool(system.isdir(root))


def _local(path: NamedPath, wanted: tuple[str, ...]) -> Iterator[Match]:
    named = [path.stem or "/"] if os.path.lexists(path.stem or "/") else []
    for name in glob.glob(f"{glob.escape(path.stem)}/{path.pattern}", recursive=True) if path.pattern else named:
        if os.path.isdir(name):
            yield from (_sized(file) for file in _walk(name) if file.lower().endswith(wanted))
        else:
            yield _sized(name)


def _walk(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(parent, name) for name in names if not name.startswith("."))


def _sized(location: str) -> Match:
    try:
        location.encode()
        return location, os.stat(location).st_size
    except UnicodeEncodeError:
        raise ConfigError("source.paths", f"the file name {location!r} is not UTF-8", "rename the file") from None
    except OSError as error:
        wrong = f"{location!r} cannot be read ({error.strerror})"
        raise ConfigError("source.paths", wrong, "remove the link, or correct where it leads") from None


def _remote(path: str, wanted: tuple[str, ...]) -> Iterator[Match]:
    try:
        system, root = fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise ConfigError("source.paths", f"cannot read {path!r} ({error})", "install what the scheme needs") from None
    prefix = path.removesuffix(root) if path.endswith(root) else path.removesuffix(root.lstrip("/"))
    try:
        found = system.glob(root, detail=True) if glob.has_magic(root) else _one(system, root)
    except OSError as error:
        wrong = f"{path!r} cannot be reached ({str(error) or type(error).__name__})"
        raise ConfigError("source.paths", wrong, "check the network and the address, or name files on a disk") from None
    for name, info in sorted(found.items()):
        inside = system.find(name, detail=True) if info["type"] == "directory" else {name: info}
        for file, details in inside.items():
            if info["type"] != "directory" or file.lower().endswith(wanted):
                yield prefix + (file if path.endswith(root) else file.lstrip("/")), int(details["size"])


def _one(system: Any, root: str) -> dict[str, Any]:
    """Returns the file or folder ``root``, if it exists.

    Raises:
        OSError: when its server cannot be reached, which fsspec reports as a missing file.
    """
    try:
        return {root: system.info(root)}
    except FileNotFoundError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        return {}


def open_raw(location: str) -> BinaryIO:
    """Opens the file at ``location`` for its stored bytes, which may be compressed.

    Raises:
        ArtifactError: when the file cannot be opened.
    """
    try:
        return cast(BinaryIO, fsspec.open(location, "rb").open() if is_url(location) else open(location, "rb"))
    except OSError as error:
        wrong = f"cannot be opened ({error.strerror or error})"
        raise ArtifactError(location, wrong, "correct source.paths or its permissions") from None


def checksum(location: str) -> str:
    """Returns the SHA-256 of a file. This process reads the file again only when its state has changed.

    A remote file whose store has a checksum or ETag is not read. The result is then a hash of that value.
    """
    state = _state(location)
    if state[0] in CONTENT_KEYS:
        return hashlib.sha256(":".join(map(str, state)).encode()).hexdigest()
    return _content_sha256(location, state)


def _state(location: str) -> tuple[object, ...]:
    """Returns values that change with the content of a file: (key, value, size) if its store has a checksum or ETag,
    else size and times.

    Raises:
        RetryableError: when the file no longer exists.
    """
    try:
        if not is_url(location):
            return file_state(location)
        system, path = fsspec.core.url_to_fs(location)
        system.invalidate_cache()
        info = system.info(path)
    except FileNotFoundError:
        raise changed(location, "was removed") from None
    for key in CONTENT_KEYS:
        if info.get(key):
            return key, info[key], info["size"]
    return info["size"], *(str(info[key]) for key in TIMES if key in info)


@functools.cache
def _content_sha256(location: str, state: tuple[object, ...]) -> str:
    total = hashlib.sha256()
    with open_raw(location) as stream:
        while block := stream.read(READ_BYTES):
            total.update(block)
    return total.hexdigest()
