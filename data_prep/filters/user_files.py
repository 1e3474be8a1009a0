"""Files of the user that decide what a filter does (lists, models). They are named by path and never downloaded."""

from pathlib import Path

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.stage import RawFile, raw_file


def require_file(where: str, path: str, expected: str) -> None:
    """Checks that the file ``path`` exists.

    Raises:
        ConfigError: when it does not exist. The message names the setting ``where`` and the ``expected`` kind of file.
    """
    if not Path(path).is_file():
        raise ConfigError(where, f"there is no file {path}", f"name {expected}")


def user_file(path: str) -> RawFile:
    """Returns name, size and checksum of the file, which become part of the artifact's address."""
    return raw_file(Path(path).name, Path(path))


def read_text(path: str | Path) -> str:
    """Returns the text of the file, without the byte order mark that Windows writes.

    Raises:
        ArtifactError: when the file is not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(str(path), f"is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None
