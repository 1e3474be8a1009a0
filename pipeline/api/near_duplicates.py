"""Near duplicates among texts in memory, by the parts of the stages ``signatures`` and ``duplicates``.

texts by priority ── equal ones ──> distinct ── bands ──> groups ── Jaccard ──> components ── selection ──> links
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.clusters import components
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.corpus import digest_prefixes
from headrace.data_prep.dedup.lsh import band_hashes, groups, members
from headrace.data_prep.dedup.minhash import EMPTY, permutations, signature
from headrace.data_prep.dedup.selection import KEPT, select_all
from headrace.data_prep.dedup.shingles import shingle_hashes, shingle_set
from headrace.data_prep.dedup.verification import GROUPED, verify
from headrace.data_prep.document import digest_of
from headrace.data_prep.shuffle.records import records_of, run_bounds, stable_order
from headrace.pipeline.api.verdict import text_of_caller, texts_of_caller
from headrace.pipeline.core.settings import decode_within


class Duplicate(NamedTuple):
    """A text to remove: ``texts[removed]``, the copy ``texts[kept]`` that stays for it, and their ``similarity``."""

    removed: int
    kept: int
    similarity: float


def near_duplicates(
    texts: Iterable[str],
    threshold: float = 0.8,
    *,
    bands: int = 14,
    rows: int = 8,
    shingle_words: int = 5,
    seed: int = 1,
) -> list[Duplicate]:
    """Returns the exact and near duplicates among ``texts``, each with the copy that stays and their exact similarity.

        removed = {duplicate.removed for duplicate in headrace.near_duplicates(texts)}

    The longest of similar texts stays, of equally long ones the first. A text is removed only for a kept one that is
    equal to it (similarity 1) or reaches ``threshold``, the Jaccard similarity of the sets of ``shingle_words`` words.
    Texts are compared that agree in one of ``bands`` of ``rows`` hashes: with the defaults, FineWeb's, 92 % of pairs of
    similarity 0.8, 99.96 % of 0.9. ``seed`` is that of datasketch's ``MinHash``. Memory holds the texts, ``4 · bands ·
    rows`` bytes for each, and the shingles of those that are compared.
    """
    values = {"threshold": threshold, "bands": bands, "rows": rows, "shingle_words": shingle_words, "seed": seed}
    dedup = decode_within(Dedup, values, "near_duplicates")
    held = texts_of_caller("near_duplicates", texts)
    first = dict[str, int]()
    for index in sorted(range(len(held)), key=lambda index: -len(held[index])):
        first.setdefault(held[index], index)
    distinct = [*first]
    links = {distinct[copy]: (first[distinct[kept]], value) for copy, kept, value in _similar(distinct, dedup)}
    survivors = (Duplicate(index, *links.get(text, (first[text], 1.0))) for index, text in enumerate(held))
    return [link for link in survivors if link.removed != link.kept]


def _similar(texts: Sequence[str], dedup: Dedup) -> Iterator[tuple[int, int, float]]:
    """Yields each of ``texts``, distinct and by priority, that is to remove, the one that stays for it, and their
    similarity."""
    hashed = _signatures(texts, dedup)
    taking_part = np.flatnonzero((hashed != EMPTY).any(axis=1))
    banded = members(taking_part.astype(np.uint64), band_hashes(hashed[taking_part], dedup.banding.bands))
    banded = banded[stable_order(banded, ("hash", "document"))]
    grouped = groups(banded, np.zeros(banded.size, np.bool_))
    candidates, nodes = np.unique(grouped["document"].astype(np.int64), return_inverse=True)
    sets = [shingle_set(texts[index], dedup.shingle_words) for index in candidates.tolist()]
    sizes, hashes = (
        np.array([hashes.size for hashes in sets], np.int64),
        np.concatenate([np.empty(0, np.uint64), *sets]),
    )
    bounds, numbers = np.cumsum([0, *sizes]), np.arange(candidates.size)
    digests = np.frombuffer(b"".join(digest_of(texts[index]) for index in candidates.tolist()), np.uint8)
    prefixes = digest_prefixes(digests.reshape(-1, 32))
    compared = records_of(hash=grouped["hash"], shingles=sizes[nodes], digest=prefixes[nodes], node=nodes)
    compared = compared[stable_order(compared, GROUPED)]
    edges, indices = run_bounds(compared["hash"]), np.ascontiguousarray(compared["node"])
    pieces, none_older = np.stack([edges[:-1], edges[1:], edges[1:]], axis=1), np.zeros(candidates.size, np.bool_)
    similar = verify(
        pieces, indices, bounds, hashes, numbers.copy(), numbers, none_older, dedup.threshold, dedup.window_documents
    )
    roots = components(candidates.size, *similar[:2])
    order = np.argsort(roots, kind="stable")
    survivors, similarity, _ = select_all(run_bounds(roots[order]), order, bounds, hashes, none_older, dedup.threshold)
    for copy in np.flatnonzero(survivors != KEPT).tolist():
        yield int(candidates[order[copy]]), int(candidates[order[survivors[copy]]]), float(similarity[copy])


def signatures(
    texts: Iterable[str], *, bands: int = 14, rows: int = 8, shingle_words: int = 5, seed: int = 1
) -> NDArray[np.uint32]:
    """Returns the MinHash signatures of ``texts``, (n, bands · rows) uint32, bit for bit those of datasketch 2.0.

    The share of equal values in two rows estimates the Jaccard similarity of the two texts' sets of shingles. The
    arguments are those of ``near_duplicates``. An iterator is read one text after the other, and none is kept.
    """
    values = {"bands": bands, "rows": rows, "shingle_words": shingle_words, "seed": seed}
    dedup = decode_within(Dedup, values, "signatures")
    held = texts_of_caller("signatures", texts) if isinstance(texts, str | bytes) else texts
    return _signatures((text_of_caller("signatures", text) for text in held), dedup)


def _signatures(texts: Iterable[str], dedup: Dedup) -> NDArray[np.uint32]:
    hashes = dedup.banding.hashes
    hashers = permutations(hashes, dedup.seed)
    rows = [signature(shingle_hashes(text, dedup.shingle_words), hashers) for text in texts]
    return np.array(rows, np.uint32).reshape(-1, hashes)
