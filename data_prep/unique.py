"""Stage ``unique``: the documents of ``clean`` without duplicates.

    documents/00007.jsonl.zst    what stays of shard 7, in order
    dropped/00007.jsonl.zst      what goes: metadata.drop = {"rule": "near_duplicate", "value": "<id> jaccard=0.93"}

Rules: ``exact_duplicate`` (the text is the survivor's) and ``near_duplicate``, each with the id of the survivor. Shards
keep their numbers, also empty ones.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from data_prep.document import DocumentWriter, Drop, read_documents
from pipeline.core.artifact import TaskOutput
from pipeline.core.stage import Inputs, Phase, Stage


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unique(Stage):
    """Splits each shard of ``clean`` by what ``duplicates`` found."""

    name: ClassVar[str] = "unique"
    inputs: ClassVar[tuple[str, ...]] = ("clean", "duplicates")

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        return (Phase("unique", shards["clean"], self._run),)

    def _run(self, task: int, inputs: Inputs, out: TaskOutput) -> Counter[str]:
        removed = np.load(inputs["duplicates"].shard("removed", task, "npy"))
        drops = {int(entry["row"]): drop_of(entry) for entry in removed}
        counts: Counter[str] = Counter({"documents_in": 0, "kept": 0})
        with (
            out.shard("documents", "jsonl.zst") as kept_path,
            out.shard("dropped", "jsonl.zst") as dropped_path,
            DocumentWriter(kept_path) as kept,
            DocumentWriter(dropped_path) as dropped,
        ):
            for row, document in enumerate(read_documents(inputs["clean"].shard("documents", task, "jsonl.zst"))):
                counts["documents_in"] += 1
                if drop := drops.get(row):
                    document.metadata["drop"] = dataclasses.asdict(drop)
                    dropped.write(document)
                    counts[f"dropped:{drop.rule}"] += 1
                else:
                    kept.write(document)
                    counts.update(kept=1, bytes=len(document.text.encode()))
        return counts


def drop_of(entry: np.void) -> Drop:
    """Why the document of this entry of removed/*.npy goes."""
    survivor = entry["survivor_id"].decode()
    if entry["exact"]:
        return Drop("exact_duplicate", survivor)
    return Drop("near_duplicate", f"{survivor} jaccard={entry['jaccard']:.2f}")
