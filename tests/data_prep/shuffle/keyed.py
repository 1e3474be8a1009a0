"""Records to sort, with keys of every kind, and their order by ``np.lexsort``."""

import numpy as np
from hypothesis import strategies as st

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
