import numpy as np
import pytest

from headrace.data_prep.dedup.selection import COPY, link_dtype, links_of, removed_records, with_copies
from headrace.data_prep.shuffle.records import records_of

DESCRIBED = records_of(document=np.array([7, 3, 9], np.uint64), id=np.array([b"seven", b"three", b"nine"]))


def test_links_of_removed_documents():
    links = links_of(DESCRIBED, np.array([0, 2, 2]), np.array([1.0, 0.9, 1.0]))
    assert links.dtype == link_dtype(DESCRIBED.dtype)
    assert links.tolist() == [(3, 9, 0.9, b"nine")]


@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ([], []),
        ([(1, 9), (2, 3), (4, 8), (5, 7), (6, 3)], [(2, 9, 0.9, b"nine"), (5, 9, 0.8, b"nine"), (6, 9, 0.9, b"nine")]),
    ],
)
def test_copies_share_the_fate_of_their_representatives(copies, expected):
    """9 is kept, so its copy is an exact duplicate and needs no link here; 8 is in another component."""
    links = links_of(DESCRIBED, np.array([2, 2, 2]), np.array([0.8, 0.9, 1.0]))
    found = with_copies(links, np.array(copies, COPY))
    assert found.tolist() == [(3, 9, 0.9, b"nine"), (7, 9, 0.8, b"nine"), *expected]


def test_copies_of_kept_documents():
    links = links_of(DESCRIBED, np.arange(3), np.ones(3))
    assert with_copies(links, np.array([(1, 9)], COPY)).size == 0


def test_records_of_removed_documents():
    """Ids are as wide as the longest one, independent of the widths in the shards."""
    ids = np.array([b"nine", b"three"], "S40")
    links = records_of(
        document=np.array([5, 8], np.uint64) + np.uint64(2**32),
        survivor=np.array([9, 3], np.uint64),
        jaccard=np.array([0.9, 1.0]),
        survivor_id=ids,
    )
    removed = removed_records(links, np.array([False, True]))
    assert removed.tolist() == [(5, 9, 0.9, False, b"nine"), (8, 3, 1.0, True, b"three")]
    assert removed.dtype["survivor_id"] == "S5"
    assert removed_records(links[:0], np.empty(0, np.bool_)).dtype["survivor_id"] == "S1"
