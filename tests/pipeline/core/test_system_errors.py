"""Each error of the operating system becomes one line with a remedy and an exit status."""

import errno
import os
import pickle
import pwd
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from headrace.pipeline.core.errors import ConfigError, HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.system_errors import REMEDIES, explained, portable, rust_os_error, system_errors_explained
from tests.disks import small_disk

ARRAY = np.zeros(100_000, np.uint64)


def raised_for(number: int, path: str | None = None) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught, system_errors_explained("/data/clean"):
        raise OSError(number, os.strerror(number), path)
    return caught.value


def test_a_full_disk_is_retryable() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        error = raised_for(number)
        assert isinstance(error, RetryableError)
        assert str(error) == f"/data/clean: {os.strerror(number)}; free some space and run again"


def test_the_path_of_the_error_replaces_the_default_path() -> None:
    error = raised_for(errno.EROFS, "/data/clean/parts")
    remedy = "mount it with write access, or use a folder of your own: root=FOLDER"
    assert (str(error), error.exit_status) == (f"/data/clean/parts: Read-only file system; {remedy}", 1)


def test_a_permission_names_the_owner(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    error = raised_for(errno.EACCES, str(tmp_path / "parts" / "a.json"))
    assert error.problem == f"Permission denied ({tmp_path} belongs to {me}, you are {me})"
    assert raised_for(errno.EACCES, str(tmp_path)).problem == f"Permission denied (it belongs to {me}, you are {me})"


@pytest.mark.parametrize("number", REMEDIES)
def test_every_error_is_one_line_with_a_remedy(number: int) -> None:
    error = raised_for(number, "/data/cl\nean")
    assert isinstance(error, TaskError)
    assert len(str(error).splitlines()) == 1
    assert "\\n" in str(error)
    assert error.remedy


def test_an_error_without_remedy_keeps_its_traceback() -> None:
    with pytest.raises(OSError, match="Inappropriate ioctl"), system_errors_explained("/data"):
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
    assert explained(ValueError("4 requested and 0 written"), "/data") is None


@pytest.mark.parametrize("write", [ARRAY.tofile, lambda stream: np.save(stream, ARRAY)], ids=["tofile", "save"])
def test_a_full_disk_that_numpy_hides(write) -> None:
    with pytest.raises(RetryableError) as caught, system_errors_explained("/data"), open("/dev/full", "wb") as stream:
        write(stream)
    assert caught.value.remedy == "free some space and run again"


def test_the_message_of_numpy_for_a_failed_write() -> None:
    error = explained(OSError("100000 requested and 0 written"), "/data")
    wrong = "a write was incomplete (100000 requested and 0 written): the disk is full or failing"
    assert str(error) == f"/data: {wrong}; free some space and run again"


def test_a_full_disk_that_safetensors_hides(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100k") as disk:
        path = disk / "model.safetensors"
        with pytest.raises(SafetensorError) as caught:
            save_file({"weight": torch.zeros(100_000)}, path)
        error = rust_os_error(caught.value, path)
    assert (error.errno, error.filename) == (errno.ENOSPC, str(path))


def test_a_path_cannot_control_the_terminal() -> None:
    error = TaskError("/data/\x1b[31mred", "is\nbroken", "run again")
    assert str(error) == "/data/\\x1b[31mred: is\\nbroken; run again"


class QuotaError(ConfigError):
    """One of another program, which needs other arguments."""

    def __init__(self, limit: int) -> None:
        super().__init__("quota", f"{limit} bytes are used", "free some")


class ThrottledError(OSError):
    """One of a library for remote files."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__(f"wait {seconds} s")


def test_errors_of_other_programs_arrive_in_another_process() -> None:
    quota, throttled = (pickle.loads(pickle.dumps(portable(one))) for one in (QuotaError(3), ThrottledError(seconds=2)))
    assert (type(quota), str(quota)) == (ConfigError, "quota: 3 bytes are used; free some")
    assert str(throttled) == "ThrottledError: wait 2 s"
    found = portable(FileNotFoundError(errno.ENOENT, "No such file", "a.txt"))
    assert isinstance(found, FileNotFoundError)
    assert found.filename == "a.txt"
    assert portable(ValueError("3")) is None
