"""Stage ``overlaps``: the items of the run's benchmarks that the documents to train on hold.

    overlaps/00007.jsonl.zst    one object for each item and document of shard 7 that share an n-gram (see
                                decontamination.overlap)
    items.json                  for each benchmark: number of items, items that are too short to search for, and the
                                number of documents with each dirty item; scores are split by it

This is a stage of its own because it changes no training data: another benchmark changes the knowledge about a model,
not the model. So no model is trained again when trained weights are scored on another benchmark.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from headrace.data_prep.decontamination.config import Decontamination, ItemTexts
from headrace.data_prep.decontamination.ngrams import NGrams
from headrace.data_prep.decontamination.overlap import (
    Overlap,
    items_in,
    overlaps,
    save_tally,
    sum_tallies,
    write_overlaps,
)
from headrace.data_prep.decontamination.search import Search
from headrace.data_prep.document import read_documents
from headrace.pipeline.core.artifact import Balance, TaskOutput
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage

FORMAT = 1
NGRAMS, SEARCH = "ngrams", "overlaps"
"""The phases whose results later phases read."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Overlaps(Stage):
    """Searches each shard of ``unique`` for the n-grams of benchmarks."""

    name: ClassVar[str] = "overlaps"
    inputs: ClassVar[tuple[str, ...]] = ("unique",)
    headline: ClassVar[tuple[str, ...]] = ("dirty_items", "dirty_documents")
    describes_documents: ClassVar[bool] = True

    ngram_words: int
    benchmarks: Mapping[str, ItemTexts] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, decontamination: Decontamination, benchmarks: Mapping[str, ItemTexts]) -> "Overlaps":
        """Returns the stage for these settings."""
        searched = {} if decontamination.action == "none" else benchmarks
        return cls(ngram_words=decontamination.ngram_words, benchmarks=searched)

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(file for _, benchmark in sorted(self.benchmarks.items()) for file in benchmark.raw_files())

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        last = Phase("items", 1, self._items)
        if not self.benchmarks:
            return (last,)
        return Phase(NGRAMS, 1, self._ngrams), Phase(SEARCH, shards["unique"], self._search), last

    def balances(self, counts: Counter[str], inputs: Inputs) -> Iterable[Balance]:
        if self.benchmarks:
            yield "documents = kept of unique", counts["documents"], inputs["unique"].counts["kept"]

    def _ngrams(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        ngrams = NGrams.of(self.benchmarks, self.ngram_words)
        ngrams.save(out)
        return ngrams.counts

    def _search(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        search, overlapping = Search(NGrams.load(out, NGRAMS)), list[Overlap]()
        items_found, ngrams_found = list[int](), list[int]()
        counts: Counter[str] = Counter({"documents": 0, "dirty_documents": 0})
        for document in read_documents(inputs["unique"].shard("documents", task, "jsonl.zst")):
            hits = search.hits(document.text)
            items = items_in(hits, search.ngrams)
            overlapping += overlaps(items, search.ngrams, document.id, "kept")
            items_found += items
            ngrams_found += set(hits[:, 1].tolist())
            counts.update(documents=1, dirty_documents=int(bool(items)))
        save_tally(out, "items", items_found)
        save_tally(out, "ngrams", ngrams_found)
        with out.shard("overlaps", "jsonl.zst") as path:
            write_overlaps(path, overlapping)
        return counts

    def _items(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        benchmarks: dict[str, dict[str, Any]] = {}
        if self.benchmarks:
            ngrams = NGrams.load(out, NGRAMS)
            tasks = inputs["unique"].shard_count
            documents = sum_tallies(out, f"{SEARCH}/items", tasks, ngrams.sizes.size).tolist()
            shares = ngrams.shares(sum_tallies(out, f"{SEARCH}/ngrams", tasks, ngrams.keys.size) > 0)
            for number, size in enumerate(ngrams.sizes.tolist()):
                name, _, item = ngrams.name(number).partition("/")
                entry = benchmarks.setdefault(name, {"items": 0, "too_short": [], "dirty": {}})
                entry["items"] += 1
                if not size:
                    entry["too_short"].append(item)
                elif shares[number] > self.benchmarks[name].dirty_share:
                    entry["dirty"][item] = documents[number]
        with out.file("items.json") as path:
            write_json(path, {"format": FORMAT, "ngram_words": self.ngram_words, "benchmarks": benchmarks})
        return Counter(dirty_items=sum(len(entry["dirty"]) for entry in benchmarks.values()))
