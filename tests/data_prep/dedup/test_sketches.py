import itertools
import random

import numpy as np
import pytest
from datasketch import MinHash, MinHashLSH

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.shingles import shingle_hash32, shingles
from headrace.data_prep.dedup.sketches import min_hash, min_hashes
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.errors import ArtifactError
from tests.data_prep.dedup.corpus import clean, family

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
