import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.shuffle.records import equal_range, records_of, run_starts, stable_order, whole_runs
from tests.data_prep.shuffle.keyed import BY, KEYED, by_lexsort, keyed, rows


def key(record: np.ndarray) -> list[object]:
    return [record[field].tolist() for field in BY]


def test_records_of_columns():
    records = records_of(number=np.array([1, 2], np.uint32), name=np.array([b"a", b"bcd"]))
    assert records.dtype == np.dtype([("number", "<u4"), ("name", "S3")])
    assert records.tolist() == [(1, b"a"), (2, b"bcd")]
    assert records_of(number=np.empty(0, np.int64)).size == 0


@settings(max_examples=200)
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
