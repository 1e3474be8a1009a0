"""Finds the documents of an artifact that are similar to a text.

    text ── signature ──┐
    signatures/NNNNN.npy ──> a band is equal: candidates ── estimate from the signatures
                                                         └─ exact Jaccard similarity from the documents

Memory: the equality of each hash of a shard, one byte each.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes, shingle_set
from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact


@dataclasses.dataclass(frozen=True)
class Match:
    """A document that shares a band with the text."""

    id: str
    estimate: float
    """Share of equal hashes in the two signatures, an estimate of the Jaccard similarity."""
    jaccard: float
    """Exact Jaccard similarity of the two sets of shingles."""


def similar(text: str, signatures: Artifact, clean: Artifact) -> list[Match]:
    """Returns the documents that share a band with ``text``, the most similar first, then by id; none without words.

    Args:
        text: the text to compare with.
        signatures: an artifact of stage ``signatures``. Its settings define shingles and bands.
        clean: the artifact of stage ``clean`` from which it was made.
    """
    matches = (match for shard in range(signatures.shard_count) for match in _matches(text, signatures, clean, shard))
    return sorted(matches, key=lambda match: (-match.jaccard, -match.estimate, match.id))


def _matches(text: str, signatures: Artifact, clean: Artifact, shard: int) -> Iterator[Match]:
    settings = signatures.settings
    wanted = shingle_set(text, settings["shingle_words"])
    candidates = _candidates(text, signatures, shard)
    if not candidates:
        return
    for document in read_documents(clean.shard("documents", shard, "jsonl.zst")):
        if document.id in candidates:
            own = shingle_set(document.text, settings["shingle_words"])
            common = np.intersect1d(wanted, own, assume_unique=True).size
            yield Match(document.id, candidates[document.id], common / (wanted.size + own.size - common))


def _candidates(text: str, signatures: Artifact, shard: int) -> dict[str, float]:
    """Returns id → estimated similarity of the documents of ``shard`` that share a band with ``text``."""
    settings = signatures.settings
    hashes = shingle_hashes(text, settings["shingle_words"])
    if not hashes.size:
        return {}
    others = np.load(signatures.shard("signatures", shard, "npy"), mmap_mode="r")
    ids = np.load(signatures.shard("ids", shard, "npy"))
    is_equal = others == signature(hashes, permutations(others.shape[1], settings["seed"]))
    shares = is_equal.reshape(len(others), settings["bands"], settings["rows"]).all(axis=2).any(axis=1)
    return {ids[row].decode(): float(is_equal[row].mean()) for row in np.flatnonzero(shares)}
