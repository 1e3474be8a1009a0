import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.dedup.lsh import GROUP_MEMBER, band_hashes, groups, members

VALUES = st.integers(0, 2) | st.just(2**32 - 1)


@given(st.lists(st.lists(VALUES, min_size=6, max_size=6), min_size=1, max_size=8))
def test_bands_hash_alike_exactly_when_all_their_rows_are_equal(rows):
    signatures = np.array(rows, dtype=np.uint32)
    hashes = band_hashes(signatures, bands=3)
    assert hashes.shape == (len(rows), 3)
    keys = {(band, tuple(row[2 * band : 2 * band + 2])) for row in rows for band in range(3)}
    assert len(np.unique(hashes)) == len(keys)


def test_hashes_spread_over_all_64_bits():
    signatures = np.arange(80_000, dtype=np.uint32).reshape(-1, 8)
    bits = np.unpackbits(band_hashes(signatures, bands=1).view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert abs(bits - 0.5).max() < 0.03


def test_groups_are_the_documents_that_share_a_hash():
    hashes = np.array([[5, 9], [7, 9], [5, 1]], dtype=np.uint64)
    documents = np.array([30, 20, 10], dtype=np.uint64)
    records = np.sort(members(documents, hashes), order=["hash", "document"])
    assert groups(records, np.zeros(6, np.bool_)).tolist() == [(5, 10), (5, 30), (9, 20), (9, 30)]
    assert groups(records, records["document"] > 10).tolist() == [(5, 10), (5, 30)]
    none = np.empty(0, dtype=GROUP_MEMBER)
    assert groups(none, np.empty(0, np.bool_)).tolist() == []
