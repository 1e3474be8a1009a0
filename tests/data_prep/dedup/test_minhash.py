"""Signatures equal those of datasketch, and estimate the similarity."""

import numpy as np
import pytest
import xxhash
from datasketch import MinHash
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.dedup.minhash import EMPTY, permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes, shingles


def shingle_hash32(shingle: bytes) -> int:
    return xxhash.xxh64_intdigest(shingle) & 0xFFFFFFFF


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
