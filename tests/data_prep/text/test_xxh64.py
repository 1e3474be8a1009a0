import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.text.xxh64 import xxh64


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_is_that_of_the_library(data, start, length):
    """Hashes parts of the bytes, shorter and longer than a stripe of 32."""
    start = min(start, len(data))
    end = min(start + length, len(data))
    found = xxh64(np.frombuffer(data + b"?", np.uint8), start, end)
    assert int(found) == xxhash.xxh64_intdigest(data[start:end])
