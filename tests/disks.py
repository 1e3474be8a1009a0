"""Disks and users for tests of what the operating system refuses. Each is private to the tests of one fixture."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

STRANGER = 65534
"""The number of a user who is not this one."""
WITHOUT_PRIVILEGES = ("-dac_override", "-dac_read_search", "-fowner")
NUMBERS = (1, 2, 3)
"""Those of the privileges, in linux/capability.h."""
CAPABILITIES_VERSION = 0x20080522
"""_LINUX_CAPABILITY_VERSION_3, of capget(2)."""


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mounts a file system of ``size`` (``200k``) at ``folder``; skips the test if this is not possible."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here (needs root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def give_away(path: Path) -> None:
    """Makes ``path`` a stranger's; skips where that is not allowed."""
    try:
        os.chown(path, STRANGER, STRANGER)
    except PermissionError:
        pytest.skip("files cannot be given away here (needs root)")


def make_read_only(disk: Path) -> None:
    """Refuses all further writing to ``disk``, which ``small_disk`` made."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def bound_by_permissions(command: list[str]) -> list[str]:
    """``command`` for a process that permissions bind, though root starts it; skips where that cannot be had."""
    capabilities = ",".join(WITHOUT_PRIVILEGES)
    bound = ["setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run([*bound, "true"], capture_output=True).returncode == 0:
            return [*bound, *command]
    pytest.skip("root cannot give up its privileges here (setpriv)")


def while_bound(work: Callable[[], str]) -> str:
    """Returns what ``work`` returns in a fork of this process that permissions bind, though root started it.

    Skips where that cannot be had.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            status = 0 if _give_up_privileges() else 77
            os.write(writing, b"" if status else work().encode())
            os._exit(status)
        finally:  # a fork must not go on as its parent
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        found = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 77:
        pytest.skip("root cannot give up its privileges here (capset)")
    assert status == 0
    return found


def _give_up_privileges() -> bool:
    """Takes those that disregard permissions from this process. Returns whether that is allowed."""
    system, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    if system.capget(header, sets):
        return False
    for index in range(3):  # effective, permitted, inheritable
        sets[index] &= ~sum(1 << number for number in NUMBERS)
    return system.capset(header, sets) == 0


def with_shared_memory(options: str, command: list[str]) -> list[str]:
    """``command`` with a /dev/shm of its own, mounted with ``options``; skips where that cannot be had."""
    own = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o {options} tmpfs /dev/shm && exec "$@"', "sh"]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run([*own, "true"], capture_output=True).returncode == 0:
            return [*own, *command]
    pytest.skip("no name space of mounts can be made here (needs root)")
