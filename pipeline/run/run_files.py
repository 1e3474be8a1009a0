"""Files run.json below a root: whose they are, and which one a name means. None is checked or decoded further here.

<root>/runs/<id>/run.json     "config": {"name": "small", …}, "names": ["tiny"]     the name, and earlier ones
"""

import contextlib
import functools
import json
import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core.errors import ConfigError, suggestion

ROOT_USER = 0
"""Can read and write everything anyway."""
RUN_JSON = "run.json"
DEFAULT_ROOT = "runs"
"""The root in conf/config.yaml: commands need no ``root=`` for it."""
NAME = re.compile(r"[\w.-]+", re.ASCII)
"""A name of a run."""


def is_own(path: Path) -> bool:
    """Whether this user owns ``path``; of a symbolic link, the link itself."""
    return path.lstat().st_uid == os.geteuid()


def is_trusted(path: Path) -> bool:
    """Whether ``path`` was written by this user, or by root."""
    return path.stat().st_uid in (os.geteuid(), ROOT_USER)


def user_of(path: Path) -> str:
    """Returns the name of the user who owns ``path``, or the number of a user without a name; see ``is_own``."""
    return _user(path.lstat().st_uid)


@functools.cache
def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def run_file(root: str | Path, identity: str) -> Path:
    """Returns the path of the run.json of the run with this ``identity``; the logs of its jobs are next to it."""
    return Path(root) / "runs" / identity / RUN_JSON


def run_files(root: Path) -> list[Path]:
    """Returns the run.json of every run below ``root``, the last started one first."""
    dated_paths = []
    for path in root.glob(f"runs/*/{RUN_JSON}"):
        with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
            dated_paths.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(dated_paths, reverse=True)]


def newest_file(root: str) -> Path:
    """Returns the run.json of the run below ``root`` that this user started last.

    Raises:
        ConfigError: when there is none.
    """
    own = next(filter(is_own, run_files(Path(root))), None)
    if own is None:
        raise ConfigError("root", f"no run of yours was started below {root!r}", "give its root, or overrides")
    return own


def labels(root: Path) -> Iterator[str]:
    """Yields the names of each run below ``root``, or its id if it has none, the last started one first."""
    for file in run_files(root):
        names = [name for name in names_in(file) if NAME.fullmatch(name)]  # another user may have written the file
        yield from names or [file.parent.name]


def named_file(root: str, wanted: str, what: str = "a run") -> Path:
    """Returns the run.json that ``wanted`` names: the path of it or of its folder, else a run below ``root``.

    A run is named by each name that it was given, its id, or a beginning of one of them that fits no other run. The
    same name may belong to several runs; then it means this user's, and that with this name now, and the last started.

    Raises:
        ConfigError: when it names none, or several; its message has ``what`` it may name.
    """
    for path in map(Path, map(os.path.abspath, (wanted, os.path.join(wanted, RUN_JSON)))):
        if path.is_file() and re.fullmatch(r"run(-[0-9a-f]{12})?\.json", path.name):
            return path
    files = sorted(run_files(Path(root)), key=is_own, reverse=True)
    names = {file: [file.parent.name, *names_in(file)] for file in files}
    exact = [file for file in files if wanted in names[file]]
    exact.sort(key=lambda file: (not is_own(file), wanted not in names[file][:2]))
    matches = exact[:1] or [file for file in files if any(name.startswith(wanted) for name in names[file])]
    if not matches:
        known = [name for both in names.values() for name in both]
        problem = f"{wanted!r} is not {what} below {root!r}"
        raise ConfigError("RUN", problem, f"{suggestion(wanted, known)} (headrace runs lists all)")
    if len(matches) > 1:
        several = ", ".join(" ".join(reversed(names[file])) for file in matches)
        raise ConfigError("RUN", f"{wanted!r} is the beginning of several: {several}", "give more of it")
    return matches[0]


def names_in(file: Path) -> list[str]:
    """Returns the names of the run in ``file``, that of its last start first; none when the file cannot be read."""
    try:
        values = json.loads(file.read_bytes())
        return [str(name) for name in (values["config"].get("name"), *values.get("names", ())) if name]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
