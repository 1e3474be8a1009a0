"""Stage ``unique``: the documents of ``clean`` without duplicates and, if configured, without benchmark items.

    documents/00007.jsonl.zst    the kept documents of shard 7, in order
    dropped/00007.jsonl.zst      the dropped ones, each with metadata.drop =
                                 {"rule": "near_duplicate", "value": "<id> jaccard=0.93"}
    overlaps/00007.jsonl.zst     the benchmark items for which documents were dropped or masked (with decontamination)

Rules: ``exact_duplicate`` (the survivor has the same text) and ``near_duplicate``, with its id, ``contaminated``, with
the benchmark item, and ``repeated_text`` for a document of which too little is left without the
text that it repeats (see dedup.cuts). Shards keep their numbers, also if they are empty.

    n-grams of the benchmarks ──> (documents that hold each ──> the common ones) ──> documents, dropped, overlaps
"""

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from datatrove.data import Document

from headrace.data_prep.decontamination.config import NO_DECONTAMINATION, Decontamination, ItemTexts
from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.overlap import Overlap, save_tally, sum_tallies, write_overlaps
from headrace.data_prep.decontamination.removal import Removal
from headrace.data_prep.decontamination.search import Search
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.cuts import REPEATED, Cuts
from headrace.data_prep.document import DocumentWriter, Drop, read_documents
from headrace.data_prep.shuffle.records import save_array
from headrace.pipeline.core.artifact import Balance, TaskOutput, handed
from headrace.pipeline.core.stage import DocumentCounts, Inputs, Phase, RawFile, Stage, counted

COPIES = ("exact_duplicate", "near_duplicate")
"""The rules that drop a document as a copy of another one, whose id the value begins with."""
LIKENESS = re.compile(r" jaccard=[0-9.]+$")
NGRAMS, TALLIES, IGNORED = "ngrams", "documents/ngrams", "common/ignored"
"""The phase that writes the n-grams; phase and kind of the tallies of n-grams and of the ignored n-grams."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unique(Stage):
    """Splits each shard of ``clean`` into kept documents, and duplicates and documents with benchmark items."""

    name: ClassVar[str] = "unique"
    version: ClassVar[int] = 2
    headline: ClassVar[tuple[str, ...]] = ("documents_in", "kept")
    card_counts: ClassVar[Mapping[str, str]] = {"kept": "unique documents"}
    describes_documents: ClassVar[bool] = True
    document_counts: ClassVar[DocumentCounts | None] = DocumentCounts(
        read="documents_in",
        unit="documents",
        text_bytes="bytes",
        dropped_title="duplicates",
        kept_title="unique",
        kept_short="unique",
    )

    decontamination: Decontamination = NO_DECONTAMINATION
    benchmarks: Mapping[str, ItemTexts] = dataclasses.field(default_factory=dict)
    """The benchmarks to remove, by name."""
    keep_duplicates: bool = False
    """Whether duplicates are kept."""
    repeated_words: int | None = None
    """The least words of the repeated spans that are cut; None: no span is."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("clean", "duplicates", *(["repeats"] if self.repeated_words is not None else []))

    @staticmethod
    def joined(line: tuple[Stage, ...], dedup: Dedup) -> tuple[Stage, ...]:
        """Returns ``line`` with the stage ``repeats`` before this one, if ``dedup`` has it."""
        if dedup.repeated_words is None:
            return line
        from headrace.data_prep.repeats import Repeats

        end = [stage.name for stage in line].index("unique")
        return (*line[:end], Repeats.of(dedup, dedup.repeated_words), *line[end:])

    @classmethod
    def of(cls, decontamination: Decontamination, benchmarks: Mapping[str, ItemTexts], **others: Any) -> "Unique":
        """Returns the stage for these settings. If nothing is removed, its address does not depend on benchmarks."""
        if decontamination.removes and benchmarks:
            return cls(decontamination=decontamination, benchmarks=benchmarks, **others)
        return cls(**others)

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(file for _, benchmark in sorted(self.benchmarks.items()) for file in benchmark.raw_files())

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        last = Phase("unique", shards["clean"], self._run)
        if not self.decontamination.removes:
            return (last,)
        first, most = Phase(NGRAMS, 1, self._ngrams), self.decontamination.common_documents
        if most is None:
            return first, last
        common = Phase("common", 1, functools.partial(self._common, most))
        return first, Phase("documents", shards["clean"], self._count), common, last

    def balances(self, counts: Counter[str], inputs: Inputs) -> Iterable[Balance]:
        duplicates = Counter[str]() if self.keep_duplicates else inputs["duplicates"].counts
        yield "documents_in = kept of clean", counts["documents_in"], inputs["clean"].counts["kept"]
        yield "documents_in = kept + dropped", counts["documents_in"], counts["kept"] + counted(counts, "dropped:")
        for kind in ("exact", "near"):
            rule = f"dropped:{kind}_duplicate"
            yield f"{rule} = removed_{kind} of duplicates", counts[rule], duplicates[f"removed_{kind}"]
        if self.repeated_words is not None and not self.decontamination.removes:
            cut = counts["cut"] + counted(counts, f"dropped:{REPEATED}")
            yield f"cut + dropped:{REPEATED} = documents_cut of repeats", cut, inputs["repeats"].counts["documents_cut"]

    def _documents(self, task: int, inputs: Inputs) -> Iterator[tuple[Document, Drop | None]]:
        """Yields the documents of a shard of ``clean`` without the text that they repeat, each with the reason to drop
        it as a duplicate, or None."""
        removed = np.load(inputs["duplicates"].shard("removed", task, "npy"))
        drops = {} if self.keep_duplicates else {int(entry["row"]): drop_of(entry) for entry in removed}
        cuts = None if self.repeated_words is None else Cuts.of(inputs["repeats"], task, self.repeated_words)
        for row, document in enumerate(read_documents(inputs["clean"].shard("documents", task, "jsonl.zst"))):
            yield document, cuts.apply(row, document) if cuts and row not in drops else drops.get(row)

    def _ngrams(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        ngrams = NGrams.of(self.benchmarks, self.decontamination.ngram_words)
        ngrams.save(out)
        return ngrams.counts

    def _count(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        """Writes how many documents of the shard hold each n-gram."""
        search, numbers = Search(NGrams.load(out, NGRAMS)), list[int]()
        for document, drop in self._documents(task, inputs):
            if drop is None:
                numbers += set(search.hits(document.text)[:, 1].tolist())
        save_tally(out, "ngrams", numbers)
        return Counter()

    def _common(self, most_documents: int, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        """Writes for each n-gram whether it is ignored, because it is in more than ``most_documents`` documents."""
        n_ngrams = NGrams.load(out, NGRAMS).keys.size
        ignored = sum_tallies(out, TALLIES, inputs["clean"].shard_count, n_ngrams) > most_documents
        with out.scratch("ignored", "npy") as path:
            save_array(path, ignored)
        return Counter(common_ngrams=int(ignored.sum()))

    def _removal(self, out: TaskOutput) -> Removal | None:
        if not self.decontamination.removes:
            return None
        ignored = None if self.decontamination.common_documents is None else np.load(handed(out, IGNORED, 0, "npy"))
        return Removal(Search(NGrams.load(out, NGRAMS), ignored), self.decontamination)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        removal, overlaps = self._removal(out), list[Overlap]()
        counts: Counter[str] = Counter({"documents_in": 0, "kept": 0})
        with (
            out.shard("documents", "jsonl.zst") as kept_path,
            out.shard("dropped", "jsonl.zst") as dropped_path,
            DocumentWriter(kept_path) as kept,
            DocumentWriter(dropped_path) as dropped,
        ):
            for document, drop in self._documents(task, inputs):
                counts["documents_in"] += 1
                if drop is None and removal:
                    drop, overlapping = removal(document)
                    counts["masked"] += bool(overlapping and drop is None)
                    overlaps += overlapping
                if drop:
                    document.metadata["drop"] = dataclasses.asdict(drop)
                    dropped.write(document)
                    counts[f"dropped:{drop.rule}"] += 1
                else:
                    kept.write(document)
                    counts.update(kept=1, bytes=len(document.text.encode()))
                    if REPEATED in document.metadata:
                        counts["cut"] += 1
        if removal:
            with out.shard("overlaps", "jsonl.zst") as path:
                write_overlaps(path, overlaps)
        return counts


def survivor_of(value: str) -> str:
    """Returns the id of the document that stays, from the ``value`` of a drop by one of COPIES."""
    return LIKENESS.sub("", value)


def drop_of(entry: np.void) -> Drop:
    """Returns the reason to drop the document of an entry in removed/*.npy."""
    survivor = entry["survivor_id"].decode()
    if entry["exact"]:
        return Drop("exact_duplicate", survivor)
    return Drop("near_duplicate", f"{survivor} jaccard={entry['jaccard']:.2f}")
