"""What the operating system refuses, as one line with a remedy and an exit status."""

import errno
import os
import pwd
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from headrace.pipeline.core.errors import HeadraceError, RetryableError, TaskError
from headrace.pipeline.core.system_errors import REMEDIES, explained, of_rust, system_errors_told
from tests.disks import small_disk

ARRAY = np.zeros(100_000, np.uint64)


def told_of(number: int, path: str | None = None) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught, system_errors_told("/data/clean"):
        raise OSError(number, os.strerror(number), path)
    return caught.value


def test_no_room_may_pass() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        told = told_of(number)
        assert isinstance(told, RetryableError)
        assert str(told) == f"/data/clean: {os.strerror(number)}; make room and run again"


def test_the_path_of_the_error_goes_before_the_place_of_the_work() -> None:
    told = told_of(errno.EROFS, "/data/clean/parts")
    remedy = "have it mounted for writing, or give a folder of yours: root=FOLDER"
    assert (str(told), told.exit_status) == (f"/data/clean/parts: Read-only file system; {remedy}", 1)


def test_a_permission_names_the_owner(tmp_path: Path) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    told = told_of(errno.EACCES, str(tmp_path / "parts" / "a.json"))
    assert told.wrong == f"Permission denied ({tmp_path} belongs to {me}, you are {me})"
    assert told_of(errno.EACCES, str(tmp_path)).wrong == f"Permission denied (it belongs to {me}, you are {me})"


@pytest.mark.parametrize("number", REMEDIES)
def test_every_error_is_one_line_and_says_what_to_do(number: int) -> None:
    told = told_of(number, "/data/cl\nean")
    assert isinstance(told, TaskError)
    assert len(str(told).splitlines()) == 1
    assert "\\n" in str(told)
    assert told.remedy


def test_an_error_that_nobody_can_do_something_about_keeps_its_traceback() -> None:
    with pytest.raises(OSError, match="Inappropriate ioctl"), system_errors_told("/data"):
        raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
    assert explained(ValueError("4 requested and 0 written"), "/data") is None


@pytest.mark.parametrize("write", [ARRAY.tofile, lambda stream: np.save(stream, ARRAY)], ids=["tofile", "save"])
def test_a_full_disk_that_numpy_hides(write) -> None:
    with pytest.raises(RetryableError) as caught, system_errors_told("/data"), open("/dev/full", "wb") as stream:
        write(stream)
    assert caught.value.remedy == "make room and run again"


def test_the_words_of_numpy_for_a_write_that_failed() -> None:
    told = explained(OSError("100000 requested and 0 written"), "/data")
    wrong = "a write was cut short (100000 requested and 0 written): the disk is full or failing"
    assert str(told) == f"/data: {wrong}; make room and run again"


def test_a_full_disk_that_safetensors_hides(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100k") as disk:
        path = disk / "model.safetensors"
        with pytest.raises(SafetensorError) as caught:
            save_file({"weight": torch.zeros(100_000)}, path)
        error = of_rust(caught.value, path)
    assert (error.errno, error.filename) == (errno.ENOSPC, str(path))


def test_a_path_cannot_steer_the_terminal_of_who_reads_the_error() -> None:
    error = TaskError("/data/\x1b[31mred", "is\nbroken", "run again")
    assert str(error) == "/data/\\x1b[31mred: is\\nbroken; run again"
