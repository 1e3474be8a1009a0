"""Finds the documents of an artifact that are similar to a text, by datasketch's MinHashLSH.

    text ── min_hash ──> MinHashLSH              one entry: the text
                             │ query
    every sketch of the artifact ──> candidates ── estimate from the sketches
                                                └─ exact Jaccard similarity from the documents

The index holds only the text, and each document is a query. Sharing a band is symmetric, so the result is the same, and
memory does not grow with the number of documents.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from headrace.data_prep.dedup.minhash import min_hash, min_hashes
from headrace.data_prep.dedup.shingles import shingle_set, shingles
from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError


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

    Raises:
        ConfigError: if the signatures have only one band. datasketch's index needs two.
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
    bands, rows = settings["bands"], settings["rows"]
    if bands < 2:
        raise ConfigError("dedup.bands", f"{bands} band is too few for datasketch's index", "give 2 or more")
    sketch = min_hash(shingles(text, settings["shingle_words"]), bands * rows, settings["seed"])
    if sketch.is_empty():
        return {}
    from datasketch import MinHashLSH

    index = MinHashLSH(num_perm=bands * rows, params=(bands, rows))
    index.insert("text", sketch)
    return {name: sketch.jaccard(other) for name, other in min_hashes(signatures, shard) if index.query(other)}
