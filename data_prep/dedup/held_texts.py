"""Duplicates among texts that memory holds, by the parts of the stage ``duplicates``, without a file.

texts ── SHA-256 ──> one of equal texts ── bands ──> groups ── Jaccard ──> components ── selection ──> links
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.clusters import components
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.corpus import BY_PRIORITY, FIRST_OF_OURS, digest_prefixes
from headrace.data_prep.dedup.lsh import band_hashes, groups, members
from headrace.data_prep.dedup.minhash import EMPTY, permutations, signature
from headrace.data_prep.dedup.selection import COPY, KEPT, decisive, links_of, select_all, with_copies
from headrace.data_prep.dedup.shingles import shingle_hashes, shingle_set
from headrace.data_prep.dedup.verification import GROUPED, verify
from headrace.data_prep.document import digest_of
from headrace.data_prep.shuffle.records import Records, records_of, run_bounds, stable_order


def signatures_of(texts: Iterable[str], dedup: Dedup) -> NDArray[np.uint32]:
    """Returns the MinHash signatures of ``texts``: (n, bands · rows)."""
    hashes = dedup.banding.hashes
    hashers = permutations(hashes, dedup.seed)
    rows = [signature(shingle_hashes(text, dedup.shingle_words), hashers) for text in texts]
    return np.array(rows, np.uint32).reshape(-1, hashes)


def links_among(texts: Sequence[str], dedup: Dedup, ids: Sequence[str] | None = None) -> Records:
    """Returns a link for each text to remove, sorted by its index: ``document`` and ``survivor`` are indices of
    ``texts``. Of equal priority, the text with the smallest of ``ids`` stays; without them, the first."""
    digests = np.frombuffer(b"".join(map(digest_of, texts)), np.uint8).reshape(-1, 32)
    names = [identity.encode() for identity in ids] if ids is not None else [b""] * len(texts)
    described = records_of(
        digest=digests.view("S32").ravel(),
        precedence=np.uint64(FIRST_OF_OURS + 2**32 - 1) - np.array([len(text) for text in texts], np.uint64),
        id=np.array(names, f"S{max(map(len, names), default=0) or 1}"),
        document=np.arange(len(texts), dtype=np.uint64),
    )
    ordered = described[stable_order(described, ("digest", *BY_PRIORITY))]
    bounds = run_bounds(ordered["digest"])
    equal = links_of(ordered, np.repeat(bounds[:-1], np.diff(bounds)), np.ones(ordered.size))
    copies = np.empty(equal.size, COPY)
    copies["document"], copies["representative"] = equal["document"], equal["survivor"]
    near = _near_links(texts, dedup, described, np.setdiff1d(described["document"], equal["document"]))
    return decisive(with_copies(near, copies), equal)[0]


def _near_links(texts: Sequence[str], dedup: Dedup, described: Records, distinct: NDArray[np.uint64]) -> Records:
    """Returns the links of near duplicates among the ``distinct`` texts."""
    signatures = signatures_of((texts[index] for index in distinct.tolist()), dedup)
    has_words = (signatures != EMPTY).any(axis=1)
    banded = members(distinct[has_words], band_hashes(signatures[has_words], dedup.banding.bands))
    banded = banded[stable_order(banded, ("hash", "document"))]
    grouped = groups(banded, np.zeros(banded.size, np.bool_))
    candidates, nodes = np.unique(grouped["document"], return_inverse=True)
    sets = [shingle_set(texts[index], dedup.shingle_words) for index in candidates.tolist()]
    sizes = np.array([own.size for own in sets], np.int64)
    bounds = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    hashes, none_older = np.concatenate([np.empty(0, np.uint64), *sets]), np.zeros(candidates.size, np.bool_)
    own = described[candidates]
    prefixes = digest_prefixes(np.ascontiguousarray(own["digest"]).view(np.uint8).reshape(-1, 32))
    compared = records_of(hash=grouped["hash"], shingles=sizes[nodes], digest=prefixes[nodes], node=nodes)
    compared = compared[stable_order(compared, GROUPED)]
    edges, numbers = run_bounds(compared["hash"]), np.arange(candidates.size)
    first, second, _, _ = verify(
        np.stack([edges[:-1], edges[1:], edges[1:]], axis=1),
        np.ascontiguousarray(compared["node"]),
        bounds,
        hashes,
        numbers.copy(),
        numbers,
        none_older,
        dedup.threshold,
        dedup.window_documents,
    )
    rooted = records_of(root=components(candidates.size, first, second), **{name: own[name] for name in BY_PRIORITY})
    order = stable_order(rooted, ("root", *BY_PRIORITY))
    starts = run_bounds(rooted["root"][order])
    survivors, similarity, _ = select_all(starts, order, bounds, hashes, none_older, dedup.threshold)
    return links_of(rooted[order], np.where(survivors == KEPT, numbers, survivors), similarity)
