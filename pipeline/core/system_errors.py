"""Turns errors of the operating system (disk full, no permission, a read-only disk) into one-line messages.

    OSError ── explained ──> HeadraceError   ``/data/clean: Permission denied (it belongs to alice, you are bob); …``

The class of the error, and so the exit status (errors.py), depends on whether running again may help. An OSError that
is not in the table stays as it is: it is probably a bug of the program, and its traceback is needed.
"""

import contextlib
import errno
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.pipeline.core.artifact_files import MOVED, check
from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError

OWN_FOLDER = "use a folder of your own: root=FOLDER"
DISK_FULL = "free some space and run again"
REMEDIES: Mapping[int, tuple[type[HeadraceError], str]] = {
    errno.ENOSPC: (RetryableError, DISK_FULL),
    errno.EDQUOT: (RetryableError, DISK_FULL),
    errno.EIO: (RetryableError, "check the disk for hardware errors (dmesg), then run again"),
    errno.ESTALE: (RetryableError, "check the file server, then run again"),
    errno.ETIMEDOUT: (RetryableError, "check the file server, then run again"),
    errno.ENOMEM: (RetryableError, "free memory, or use fewer workers, and run again"),
    errno.EAGAIN: (RetryableError, "allow more processes (ulimit -u), or use fewer workers, and run again"),
    errno.ENFILE: (RetryableError, "close files of other programs, then run again"),
    errno.EMFILE: (TaskError, "allow more open files (ulimit -n), then run again"),
    MOVED: (TaskError, "what was saved before is whole: run again where it is now (root=FOLDER)"),
    errno.EFBIG: (TaskError, "allow larger files (ulimit -f), then run again"),
    errno.EROFS: (TaskError, f"mount it with write access, or {OWN_FOLDER}"),
    errno.EACCES: (TaskError, f"ask for access, or {OWN_FOLDER}"),
    errno.EPERM: (TaskError, f"ask for access, or {OWN_FOLDER}"),
    errno.ENAMETOOLONG: (TaskError, "use a shorter path"),
    errno.ENOTDIR: (TaskError, f"move the file away, because a folder must be created here, or {OWN_FOLDER}"),
    errno.EEXIST: (TaskError, f"move the file away, because a folder must be created here, or {OWN_FOLDER}"),
    errno.EISDIR: (TaskError, "move the folder away, because a file must be written here"),
}
"""Error number → the class of the error, and what to do."""
FORBIDDEN = (errno.EACCES, errno.EPERM)
SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""The message of numpy (``tofile``, ``save``) for a failed write. numpy does not report the error number."""
RUST_ERROR = re.compile(r"\(os error (\d+)\)")
"""The error number in the message of libraries written in Rust (safetensors, tokenizers)."""


@contextlib.contextmanager
def system_errors_explained(where: Path | str) -> Iterator[None]:
    """Replaces an OSError in the block by a one-line error. ``where`` is named when the OSError names no file.

    Raises:
        HeadraceError: instead of an OSError in ``REMEDIES``.
    """
    try:
        yield
    except OSError as error:
        if explanation := explained(error, where):
            raise explanation from error
        raise


def explained(error: BaseException, where: Path | str) -> HeadraceError | None:
    """Returns ``error`` as a one-line error; None when it is not an OSError, or not one that the user can repair."""
    if not isinstance(error, OSError):
        return None
    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(where)
    if error.errno != MOVED and (failure := moved(Path(path))):
        return failure  # a file that is not there may be one of a folder that was moved
    if error.errno is None or error.errno not in REMEDIES:
        if SHORT_WRITE.search(str(error)):
            return RetryableError(
                str(where), f"a write was incomplete ({error}): the disk is full or failing", DISK_FULL
            )
        return None
    kind, remedy = REMEDIES[error.errno]
    return kind(path, f"{error.strerror}{_ownership(Path(path)) if error.errno in FORBIDDEN else ''}", remedy)


def moved(path: Path) -> HeadraceError | None:
    """Returns the error about the held folder of ``path`` if it was moved or replaced (artifact_files.py)."""
    try:
        check(path)
    except OSError as error:
        return explained(error, path)
    return None


def portable(error: BaseException) -> HeadraceError | OSError | None:
    """Returns ``error`` as an error that every process can receive: one of ours or of the system; None for others.

    A subclass in a library or in a user's code may have arguments that pickle does not keep.
    """
    if isinstance(error, HeadraceError):
        kind = next(cls for cls in type(error).__mro__ if cls.__module__ == HeadraceError.__module__)
        return kind(error.where, error.problem, error.remedy)  # type: ignore[no-any-return]
    if not isinstance(error, OSError):
        return None
    if not isinstance(error.errno, int):
        return OSError(str(error) if type(error) is OSError else f"{type(error).__name__}: {error}")
    path = error.filename if isinstance(error.filename, (str, bytes)) else None
    return OSError(error.errno, str(error.strerror), path)


def rust_os_error(error: Exception, path: Path) -> OSError:
    """Returns the OSError that caused ``error``, which a library written in Rust raised for ``path``."""
    match = RUST_ERROR.search(str(error))
    number = int(match[1]) if match else errno.EIO
    return OSError(number, os.strerror(number), str(path))


def _ownership(path: Path) -> str:
    """Returns the owner of ``path``, or of its nearest readable parent, and the current user, as text."""
    for readable in (path, *path.absolute().parents):
        with contextlib.suppress(OSError):
            name = "it" if readable == path else str(readable)
            return f" ({name} belongs to {_user(readable.stat().st_uid)}, you are {_user(os.geteuid())})"
    return ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
