import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.shuffle import slices
from headrace.data_prep.shuffle.exchange import (
    Sender,
    allocate,
    bucket_of,
    count_received,
    dtype_of,
    receive,
    receive_blocks,
    receive_sorted,
    send,
    sorting_folder,
)
from headrace.data_prep.shuffle.records import run_bounds
from headrace.data_prep.shuffle.slices import RECORDS, SLICES
from headrace.pipeline.core.artifact import TaskOutput, handed
from tests.disks import small_disk


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=4))
def test_every_record_arrives_once_in_order(destinations):
    with tempfile.TemporaryDirectory() as folder:
        for writer, own in enumerate(destinations):
            records = np.array([100 * writer + i for i in range(len(own))], dtype=np.uint64)
            out = TaskOutput(Path(folder), "write", writer)
            send(out, "x", records, np.array(own, dtype=np.int64))
            out.done({})
        for reader in range(4):
            expected = [
                100 * w + i for w, own in enumerate(destinations) for i, goes_to in enumerate(own) if goes_to == reader
            ]
            out = TaskOutput(Path(folder), "read", reader)
            assert receive(out, "write/x", len(destinations), reader).tolist() == expected
            assert count_received(out, "write/x", len(destinations), reader) == len(expected)


def test_byte_strings_of_any_width_arrive_sorted(tmp_path):
    """The writers' records are of different widths; one writer has no records."""
    for writer, texts in enumerate([[b"b", b"a"], [], [b"abcd", b"a"]]):
        records = np.array(
            [(i, text) for i, text in enumerate(texts)], [("key", "<u8"), ("text", f"S{1 + 3 * (writer > 1)}")]
        )
        out = TaskOutput(tmp_path, "write", writer)
        send(out, "x", records, np.zeros(len(texts), np.int64))
        out.done({})
    out = TaskOutput(tmp_path, "read", 0)
    dtype = dtype_of(out, "write/x", 3)
    assert dtype == np.dtype([("key", "<u8"), ("text", "S4")])
    blocks = list(receive_sorted(out, "write/x", 3, dtype, ("text", "key"), 1))
    assert [block.tolist() for block in blocks] == [[(1, b"a"), (1, b"a")], [(0, b"abcd")], [(0, b"b")]]


RECORD = np.dtype([("key", "<u8"), ("text", "S3")])


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 2000), st.integers(1, 9), st.integers(11, 60))
def test_a_sender_writes_the_files_of_send(destinations, memory_bytes, batch, block_bytes):
    records = np.array([(i, b"a%d" % i) for i in range(len(destinations))], dtype=RECORD)
    goes_to = np.array(destinations, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "PIECE_BYTES", block_bytes)
        out = TaskOutput(Path(folder), "write", 0)
        send(out, "x", records, goes_to)
        with Sender(out, "y", RECORD, memory_bytes) as sender:
            for start in range(0, len(records), batch):
                sender.add(records[start : start + batch], goes_to[start : start + batch])
        out.done({})
        for suffix in (RECORDS, SLICES):
            one, other = (handed(out, f"write/{kind}", 0, suffix).read_bytes() for kind in "xy")
            assert one == other
        for reader in range(4):
            blocks = list(receive_blocks(out, "write/y", 1, reader))
            assert all(0 < block.nbytes <= block_bytes for block in blocks)
            together = np.concatenate([np.empty(0, RECORD), *blocks])
            assert together.tolist() == receive(out, "write/x", 1, reader).tolist()


def test_a_sender_that_fails_leaves_nothing(tmp_path):
    out = TaskOutput(tmp_path, "write", 0)

    def send_and_fail() -> None:
        with Sender(out, "x", RECORD, 200) as sender:
            sender.add(np.zeros(50, RECORD), np.zeros(50, np.int64))
            assert list(sorting_folder(out).iterdir())
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        send_and_fail()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 65536))
def test_buckets_are_equal_ranges(keys, buckets):
    expected = [(key >> 32) * buckets >> 32 for key in keys]
    assert bucket_of(np.array(keys, dtype=np.uint64), buckets).tolist() == expected
    assert max(expected) < buckets


def test_runs():
    assert run_bounds(np.array([3, 3, 5, 7, 7])).tolist() == [0, 2, 3, 5]
    assert run_bounds(np.array([], dtype=np.int64)).tolist() == [0]


@pytest.mark.parametrize(("memory_bytes", "in_memory"), [(4000, True), (3999, False)])
def test_what_does_not_fit_is_in_a_file_without_a_name(tmp_path, memory_bytes, in_memory):
    out = TaskOutput(tmp_path, "pairs", 0)
    values = allocate(out, 500, np.int64, memory_bytes)
    values[:] = np.arange(500)
    assert values.tolist() == list(range(500))
    assert isinstance(values.base, np.memmap) == (not in_memory)
    assert not list(sorting_folder(out).glob("*"))


def test_allocating_nothing(tmp_path):
    assert allocate(TaskOutput(tmp_path, "pairs", 0), 0, np.int64, 0).size == 0


def test_a_full_disk_is_an_error_and_not_a_killed_process(tmp_path):
    with small_disk(tmp_path / "disk", "1m") as disk, pytest.raises(OSError, match="No space left on device"):
        allocate(TaskOutput(disk, "pairs", 0), 500_000, np.int64, 0)
