"""Names of raw files, which become part of document ids, and their locations: absolute paths and URLs.

    source.paths                                     folder                names
    crawl, /data/crawl/, a link to that folder       /data/crawl           00.warc.gz, old/00.warc.gz
    crawl/*.gz, or crawl/00.warc.gz alone            /data/crawl           00.warc.gz
    [/data/crawl, ../books/*.warc]                   /data                 books/a.warc, crawl/00.warc.gz, …
    s3://bucket/crawl/**/*.gz                        s3://bucket/crawl     00.warc.gz, old/00.warc.gz

The name of a file is its location below the deepest folder that holds everything that the paths name. So the same files
have the same names by any path to that folder, from any current folder and on any disk. Only the paths decide the
folder: a new file in it changes no other name. Different files have different names, because folder and name give the
location again.

Folders are compared after their links are resolved, but names keep the links below the common folder, so a folder of
links has the names of a copy of it. For the same reason, a path through a link below the common folder may lead to
another common folder, and other names, than the path without the link:

    [data/link/a, big/other/b], data/link -> big/here    .      data/link/a, big/other/b
    [big/here/a, big/other/b]                            big    here/a, other/b

URLs together with local paths, or URLs of several kinds, are their own names. The query of a URL is a part of its name.
"""

import dataclasses
import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ConfigError

LOCAL_SCHEME = "file://"


def is_url(path: str) -> bool:
    """Whether fsspec opens ``path``. All others are local paths."""
    return re.match(r"[\w+.:-]+://", path) is not None and not path.startswith(LOCAL_SCHEME)


def file_system(url: str) -> tuple[Any, str]:
    """Returns the file system of fsspec that has ``url``, and the path in it."""
    import fsspec  # only where there is a URL: a twentieth of a second

    return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class NamedPath:
    """A path in absolute form, split before its first wildcard."""

    is_url: bool
    stem: str
    """The file or folder that the path names, or the folder that the pattern starts from, without a slash at its end.
    It is empty for the root of this machine."""
    pattern: str

    @classmethod
    def of(cls, path: str) -> "NamedPath":
        """Splits ``path``. A local file or folder whose own name holds wildcards is taken for what it is."""
        whole = cls.literal(path)
        parts = whole.stem.split("/")
        starts = (
            number
            for number, part in enumerate(parts)
            if glob.has_magic(part) and (whole.is_url or not os.path.lexists("/".join(parts[: number + 1])))
        )
        start = next(starts, len(parts))
        return cls(whole.is_url, "/".join(parts[:start]), "/".join(parts[start:]))

    @classmethod
    def literal(cls, path: str) -> "NamedPath":
        """Returns the path of one file or folder, which may not exist. Wildcard characters in it have no meaning."""
        remote = is_url(path)
        return cls(remote, path.rstrip("/") if remote else _absolute(path), "")


class Locations:
    """Converts between the names and the locations of the files that ``paths`` name."""

    def __init__(self, paths: Sequence[NamedPath]) -> None:
        self._is_remote = all(path.is_url for path in paths)
        self._resolved: dict[str, str] = {}
        self._routes: dict[NamedPath, dict[str, str]] = {}
        routes = [self._route(path) for path in paths if path.is_url == self._is_remote]
        common = [folder for folder in routes[0] if all(folder in route for route in routes)]
        self._folder = common[-1] if common else None
        """The deepest folder that holds everything, or the file if the paths name a single one."""
        self._may_be_file = any(
            path.stem == self._route(path).get(self._folder or "") and not path.pattern for path in paths
        )

    def _route(self, path: NamedPath) -> dict[str, str]:
        """Returns the folders above the stem of ``path`` and the stem, deepest last: each without links, and as given.

        Paths have most of these folders in common, so each is resolved once.
        """
        if path not in self._routes:
            parts = path.stem.split("/")
            above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
            for folder in above:
                if folder not in self._resolved:
                    self._resolved[folder] = folder if path.is_url else _resolved(folder)
            self._routes[path] = {self._resolved[folder]: folder for folder in above}
        return self._routes[path]

    def name(self, location: str, path: NamedPath) -> str:
        """Returns the name of the file at ``location``, which begins with the stem of ``path``.

        A location that is not below the common folder is its own name.
        """
        start = None if self._folder is None else self._route(path).get(self._folder)
        if start is None or not f"{location}/".startswith(f"{start}/"):
            return location
        return location[len(start) + 1 :] or os.path.basename(start)

    def checked_name(self, location: str, path: NamedPath) -> str:
        """Returns ``name``.

        Raises:
            ConfigError: when the location of a remote file does not follow from its name.
        """
        name = self.name(location, path)
        if is_url(location) and self.location(name) != location:
            problem = f"the location of {location!r} does not follow from its name {name!r}"
            raise ConfigError("source.paths", problem, f"give a pattern: {path.stem}/*")
        return name

    def is_linked(self, name: str, location: str) -> bool:
        """Whether a link is a part of ``name``, the name of the file at ``location``."""
        return not is_url(location) and os.path.realpath(location) != self.location(name)

    def location(self, name: str) -> str:
        """Returns the location of the file ``name``. Nothing has to exist there any more.

        An absolute path and a URL are their own locations.
        """
        if self._folder is None or is_url(name) or (name.startswith("/") and not self._is_remote):
            return name
        if self._may_be_file and name == os.path.basename(self._folder) and not os.path.isdir(self._folder):
            return self._folder
        return f"{self._folder}/{name}"


def _absolute(path: str) -> str:
    """Returns the absolute form of the local ``path``; "" for the root. Links stay, except those before a ``..``."""
    parts = Path(os.path.expanduser(path.removeprefix(LOCAL_SCHEME))).parts
    end = len(parts) - parts[::-1].index("..") if ".." in parts else 0
    return os.path.join(os.path.realpath(os.path.join(".", *parts[:end])), *parts[end:]).rstrip("/")


def _resolved(path: str) -> str:
    """Returns the location of a local file or folder without links. The link to a file keeps its own name."""
    if os.path.isdir(path or "/"):
        return os.path.realpath(path or "/").rstrip("/")
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)
