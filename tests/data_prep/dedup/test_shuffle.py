import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.dedup.shuffle import bucket_of, receive, runs, send
from pipeline.core.artifact import TaskOutput


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=4))
def test_every_record_arrives_once_in_order(destinations):
    with tempfile.TemporaryDirectory() as folder:
        for writer, own in enumerate(destinations):
            records = np.array([100 * writer + i for i in range(len(own))], dtype=np.uint64)
            send(TaskOutput(Path(folder), "write", writer), "x", records, np.array(own, dtype=np.int64), 4)
        for reader in range(4):
            expected = [
                100 * w + i for w, own in enumerate(destinations) for i, goes_to in enumerate(own) if goes_to == reader
            ]
            got = receive(TaskOutput(Path(folder), "read", reader), "x", len(destinations), reader)
            assert got.tolist() == expected


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 65536))
def test_buckets_are_equal_ranges(keys, buckets):
    expected = [(key >> 32) * buckets >> 32 for key in keys]
    assert bucket_of(np.array(keys, dtype=np.uint64), buckets).tolist() == expected
    assert max(expected) < buckets


def test_runs():
    assert runs(np.array([3, 3, 5, 7, 7])).tolist() == [0, 2, 3, 5]
    assert runs(np.array([], dtype=np.int64)).tolist() == [0]
