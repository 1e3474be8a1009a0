"""Small corpora as finished ``clean`` artifacts, and their deduplication."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from datatrove.data import Document

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.document import read_documents
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.unique import Unique
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from tests.stage_run import RunStage
from tests.unique_documents import write_documents

Texts = dict[str, str]
"""Document id → text."""
NO_METADATA: Mapping[str, dict[str, str]] = MappingProxyType({})


def clean(folder: Path, shards: Sequence[Texts], metadata: Mapping[str, dict[str, str]] = NO_METADATA) -> Artifact:
    """The texts of each shard as a finished artifact of stage ``clean``, some with ``metadata`` by id."""
    for number, texts in enumerate(shards):
        out = TaskOutput(folder, "clean", number)
        with out.shard("documents", "jsonl.zst") as path:
            write_documents(
                path, [Document(text, name, metadata={**metadata.get(name, {})}) for name, text in texts.items()]
            )
        out.done({"kept": len(texts)})
    return finish(folder, {"stage": "clean", "settings": {}}, {"clean": len(shards)})


def deal(texts: Texts, n_shards: int, seed: int = 0) -> list[Texts]:
    """``texts`` in ``n_shards`` shards, each document in one drawn at random, shuffled."""
    generator = random.Random(seed)
    shards: list[Texts] = [{} for _ in range(n_shards)]
    for name in generator.sample(list(texts), len(texts)):
        generator.choice(shards)[name] = texts[name]
    return shards


@dataclasses.dataclass
class Deduplicated:
    """The artifacts of the three stages."""

    signatures: Artifact
    duplicates: Artifact
    unique: Artifact

    def kept(self) -> Texts:
        return self._texts("documents")

    def drops(self) -> dict[str, dict[str, str]]:
        """Document id → its drop record."""
        return {
            document.id: document.metadata["drop"]
            for path in self.unique.shards("dropped")
            for document in read_documents(path)
        }

    def _texts(self, kind: str) -> Texts:
        return {d.id: d.text for path in self.unique.shards(kind) for d in read_documents(path)}


def deduplicate(
    run_stage: RunStage,
    root: Path,
    shards: Sequence[Texts],
    dedup: Dedup | None = None,
    metadata: Mapping[str, dict[str, str]] = NO_METADATA,
    **how: bool,
) -> Deduplicated:
    """Runs the three stages on ``shards`` below ``root``; ``how`` is passed to ``run_stage``."""
    dedup = dedup or Dedup(buckets=3)
    cleaned = clean(root / "clean" / "c", shards, metadata)
    signatures = run_stage(Signatures.of(dedup), {"clean": cleaned}, root / "signatures" / "s", **how)
    inputs = {"clean": cleaned, "signatures": signatures}
    duplicates = run_stage(Duplicates.of(dedup), inputs, root / "duplicates" / "d", **how)
    unique = run_stage(Unique(), {"clean": cleaned, "duplicates": duplicates}, root / "unique" / "u", **how)
    return Deduplicated(signatures, duplicates, unique)


def slow_jaccard(one: str, two: str, size_words: int = 5) -> float:
    """Jaccard similarity of word n-gram sets, from tuples of ASCII words: independent of the code under test."""

    def grams(text: str) -> set[tuple[str, ...]]:
        words = "".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split()
        return {tuple(words[i : i + size_words]) for i in range(max(1, len(words) - size_words + 1))}

    return len(grams(one) & grams(two)) / len(grams(one) | grams(two))


def family(generator: random.Random, size: int, n_words: int = 120, changes: int = 4) -> list[str]:
    """``size`` variants of one random text: each with up to ``changes`` words replaced, some cut short or repeated."""
    vocabulary = [f"w{i}" for i in range(2000)]
    base = generator.choices(vocabulary, k=n_words)
    variants = []
    for _ in range(size):
        words = list(base)
        for _ in range(generator.randint(0, changes)):
            words[generator.randrange(len(words))] = generator.choice(vocabulary)
        variants.append(" ".join(words[: len(words) - generator.randint(0, 6)]))
    return variants
