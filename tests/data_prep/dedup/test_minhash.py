"""Equality with datasketch in both directions: equal signatures, and its objects continue ours."""

import numpy as np
import pytest
import xxhash
from datasketch import LeanMinHash, MinHash, MinHashLSH
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.dedup.minhash import EMPTY, permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes, shingles


def shingle_hash32(shingle: bytes) -> int:
    return xxhash.xxh64_intdigest(shingle) & 0xFFFFFFFF


TEXT = "The headrace brings the water of the river to the wheel, and the tailrace takes it back to the river below."
OTHER = TEXT.replace("river below", "same river, a mile further down").replace("brings", "carries")


def ours(text, n_hashes=112, seed=1):
    return signature(shingle_hashes(text, 5), permutations(n_hashes, seed))


def theirs(text, n_hashes=112, seed=1):
    minhash = MinHash(num_perm=n_hashes, seed=seed, hashfunc=shingle_hash32)
    minhash.update_batch(shingles(text, 5))
    return minhash


def from_ours(row, seed=1):
    return MinHash(hashvalues=row, seed=seed, hashfunc=shingle_hash32, scheme="affine32")


@given(st.text(), st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_our_signature_is_datasketchs(text, n_hashes, seed):
    row = ours(text, n_hashes, seed)
    assert row.dtype == np.uint32
    assert np.array_equal(row, theirs(text, n_hashes, seed).hashvalues)


def test_our_permutations_are_datasketchs():
    assert np.array_equal(permutations(112, 1), MinHash(num_perm=112, seed=1).permutations)


def test_datasketch_compares_our_rows():
    expected = theirs(TEXT).jaccard(theirs(OTHER))
    assert 0 < expected < 1
    assert from_ours(ours(TEXT)).jaccard(theirs(OTHER)) == expected
    assert LeanMinHash(seed=1, hashvalues=ours(TEXT), scheme="affine32").jaccard(theirs(OTHER)) == expected


@given(st.text(min_size=1), st.text(min_size=1))
def test_datasketch_updates_our_rows(one, two):
    minhash = from_ours(ours(one))
    minhash.update_batch(shingles(two, 5))
    united = np.concatenate([shingle_hashes(one, 5), shingle_hashes(two, 5)])
    assert np.array_equal(minhash.hashvalues, signature(united, permutations(112, 1)))


def test_serialized_lean_minhash_is_equal():
    lean, expected = LeanMinHash(from_ours(ours(TEXT))), LeanMinHash(theirs(TEXT))
    buffers = [bytearray(one.bytesize()) for one in (lean, expected)]
    lean.serialize(buffers[0])
    expected.serialize(buffers[1])
    assert buffers[0] == buffers[1]


def test_datasketch_index_finds_our_rows():
    index = MinHashLSH(num_perm=112, params=(14, 8))
    index.insert("ours", from_ours(ours(TEXT)))
    assert index.query(theirs(TEXT)) == ["ours"]


def test_no_shingles_is_datasketchs_empty():
    row = ours("…")
    assert (row == EMPTY).all()
    assert from_ours(row).is_empty()


@pytest.mark.parametrize("seed", [1, 7])
def test_estimate_is_unbiased_on_large_sets(seed):
    """10^5 shingles, half of them common: within 4 standard deviations of J = 1/3 (2,000 hashes)."""
    hashes = np.random.default_rng(seed).integers(0, 2**64, 150_000, dtype=np.uint64)
    hashers = permutations(2000, seed)
    estimate = (signature(hashes[:100_000], hashers) == signature(hashes[50_000:], hashers)).mean()
    assert abs(estimate - 1 / 3) < 4 * (1 / 3 * 2 / 3 / 2000) ** 0.5
