"""Files of a source: finds them by paths, folders, patterns and URLs, computes checksums, and opens them.

    "crawl/*.warc.gz"         ──┐
    "crawl"  (a folder)       ──┼── listing ──> ListedFile("00.warc.gz", 71_303_168), ...
    "s3://bucket/crawl/*.gz"  ──┘

Names follow from the locations of the files, which are absolute paths or URLs (locations.py). fsspec opens the URLs.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, ClassVar, cast

from headrace.data_prep.sources.file_search import STALE, LeftOut, Suffixes, each_once, found_files
from headrace.data_prep.sources.locations import Locations, NamedPath, file_system, is_url
from headrace.data_prep.sources.source import ListedFile, Source
from headrace.pipeline.core.compression import SUFFIXES
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

    compressions: ClassVar[tuple[str, ...]] = SUFFIXES
    """The suffixes that a file's name may have after that of its format when a folder is searched."""

    caches: ClassVar[str] = ""
    """A pattern of names that a searched folder may have, but that hold no further documents."""

    paths: FilePaths
    """Files, folders (searched recursively), patterns (``*``, ``?``, ``[…]``, ``**``) and fsspec URLs (``s3://…``)."""

    @functools.cached_property
    def _named_paths(self) -> list[NamedPath]:
        return [NamedPath.of(path) for path in self.paths]

    @functools.cached_property
    def _locations(self) -> Locations:
        return Locations(self._named_paths)

    def listing(self) -> tuple[ListedFile, ...]:
        return self._found[0]

    @property
    def left_out(self) -> str:
        return str(self._found[1])

    @functools.cached_property
    def _found(self) -> tuple[tuple[ListedFile, ...], LeftOut]:
        """The files that ``paths`` name, each real file once, and what the search left out."""
        suffixes, left_out = Suffixes(self.suffixes(), self.compressions, self.caches), LeftOut()
        named = [
            (self._locations.checked_name(match.location, path), match)
            for typed, path in zip(self.paths, self._named_paths, strict=True)
            for match in found_files(typed, path, suffixes, left_out)
        ]
        stale = set(self.stale([match.location for _, match in named]))
        for location in stale:
            left_out.add(STALE, location)
        named = [(name, match) for name, match in named if match.location not in stale]
        if not named:
            raise ConfigError("source.paths", "names no file", "give it files, folders or patterns")
        matches = each_once(named, self._locations.is_linked, left_out)
        return tuple(ListedFile(name, match.bytes) for name, match in matches.items()), left_out

    def stale(self, locations: Collection[str]) -> Iterable[str]:
        """Returns those of the files at ``locations`` that their folders no longer count among theirs."""
        return ()

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


def open_raw(location: str) -> BinaryIO:
    """Opens the file at ``location`` for its stored bytes, which may be compressed.

    Raises:
        ArtifactError: when the file cannot be opened.
    """
    try:
        if is_url(location):
            system, path = file_system(location)
            return cast(BinaryIO, system.open(path))
        return open(location, "rb")
    except OSError as error:
        problem = f"cannot be opened ({error.strerror or error})"
        raise ArtifactError(location, problem, "correct source.paths or its permissions") from None


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
        system, path = file_system(location)
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
