"""Stage ``duplicates``: which documents say what another one says already.

    phase      a task is    what it does
    digests    a shard      hands on the digest of each document                 ─┐ exact duplicates
    exact      a bucket     equal digests: the smallest id takes part in the rest ┘
    bands      a shard      hands on the hashes of the LSH bands                 ─┐ candidates
    groups     a bucket     equal band hashes: groups of candidates              ─┘
    sets       a shard      shingle sets of the documents that are in a group    ─┐ verification
    pairs      a bucket     exact Jaccard within the groups                      ─┘
    clusters   the only     union-find over the verified pairs: the longest text stays, then the smallest id
    removed    a shard      writes down the result

    pairs/00003.npy      PAIR: verified pairs of a bucket, enough of them to connect what is connected
    clusters/00007.npy   (n_docs,) uint64: number of the document that stays for each document, itself if it is kept
    removed/00007.npy    (n_removed,) REMOVED and survivor_id S…, sorted by row

Numbers of documents are dedup.numbering's. A removed document is ``exact`` when its text is the survivor's; ``jaccard``
is the exact similarity with the survivor: below the threshold where only a chain of verified pairs leads there. The set
of survivors is the same however the documents are sharded, and whatever the number of buckets.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.clusters import components, survivors
from data_prep.dedup.config import Dedup
from data_prep.dedup.lsh import band_hashes, groups, members
from data_prep.dedup.minhash import EMPTY
from data_prep.dedup.numbering import Numbers, look_up, numbers_of, rows_of, shards_of
from data_prep.dedup.pairing import verified_pairs
from data_prep.dedup.shingles import shingle_set
from data_prep.dedup.shuffle import bucket_of, receive, runs, save, send
from data_prep.dedup.verification import ShingleSets, similarities
from data_prep.document import read_documents
from pipeline.core.artifact import TaskOutput, shard_name
from pipeline.core.stage import Inputs, Phase, Stage

DIGEST = np.dtype([("digest", "S32"), ("document", "<u8")])
LINK = np.dtype([("document", "<u8"), ("survivor", "<u8")])
"""A document that goes and the one that stays for it."""
REMOVED = [("row", "<u4"), ("survivor", "<u8"), ("jaccard", "<f8"), ("exact", "|b1")]
"""The fields of removed/*.npy beside ``survivor_id``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duplicates(Stage):
    """Exact and near duplicates, and which of them stays. Fields: see ``Dedup``."""

    name: ClassVar[str] = "duplicates"
    inputs: ClassVar[tuple[str, ...]] = ("clean", "signatures")

    shingle_words: int
    bands: int
    threshold: float
    buckets: int
    window_documents: int

    @classmethod
    def of(cls, dedup: Dedup) -> "Duplicates":
        """The stage for ``dedup``."""
        return cls(
            shingle_words=dedup.shingle_words,
            bands=dedup.banding.bands,
            threshold=dedup.threshold,
            buckets=dedup.buckets,
            window_documents=dedup.window_documents,
        )

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        n_shards = shards["clean"]
        return (
            Phase("digests", n_shards, self._digests),
            Phase("exact", self.buckets, self._exact),
            Phase("bands", n_shards, self._bands),
            Phase("groups", self.buckets, self._groups),
            Phase("sets", n_shards, self._sets),
            Phase("pairs", self.buckets, self._pairs),
            Phase("clusters", 1, self._clusters),
            Phase("removed", n_shards, self._removed),
        )

    def _digests(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        digests = np.load(inputs["signatures"].shard("digests", task, "npy"))
        records = np.empty(len(digests), dtype=DIGEST)
        records["digest"] = digests.view("S32").ravel()
        records["document"] = numbers_of(task, np.arange(len(digests)))
        keys = np.ascontiguousarray(digests[:, :8]).view(">u8").ravel().astype(np.uint64)
        send(out, "digests", records, bucket_of(keys, self.buckets), self.buckets)
        return Counter(documents=len(digests))

    def _exact(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        n_shards = inputs["clean"].shard_count
        records = receive(out, "digests", n_shards, task)
        records = records[np.argsort(records["digest"], kind="stable")]
        lengths = np.diff(runs(records["digest"]))
        several = np.repeat(lengths > 1, lengths)
        group, documents = np.repeat(np.arange(lengths.size), lengths)[several], records["document"][several]
        ids = look_up(inputs["signatures"], "ids", documents)
        links = _links(documents, documents[survivors(group, np.zeros(group.size, np.uint32), ids)])
        send(out, "exact", links, shards_of(links["document"]), n_shards)
        return Counter()

    def _bands(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        signatures = np.load(inputs["signatures"].shard("signatures", task, "npy"))
        takes_part = (signatures != EMPTY).any(axis=1)
        takes_part[rows_of(receive(out, "exact", self.buckets, task)["document"])] = False
        rows = np.flatnonzero(takes_part)
        records = members(numbers_of(task, rows), band_hashes(signatures[rows], self.bands))
        send(out, "bands", records, bucket_of(records["hash"], self.buckets), self.buckets)
        return Counter()

    def _groups(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        n_shards = inputs["clean"].shard_count
        found = groups(receive(out, "bands", n_shards, task))
        with out.scratch(f"groups/{task:05d}.npy") as path:
            save(path, found)
        documents = np.unique(found["document"])
        send(out, "candidates", documents, shards_of(documents), n_shards)
        return Counter(groups=runs(found["hash"]).size - 1)

    def _sets(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        wanted = np.unique(receive(out, "candidates", self.buckets, task))
        rows = set(rows_of(wanted).tolist())
        documents = enumerate(read_documents(inputs["clean"].shard("documents", task, "jsonl.zst")))
        sets = [shingle_set(document.text, self.shingle_words) for row, document in documents if row in rows]
        ShingleSets.of(wanted, sets).write(out)
        return Counter(candidates=wanted.size)

    def _pairs(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        found = np.load(out.scratch_path(f"groups/{task:05d}.npy"))
        pairs, compared = verified_pairs(out, inputs["signatures"], found, self.threshold, self.window_documents)
        with out.shard("pairs", "npy") as path:
            save(path, pairs)
        return Counter(pairs_compared=compared, pairs_verified=len(pairs))

    def _clusters(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        parts = [np.load(out.folder / shard_name("pairs", bucket, "npy")) for bucket in range(self.buckets)]
        pairs = np.concatenate(parts)
        documents, nodes = np.unique(np.stack([pairs["first"], pairs["second"]]), return_inverse=True)
        first, second = nodes.reshape(2, -1)
        component = components(documents.size, first, second)
        characters = look_up(inputs["signatures"], "characters", documents)
        ids = look_up(inputs["signatures"], "ids", documents)
        links = _links(documents, documents[survivors(component, characters, ids)])
        for name in ("document", "survivor"):
            with out.scratch(f"near-{name}.npy") as path:
                save(path, np.ascontiguousarray(links[name]))
        return Counter(near_clusters=np.unique(component).size)

    def _removed(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        documents, representatives, stays = _removals(out, task, receive(out, "exact", self.buckets, task))
        exact = representatives == stays
        ids = look_up(inputs["signatures"], "ids", stays)
        removed = np.ones(documents.size, dtype=[*REMOVED, ("survivor_id", ids.dtype)])
        removed["row"], removed["survivor"], removed["survivor_id"] = rows_of(documents), stays, ids
        removed["exact"] = exact
        removed["jaccard"][~exact] = similarities(out, representatives[~exact], stays[~exact])
        clusters = numbers_of(task, np.arange(len(np.load(inputs["signatures"].shard("characters", task, "npy")))))
        clusters[removed["row"]] = stays
        for kind, array in (("removed", removed), ("clusters", clusters)):
            with out.shard(kind, "npy") as path:
                save(path, array)
        chained = int((removed["jaccard"] < self.threshold).sum())
        return Counter(removed_exact=int(exact.sum()), removed_near=int((~exact).sum()), removed_through_chain=chained)


def _links(documents: Numbers, stays: Numbers) -> NDArray[np.void]:
    """A LINK for each document that does not stay itself."""
    goes = documents != stays
    links = np.empty(int(goes.sum()), dtype=LINK)
    links["document"], links["survivor"] = documents[goes], stays[goes]
    return links


def _removals(out: TaskOutput, shard: int, exact: NDArray[np.void]) -> tuple[Numbers, Numbers, Numbers]:
    """The documents of ``shard`` that go, sorted: their numbers, representatives and survivors.

    A document's representative is the one with the same text that took part in the search for near duplicates: itself
    unless ``exact`` links it to another. Where that one goes too, its survivor is the document's.
    """
    documents, survivor = (np.load(out.scratch_path(f"near-{name}.npy"), mmap_mode="r") for name in LINK.names or ())
    first, last = np.searchsorted(documents, numbers_of(shard, np.array([0, 2**32 - 1])))
    places = np.searchsorted(documents, exact["survivor"])
    goes_too = places < documents.size
    goes_too[goes_too] = documents[places[goes_too]] == exact["survivor"][goes_too]
    exact_stays = exact["survivor"].copy()
    exact_stays[goes_too] = survivor[places[goes_too]]
    numbers = np.concatenate([documents[first:last], exact["document"]])
    representatives = np.concatenate([documents[first:last], exact["survivor"]])
    stays = np.concatenate([survivor[first:last], exact_stays])
    order = np.argsort(numbers, kind="stable")
    return numbers[order], representatives[order], stays[order]
