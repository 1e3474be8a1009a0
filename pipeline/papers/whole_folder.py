"""A new folder that gets its name when it is whole, and the checksums of its files.

    tmp-node7~…~4711~…-pages/   ──>   pages/          README.md, data/00000.parquet, …, SHA256SUMS
                                                      sha256sum -c SHA256SUMS

A killed process leaves its temporary folder. The next one that writes to the same name removes it.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core.artifact_files import FileRecord, sync
from headrace.pipeline.core.claim import remove_unfinished, temporary_path
from headrace.pipeline.core.errors import ConfigError, local_path

CHECKSUMS = "SHA256SUMS"
"""The file with the SHA-256 of every other file, as ``sha256sum`` writes it. It marks an export of data."""

REPLACED = "-replaced"
"""The end of the temporary name of an earlier export, until the new one has its name."""


def checked_folder(to: str, force: bool = False) -> Path:
    """Returns the path of a new folder.

    Raises:
        ConfigError: when its parent is missing, or it exists. ``force`` allows an earlier export of data.
    """
    folder = local_path(to, "--to")
    if not folder.parent.is_dir():
        raise ConfigError("--to", f"there is no folder {str(folder.parent)!r}", "make it first")
    if not folder.exists() and not folder.is_symlink():
        return folder
    if not force:
        raise ConfigError("--to", f"{to!r} exists", "give the name of a new folder")
    if folder.is_symlink() or not (folder / CHECKSUMS).is_file():
        problem = f"{to!r} is no earlier export (it has no {CHECKSUMS}), so --force does not replace it"
        raise ConfigError("--to", problem, "give the name of a new folder")
    return folder


@contextlib.contextmanager
def new_folder(folder: Path, replaces: bool = False) -> Iterator[Path]:
    """Gives a temporary folder that becomes ``folder`` after the block, on the disk; after an error it is removed.

    Raises:
        ConfigError: when it cannot be made, or another one has the name by then. With ``replaces`` that one is removed.
    """
    temporary = temporary_path(folder)
    try:
        remove_unfinished(folder, REPLACED)
        temporary.mkdir()
    except OSError as error:
        raise _not_made(folder, error) from None
    try:
        yield temporary
        for path in [*temporary.rglob("*"), temporary]:
            sync(path)
        replaced = temporary.with_name(temporary.name + REPLACED)
        if replaces and folder.exists():
            folder.rename(replaced)
        try:
            temporary.rename(folder)
        except OSError as error:
            raise _not_made(folder, error) from None
        sync(folder.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _not_made(folder: Path, error: OSError) -> ConfigError:
    return ConfigError("--to", f"{str(folder)!r} cannot be made ({error.strerror})", "give a folder of your own")


def write_checksums(folder: Path) -> None:
    """Writes the SHA-256 of every file of ``folder`` to CHECKSUMS."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = [f"{FileRecord.of(folder / name).sha256}  {name}\n" for name in names]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def sized(folder: Path) -> str:
    """Returns the name of ``folder`` and the bytes of its files, for people."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder} ({size:,} bytes)"
