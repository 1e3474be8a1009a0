"""Writes documents, tokens or rows of a run as a folder that other programs open, with a card and checksums.

unique, clean, texts   ──> documents    jsonl, parquet
tokens, packed         ──> sequences    parquet, megatron, nanoset
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from datatrove.data import Document

from headrace.data_prep.document import read_documents
from headrace.data_prep.packed import SPLITS, split_of
from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.gone import GONE
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.documents.lookup import document_stage, need, whole
from headrace.pipeline.documents.stored_documents import (
    check_rule,
    columns_in,
    matches,
    names,
    rule_of,
    shard_of,
    with_columns,
)
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.papers import document_folder
from headrace.pipeline.papers.cards import CARD, Exported, dataset_card
from headrace.pipeline.papers.document_folder import SPLIT
from headrace.pipeline.papers.sequence_files import FILES, sequence_sets, write_tokens
from headrace.pipeline.papers.table_files import TableRow, columns_of, flat, json_columns, schema_of
from headrace.pipeline.papers.whole_folder import checked_folder, new_folder, sized, write_checksums
from headrace.pipeline.run.planner import Run

SEQUENCES = ("tokens", "packed")
"""The stages whose tokens are exported."""
FORMATS = tuple(dict.fromkeys((*document_folder.FORMATS, *FILES)))
USUAL_BYTES = 500_000_000
UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LICENCE = re.compile(r"licen[cs]e(?!_of_part|_mentioned)", re.IGNORECASE)
HELD_OUT = "`validation` has the documents that the run holds out ({:g} of all, by a hash of the id): train on none."
LICENCES_COUNTED = 1_000
"""The most values of a licence that are counted each."""


@dataclasses.dataclass(frozen=True)
class DocumentChoice:
    """The documents that are written, and their columns."""

    kind: str = "documents"
    rule: str = ""
    columns: Sequence[str] = ()
    split_by: str = ""
    values: Mapping[str, Artifact] = dataclasses.field(default_factory=dict, compare=False)
    """The artifacts with the columns of documents that stages of the run computed, by name."""
    validation_fraction: float | None = dataclasses.field(default=None, compare=False)
    """The share of the documents that the run holds out; None leaves out the column ``split``."""

    def of_run(
        self, stage: str, artifacts: Mapping[str, Artifact], validation_fraction: float | None = None
    ) -> "DocumentChoice":
        """Returns this choice with the columns of documents of ``stage``, out of the ``artifacts`` of a run, which
        holds out the ``validation_fraction``. Dropped documents are in no split."""
        if self.kind != "documents":
            return self
        values = columns_in(artifacts) if stage == "unique" else {}
        return dataclasses.replace(self, values=values, validation_fraction=validation_fraction)

    def rows(self, artifact: Artifact, progress: Progress) -> Iterator[TableRow]:
        """Yields the documents of ``artifact`` as rows."""
        for name in names(artifact, self.kind):
            documents: Iterable[Document] = read_documents(artifact.path(name))
            documents = with_columns(documents, self.values, shard_of(name)) if self.values else documents
            yield from (self._row(document) for document in documents if matches(self.rule, rule_of(document)))
            progress.advance()

    def _row(self, document: Document) -> TableRow:
        return flat(document) if self.validation_fraction is None else with_split(document, self.validation_fraction)

    def checked(self, columns: Mapping[str, object]) -> list[str]:
        """Returns the names of the columns to write.

        Raises:
            ConfigError: when no document has one of ``columns``, or that of ``split_by``.
        """
        asked = {"--columns": self.columns, "--split-by": [self.split_by] if self.split_by else []}
        for option, chosen in asked.items():
            if unknown := next((name for name in chosen if name not in columns), None):
                raise ConfigError(option, f"there is no column {unknown!r}", suggestion(unknown, columns))
        return list(self.columns or columns)


def with_split(document: Document, validation_fraction: float) -> TableRow:
    """Returns ``document`` as a row with the column ``split``; a field of this name becomes ``metadata.split``."""
    row = flat(document)
    clash = {f"metadata.{SPLIT}": row.pop(SPLIT)} if SPLIT in row else {}
    return row | clash | {SPLIT: split_of(document.id, validation_fraction)}


def parsed_size(text: str) -> int:
    """Returns the bytes of ``text``, such as ``500MB`` or ``64MiB``; USUAL_BYTES if it is empty.

    Raises:
        ConfigError: when it is no size.
    """
    if not text:
        return USUAL_BYTES
    match = re.fullmatch(r"(\d{1,15})(\w*)", text.replace("_", ""), re.ASCII)
    size = int(match[1]) * UNITS[match[2]] if match and match[2] in UNITS else 0
    if not size:
        raise ConfigError("--shard-size", f"{text!r} is no size", "write a number of bytes, such as 500MB or 64MiB")
    return size


def export_data(
    run: Run, stage: str, form: str, to: str, size: str, force: bool, selection: DocumentChoice
) -> list[Fact]:
    """Writes the data of ``stage`` in the format ``form`` to the folder ``to``; returns what was written.

    Raises:
        ConfigError: when the stage has no data, or not in this format, the folder exists, or a column does not.
    """
    is_tokens = stage in SEQUENCES
    if not is_tokens and stage not in STORING:
        remedy = f"give one of {', '.join((*STORING, *SEQUENCES))}"
        raise ConfigError("STAGE", f"{stage!r} has neither documents nor tokens", remedy)
    forms = tuple(FILES) if is_tokens else document_folder.FORMATS
    if form not in forms:
        remedy = GONE.get(f"--format {form}") or f"give one of {', '.join(forms)}"
        raise ConfigError("--format", f"{form!r} is no format of {stage}", remedy)
    if is_tokens and selection != DocumentChoice():
        raise ConfigError("STAGE", f"{stage!r} has no documents to choose from", "leave out the options for documents")
    shard_bytes, folder = parsed_size(size), checked_folder(to, force)
    artifacts = {name: artifact for name, artifact in whole(run.stages).items() if name != "report"}
    artifact = need(stage, run.stages) if is_tokens else document_stage(stage, run.stages)
    fraction = run.config.packing.validation_fraction
    with new_folder(folder, force) as temporary:
        if is_tokens:
            inputs = artifacts | {"tokens": need("tokens", run.stages)}
            exported = _sequences(temporary, inputs, stage, form, shard_bytes, fraction)
        else:
            choice = selection.of_run(stage, artifacts, fraction)
            exported = _documents(temporary, artifact, form, shard_bytes, choice)
        before = dict(list(artifacts.items())[: list(artifacts).index(stage) + 1])
        card = dataset_card(run.label, exported, before)
        (temporary / CARD).write_text(card, encoding="utf-8")
        write_checksums(temporary)
    shown = ", ".join(f"{part}: {n:,}" for part, n in exported.parts.items() if part)
    facts = [(exported.kind, f"{sum(exported.parts.values()):,}" + f" ({shown})" * bool(shown))]
    return [*facts, ("columns", ", ".join(exported.columns)), ("folder", sized(folder))]


def _documents(folder: Path, artifact: Artifact, form: str, shard_bytes: int, selection: DocumentChoice) -> Exported:
    if selection.rule:
        check_rule(artifact, selection.rule)
    with Progress("export", 2 * len(names(artifact, selection.kind)), "shards") as progress:
        types = columns_of(selection.rows(artifact, progress))
        columns = {name: types[name] for name in selection.checked(types)}
        licences = {name: Counter[str]() for name in types if LICENCE.search(name)}
        rows = _counted(selection.rows(artifact, progress), licences)
        is_split = selection.validation_fraction is not None
        target = document_folder.DocumentFolder(folder, form, columns, selection.split_by, shard_bytes, is_split)
        parts = target.write(rows)
    schema = schema_of(columns)
    return Exported(
        artifact.folder.parent.name,
        artifact.folder.name,
        selection.kind,
        form,
        parts,
        {field.name: str(field.type) for field in schema},
        tuple(_document_notes(selection, json_columns(columns))),
        licences,
        selection.split_by,
    )


def _counted(rows: Iterable[TableRow], licences: Mapping[str, "Counter[str]"]) -> Iterator[TableRow]:
    """Yields ``rows`` and counts their values of the columns ``licences``."""
    for row in rows:
        for name, values in licences.items():
            value = str(row.get(name, "not stated"))
            values[value if value in values or len(values) < LICENCES_COUNTED else "others"] += 1
        yield row


def _document_notes(selection: DocumentChoice, texts: Sequence[str]) -> Iterator[str]:
    if selection.rule:
        yield f"Only those that the rule {selection.rule} dropped."
    if selection.validation_fraction is not None:
        yield HELD_OUT.format(selection.validation_fraction)
    if selection.split_by:
        yield f"A folder for each value of the column `{selection.split_by}`."
    if texts:
        yield f"JSON text, because the values have no common type: {', '.join(f'`{name}`' for name in texts)}."
    yield "`datasets.load_dataset(FOLDER)` opens it."


def _sequences(
    folder: Path, artifacts: Mapping[str, Artifact], stage: str, form: str, shard_bytes: int, fraction: float
) -> Exported:
    text = artifacts["tokenizer"].path("tokenizer.json")
    encoder = Encoder.load(text)
    (folder / text.name).write_bytes(text.read_bytes())
    sets = sequence_sets(artifacts, stage, encoder.end_of_text, fraction)
    rows = sum(artifacts[stage].counts[f"{split}_rows"] for split in SPLITS)
    total = rows if stage == "packed" else artifacts[stage].counts["documents"]
    counts = write_tokens(folder, form, sets, encoder.dtype, shard_bytes, total)
    tokens = sum(number for _, number in counts.values())
    what = "row, in the order of the artifact, padded with it" if stage == "packed" else "document and its end of text"
    notes = [
        f"{tokens:,} tokens of the vocabulary in tokenizer.json ({encoder.vocabulary_size:,});"
        f" end of text is {encoder.end_of_text}. A sequence is a {what}.",
        HELD_OUT.format(fraction),
    ]
    columns = {"input_ids": encoder.dtype.name} | ({"span_lengths": "int32"} if sets[0].row_tokens else {})
    parts = {split: sequences for split, (sequences, _) in counts.items()}
    return Exported(stage, artifacts[stage].folder.name, "sequences", form, parts, columns, notes)
