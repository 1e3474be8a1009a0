from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.dedup.verification import jaccard
from tests.data_prep.dedup.sets import as_array, slow


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30), min_size=1), st.floats(0, 1))
def test_jaccard(one, two, least):
    value, expected = jaccard(as_array(one), as_array(two), least), slow(one, two)
    assert value == expected or (value == -1 and expected < least)
    assert jaccard(as_array(one), as_array(two), 0.0) == expected
