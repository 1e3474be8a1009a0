"""A check that file names in a manifest stay below its folder. In a shared root another user may have written it."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from headrace.pipeline.core.errors import ArtifactError


def refuse_outside(manifest: Path, names: Iterable[str]) -> None:
    """Refuses ``names`` from ``manifest`` that lead out of its folder.

    Raises:
        ArtifactError: naming the first one.
    """
    for name in names:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ArtifactError(str(manifest), f"names {name!r}, which leads out of its folder", "do not use it")
