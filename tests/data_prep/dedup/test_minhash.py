"""Equality with datasketch in both directions: equal signatures, and its objects continue ours."""

import itertools
import random

import numpy as np
import pytest
from datasketch import LeanMinHash, MinHash, MinHashLSH
from hypothesis import given
from hypothesis import strategies as st

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.minhash import EMPTY, min_hash, min_hashes, permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hash32, shingle_hashes, shingles
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.errors import ArtifactError
from tests.data_prep.dedup.corpus import clean, family

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


DEDUP = Dedup(bands=10, rows=3, shingle_words=4, seed=7)


@pytest.fixture(scope="module")
def shards():
    texts = [*family(random.Random(3), 12), "", "Grüße aus der Mühle", "one two"]
    names = [f"é:{i}" for i in range(len(texts))]
    return [dict(itertools.islice(zip(names, texts, strict=True), *bounds)) for bounds in ((0, 9), (9, 9), (9, 15))]


@pytest.fixture(scope="module")
def signatures(shards, run_stage, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sketches")
    return run_stage(Signatures.of(DEDUP), {"clean": clean(folder / "clean", shards)}, folder / "signatures")


def by_datasketch(text):
    sketch = MinHash(num_perm=30, seed=7, hashfunc=shingle_hash32)
    for shingle in shingles(text, 4):
        sketch.update(shingle)
    return sketch


def test_files_load_as_datasketchs_objects(shards, signatures):
    for number, texts in enumerate(shards):
        loaded = list(min_hashes(signatures, number))
        assert [name for name, _ in loaded] == list(texts)
        for (_, sketch), text in zip(loaded, texts.values(), strict=True):
            expected = by_datasketch(text)
            assert sketch == expected == min_hash(shingles(text, 4), 30, 7)
            assert np.array_equal(sketch.permutations, expected.permutations)
            assert sketch.is_empty() == (not text)


def test_loaded_sketches_go_on(shards, signatures):
    """Adding the shingles of a second text gives the sketch of both, and leaves the file alone."""
    (_, one), (_, two) = itertools.islice(min_hashes(signatures, 0), 2)
    first, second = itertools.islice(shards[0].values(), 2)
    both = by_datasketch(first)
    both.merge(two)
    one.update_batch(shingles(second, 4))
    assert one == both
    assert next(min_hashes(signatures, 0))[1] == by_datasketch(first)


def test_datasketchs_index_takes_them(shards, signatures):
    index = MinHashLSH(num_perm=30, params=(10, 3))
    for name, sketch in min_hashes(signatures, 0):
        index.insert(name, sketch)
    for name, text in shards[0].items():
        assert name in index.query(by_datasketch(text))


def test_a_damaged_file_is_named(shards, run_stage, tmp_path):
    artifact = run_stage(Signatures.of(DEDUP), {"clean": clean(tmp_path / "clean", shards)}, tmp_path / "signatures")
    path = tmp_path / "signatures" / "signatures" / "00002.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"00002\.npy: is damaged or missing"):
        list(min_hashes(artifact, 2))
