"""Stage ``repeats``: finds the text that a document repeats from an earlier one, word for word.

    phase      a task is    what it does
    anchors    a shard *    sends the anchors of the windows of each document     ─┐ windows that may be repeated
    repeated   a bucket     anchors that occur twice                              ─┘
    windows    a shard *    sends the windows with such an anchor                 ─┐ windows that are repeated
    losers     a bucket     equal windows: all but the first lose                 ─┘
    matches    a shard      joins the windows of a document to spans; asks who keeps them
    survivors  a shard *    names the survivor of each span
    spans      a shard      writes the result

    spans/00007.npy    (n_spans,) the spans to cut, sorted by row and start (see dedup.cuts)
    firsts/00007.npy   (n_rows,) uint32: documents that hold the first occurrence of a span, ascending

A window is ``dedup.repeated_words`` words in a row of one document, in the order of the text, as ``text.words`` has
them. The documents are those that ``duplicates`` keeps, by priority: documents of older runs, then by
dedup.preferred and dedup.keep, then the longest text; equal ones by XXH64 of the id. A window that occurs earlier, in
an earlier document or further up in its own, is covered; a span is a run of covered words. So each word that is cut is
in a window whose first occurrence is in another place, and that place has the word, or its window occurs still
earlier: no word of a window disappears from the corpus. The result depends neither on the sharding of the documents nor
on the number of buckets.

Lee et al., Deduplicating training data makes language models better, ACL 2022, section 4.1: substrings of 50 tokens of
BPE that occur twice. They cut all copies; here the first one stays. * also a shard of the older runs.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import xxhash
from datatrove.data import Document

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.corpus import ROW_MASK, Corpus, Numbers, OlderRun, numbers_of, rows_of, shards_of
from headrace.data_prep.dedup.cuts import LOSER, MATCH, PLACE, matches_of, place
from headrace.data_prep.dedup.preference import Preference
from headrace.data_prep.dedup.windows import anchors, window_keys
from headrace.data_prep.document import read_documents
from headrace.data_prep.shuffle.exchange import (
    Sender,
    bucket_of,
    receive,
    receive_blocks,
    receive_sorted,
    sorting_folder,
)
from headrace.data_prep.shuffle.external_sort import external_sort
from headrace.data_prep.shuffle.records import Records, records_of, run_bounds, run_starts, save_array
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.text.word_offsets import WordOffsets
from headrace.pipeline.core.artifact import Balance, TaskOutput, handed
from headrace.pipeline.core.stage import Inputs, Phase, Stage

ANCHOR = np.dtype([("hash", "<u8"), ("document", "<u8"), ("times", "<u4")])
"""An anchor of a document, and the number of places where it is one."""
WINDOW = np.dtype([("key", "<u8", (2,)), ("precedence", "<u8"), ("identity", "<u8"), *PLACE])
BY_PLACE = ("document", "word")
NAME = np.dtype([*PLACE, ("survivor_start", "<u4")])
Numbered = tuple[int, Document]
"""The number of a document in the corpus, and the document."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repeats(Stage):
    """Finds repeated spans of ``words`` words or more. Fields: see ``Dedup``."""

    name: ClassVar[str] = "repeats"
    inputs: ClassVar[tuple[str, ...]] = ("clean", "signatures", "duplicates")
    headline: ClassVar[tuple[str, ...]] = ("documents", "spans")
    describes_documents: ClassVar[bool] = True

    words: int
    buckets: int
    against: tuple[OlderRun, ...]
    preference: Preference = dataclasses.field(default_factory=Preference)
    memory_bytes: int = dataclasses.field(metadata={"hashed": False})

    @classmethod
    def of(cls, dedup: Dedup, words: int) -> "Repeats":
        """Returns the stage for these settings.

        Raises:
            ConfigError, ArtifactError: if an older run cannot be used (see ``OlderRun.at``).
        """
        return cls(
            words=words,
            buckets=dedup.buckets,
            against=tuple(OlderRun.at(folder, Signatures.of(dedup)) for folder in dedup.against),
            preference=dedup.preference,
            memory_bytes=dedup.memory_bytes,
        )

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        own_shards = shards["clean"]
        all_shards = own_shards + sum(older.shards for older in self.against)
        return (
            Phase("anchors", all_shards, self._anchors),
            Phase("repeated", self.buckets, self._repeated),
            Phase("windows", all_shards, self._windows),
            Phase("losers", self.buckets, self._losers),
            Phase("matches", own_shards, self._matches),
            Phase("survivors", all_shards, self._survivors),
            Phase("spans", own_shards, self._spans),
        )

    def balances(self, counts: Counter[str], inputs: Inputs) -> Iterable[Balance]:
        before = inputs["duplicates"].counts
        kept = before["documents"] - before["removed_exact"] - before["removed_near"]
        yield "documents = kept of duplicates", counts["documents"], kept
        yield "spans = matches", counts["spans"], counts["matches"]

    def _anchors(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus = Corpus(inputs, self.against)
        documents = 0
        with Sender(out, "anchors", ANCHOR, self.memory_bytes) as sender:
            for number, document in kept_documents(corpus, task, inputs):
                documents += 1
                hashes, places = anchors(document.text, self.words)
                own, times = np.unique(hashes[np.unique(places)], return_counts=True)
                records = np.zeros(own.size, ANCHOR)
                records["hash"], records["document"], records["times"] = own, number, times
                sender.add(records, bucket_of(own, self.buckets))
        return Counter(documents=documents) if task < corpus.n_own_shards else Counter(older_documents=documents)

    def _repeated(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        shards, by = Corpus(inputs, self.against).n_shards, ("hash", "document")
        n_repeated = 0
        with Sender(out, "anchors", ANCHOR, self.memory_bytes // 2) as sender:
            for block in receive_sorted(out, "anchors/anchors", shards, ANCHOR, by, self.memory_bytes // 2):
                bounds = run_bounds(block["hash"])
                times = np.add.reduceat(block["times"].astype(np.int64), bounds[:-1])
                repeated = block[np.repeat(times > 1, np.diff(bounds))]
                n_repeated += int((times > 1).sum())
                sender.add(repeated, shards_of(repeated["document"]))
        return Counter(repeated_anchors=n_repeated)

    def _windows(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus, half = Corpus(inputs, self.against), self.memory_bytes // 2
        groups = by_document(receive_sorted(out, "repeated/anchors", self.buckets, ANCHOR, ("document", "hash"), half))
        precedences, candidates = self._precedences(corpus, task), 0
        with Sender(out, "windows", WINDOW, half) as sender:
            for number, document, repeated in paired(kept_documents(corpus, task, inputs), groups):
                hashes, places = anchors(document.text, self.words)
                words = np.flatnonzero(np.isin(hashes[places], repeated["hash"]))
                records = np.zeros(words.size, WINDOW)
                records["key"] = window_keys(document.text, self.words, hashes)[words]
                records["precedence"] = precedences[number & int(ROW_MASK)]
                records["identity"] = xxhash.xxh64_intdigest(document.id.encode())
                records["document"], records["word"] = number, words
                sender.add(records, bucket_of(records["key"][:, 0], self.buckets))
                candidates += words.size
        return Counter(candidate_windows=candidates)

    def _losers(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        """Sends each window that is not the first of equal ones to its document, and the first ones to theirs."""
        corpus, half = Corpus(inputs, self.against), self.memory_bytes // 2
        by = ("key", "precedence", "identity", *BY_PLACE)
        received = receive_blocks(out, "windows/windows", corpus.n_shards, task)
        first, n_losers = np.zeros(0, WINDOW), 0
        with Sender(out, "losers", LOSER, half) as sender:
            for block in external_sort(received, WINDOW, by, half, sorting_folder(out)):
                records = np.concatenate([first, block])
                starts = run_starts(records, ("key",))
                firsts = np.maximum.accumulate(np.where(starts, np.arange(records.size), 0))
                losers = np.flatnonzero(~starts)
                first = records[firsts[-1:]]
                survivors = firsts[losers]
                places = np.concatenate([losers, np.unique(survivors)])
                survivors = np.concatenate([survivors, np.unique(survivors)])
                sent = records_of(
                    document=records["document"][places],
                    word=records["word"][places],
                    survivor=records["document"][survivors],
                    survivor_word=records["word"][survivors],
                )
                sent = sent[~corpus.is_older(sent["document"])]
                sender.add(sent, shards_of(sent["document"]))
                n_losers += losers.size
        return Counter(repeated_windows=n_losers)

    def _matches(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus, kinds, half = Corpus(inputs, self.against), ("matches", "firsts"), self.memory_bytes // 2
        losers = by_document(receive_sorted(out, "losers/losers", self.buckets, LOSER, BY_PLACE, half))
        matches_of_documents, firsts = [np.zeros(0, MATCH)], list[int]()
        for number, document, places in paired(kept_documents(corpus, task, inputs), losers):
            is_first = (places["survivor"] == places["document"]) & (places["survivor_word"] == places["word"])
            if is_first.any():
                firsts.append(number & int(ROW_MASK))
            if not is_first.all():
                matches_of_documents.append(matches_of(places[~is_first], self.words))
                place(matches_of_documents[-1], document.text)
        matches = np.concatenate(matches_of_documents)
        for kind, array in zip(kinds, (matches, np.array(firsts, np.uint32)), strict=True):
            with out.scratch(kind, "npy") as path:
                save_array(path, array)
        with Sender(out, "asked", LOSER, half) as sender:
            sender.add(matches[list(LOSER.names or ())].astype(LOSER), shards_of(matches["survivor"]))
        return Counter(matches=matches.size)

    def _survivors(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        corpus, by = Corpus(inputs, self.against), ("survivor", "survivor_word", *BY_PLACE)
        ids = corpus.array("ids", task)
        asked = by_document(
            receive_sorted(out, "matches/asked", corpus.n_own_shards, LOSER, by, self.memory_bytes // 2), "survivor"
        )
        dtype = np.dtype([*NAME.descr, ("survivor_id", ids.dtype)])
        with Sender(out, "names", dtype, self.memory_bytes // 2) as sender:
            for number, document, places in paired(kept_documents(corpus, task, inputs), asked):
                offsets, names = WordOffsets(document.text), np.zeros(places.size, dtype)
                for name in BY_PLACE:
                    names[name] = places[name]
                names["survivor_start"] = [offsets.start(word) for word in places["survivor_word"].tolist()]
                names["survivor_id"] = ids[number & int(ROW_MASK)]
                sender.add(names, shards_of(names["document"]))
        return Counter()

    def _spans(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        matches = np.load(handed(out, "matches/matches", task, "npy"))
        names = receive(out, "survivors/names", Corpus(inputs, self.against).n_shards, task)
        names = names[np.lexsort((names["word"], names["document"]))]
        spans = records_of(
            row=rows_of(matches["document"]).astype(np.uint32),
            start=matches["start"],
            end=matches["end"],
            survivor_start=names["survivor_start"],
            survivor_id=names["survivor_id"],
        )
        for kind, array in (("spans", spans), ("firsts", np.load(handed(out, "matches/firsts", task, "npy")))):
            with out.shard(kind, "npy") as path:
                save_array(path, array)
        return Counter(spans=spans.size, documents_cut=np.unique(spans["row"]).size)

    def _precedences(self, corpus: Corpus, shard: int) -> Numbers:
        """Returns the precedence of each document of ``shard``, as ``duplicates`` has it: (n_docs,)."""
        ranks = np.zeros(0, np.uint64)
        if shard < corpus.n_own_shards and self.preference.reads_documents:
            ranks = self.preference.ranks(read_documents(corpus.documents_file(shard)))
        rows = np.arange(corpus.array("ids", shard).size)
        precedences: Numbers = corpus.priority_columns(shard, rows, ranks, self.preference.shortest)["precedence"]
        return precedences


def kept_documents(corpus: Corpus, shard: int, inputs: Inputs) -> Iterator[Numbered]:
    """Yields the documents of ``shard`` that ``duplicates`` keeps."""
    rows = corpus.rows(shard)
    if shard < corpus.n_own_shards:
        rows = rows[np.load(inputs["duplicates"].shard("clusters", shard, "npy")) == numbers_of(shard, rows)]
    numbers = dict(zip(rows.tolist(), numbers_of(shard, rows).tolist(), strict=True))
    for row, document in enumerate(read_documents(corpus.documents_file(shard))):
        if row in numbers:
            yield numbers[row], document


def by_document(blocks: Iterable[Records], field: str = "document") -> Iterator[tuple[int, Records]]:
    """Yields each document of ``blocks``, which are sorted by ``field`` and split none, with its records."""
    for block in blocks:
        for start, end in itertools.pairwise(run_bounds(block[field]).tolist()):
            yield int(block[field][start]), block[start:end]


def paired(
    documents: Iterable[Numbered], groups: Iterator[tuple[int, Records]]
) -> Iterator[tuple[int, Document, Records]]:
    """Yields the ``documents`` that have records in ``groups``, both ascending by number."""
    waiting = next(groups, None)
    for number, document in documents:
        if waiting is None:
            return
        if waiting[0] == number:
            yield number, document, waiting[1]
            waiting = next(groups, None)
