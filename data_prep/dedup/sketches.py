"""Signatures as objects of datasketch, the readable reference for what the compiled kernels do.

    shingles                 ── min_hash ────>  datasketch.MinHash
    signatures/00007.npy     ── min_hashes ──>  (id, datasketch.MinHash), …      in the order of the documents

Both give equal objects for one document, so all that datasketch offers (``jaccard``, ``merge``, ``MinHashLSH``,
``MinHashLSHForest``, serialization as ``LeanMinHash``) works on finished artifacts:

    index = MinHashLSH(num_perm=112, params=(14, 8))
    for name, sketch in min_hashes(Artifact(Path("runs/signatures/b8e44e9d7440")), shard=0):
        index.insert(name, sketch)
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.data_prep.dedup.shingles import shingle_hash32
from headrace.pipeline.core.artifact import Artifact

if TYPE_CHECKING:
    from datasketch import MinHash

SCHEME = "affine32"
"""datasketch's name for the permutations of ``minhash``."""


def min_hash(shingles: Sequence[bytes], n_hashes: int, seed: int) -> "MinHash":
    """The sketch of a document with these shingles; its ``hashvalues`` are the signature, (n_hashes,) uint32."""
    sketch = _sketch(seed, num_perm=n_hashes)
    sketch.update_batch(shingles)
    return sketch


def min_hashes(signatures: Artifact, shard: int) -> Iterator[tuple[str, "MinHash"]]:
    """The id and the sketch of each document of a shard, in their order. They can be updated with more shingles.

    Args:
        signatures: an artifact of stage ``signatures``.
        shard: number of the shard.

    Raises:
        ArtifactError: when a file of the shard is damaged or missing.
    """
    seed = int(signatures.settings["seed"])
    rows = np.load(signatures.shard("signatures", shard, "npy"), mmap_mode="r")
    ids = np.load(signatures.shard("ids", shard, "npy"))
    permutations = min_hash([], rows.shape[1], seed).permutations
    for name, row in zip(ids.tolist(), rows, strict=True):
        yield name.decode(), _sketch(seed, hashvalues=row, permutations=permutations)


def _sketch(seed: int, **rest: Any) -> "MinHash":
    """The import is here for the commands that sketch nothing: SciPy, which comes with it, takes half a second."""
    from datasketch import MinHash

    return MinHash(seed=seed, hashfunc=shingle_hash32, scheme=SCHEME, **rest)
