"""Finds and reads the run.json of runs below a root, without the settings and stages that they describe."""

import os
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import check_format
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_sealed

ROOT_USER = 0
"""Can read and write everything anyway."""


def newest_file(root: str) -> Path:
    """Returns the run.json of the run below ``root`` that this user started last.

    Those of other users are left out: their settings may name any file, or any Python class.

    Raises:
        ConfigError: when there is none.
    """
    found = [path for path in Path(root).glob("runs/*/run.json") if is_own(path)]
    if not found:
        raise ConfigError("root", f"no run of yours was started below {root!r}", "give its root, or overrides")
    return max(found, key=lambda path: path.stat().st_mtime_ns)


def is_own(path: Path) -> bool:
    """Whether ``path`` was written by this user, or by root."""
    return path.stat().st_uid in (os.geteuid(), ROOT_USER)


def read_saved(file: Path) -> dict[str, Any]:
    """Returns the values of a run.json or step.json (planner.py), without its format.

    Raises:
        ArtifactError: when it is damaged or has another format.
    """
    saved = read_sealed(file)
    check_format(file, saved)
    return {name: value for name, value in saved.items() if name != "format"}
