"""External sort against np.lexsort, with memory for one record, for a few, and for all."""

import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.shuffle import external_sort
from headrace.data_prep.shuffle.external_sort import ExternalSort
from tests.data_prep.shuffle.keyed import BY, KEYED, by_lexsort, keyed, rows


@settings(max_examples=100)
@given(rows, st.integers(1, 5000), st.lists(st.integers(0, 40), max_size=4), st.integers(1, 50))
def test_equals_lexsort(values, memory_bytes, cuts, block_bytes):
    records = keyed(values)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "BLOCK_BYTES", block_bytes)
        pieces = np.split(records, sorted(min(cut, len(records)) for cut in cuts))
        found = list(external_sort.external_sort(pieces, KEYED, BY, memory_bytes, Path(folder)))
        assert not list(Path(folder).iterdir())
    assert all(block.size for block in found)
    assert np.concatenate([np.empty(0, KEYED), *found]).tobytes() == by_lexsort(records).tobytes()


def drawn(n: int, distinct: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    records = np.empty(n, KEYED)
    records["words"] = generator.integers(0, distinct, (n, 2))
    records["text"] = generator.integers(0, distinct, n).astype("S3")
    records["signed"] = generator.integers(0, distinct, n)
    records["row"] = np.arange(n)
    return records


@pytest.mark.slow
@pytest.mark.parametrize("distinct", [1, 2**31 - 1])
@pytest.mark.parametrize("memory_bytes", [600_000, 3_000_000, 40_000_000])
def test_memory_is_bounded_whatever_the_keys(tmp_path, distinct, memory_bytes):
    """8 MB of records: in several passes, in one, in memory. NumPy's workspace is not traced; 64 KiB are objects."""
    n, piece = 300_000, 10_000
    records = drawn(n, distinct)
    expected = by_lexsort(records)["row"]
    found = np.empty(n, np.uint32)
    tracemalloc.start()
    try:
        with ExternalSort(KEYED, BY, memory_bytes, tmp_path) as sort:
            for start in range(0, n, piece):
                sort.add(records[start : start + piece])
            before, blocks = 0, 0
            for block in sort.blocks():
                found[before : before + block.size] = block["row"]
                before, blocks = before + block.size, blocks + 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.array_equal(found, expected)
    assert sort.count == before == n
    assert not list(tmp_path.iterdir())
    assert peak < memory_bytes + (1 << 16)
    assert blocks > 2


def test_nothing_stays_after_a_failure_or_a_change_of_mind(tmp_path):
    def broken() -> Iterator[np.ndarray]:
        yield drawn(1000, 5)
        assert len(list(tmp_path.glob("sort-*/*"))) > 2
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(external_sort.external_sort(broken(), KEYED, BY, 10_000, tmp_path))
    assert not list(tmp_path.iterdir())

    blocks = external_sort.external_sort([drawn(1000, 5)], KEYED, BY, 10_000, tmp_path)
    next(blocks)
    assert sum(path.stat().st_size for path in tmp_path.glob("sort-*/*")) == 1000 * KEYED.itemsize
    blocks.close()
    assert not list(tmp_path.iterdir())


def test_what_fits_writes_no_file(tmp_path):
    blocks = external_sort.external_sort([drawn(100, 5)], KEYED, BY, 1 << 20, tmp_path / "never")
    assert sum(block.size for block in blocks) == 100
    assert not list(tmp_path.iterdir())
