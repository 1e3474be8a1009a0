import hashlib

import numpy as np

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.minhash import EMPTY, permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.signatures import Signatures
from tests.data_prep.dedup.corpus import clean

SHARDS = [
    {"page.warc.gz:10": "Water turns the wheel, and the wheel turns the stone.", "page.warc.gz:2": "…"},
    {},
    {"é:1": "Grüße aus der Mühle"},
]


def load(artifact, kind):
    return [np.load(path) for path in artifact.shards(kind)]


def test_arrays_of_each_shard(run_stage, tmp_path):
    stage = Signatures.of(Dedup(bands=3, rows=2, shingle_words=4, seed=9))
    artifact = run_stage(stage, {"clean": clean(tmp_path / "clean", SHARDS)}, tmp_path / "signatures")
    signatures, digests, characters, ids = (
        load(artifact, kind) for kind in ("signatures", "digests", "characters", "ids")
    )
    assert [array.shape for array in signatures] == [(2, 6), (0, 6), (1, 6)]
    assert {array.dtype for array in signatures} == {np.dtype("uint32")}
    for texts, *arrays in zip(SHARDS, signatures, digests, characters, ids, strict=True):
        for row, (name, text) in enumerate(texts.items()):
            own_signature, own_digest, own_characters, own_id = (array[row] for array in arrays)
            assert np.array_equal(own_signature, signature(shingle_hashes(text, 4), permutations(6, 9)))
            assert own_digest.tobytes() == hashlib.sha256(text.encode()).digest()
            assert own_characters == len(text)
            assert own_id == name.encode()
    assert (signatures[0][1] == EMPTY).all()
    assert artifact.counts == {"documents": 3, "shingles": 8, "without_words": 1}


def test_same_bytes_in_any_order_and_when_repeated(run_stage, tmp_path):
    inputs = {"clean": clean(tmp_path / "clean", SHARDS)}
    stage = Signatures.of(Dedup())
    one = run_stage(stage, inputs, tmp_path / "one")
    two = run_stage(stage, inputs, tmp_path / "two", backwards=True, twice=True)
    assert one.manifest == two.manifest


def test_a_new_threshold_reuses_the_signatures():
    addresses = {"clean": "0"}
    one = Signatures.of(Dedup()).address(addresses)
    assert Signatures.of(Dedup(threshold=0.5, buckets=1, window_documents=5)).address(addresses) == one
    assert Signatures.of(Dedup(seed=2)).address(addresses) != one
