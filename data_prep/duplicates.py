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

    exact, bands and groups hold ``dedup.memory_gb`` at most and spill the rest to disk.
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
from collections.abc import Iterator, Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from data_prep.dedup.clusters import contract, roots_of, settle, star_edges
from data_prep.dedup.config import Dedup
from data_prep.dedup.corpus import Corpus, Older
from data_prep.dedup.external_sort import ExternalSort, Records, whole_runs
from data_prep.dedup.links import LINK, links_of, with_copies, write_copies
from data_prep.dedup.lsh import GROUP_MEMBER, band_hashes, groups, members, mix
from data_prep.dedup.minhash import EMPTY
from data_prep.dedup.numbering import Numbers, numbers_of, rows_of, shards_of
from data_prep.dedup.pairing import verified_pairs
from data_prep.dedup.selection import STAYS, select
from data_prep.dedup.shingles import shingle_set
from data_prep.dedup.shuffle import Sender, bucket_of, receive, receive_blocks, runs, save, send, sorting_folder
from data_prep.dedup.verification import Hashes, ShingleSets
from data_prep.document import read_documents
from data_prep.signatures import Signatures
from pipeline.core.artifact import TaskOutput
from pipeline.core.stage import Inputs, Phase, Stage

DIGEST = np.dtype([("digest", "S32"), ("document", "<u8")])
HASHED_AT_ONCE = 1 << 16
"""Documents whose bands are in memory at once."""
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
    against: tuple[Older, ...]
    memory_bytes: int = dataclasses.field(metadata={"hashed": False})

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
        with (
            Sender(out, "exact", LINK, corpus.n_shards, self.memory_bytes // 4) as links_of_documents,
            Sender(out, "copies", LINK, corpus.n_shards, self.memory_bytes // 4) as links_of_survivors,
        ):
            for records in self._sorted(out, "digests", corpus.n_shards, DIGEST):
                lengths = np.diff(runs(records["digest"]))
                several = np.repeat(lengths > 1, lengths)
                group, documents = np.repeat(np.arange(lengths.size), lengths)[several], records["document"][several]
                documents = documents[corpus.by_priority(group, documents)]
                bounds = runs(group)
                first = np.repeat(documents[bounds[:-1]], np.diff(bounds))
                links = links_of(documents, first, np.ones(documents.size))
                links_of_documents.add(links, shards_of(links["document"]))
                links_of_survivors.add(links, shards_of(links["survivor"]))
        return Counter()

    def _bands(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        signatures, rows = corpus.array("signatures", task), corpus.rows(task)
        takes_part = np.zeros(len(signatures), np.bool_)
        takes_part[rows] = True
        takes_part[rows_of(receive(out, "exact", self.buckets, task)["document"])] = False
        rows = np.flatnonzero(takes_part)
        with Sender(out, "bands", GROUP_MEMBER, self.buckets, self.memory_bytes) as bands:
            for here in np.split(rows, range(HASHED_AT_ONCE, rows.size, HASHED_AT_ONCE)):
                has_words = (signatures[here] != EMPTY).any(axis=1)
                here = here[has_words]
                records = members(numbers_of(task, here), band_hashes(signatures[here], self.bands))
                bands.add(records, bucket_of(records["hash"], self.buckets))
        return Counter()

    def _groups(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        n_groups = 0
        with (
            Sender(out, "groups", GROUP_MEMBER, 1, self.memory_bytes // 4) as found,
            Sender(out, "candidates", np.dtype("<u8"), corpus.n_shards, self.memory_bytes // 4) as candidates,
        ):
            for records in self._sorted(out, "bands", corpus.n_shards, GROUP_MEMBER):
                here = groups(records, corpus.is_older(records["document"]))
                n_groups += runs(here["hash"]).size - 1
                found.add(here, np.zeros(here.size, np.int64))
                candidates.add(here["document"], shards_of(here["document"]))
        return Counter(groups=n_groups)

    def _sets(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        wanted = np.unique(receive(out, "candidates", self.buckets, task))
        ShingleSets.of(wanted, self.shingle_sets(task, wanted, inputs)).write(out)
        copies = receive(out, "copies", self.buckets, task)
        write_copies(out, copies[np.isin(copies["survivor"], wanted)])
        return Counter(candidates=wanted.size)

    def shingle_sets(self, task: int, wanted: Numbers, inputs: Inputs) -> list[Hashes]:
        """The shingle sets of the documents ``wanted`` of shard ``task``, in their order."""
        rows = set(rows_of(wanted).tolist())
        documents = enumerate(read_documents(Corpus(inputs, self.against).texts(task)))
        return [shingle_set(document.text, self.shingle_words) for row, document in documents if row in rows]

    def _pairs(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus, found = Corpus(inputs, self.against), np.load(out.scratch_path(f"groups/{task:05d}.npy"))
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
        nodes = np.load(out.scratch_path(f"roots/{task:05d}.npy"))
        left = [np.load(out.scratch_path(f"left/{bucket:05d}.npy")) for bucket in range(self.buckets)]
        nodes["neighbour"] = roots_of(nodes["neighbour"], np.concatenate(left))
        send(out, "components", nodes, bucket_of(mix(nodes["neighbour"]), self.buckets), self.buckets)
        return Counter()

    def _survivors(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        nodes = receive(out, "components", self.buckets, task)
        nodes = nodes[corpus.by_priority(nodes["neighbour"], nodes["node"])]
        documents, roots = nodes["node"], nodes["neighbour"]
        places, similarity, compared = select(out, roots, documents, corpus.is_older(documents), self.threshold)
        stays = np.where(places == STAYS, documents, documents[places])
        links = with_copies(out, links_of(documents, stays, similarity))
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

    def _sorted(self, out: TaskOutput, name: str, writers: int, dtype: "np.dtype[np.void]") -> Iterator[Records]:
        """What the phase before sent to this task, in the order of its fields, cut between values of the first."""
        fields = dtype.names or ()
        with ExternalSort(dtype, fields, self.memory_bytes // 2, sorting_folder(out)) as sorting:
            for block in receive_blocks(out, name, writers, out.task):
                sorting.add(block)
            yield from whole_runs(sorting.blocks(), fields[:1])

    def _send_edges(self, out: TaskOutput, edges: NDArray[np.void]) -> None:
        """Hand ``edges`` to the buckets of their nodes."""
        send(out, f"edges-{out.phase}", edges, bucket_of(mix(edges["node"]), self.buckets), self.buckets)
