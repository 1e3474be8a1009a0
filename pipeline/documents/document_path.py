"""The path of one document through the stages: what decided on it, its duplicates, its tokens and rows.

id or URL ── texts ──> readable | the reason why not
               └─ clean ──> kept | dropped by a rule
                   └─ duplicates ──> its cluster: the survivor, or what was removed for it, with exact Jaccard
                       └─ unique, overlaps ──> kept | masked | dropped, with the benchmark items that it holds
                           └─ tokens ──> shard, tokens from E to E
                               └─ packed ──> split, rows
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from datatrove.data import Document

from headrace.data_prep.classifiers.linear_classifier import MODEL_FILE, STAGE, LinearClassifier, load
from headrace.data_prep.classifiers.linear_training import reasons
from headrace.data_prep.columns.scorer import read_values, values_or_none
from headrace.data_prep.decontamination.overlap import Overlap, read_overlaps
from headrace.data_prep.dedup.corpus import look_up, numbers_of
from headrace.data_prep.dedup.cuts import REPEATED
from headrace.data_prep.document import split_id
from headrace.data_prep.extraction.main_text import model
from headrace.data_prep.extraction.main_text.model import JudgedBlock
from headrace.data_prep.filters import AnyFilter
from headrace.data_prep.filters.explanations import explained
from headrace.data_prep.filters.filter import REMOVED_UNITS
from headrace.data_prep.packed import SPLITS
from headrace.data_prep.selected import COPIES, REASONS, Selected, reason_names
from headrace.data_prep.sources.html import HtmlExtraction, watched
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.shards import PackedRows
from headrace.pipeline.core.artifact import Artifact, shard_name
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.stage import FACTS, kind_of
from headrace.pipeline.documents.lookup import cleaning_of, find, need, texts_stage, whole
from headrace.pipeline.documents.stored_documents import (
    COLUMNS_FIELD,
    Artifacts,
    StoredDocument,
    columns_in,
    document_named,
    shown,
)
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


NAMED_REASONS = 5
"""Features that are named for a block, and n-grams for a class."""


def document_facts(stages: Sequence[PlannedStage], name: str, run: str = "") -> Iterator[Fact]:
    """Yields all facts about the documents that ``name``, an id or a URL, names in ``run``, which has the ``stages``.

    Raises:
        ConfigError: when it names none.
        ArtifactError: when ``texts`` is not finished.
    """
    artifacts, texts, filters = whole(stages), texts_stage(stages), cleaning_of(stages).filters
    for number, record in enumerate(records_named(stages, name, run)):
        if number:
            yield "", ""
        yield from of_record(record, artifacts, texts, filters)
    describing = [stage.name for stage in stages if FACTS[kind_of(stage.name)].describes_documents]
    if unfinished := [stage for stage in describing if stage not in artifacts]:
        yield "not finished", f"{', '.join(unfinished)}; run them to know more"


def block_facts(stages: Sequence[PlannedStage], name: str, run: str = "") -> Iterator[Fact]:
    """Yields the blocks of the page ``name``, an id or a URL: probability, verdict, path, text, and what decided.

    Raises:
        ConfigError: when it names no document, or one that was not made of HTML by a model.
        ArtifactError: when ``texts`` is not finished, or the source cannot be read any more.
    """
    texts = texts_stage(stages)
    for record in records_named(stages, name, run):
        yield "id", record.document.id
        for block in blocks_of(texts, record.document.id):
            yield "kept" if block.is_kept else "left out", f"{block.probability:.2f}  {block.path}  {block.text}"
            why = (f"{feature} {change:+.1f}" for feature, change in block.reasons[:NAMED_REASONS])
            yield "because of", ", ".join(why)


def records_named(stages: Sequence[PlannedStage], name: str, run: str = "") -> list[StoredDocument]:
    """Returns the records of ``texts`` that ``name``, an id or a URL, names. Errors name ``run``.

    Raises:
        ConfigError: when it names none.
        ArtifactError: when ``texts`` is not finished.
    """
    return find(need("texts", stages), texts_stage(stages), name, run)


def of_record(
    record: StoredDocument, artifacts: Artifacts, texts: Texts, filters: Sequence[AnyFilter]
) -> Iterator[Fact]:
    """Yields all facts about a ``record``, which was read by the stage ``texts`` and cleaned by ``filters``."""
    at = path(record, artifacts)
    cleaned, after = at.get("clean"), at.get("unique")
    yield from identity(record, texts)
    yield from _verdict(*list(at.items())[-1], filters)
    yield from cleaning((cleaned or record).document)
    if STAGE in artifacts:
        yield from classes_of((cleaned or record).document.text, load(str(artifacts[STAGE].path(MODEL_FILE))))
    if cleaned is not None and cleaned.is_kept:
        if {"signatures", "duplicates"} <= artifacts.keys():
            yield from _cluster(cleaned, artifacts["signatures"], artifacts["duplicates"])
        yield from of_document(artifacts, cleaned.shard, cleaned.document.id)
    if after is not None:
        yield from few(_repeated(after.document), "repeats")
        if after.is_kept:
            yield from value_facts(artifacts, after.shard, after.row)
    if after is not None and after.is_kept and "tokens" in artifacts:
        bounds = np.load(artifacts["tokens"].shard("bounds", after.shard, "npy"), mmap_mode="r")
        first, last = bounds[after.row : after.row + 2].tolist()
        yield (
            "tokens",
            f"{last - first - 1:,} in token shard {after.shard}, between the ends of text {first} and {last}",
        )
        if "packed" in artifacts:
            yield from few(rows_of(artifacts["packed"], after.shard, first, last), "row")
    yield from ((stage, record_of_stage.location) for stage, record_of_stage in at.items())


def path(record: StoredDocument, artifacts: Artifacts) -> dict[str, StoredDocument]:
    """Returns a record of texts as each stage has it, up to the stage that dropped it."""
    at = {"texts": record}
    for stage in ("clean", "unique"):
        if record.is_kept and stage in artifacts:
            kept = document_named(artifacts[stage], record.shard, record.document.id)
            if kept is not None:
                at[stage] = record = kept
    return at


def identity(match: StoredDocument, texts: Texts) -> Iterator[Fact]:
    """Yields the id, source file, record and URL of a document."""
    file, record = split_id(match.document.id)
    yield "id", match.document.id
    yield "source file", texts.source.location(file)
    yield "record", str(record)
    if url := match.document.metadata.get("url"):
        yield "url", str(url)


def _verdict(stage: str, match: StoredDocument, filters: Sequence[AnyFilter]) -> Iterator[Fact]:
    if match.is_kept:
        yield "kept by", stage
    else:
        yield "dropped by", stage
        yield from decision(match.document.metadata, filters)


def value_facts(artifacts: Artifacts, shard: int, row: int) -> Iterator[Fact]:
    """Yields the value of each column of the document in ``row`` of ``shard`` of ``unique``, and its copies."""
    for name, column in columns_in(artifacts).items():
        yield f"column {name}", shown(*values_or_none(read_values(column, shard)[row : row + 1]))
    if Selected.name in artifacts:
        copies = np.load(artifacts[Selected.name].shard(COPIES, shard, "npy"))[row]
        yield "copies", f"{copies}, {not_selected(artifacts, shard, row)}".rstrip(", ")


def not_selected(artifacts: Artifacts, shard: int, row: int) -> str:
    """Returns which rule did not select a document; empty if it was selected, or the run selects none."""
    if Selected.name not in artifacts:
        return ""
    selected = artifacts[Selected.name]
    reason = reason_names(selected)[np.load(selected.shard(REASONS, shard, "npy"))[row]]
    return f"not selected by {reason}" if reason else ""


def rows_of(packed: Artifact, shard: int, first: int, last: int) -> Iterable[Fact]:
    """Yields the split and the rows of the document between the ends of text ``first`` and ``last`` of a shard."""
    for split in SPLITS:
        rows, spans = PackedRows(packed, split).spans_with_targets(shard, first, last)
        if rows.size:
            yield "split", split
        for row, (_, start, length) in zip(rows.tolist(), spans.tolist(), strict=True):
            yield "row", f"{row} of {split}: {length:,} tokens from {start} on"


def decision(metadata: Mapping[str, Any], filters: Sequence[AnyFilter]) -> Iterator[Fact]:
    """Yields the rule that dropped a document, the value that it measured, and its meaning in the report's words."""
    drop = metadata.get("drop") or {}
    rule, value = str(drop.get("rule", "")), str(drop.get("value", ""))
    yield "rule", rule
    yield "value", value
    if (meaning := explained(rule, filters).of_value(value)) != value:
        yield "meaning", meaning


def cleaning(document: Document) -> Iterator[Fact]:
    """Yields the notes of cleaning about a document."""
    metadata = document.metadata
    yield "characters", f"{len(document.text):,}"
    for name, value in metadata.get(COLUMNS_FIELD, {}).items():
        yield f"column {name}", shown(value)
    if metadata.get("language"):
        yield "language", f"{metadata['language']}, score {metadata.get('language_score', 'unknown')}"
    for unit in REMOVED_UNITS:
        for rule, number in metadata.get(f"removed_{unit}", {}).items():
            yield f"removed {unit}", f"{number:,} by {rule}"
    for kind, number in metadata.get("masked_pii", {}).items():
        yield "masked", f"{number:,} × {kind}"


def classes_of(text: str, classifier: LinearClassifier) -> Iterator[Fact]:
    """Yields the probability of each class of ``text``, and the n-grams that move the most probable one's most."""
    scores = classifier.scores(text)
    best = max(scores, key=lambda name: scores[name])
    yield "classifier", ", ".join(f"{name} {score:.6f}" for name, score in scores.items())
    telling = reasons(classifier, text, best, NAMED_REASONS)
    yield f"for {best}", ", ".join(f"{ngram!r} {part:+.3f}" for ngram, part in telling) or "no n-gram"


def _cluster(cleaned: StoredDocument, signatures: Artifact, duplicates: Artifact) -> Iterator[Fact]:
    """Yields the survivor of the document's cluster, and the documents that were removed for it."""
    number = int(numbers_of(cleaned.shard, np.array([cleaned.row]))[0])
    survivor = int(np.load(duplicates.shard("clusters", cleaned.shard, "npy"), mmap_mode="r")[cleaned.row])
    removed, entries = _removed_for(survivor, duplicates)
    if not len(entries):
        yield "duplicates", "none"
        return
    yield "cluster", f"{len(entries) + 1:,} documents"
    for entry in entries[removed == number]:
        yield "duplicate of", entry["survivor_id"].decode() + older_run(survivor, duplicates)
        yield "jaccard", likeness(entry)
    others = removed != number
    ids = look_up(lambda shard: np.load(signatures.shard("ids", shard, "npy"), mmap_mode="r"), removed[others])
    label = "survivor of" if survivor == number else "also removed"
    lines = zip(ids, entries[others], strict=True)
    yield from few(
        ((label, f"{document_id.decode()}  jaccard {likeness(entry)}") for document_id, entry in lines), label
    )


def _repeated(document: Document) -> Iterator[Fact]:
    """Yields the spans of a document of ``clean`` that others have, and where: offsets in characters."""
    for span in document.metadata.get(REPEATED, ()):
        place = f"{span['survivor']} from {span['survivor_start']:,}"
        yield "repeats", f"characters {span['start']:,} to {span['end']:,}: {place}"


def _removed_for(survivor: int, duplicates: Artifact) -> tuple[Any, Any]:
    """Returns the numbers of the documents that were removed for ``survivor``, and their entries of removed/*.npy."""
    numbers, entries = [], []
    for shard in range(duplicates.shard_count):
        table = np.load(duplicates.shard("removed", shard, "npy"))
        table = table[table["survivor"] == np.uint64(survivor)]
        numbers.append(numbers_of(shard, table["row"]))
        entries.append(table)
    return np.concatenate(numbers), np.concatenate(entries)


def older_run(survivor: int, duplicates: Artifact) -> str:
    """Names the older run of ``dedup.against`` that holds document ``survivor``; empty for this run."""
    shard = survivor >> 32
    last = duplicates.shard_count
    for older in duplicates.settings["against"]:
        first, last = last, last + older["shards"]
        if first <= shard < last:
            return f" of the older run unique/{older['address']}"
    return ""


def likeness(entry: np.void) -> str:
    """Returns the Jaccard similarity of an entry of removed/*.npy with its survivor."""
    return f"{entry['jaccard']:.4f}{' (equal texts)' * bool(entry['exact'])}"


def blocks_of(texts: Texts, identity: str) -> list[JudgedBlock]:
    """Returns the blocks of the page of the document ``identity``.

    Raises:
        ConfigError: when no model chose its text.
        ArtifactError: when its file cannot be read.
    """
    file, _ = split_id(identity)
    source = texts.source
    if not isinstance(source, HtmlExtraction) or not source.extracts or source.extractor != "blocks":
        remedy = "use it with a source of HTML and source.extractor=blocks"
        raise ConfigError("--blocks", "no model chose the text of these documents", remedy)
    with watched() as pages:
        for document, _ in source.read(file):
            if document.id == identity and pages:
                return model.explained(pages[-1], source.model)
            pages.clear()
    raise ConfigError("--blocks", f"{identity!r} is no page of HTML that could be read", "name another document")
