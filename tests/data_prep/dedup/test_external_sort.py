"""External sort against np.lexsort, with memory for one record, for a few, and for all."""

import itertools
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.dedup import external_sort
from data_prep.dedup.external_sort import ExternalSort, equal_range, run_starts, stable_order, whole_runs

KEYED = np.dtype([("words", "<u8", (2,)), ("text", "S3"), ("signed", "<i4"), ("row", "<u4")])
BY = ("words", "text", "signed")

words = st.sampled_from([0, 1, 2**63, 2**64 - 1])
rows = st.lists(
    st.tuples(words, words, st.sampled_from([b"", b"a", b"a\0b", b"\xff"]), st.integers(-2, 2)), max_size=40
)


def keyed(values: list[tuple[int, int, bytes, int]]) -> np.ndarray:
    records = np.empty(len(values), KEYED)
    for row, (first, second, text, signed) in enumerate(values):
        records[row] = (first, second), text, signed, row
    return records


def by_lexsort(records: np.ndarray) -> np.ndarray:
    first, second = records["words"].T
    return records[np.lexsort((records["signed"], records["text"], second, first))]


def key(record: np.ndarray) -> list[object]:
    return [record[field].tolist() for field in BY]


@settings(deadline=None, max_examples=200)
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


@settings(deadline=None, max_examples=200)
@given(rows, st.lists(st.integers(0, 40), max_size=9))
def test_whole_runs_are_whole(values, cuts):
    records = by_lexsort(keyed(values))
    pieces = np.split(records, sorted(min(cut, len(records)) for cut in cuts))
    found = list(whole_runs([piece for piece in pieces if piece.size], BY))
    assert np.concatenate([np.empty(0, KEYED), *found]).tobytes() == records.tobytes()
    for one, two in itertools.pairwise(found):
        assert key(one[-1]) != key(two[0])


@given(rows)
def test_stable_order_run_starts_and_equal_range(values):
    records = keyed(values)
    ordered = records[stable_order(records, BY)]
    assert ordered.tobytes() == by_lexsort(records).tobytes()
    starts = run_starts(ordered, BY)
    assert starts.tolist() == [i == 0 or key(ordered[i]) != key(ordered[i - 1]) for i in range(len(ordered))]
    for record in ordered:
        low, high = equal_range(ordered, BY, (*record["words"], record["text"], record["signed"]))
        assert [key(one) == key(record) for one in ordered] == [low <= i < high for i in range(len(ordered))]


def drawn(n: int, distinct: int) -> np.ndarray:
    generator = np.random.default_rng(0)
    records = np.empty(n, KEYED)
    records["words"] = generator.integers(0, distinct, (n, 2))
    records["text"] = generator.integers(0, distinct, n).astype("S3")
    records["signed"] = generator.integers(0, distinct, n)
    records["row"] = np.arange(n)
    return records


@pytest.mark.parametrize("distinct", [1, 2, 2**31 - 1])
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
    assert found.tolist() == expected.tolist()
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
