"""Stage ``contained``: finds the documents of which another one holds almost all.

    phase      a task is    what it does
    samples    a shard *    sends an eighth of the shingles of each document        ─┐ shingles in two documents
    counts     a bucket     counts the documents of each                            ─┘
    sets       a shard *    writes the shingle sets; sends the rarest shingles      ─┐ candidates
    pairs      a bucket     exact containment of documents that share a rare one    ─┘
    chosen     one          containers that stay
    removed    a shard      writes the result

    removed/00007.npy    (n_removed,) row uint32, containment float64, survivor_id S…, sorted by row

The containment of A in B is the share of A's word n-grams (``dedup.shingle_words``) that B has (Broder, On the
resemblance and containment of documents, 1997). Documents are those that ``duplicates`` keeps, in this order: those of
older runs, then by the number of their shingles, the most first, then by XXH64 of the id. They are visited in this
order, and a document is kept unless a kept one of before contains it, which is its survivor: the one with the highest
containment, the first of equal ones. Documents of older runs are always kept.

See dedup.containment for the search. The result depends neither on the sharding nor on the number of buckets. The task
of ``chosen`` holds all contained documents and their containers, 100 bytes a pair. * also a shard of the older runs.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import xxhash

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.containment import (
    COUNTED,
    EDGE,
    MEMBER,
    contained_pairs,
    counted,
    probes,
    sampled,
    survivors,
)
from headrace.data_prep.dedup.corpus import Corpus, OlderRun, look_up, rows_of, shards_of
from headrace.data_prep.dedup.document_records import Numbered, by_document, kept_documents, paired
from headrace.data_prep.dedup.lsh import mix
from headrace.data_prep.dedup.shingle_sets import write_sets
from headrace.data_prep.dedup.shingles import shingle_set
from headrace.data_prep.shuffle.exchange import Sender, bucket_of, receive, receive_sorted, send
from headrace.data_prep.shuffle.records import Records, records_of, save_array
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contained(Stage):
    """Finds documents whose containment in another one is at least ``threshold``. Fields: see ``Dedup``."""

    name: ClassVar[str] = "contained"
    inputs: ClassVar[tuple[str, ...]] = ("clean", "signatures", "duplicates")
    headline: ClassVar[tuple[str, ...]] = ("documents", "removed")
    describes_documents: ClassVar[bool] = True

    threshold: float
    shingle_words: int
    buckets: int
    window_documents: int
    against: tuple[OlderRun, ...]
    memory_bytes: int = dataclasses.field(metadata={"hashed": False})

    @classmethod
    def of(cls, dedup: Dedup, threshold: float) -> "Contained":
        """Returns the stage for these settings.

        Raises:
            ConfigError, ArtifactError: if an older run cannot be used (see ``OlderRun.at``).
        """
        return cls(
            threshold=threshold,
            shingle_words=dedup.shingle_words,
            buckets=dedup.buckets,
            window_documents=dedup.window_documents,
            against=tuple(OlderRun.at(folder, Signatures.of(dedup)) for folder in dedup.against),
            memory_bytes=dedup.memory_bytes,
        )

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        own_shards = shards["clean"]
        all_shards = own_shards + sum(older.shards for older in self.against)
        return (
            Phase("samples", all_shards, self._samples),
            Phase("counts", self.buckets, self._counts),
            Phase("sets", all_shards, self._sets),
            Phase("pairs", self.buckets, self._pairs),
            Phase("chosen", 1, self._chosen),
            Phase("removed", own_shards, self._removed),
        )

    def balances(self, counts: Counter[str], inputs: Inputs) -> Iterable[Balance]:
        before = inputs["duplicates"].counts
        kept = before["documents"] - before["removed_exact"] - before["removed_near"]
        yield "documents = kept of duplicates", counts["documents"], kept
        yield "removed = chosen", counts["removed"], counts["chosen"]

    def _samples(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        documents = 0
        with Sender(out, "samples", COUNTED, self.memory_bytes) as sender:
            for number, document in self._documents(task, inputs):
                documents += 1
                hashes = sampled(shingle_set(document.text, self.shingle_words))
                records = np.zeros(hashes.size, COUNTED)
                records["hash"], records["document"] = hashes, number
                sender.add(records, bucket_of(mix(hashes), self.buckets))
        return (
            Counter(documents=documents) if task < inputs["clean"].shard_count else Counter(older_documents=documents)
        )

    def _counts(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        shards, half = Corpus(inputs, self.against).n_shards, self.memory_bytes // 2
        with Sender(out, "counts", COUNTED, half) as sender:
            for block in receive_sorted(out, "samples/samples", shards, COUNTED, ("hash", "document"), half):
                records = counted(block)
                sender.add(records, shards_of(records["document"]))
        return Counter()

    def _sets(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        half, is_older = self.memory_bytes // 2, task >= inputs["clean"].shard_count
        received = receive_sorted(out, "counts/counts", self.buckets, COUNTED, ("document", "documents", "hash"), half)
        sets, members = [], [np.zeros(0, MEMBER)]
        for number, document, records in paired(self._documents(task, inputs), by_document(received)):
            sets.append(shingle_set(document.text, self.shingle_words))
            own = np.zeros(records.size, MEMBER)
            own["hash"], own["document"], own["is_older"] = records["hash"], number, is_older
            own["identity"] = xxhash.xxh64_intdigest(document.id.encode())
            alone = sampled(sets[-1]).size - records.size
            own["is_probe"][: probes(alone, records.size, self.threshold) * (not is_older)] = True
            members.append(own)
        starts, shingles = write_sets(out, sets)
        sizes = [own.size for own in members[1:]]
        members_of_shard = np.concatenate(members)
        members_of_shard["start"] = np.repeat(starts, sizes)
        members_of_shard["shingles"] = np.repeat(shingles, sizes)
        send(out, "members", members_of_shard, bucket_of(mix(members_of_shard["hash"]), self.buckets))
        return Counter(candidates=len(sets))

    def _pairs(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        shards, compared = Corpus(inputs, self.against).n_shards, 0
        with Sender(out, "edges", EDGE, self.memory_bytes // 4) as sender:
            for edges, n_compared in contained_pairs(
                out, shards, self.threshold, self.window_documents, self.memory_bytes * 3 // 4
            ):
                sender.add(edges, np.zeros(edges.size, np.int64))
                compared += n_compared
        return Counter(pairs_compared=compared)

    def _chosen(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        removed = survivors(receive(out, "pairs/edges", self.buckets, task))
        ids = look_up(lambda shard: corpus.array("ids", shard), removed["survivor"])
        records = records_of(
            document=removed["document"], containment=removed["containment"], survivor_id=ids.astype(ids.dtype)
        )
        send(out, "removed", records, shards_of(records["document"]))
        return Counter(chosen=removed.size)

    def _removed(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        received: Records = receive(out, "chosen/removed", 1, task)
        received = received[np.argsort(received["document"])]
        rows = rows_of(received["document"]).astype(np.uint32)
        with out.shard("removed", "npy") as path:
            columns = {name: received[name] for name in ("containment", "survivor_id")}
            save_array(path, records_of(row=rows, **columns))
        return Counter(removed=rows.size)

    def _documents(self, shard: int, inputs: Inputs) -> Iterator[Numbered]:
        return kept_documents(Corpus(inputs, self.against), shard, inputs)
