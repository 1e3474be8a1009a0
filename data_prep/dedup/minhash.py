"""MinHash signatures, bit for bit those of datasketch 2.0's default scheme, "affine32".

    shingle hashes (n,) ── fmix32 ── a[k]·h + b[k] mod 2^32 ── minimum over n ──> signature (n_hashes,) uint32

Formula (read in datasketch 2.0.0, minhash.py: ``_init_permutations``, ``_fmix`` and ``update_batch``):

    generator = numpy.random.RandomState(seed)
    a = generator.randint(0, 2^31, n_hashes, uint32) · 2 + 1          odd, so that h -> a·h + b is a bijection
    b = generator.randint(0, 2^32, n_hashes, uint32)
    h = fmix32(the low 32 bits of the shingle's hash)                 MurmurHash3's finalizer
    signature[k] = min over shingles of (a[k]·h + b[k]) mod 2^32      2^32 - 1 everywhere when there is no shingle

The share of equal values in two signatures estimates the Jaccard similarity of the two sets of shingles (Broder, On the
resemblance and containment of documents, 1997).

``signature`` is the compiled kernel. ``min_hash`` computes the same with datasketch, as readable reference, and
``min_hashes`` loads the signatures of an artifact as datasketch objects. Both give equal objects for one document, so
all functions of datasketch (``jaccard``, ``merge``, ``MinHashLSH``, ``MinHashLSHForest``, serialization as
``LeanMinHash``) work on finished artifacts:

    index = MinHashLSH(num_perm=112, params=(14, 8))
    for name, sketch in min_hashes(Artifact(Path("runs/signatures/b8e44e9d7440")), shard=0):
        index.insert(name, sketch)
"""

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.shingles import shingle_hash32
from headrace.data_prep.kernel import kernel
from headrace.pipeline.core.artifact import Artifact

if TYPE_CHECKING:
    from datasketch import MinHash

EMPTY = 0xFFFFFFFF
"""Every value of the signature of a document without words."""

SCHEME = "affine32"
"""datasketch's name for these permutations."""


def permutations(n_hashes: int, seed: int) -> NDArray[np.uint32]:
    """Returns the multipliers a and the offsets b: (2, n_hashes) uint32."""
    generator = np.random.RandomState(seed)
    a = generator.randint(0, 1 << 31, n_hashes, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    b = generator.randint(0, 1 << 32, n_hashes, dtype=np.uint32)
    return np.array([a, b])


def signature(hashes: NDArray[np.uint64], permutations: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Returns the signature (n_hashes,) uint32 of a document with the shingle hashes (n_shingles,) uint64."""
    minima = np.full(permutations.shape[1], EMPTY, dtype=np.uint32)
    _lower(minima, hashes, permutations[0], permutations[1])
    return minima


@kernel
def _lower(
    minima: NDArray[np.uint32], hashes: NDArray[np.uint64], a: NDArray[np.uint32], b: NDArray[np.uint32]
) -> None:  # pragma: no cover (compiled)
    for hash64 in hashes:
        h = _fmix32(np.uint32(hash64 & np.uint64(0xFFFFFFFF)))
        for k in range(minima.size):
            minima[k] = min(minima[k], np.uint32(a[k] * h + b[k]))


@kernel
def _fmix32(h: np.uint32) -> np.uint32:  # pragma: no cover (compiled)
    h = np.uint32(h ^ (h >> np.uint32(16)))
    h = np.uint32(h * np.uint32(0x85EBCA6B))
    h = np.uint32(h ^ (h >> np.uint32(13)))
    h = np.uint32(h * np.uint32(0xC2B2AE35))
    return np.uint32(h ^ (h >> np.uint32(16)))


def min_hash(shingles: Sequence[bytes], n_hashes: int, seed: int) -> "MinHash":
    """Returns the datasketch object of a document. Its ``hashvalues`` are the signature, (n_hashes,) uint32."""
    sketch = _empty(n_hashes, seed).copy()
    sketch.update_batch(shingles)
    return sketch


@functools.lru_cache(maxsize=8)
def _empty(n_hashes: int, seed: int) -> "MinHash":
    """Returns the datasketch object of a document without words. Its copies share the permutations."""
    return _sketch(seed, num_perm=n_hashes)


def min_hashes(signatures: Artifact, shard: int) -> Iterator[tuple[str, "MinHash"]]:
    """Yields id and datasketch object of each document of a shard, in order. More shingles can be added to an object.

    Args:
        signatures: an artifact of stage ``signatures``.
        shard: number of the shard.

    Raises:
        ArtifactError: if a file of the shard is damaged or missing.
    """
    seed = int(signatures.settings["seed"])
    rows = np.load(signatures.shard("signatures", shard, "npy"), mmap_mode="r")
    ids = np.load(signatures.shard("ids", shard, "npy"))
    permutations = min_hash([], rows.shape[1], seed).permutations
    for name, row in zip(ids.tolist(), rows, strict=True):
        yield name.decode(), _sketch(seed, hashvalues=row, permutations=permutations)


def _sketch(seed: int, **rest: Any) -> "MinHash":
    """Makes a datasketch object. The import is local because datasketch loads SciPy, which takes half a second."""
    from datasketch import MinHash

    return MinHash(seed=seed, hashfunc=shingle_hash32, scheme=SCHEME, **rest)
