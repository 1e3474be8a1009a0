"""Stage ``duplicates``: finds exact and near duplicates and selects the documents to keep.

    phase        a task is    what it does
    digests      a shard *    sends the digest of each document                    ─┐ exact duplicates
    exact        a bucket     equal digests: the document of highest priority is    │
                              the representative of its copies in all later phases ─┘
    bands        a shard *    sends the hashes of the LSH bands                    ─┐ candidates
    groups       a bucket     equal band hashes: groups of candidates              ─┘
    sets         a shard *    shingle sets of the documents that are in a group    ─┐ verification
    pairs        a bucket     exact Jaccard similarity within the groups           ─┘
    stars_1, _2  a bucket     brings each document near the root of its component  ─┐ connected components
    roots        a bucket     provisional roots, and the few edges that are left    │
    components   a bucket     final roots; sends the members of each component     ─┘
    survivors    a bucket     selects the documents to keep in whole components, by exact Jaccard similarity
    removed      a shard      writes the result

    exact, bands, groups, pairs and survivors hold ``dedup.memory_gb`` and spill more to disk. Shards send the buckets
    all that these need about documents, so a shard's files are read only by the tasks of that shard. * also a shard of
    the older runs in ``dedup.against``, numbered after this run's shards (see dedup.corpus)

    pairs/00003.npy      PAIR: verified pairs of a bucket, enough to connect each component
    clusters/00007.npy   (n_docs,) uint64: number of each document's survivor; its own number if it is kept
    removed/00007.npy    (n_removed,) see ``links.removed_records``, sorted by row

Document numbers are those of dedup.numbering. The priority is: documents of older runs, then by dedup.keep and
dedup.preferred, then the longest text, then the smallest id (by UTF-8 bytes). A document is kept unless a kept document
of higher priority is equal to it or has an exact Jaccard similarity ≥ threshold with it; the most similar of these is
its survivor (see dedup.selection). So every removed document has a verified survivor, and of a chain a ~ b ~ c only b
is removed. The result depends neither on the sharding of the documents nor on the number of buckets.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headrace.data_prep.dedup.clusters import EDGE, contract, final_roots, provisional_roots, tree_edges, with_roots
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.corpus import (
    BY_PRIORITY,
    Corpus,
    Numbers,
    OlderRun,
    digest_prefixes,
    numbers_of,
    rows_of,
    shards_of,
)
from headrace.data_prep.dedup.lsh import GROUP_MEMBER, band_hashes, groups, members, mix
from headrace.data_prep.dedup.minhash import EMPTY
from headrace.data_prep.dedup.preference import Preference
from headrace.data_prep.dedup.selection import (
    COPY,
    link_dtype,
    links_of,
    removed_records,
    select_survivors,
    with_copies,
)
from headrace.data_prep.dedup.shingle_sets import Hashes, write_sets
from headrace.data_prep.dedup.shingles import shingle_set
from headrace.data_prep.dedup.verification import MEMBERS, member_records, verified_pairs
from headrace.data_prep.document import read_documents
from headrace.data_prep.shuffle.exchange import (
    Sender,
    bucket_of,
    dtype_of,
    receive,
    receive_blocks,
    receive_sorted,
    send,
)
from headrace.data_prep.shuffle.records import records_of, run_bounds, save_array
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.artifact import Balance, TaskOutput, handed
from headrace.pipeline.core.stage import Inputs, Phase, Stage

HASHED_AT_ONCE = 1 << 16
"""Number of documents whose bands are in memory at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duplicates(Stage):
    """Finds exact and near duplicates and selects the documents to keep. Fields: see ``Dedup``."""

    name: ClassVar[str] = "duplicates"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[str, ...]] = ("clean", "signatures")
    headline: ClassVar[tuple[str, ...]] = ("removed_exact", "removed_near")
    describes_documents: ClassVar[bool] = True

    shingle_words: int
    bands: int
    threshold: float
    buckets: int
    window_documents: int
    against: tuple[OlderRun, ...]
    preference: Preference = dataclasses.field(default_factory=Preference)
    memory_bytes: int = dataclasses.field(metadata={"hashed": False})

    @classmethod
    def of(cls, dedup: Dedup) -> "Duplicates":
        """Returns the stage for the settings ``dedup``.

        Raises:
            ConfigError, ArtifactError: if an older run cannot be used (see ``OlderRun.at``).
        """
        return cls(
            shingle_words=dedup.shingle_words,
            bands=dedup.banding.bands,
            threshold=dedup.threshold,
            buckets=dedup.buckets,
            window_documents=dedup.window_documents,
            against=tuple(OlderRun.at(folder, Signatures.of(dedup)) for folder in dedup.against),
            preference=dedup.preference,
            memory_bytes=dedup.memory_bytes,
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

    def balances(self, counts: Counter[str], inputs: Inputs) -> Iterable[Balance]:
        yield "documents = kept of clean", counts["documents"], inputs["clean"].counts["kept"]
        older = [older_unique.open()["duplicates"].counts for older_unique in self.against]
        kept = sum(counts["documents"] - counts["removed_exact"] - counts["removed_near"] for counts in older)
        yield "older_documents = what older runs kept", counts["older_documents"], kept

    def _digests(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        rows = corpus.rows(task)
        digests = corpus.array("digests", task)[rows]
        ranks = self._ranks(corpus, task)
        with out.scratch("ranks", "npy") as path:
            save_array(path, ranks)
        records = records_of(digest=digests.view("S32").ravel(), **self._priority(corpus, task, rows, ranks))
        send(out, "digests", records, bucket_of(digest_prefixes(digests), self.buckets))
        kind = "documents" if task < corpus.n_own_shards else "older_documents"
        return Counter({kind: rows.size}) + self.preference.missing(ranks)

    def _ranks(self, corpus: Corpus, shard: int) -> Numbers:
        """Returns the ranks of all documents of a shard; none where length alone decides, and of older runs."""
        if shard >= corpus.n_own_shards or not self.preference.reads_documents:
            return np.zeros(0, np.uint64)
        return self.preference.ranks(read_documents(corpus.documents_file(shard)))

    def _priority(self, corpus: Corpus, shard: int, rows: NDArray[np.int64], ranks: Numbers) -> dict[str, NDArray[Any]]:
        return corpus.priority_columns(shard, rows, ranks, self.preference.shortest)

    def _exact(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        shards = Corpus(inputs, self.against).n_shards
        source, by, memory_bytes = "digests/digests", ("digest", *BY_PRIORITY), self.memory_bytes // 4
        dtype = dtype_of(out, source, shards)
        with (
            Sender(out, "links", link_dtype(dtype), memory_bytes) as links_of_documents,
            Sender(out, "copies", COPY, memory_bytes) as copies,
        ):
            for records in receive_sorted(out, source, shards, dtype, by, self.memory_bytes // 2):
                bounds = run_bounds(records["digest"])
                links = links_of(records, np.repeat(bounds[:-1], np.diff(bounds)), np.ones(records.size))
                links_of_documents.add(links, shards_of(links["document"]))
                own = records_of(document=links["document"], representative=links["survivor"])
                copies.add(own, bucket_of(mix(own["representative"]), self.buckets))
        return Counter()

    def _bands(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        signatures, rows = corpus.array("signatures", task), corpus.rows(task)
        takes_part = np.zeros(len(signatures), np.bool_)
        takes_part[rows] = True
        takes_part[rows_of(receive(out, "exact/links", self.buckets, task)["document"])] = False
        rows = np.flatnonzero(takes_part)
        with Sender(out, "bands", GROUP_MEMBER, self.memory_bytes) as bands:
            for batch in np.split(rows, range(HASHED_AT_ONCE, rows.size, HASHED_AT_ONCE)):
                has_words = (signatures[batch] != EMPTY).any(axis=1)
                batch = batch[has_words]
                records = members(numbers_of(task, batch), band_hashes(signatures[batch], self.bands))
                bands.add(records, bucket_of(records["hash"], self.buckets))
        return Counter()

    def _groups(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        n_groups, by, memory_bytes = 0, ("hash", "document"), self.memory_bytes // 2
        with Sender(out, "groups", GROUP_MEMBER, memory_bytes) as sender:
            for records in receive_sorted(out, "bands/bands", corpus.n_shards, GROUP_MEMBER, by, memory_bytes):
                grouped = groups(records, corpus.is_older(records["document"]))
                n_groups += run_bounds(grouped["hash"]).size - 1
                sender.add(grouped, shards_of(grouped["document"]))
        return Counter(groups=n_groups)

    def _sets(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        grouped = receive(out, "groups/groups", self.buckets, task)
        grouped = grouped[np.argsort(grouped["document"], kind="stable")]
        wanted, indices = np.unique(grouped["document"], return_inverse=True)
        starts, shingles = write_sets(out, self.shingle_sets(task, wanted, inputs))
        digests = corpus.array("digests", task)[rows_of(wanted)]
        ranks = np.load(handed(out, "digests/ranks", task, "npy"))
        priority = self._priority(corpus, task, rows_of(wanted), ranks)
        candidates = records_of(**priority, start=starts, shingles=shingles)
        send(out, "candidates", candidates, bucket_of(mix(wanted), self.buckets))
        members = member_records(grouped, digest_prefixes(digests)[indices], starts[indices], shingles[indices])
        send(out, MEMBERS, members, bucket_of(grouped["hash"], self.buckets))
        return Counter(candidates=wanted.size)

    def shingle_sets(self, task: int, wanted: Numbers, inputs: Inputs) -> list[Hashes]:
        """Computes the shingle sets of the documents ``wanted`` of shard ``task``, in their order."""
        rows = set(rows_of(wanted).tolist())
        documents = enumerate(read_documents(Corpus(inputs, self.against).documents_file(task)))
        return [shingle_set(document.text, self.shingle_words) for row, document in documents if row in rows]

    def _pairs(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        verified = verified_pairs(
            out, corpus.n_shards, corpus.is_older, self.threshold, self.window_documents, self.memory_bytes
        )
        with out.shard("pairs", "npy") as path:
            save_array(path, verified.pairs)
        with Sender(out, "edges", EDGE, self.memory_bytes // 2) as sender:
            for edges in tree_edges(verified.documents, verified.parents):
                sender.add(edges, bucket_of(mix(edges["node"]), self.buckets))
        return Counter(pairs_compared=verified.compared, pairs_verified=len(verified.pairs))

    def _stars(self, before: str, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        edges = contract(receive(out, f"{before}/edges", self.buckets, task))
        send(out, "edges", edges, bucket_of(mix(edges["node"]), self.buckets))
        return Counter()

    def _roots(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        roots, left = provisional_roots(receive(out, "stars_2/edges", self.buckets, task))
        for kind, edges in (("roots", roots), ("left", left)):
            with out.scratch(kind, "npy") as path:
                save_array(path, edges)
        return Counter(unsettled_edges=len(left))

    def _components(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        shards = Corpus(inputs, self.against).n_shards
        nodes = np.load(handed(out, "roots/roots", task, "npy"))
        left = [np.load(handed(out, "roots/left", bucket, "npy")) for bucket in range(self.buckets)]
        nodes["neighbour"] = final_roots(nodes["neighbour"], np.concatenate(left))
        for source, by, writers in (
            ("sets/candidates", "document", shards),
            ("exact/copies", "representative", self.buckets),
        ):
            dtype = np.dtype([("root", "<u8"), *dtype_of(out, source, writers).descr])
            with Sender(out, source.partition("/")[2], dtype, self.memory_bytes // 2) as sender:
                for block in receive_blocks(out, source, writers, task):
                    records = with_roots(block, by, nodes)
                    sender.add(records, bucket_of(mix(records["root"]), self.buckets))
        return Counter()

    def _survivors(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        source = "components/candidates"
        copies = receive(out, "components/copies", self.buckets, task)
        dtype, counts = link_dtype(dtype_of(out, source, self.buckets)), Counter[str]()
        with Sender(out, "links", dtype, self.memory_bytes // 8) as near:
            for selection in select_survivors(out, source, self.buckets, self.threshold, self.memory_bytes * 7 // 8):
                links = with_copies(links_of(selection.records, selection.survivors, selection.similarity), copies)
                near.add(links, shards_of(links["document"]))
                counts.update(components=selection.components, survivors_compared=selection.compared)
        return counts

    def _removed(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        near, equal = (receive(out, f"{phase}/links", self.buckets, task) for phase in ("survivors", "exact"))
        _, first = np.unique(np.concatenate([near["document"], equal["document"]]), return_index=True)
        links = np.concatenate([near, equal])[first]
        removed = removed_records(links, first >= near.size)
        clusters = numbers_of(task, np.arange(len(corpus.array("characters", task))))
        clusters[removed["row"]] = removed["survivor"]
        for kind, array in (("removed", removed), ("clusters", clusters)):
            with out.shard(kind, "npy") as path:
                save_array(path, array)
        n_exact, n_older = int(removed["exact"].sum()), int(corpus.is_older(removed["survivor"]).sum())
        return Counter(removed_exact=n_exact, removed_near=len(removed) - n_exact, removed_for_older=n_older)
