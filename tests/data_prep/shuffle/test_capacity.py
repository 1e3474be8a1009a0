import numpy as np
import pytest

from headrace.data_prep.shuffle.capacity import room
from headrace.data_prep.shuffle.exchange import sorting_folder
from headrace.pipeline.core.artifact import TaskOutput
from tests.disks import small_disk


@pytest.mark.parametrize(("memory_bytes", "in_memory"), [(4000, True), (3999, False)])
def test_what_does_not_fit_is_in_a_file_without_a_name(tmp_path, memory_bytes, in_memory):
    out = TaskOutput(tmp_path, "pairs", 0)
    values = room(out, 500, np.int64, memory_bytes)
    values[:] = np.arange(500)
    assert values.tolist() == list(range(500))
    assert isinstance(values.base, np.memmap) == (not in_memory)
    assert not list(sorting_folder(out).glob("*"))


def test_room_for_nothing(tmp_path):
    assert room(TaskOutput(tmp_path, "pairs", 0), 0, np.int64, 0).size == 0


def test_room_on_a_full_disk_is_an_error_and_not_a_killed_process(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk, pytest.raises(OSError, match="No space left on device"):
        room(TaskOutput(disk, "pairs", 0), 500_000, np.int64, 0)
