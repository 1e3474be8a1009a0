"""Errors of the operating system (no room, no permission, a read-only disk) as errors for people, one line each.

    OSError ── explained ──> HeadraceError   ``/data/clean: Permission denied (belongs to alice, you are bob); …``

Whether running again may help decides the kind, and with it the exit status (errors.py). An OSError that is not in the
table is left alone: it is more likely a fault of the program, which needs its traceback.
"""

import contextlib
import errno
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError

OWN_FOLDER = "give a folder of yours: root=FOLDER"
NO_ROOM = "make room and run again"
REMEDIES: Mapping[int, tuple[type[HeadraceError], str]] = {
    errno.ENOSPC: (RetryableError, NO_ROOM),
    errno.EDQUOT: (RetryableError, NO_ROOM),
    errno.EIO: (RetryableError, "look for a failing disk (dmesg), then run again"),
    errno.ESTALE: (RetryableError, "look after the file server, then run again"),
    errno.ETIMEDOUT: (RetryableError, "look after the file server, then run again"),
    errno.ENOMEM: (RetryableError, "free memory, or use fewer workers, and run again"),
    errno.EAGAIN: (RetryableError, "allow more processes (ulimit -u), or use fewer workers, and run again"),
    errno.ENFILE: (RetryableError, "close files of other programs, then run again"),
    errno.EMFILE: (TaskError, "allow more open files (ulimit -n), then run again"),
    errno.EFBIG: (TaskError, "allow larger files (ulimit -f), then run again"),
    errno.EROFS: (TaskError, f"have it mounted for writing, or {OWN_FOLDER}"),
    errno.EACCES: (TaskError, f"ask for access, or {OWN_FOLDER}"),
    errno.EPERM: (TaskError, f"ask for access, or {OWN_FOLDER}"),
    errno.ENAMETOOLONG: (TaskError, "give a shorter path"),
    errno.ENOTDIR: (TaskError, f"move the file away that lies where a folder must be, or {OWN_FOLDER}"),
    errno.EEXIST: (TaskError, f"move the file away that lies where a folder must be, or {OWN_FOLDER}"),
    errno.EISDIR: (TaskError, "move the folder away that lies where a file must be"),
}
"""Error number → the kind of error, and what to do."""
FORBIDDEN = (errno.EACCES, errno.EPERM)
CUT_SHORT = re.compile(r"\d+ requested and \d+ written")
"""numpy's words (``tofile``, ``save``) for a write that failed: it does not pass on the error number."""
IN_RUST = re.compile(r"\(os error (\d+)\)")
"""How libraries written in Rust (safetensors, tokenizers) give the error number, in the text of an error of theirs."""


@contextlib.contextmanager
def system_errors_told(where: Path | str) -> Iterator[None]:
    """Raise what the operating system refuses as an error for people; ``where`` names what no error itself names.

    Raises:
        HeadraceError: in the place of an OSError in ``REMEDIES``.
    """
    try:
        yield
    except OSError as error:
        if told := explained(error, where):
            raise told from error
        raise


def explained(error: BaseException, where: Path | str) -> HeadraceError | None:
    """``error`` as one for people; None when it is not one of the operating system that a person can do something
    about."""
    if not isinstance(error, OSError):
        return None
    if error.errno is None or error.errno not in REMEDIES:
        if CUT_SHORT.search(str(error)):
            return RetryableError(str(where), f"a write was cut short ({error}): the disk is full or failing", NO_ROOM)
        return None
    kind, remedy = REMEDIES[error.errno]
    path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(where)
    return kind(path, f"{error.strerror}{_ownership(Path(path)) if error.errno in FORBIDDEN else ''}", remedy)


def of_rust(error: Exception, path: Path) -> OSError:
    """The OSError behind the text of ``error``, which a library written in Rust raised while it worked on ``path``."""
    found = IN_RUST.search(str(error))
    number = int(found[1]) if found else errno.EIO
    return OSError(number, os.strerror(number), str(path))


def _ownership(path: Path) -> str:
    """Who owns ``path``, or the nearest folder above it that can be looked at, and who asks."""
    for place in (path, *path.absolute().parents):
        with contextlib.suppress(OSError):
            name = "it" if place == path else str(place)
            return f" ({name} belongs to {_user(place.stat().st_uid)}, you are {_user(os.geteuid())})"
    return ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
