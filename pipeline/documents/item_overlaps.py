"""The items of a run's benchmarks that its documents hold: of all benchmarks, of one, and of one document."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.data_prep.decontamination.overlap import Overlap, read_overlaps
from headrace.pipeline.core.artifact import Artifact, shard_name
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output.terminal import Fact, few
from headrace.pipeline.run.planned_stage import PlannedStage

STAGES = ("unique", "overlaps")
"""``unique`` lists dropped and masked documents, ``overlaps`` kept ones."""


def overlap_facts(stages: Sequence[PlannedStage], name: str = "") -> Iterator[Fact]:
    """Yields the overlaps with all benchmarks, or with the benchmark or the item ``name``.

    Raises:
        ConfigError: when no benchmark was searched for, or nothing overlaps with ``name``.
        ArtifactError: when ``overlaps`` is not finished.
    """
    artifacts = {stage: need(stage, stages) for stage in STAGES}
    searched: dict[str, dict[str, Any]] = read_json(artifacts["overlaps"].path("items.json"))["benchmarks"]
    if not searched:
        remedy = "give benchmarks that come from files (evaluation=standard evaluation.data=FOLDER)"
        raise ConfigError("decontamination", "no benchmark was searched for", remedy)
    overlaps = [overlap for shard in range(artifacts["unique"].shard_count) for overlap in in_shard(artifacts, shard)]
    if not name:
        yield from _summary(searched, overlaps)
        return
    by_item = [overlap for overlap in overlaps if overlap.item == name]
    items = Counter(overlap.item for overlap in overlaps if overlap.item.startswith(f"{name}/"))
    if by_item:
        yield from few(map(_document, by_item), "documents")
    elif items:
        yield from few(((item, _documents(number)) for item, number in sorted(items.items())), "items")
    elif name in searched:
        yield name, "none of its items is in a document"
    else:
        known = {*searched, *(overlap.item for overlap in overlaps)}
        raise ConfigError("ITEM", f"nothing overlaps with {name!r}", suggestion(name, known))


def in_shard(artifacts: Mapping[str, Artifact], shard: int) -> Iterator[Overlap]:
    """Yields the overlaps with the documents of one shard, for those of ``STAGES`` that are in ``artifacts``."""
    for stage in STAGES:
        name = shard_name("overlaps", shard, "jsonl.zst")
        if stage in artifacts and name in artifacts[stage].manifest["files"]:
            yield from read_overlaps(artifacts[stage].path(name))


def of_document(artifacts: Mapping[str, Artifact], shard: int, document: str) -> Iterator[Fact]:
    """Yields the benchmark items that a document of ``shard`` holds, or held before masking."""
    overlaps = (overlap for overlap in in_shard(artifacts, shard) if overlap.document == document)
    return iter(
        few((("benchmark item", f"{overlap.item}: {_what(overlap)}") for overlap in overlaps), "benchmark item")
    )


def _summary(searched: Mapping[str, Mapping[str, Any]], overlaps: Sequence[Overlap]) -> Iterator[Fact]:
    for name, entry in searched.items():
        numbers = {action: set[str]() for action in ("kept", "dropped", "masked")}
        for overlap in overlaps:
            if overlap.item.startswith(f"{name}/"):
                numbers[overlap.action].add(overlap.document)
        parts = [f"{len(entry['dirty']):,} of {entry['items']:,} items are dirty"]
        parts += [f"{len(entry['too_short']):,} too short to tell"]
        parts += [f"{_documents(len(documents))} {action}" for action, documents in numbers.items() if documents]
        yield name, ", ".join(parts)


def _document(overlap: Overlap) -> Fact:
    return "document", f"{overlap.document}: {_what(overlap)}"


def _what(overlap: Overlap) -> str:
    return f"{overlap.found:,} of {overlap.ngrams:,} n-grams, from “{overlap.words}” on; {overlap.action}"


def _documents(number: int) -> str:
    return f"{number:,} document" + "s" * (number != 1)
