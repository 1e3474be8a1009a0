"""Files of the user's (lists, models) that decide what a filter does: named by path, never downloaded."""

from pathlib import Path

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file


def need_file(where: str, path: str, what: str) -> None:
    """Check that the file ``path`` is there.

    Raises:
        ConfigError: when it is not, naming the setting ``where`` and ``what`` it wants.
    """
    if not Path(path).is_file():
        raise ConfigError(where, f"there is no file {path}", f"name {what}")


def own_file(path: str) -> RawFile:
    """The file, for the address of what it decides."""
    return raw_file(Path(path).name, Path(path))


def own_text(path: str | Path) -> str:
    """What the file says, without the mark that Windows puts before UTF-8.

    Raises:
        ArtifactError: when it is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(str(path), f"is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None
