"""Stage ``duplicates``: which documents say what another one says already.

    phase        a task is    what it does
    digests      a shard *    hands on the digest of each document                 ─┐ exact duplicates
    exact        a bucket     equal digests: the smallest id takes part in the rest ┘
    bands        a shard *    hands on the hashes of the LSH bands                 ─┐ candidates
    groups       a bucket     equal band hashes: groups of candidates              ─┘
    sets         a shard *    shingle sets of the documents that are in a group    ─┐ verification
    pairs        a bucket     exact Jaccard within the groups                      ─┘
    stars_1, _2  a bucket     brings each document near the root of its component  ─┐ connected components
    roots        a bucket     provisional roots, and the few edges that are left    │
    components   a bucket     final roots; hands on the members of each component  ─┘
    survivors    a bucket     whole components: who stays, by exact Jaccard
    removed      a shard      writes down the result

    * also of the older runs that ``dedup.against`` names, behind this run's shards (see dedup.corpus)

    pairs/00003.npy      PAIR: verified pairs of a bucket, enough of them to connect what is connected
    clusters/00007.npy   (n_docs,) uint64: number of the document that stays for each document, itself if it is kept
    removed/00007.npy    (n_removed,) REMOVED and survivor_id S…, sorted by row

Numbers of documents are dedup.numbering's. Documents stay by priority: those of older runs, then the longest text, then
the smallest id (by UTF-8 bytes). Each stays unless one of higher priority that stays is equal or has exact Jaccard
similarity ≥ threshold with it; the most similar of those is its survivor (see dedup.selection). So every removed
document has a verified survivor, and a chain a ~ b ~ c removes only b. The result is the same however the documents are
sharded, and whatever the number of buckets.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.clusters import contract, roots_of, settle, star_edges
from data_prep.dedup.config import Dedup
from data_prep.dedup.corpus import Corpus, Older
from data_prep.dedup.lsh import band_hashes, groups, members, mix
from data_prep.dedup.minhash import EMPTY
from data_prep.dedup.numbering import Numbers, numbers_of, rows_of, shards_of
from data_prep.dedup.pairing import verified_pairs
from data_prep.dedup.selection import STAYS, select
from data_prep.dedup.shingles import shingle_set
from data_prep.dedup.shuffle import bucket_of, receive, runs, save, send
from data_prep.dedup.verification import ShingleSets
from data_prep.document import read_documents
from data_prep.signatures import Signatures
from pipeline.core.artifact import TaskOutput
from pipeline.core.stage import Inputs, Phase, Stage

DIGEST = np.dtype([("digest", "S32"), ("document", "<u8")])
LINK = np.dtype([("document", "<u8"), ("survivor", "<u8"), ("jaccard", "<f8")])
"""A document that goes, the one that stays for it and their similarity."""
REMOVED = [("row", "<u4"), ("survivor", "<u8"), ("jaccard", "<f8"), ("exact", "|b1")]
"""The fields of removed/*.npy beside ``survivor_id``."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duplicates(Stage):
    """Exact and near duplicates, and which of them stays. Fields: see ``Dedup``."""

    name: ClassVar[str] = "duplicates"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[str, ...]] = ("clean", "signatures")

    shingle_words: int
    bands: int
    threshold: float
    buckets: int
    window_documents: int
    against: tuple[Older, ...] = ()

    @classmethod
    def of(cls, dedup: Dedup) -> "Duplicates":
        """The stage for ``dedup``.

        Raises:
            ConfigError, ArtifactError: when an older run cannot be used (see ``Older.at``).
        """
        return cls(
            shingle_words=dedup.shingle_words,
            bands=dedup.banding.bands,
            threshold=dedup.threshold,
            buckets=dedup.buckets,
            window_documents=dedup.window_documents,
            against=tuple(Older.at(folder, Signatures.of(dedup)) for folder in dedup.against),
        )

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        own_shards = shards["clean"]
        all_shards = own_shards + sum(older.shards for older in self.against)
        return (
            Phase("digests", all_shards, self._digests),
            Phase("exact", self.buckets, self._exact),
            Phase("bands", all_shards, self._bands),
            Phase("groups", self.buckets, self._groups),
            Phase("sets", all_shards, self._sets),
            Phase("pairs", self.buckets, self._pairs),
            Phase("stars_1", self.buckets, partial(self._stars, "pairs")),
            Phase("stars_2", self.buckets, partial(self._stars, "stars_1")),
            Phase("roots", self.buckets, self._roots),
            Phase("components", self.buckets, self._components),
            Phase("survivors", self.buckets, self._survivors),
            Phase("removed", own_shards, self._removed),
        )

    def _digests(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        rows = corpus.rows(task)
        digests = corpus.array("digests", task)[rows]
        records = np.empty(rows.size, dtype=DIGEST)
        records["digest"] = digests.view("S32").ravel()
        records["document"] = numbers_of(task, rows)
        keys = np.ascontiguousarray(digests[:, :8]).view(">u8").ravel().astype(np.uint64)
        send(out, "digests", records, bucket_of(keys, self.buckets), self.buckets)
        return Counter({"documents" if task < corpus.n_own_shards else "older_documents": rows.size})

    def _exact(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        records = receive(out, "digests", corpus.n_shards, task)
        records = records[np.argsort(records["digest"], kind="stable")]
        lengths = np.diff(runs(records["digest"]))
        several = np.repeat(lengths > 1, lengths)
        group, documents = np.repeat(np.arange(lengths.size), lengths)[several], records["document"][several]
        documents = documents[_by_priority(corpus, group, documents)]
        bounds = runs(group)
        links = _links(documents, np.repeat(documents[bounds[:-1]], np.diff(bounds)), np.ones(documents.size))
        send(out, "exact", links, shards_of(links["document"]), corpus.n_shards)
        send(out, "copies", links, shards_of(links["survivor"]), corpus.n_shards)
        return Counter()

    def _bands(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        signatures, rows = corpus.array("signatures", task), corpus.rows(task)
        takes_part = np.zeros(len(signatures), np.bool_)
        takes_part[rows] = (signatures[rows] != EMPTY).any(axis=1)
        takes_part[rows_of(receive(out, "exact", self.buckets, task)["document"])] = False
        rows = np.flatnonzero(takes_part)
        records = members(numbers_of(task, rows), band_hashes(signatures[rows], self.bands))
        send(out, "bands", records, bucket_of(records["hash"], self.buckets), self.buckets)
        return Counter()

    def _groups(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        records = receive(out, "bands", corpus.n_shards, task)
        found = groups(records, corpus.is_older(records["document"]))
        with out.scratch(f"groups/{task:05d}.npy") as path:
            save(path, found)
        documents = np.unique(found["document"])
        send(out, "candidates", documents, shards_of(documents), corpus.n_shards)
        return Counter(groups=runs(found["hash"]).size - 1)

    def _sets(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        wanted = np.unique(receive(out, "candidates", self.buckets, task))
        rows = set(rows_of(wanted).tolist())
        documents = enumerate(read_documents(Corpus(inputs, self.against).texts(task)))
        sets = [shingle_set(document.text, self.shingle_words) for row, document in documents if row in rows]
        ShingleSets.of(wanted, sets).write(out)
        copies = receive(out, "copies", self.buckets, task)
        copies = copies[np.isin(copies["survivor"], wanted)]
        with out.scratch(f"sets/{task:05d}-copies.npy") as path:
            save(path, copies[np.argsort(copies["survivor"], kind="stable")])
        return Counter(candidates=wanted.size)

    def _pairs(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        found = np.load(out.scratch_path(f"groups/{task:05d}.npy"))
        corpus = Corpus(inputs, self.against)
        pairs, compared = verified_pairs(out, corpus, found, self.threshold, self.window_documents)
        with out.shard("pairs", "npy") as path:
            save(path, pairs)
        self._send_edges(out, star_edges(pairs["first"], pairs["second"]))
        return Counter(pairs_compared=compared, pairs_verified=len(pairs))

    def _stars(self, before: str, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        self._send_edges(out, contract(receive(out, f"edges-{before}", self.buckets, task)))
        return Counter()

    def _roots(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        roots, left = settle(receive(out, "edges-stars_2", self.buckets, task))
        for kind, edges in (("roots", roots), ("left", left)):
            with out.scratch(f"{kind}/{task:05d}.npy") as path:
                save(path, edges)
        return Counter(unsettled_edges=len(left))

    def _components(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        members = np.load(out.scratch_path(f"roots/{task:05d}.npy"))
        left = [np.load(out.scratch_path(f"left/{bucket:05d}.npy")) for bucket in range(self.buckets)]
        members["neighbour"] = roots_of(members["neighbour"], np.concatenate(left))
        send(out, "members", members, bucket_of(mix(members["neighbour"]), self.buckets), self.buckets)
        return Counter()

    def _survivors(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        members = receive(out, "members", self.buckets, task)
        members = members[_by_priority(corpus, members["neighbour"], members["node"])]
        documents, roots = members["node"], members["neighbour"]
        places, similarity, compared = select(out, roots, documents, corpus.is_older(documents), self.threshold)
        links = _links(documents, np.where(places == STAYS, documents, documents[places]), similarity)
        links = _with_copies(out, links)
        send(out, "near", links, shards_of(links["document"]), corpus.n_own_shards)
        return Counter(components=np.unique(roots).size, survivors_compared=compared)

    def _removed(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        near, equal = (receive(out, name, self.buckets, task) for name in ("near", "exact"))
        documents, first = np.unique(np.concatenate([near["document"], equal["document"]]), return_index=True)
        links = np.concatenate([near, equal])[first]
        ids = corpus.look_up("ids", links["survivor"])
        removed = np.empty(documents.size, dtype=[*REMOVED, ("survivor_id", ids.dtype)])
        removed["row"], removed["exact"], removed["survivor_id"] = rows_of(documents), first >= near.size, ids
        removed["survivor"], removed["jaccard"] = links["survivor"], links["jaccard"]
        clusters = numbers_of(task, np.arange(len(corpus.array("characters", task))))
        clusters[removed["row"]] = removed["survivor"]
        for kind, array in (("removed", removed), ("clusters", clusters)):
            with out.shard(kind, "npy") as path:
                save(path, array)
        n_exact, n_older = int(removed["exact"].sum()), int(corpus.is_older(removed["survivor"]).sum())
        return Counter(removed_exact=n_exact, removed_near=len(removed) - n_exact, removed_for_older=n_older)

    def _send_edges(self, out: TaskOutput, edges: NDArray[np.void]) -> None:
        """Hand ``edges`` to the buckets of their nodes."""
        send(out, f"edges-{out.phase}", edges, bucket_of(mix(edges["node"]), self.buckets), self.buckets)


def _by_priority(corpus: Corpus, group: NDArray[np.integer], documents: Numbers) -> NDArray[np.int64]:
    """The order by group, and in each: older runs' documents, then the longest text, then the smallest id."""
    characters = corpus.look_up("characters", documents).astype(np.int64)
    ids = corpus.look_up("ids", documents)
    return np.lexsort((documents, ids, -characters, ~corpus.is_older(documents), group))


def _links(documents: Numbers, stays: Numbers, similarity: NDArray[np.float64]) -> NDArray[np.void]:
    """A LINK for each document that does not stay itself."""
    goes = documents != stays
    links = np.empty(int(goes.sum()), dtype=LINK)
    links["document"], links["survivor"], links["jaccard"] = documents[goes], stays[goes], similarity[goes]
    return links


def _with_copies(out: TaskOutput, links: NDArray[np.void]) -> NDArray[np.void]:
    """``links`` of near duplicates, and one like it for each document whose text is equal to one that goes."""
    links = links[np.argsort(links["document"])]
    found = [links]
    shards, starts = np.unique(shards_of(links["document"]), return_index=True)
    for shard, own in zip(shards, np.split(links, starts[1:]), strict=False):
        copies = np.load(out.scratch_path(f"sets/{shard:05d}-copies.npy"))
        places = np.minimum(np.searchsorted(own["document"], copies["survivor"]), own.size - 1)
        goes_too = own["document"][places] == copies["survivor"]
        followers = own[places[goes_too]]
        followers["document"] = copies["document"][goes_too]
        found.append(followers)
    return np.concatenate(found)
