"""``headrace export``: documents, tokens or rows of a stage for other programs, or a model as a Hugging Face folder.

headrace export unique pages.parquet                          the documents that clean and unique kept
headrace export clean dropped.jsonl.zst --dropped             the documents that clean dropped, with rule and value
headrace export clean short.jsonl --rule c4_lines.sentences   those that this rule dropped
headrace export unique pages.jsonl --columns id,text,url      these columns alone, in this order
headrace export unique pages.jsonl.gz --force                 replaces pages.jsonl.gz
headrace export unique --format parquet --to pages            a folder of files, with a card and checksums
headrace export unique --format jsonl --to pages --split-by language    a folder for each language
headrace export tokens --format megatron --to corpus          each document with its end of text, for another trainer
headrace export packed --format parquet --to rows --shard-size 64MiB    the training rows
headrace export small --to model                              the last weights of the run ``small``
headrace export small@600 --to model                          those of its checkpoint of step 600
headrace export small@400,600,800 --to model                  the average of three checkpoints
headrace export small --to model --ema                        the moving average of the weights (optimizer.ema_decay)

The suffix of FILE chooses the format: .jsonl, .parquet, or .jsonl with .gz, .zst, .bz2 or .xz after it. Both formats
have the same columns: id, text and one for each other field, such as url, language, drop.rule, drop.value,
removed_lines.c4_lines.end_mark; of kept documents also split: train, or validation for those that the run holds out.
pandas reads them with ``read_parquet(FILE)`` and ``read_json(FILE, lines=True)``, Hugging Face datasets with
``load_dataset("parquet", data_files=FILE)``, and Headrace with ``source=parquet source.paths=FILE``; fields of a source
keep one prefix, ``extra.``, however often that is done. FILE gets its name when it is whole.

A folder has the files of one format. Of documents: jsonl, parquet. Of tokens and packed: parquet, megatron (.bin and
.idx), nanoset (datatrove's .ds). Documents that the run holds out are in the split validation of each. A file has about
--shard-size bytes before compression (500MB). README.md is a card with the funnel, sources and settings, SHA256SUMS has
the checksum of every file. --force replaces an earlier export. docs/formats.md defines the files.

A model is a folder that ``transformers`` opens, with its tokenizer and a model card. Weights of more than 5 GB are in
several files.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import command, load, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.artifact_files import sync
from headrace.pipeline.core.claim import remove_unfinished, temporary_path
from headrace.pipeline.core.compression import CODECS
from headrace.pipeline.core.errors import ConfigError, local_path
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.documents.drop_rules import check_rule
from headrace.pipeline.documents.lookup import document_stage, whole
from headrace.pipeline.documents.stored_documents import names
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.papers.document_folder import SPLIT
from headrace.pipeline.papers.export_data import FORMATS, DocumentChoice, export_data
from headrace.pipeline.papers.table_files import TableRow, columns_of, json_columns, write_rows

SUFFIXES = (".jsonl", *(f".jsonl{codec.suffixes[0]}" for codec in CODECS), ".parquet")


@command
@click.argument("what", metavar="STAGE|RUN[@STEP]")
@click.argument("file", metavar="[FILE]", default="", type=click.Path())
@click.option("--to", metavar="FOLDER", default="", type=click.Path(), help="The folder for a model or a --format.")
@click.option("--format", "form", metavar="FORMAT", default="", help="Write the data of STAGE to the folder --to.")
@click.option("--shard-size", metavar="BYTES", default="", help="The size of the files of --format, such as 500MB.")
@click.option("--split-by", metavar="COLUMN", default="", help="A folder for each value of a column of documents.")
@click.option("--ema", is_flag=True, help="The moving average of the weights instead of the last ones.")
@click.option("--dropped", is_flag=True, help="Dropped documents instead of kept ones.")
@click.option("--rule", metavar="RULE", default="", help="Only documents that this rule or filter dropped.")
@click.option("--columns", metavar="NAME,…", default="", help="Only these columns, in this order.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@run_option
def export(
    overrides: Sequence[str],
    what: str,
    file: str,
    to: str,
    form: str,
    shard_size: str,
    split_by: str,
    ema: bool,
    dropped: bool,
    rule: str,
    columns: str,
    force: bool,
    run: str,
) -> None:
    """Writes documents of a stage, with all their fields, to a file, its data or the model of a run to a folder."""
    kind = "dropped" if dropped or rule else "documents"
    chosen = columns.split(",") if columns else ()
    if form:
        if file or ema or not to:
            raise ConfigError("--format", "is for a folder alone", "write headrace export STAGE --format … --to FOLDER")
        selection = DocumentChoice(kind, rule, chosen, split_by)
        return terminal.show(export_data(run_of(overrides, run), what, form, to, shard_size, force, selection))
    if shard_size or split_by:
        option = "--shard-size" if shard_size else "--split-by"
        raise ConfigError(option, "is for a folder of files", f"give --format, one of {', '.join(FORMATS)}")
    if to:
        if file or dropped or rule or columns or force or run:
            raise ConfigError(
                "--to", "is for a model, and more is given", "write headrace export RUN[@STEP] --to FOLDER"
            )
        return terminal.show(load("papers.export_model").export_model(overrides, what, to, ema))
    if ema:
        raise ConfigError("--ema", "is for a model", "write headrace export RUN[@STEP] --to FOLDER --ema")
    if not file:
        raise ConfigError("FILE", "is missing", "give a file for documents, or --to FOLDER for the model of a run")
    path = checked_path(file, force)
    chosen_run = run_of(overrides, run)
    fraction = chosen_run.config.packing.validation_fraction
    choice = DocumentChoice(kind, rule, chosen).of_run(what, whole(chosen_run.stages), fraction)
    return terminal.show(write(document_stage(what, chosen_run.stages), path, choice))


def checked_path(file: str, force: bool) -> Path:
    """Returns the path of the new file.

    Raises:
        ConfigError: when its suffix names no format, its folder is missing, or it exists and ``force`` is not given.
    """
    path = local_path(file, "FILE")
    if not path.name.endswith(SUFFIXES):
        raise ConfigError("FILE", f"{file!r} names no format", f"end it with {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigError("FILE", f"there is no folder {str(path.parent)!r}", "make it first")
    if path.is_dir() or (path.exists() and not force):
        raise ConfigError("FILE", f"{file!r} exists", "give another name, or --force to replace it")
    return path


def write(artifact: Artifact, path: Path, selection: DocumentChoice) -> list[Fact]:
    """Writes the documents of ``selection`` to ``path``; returns what was written.

    Raises:
        ConfigError: when no document was dropped by its rule, or none has one of its columns.
    """
    if selection.rule:
        check_rule(artifact, selection.rule)
    remove_unfinished(path)
    temporary = temporary_path(path)
    try:
        with Progress("export", 2 * len(names(artifact, selection.kind)), "shards") as progress:
            types = columns_of(selection.rows(artifact, progress))
            columns = {name: types[name] for name in selection.checked(types)}
            held_out = Counter[str]()
            rows = _counted(selection.rows(artifact, progress), held_out)
            count = write_rows(temporary, path.name, columns, rows)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return [
        ("documents", f"{count:,}"),
        *([("held out", f"{held_out['validation']:,}, {_marked(columns)}")] if held_out["validation"] else []),
        ("columns", ", ".join(columns)),
        *([("as JSON text", ", ".join(texts))] if (texts := json_columns(columns)) else []),
        ("file", f"{path} ({path.stat().st_size:,} bytes)"),
    ]


def _counted(rows: Iterable[TableRow], splits: "Counter[str]") -> Iterator[TableRow]:
    """Yields ``rows``, and counts their ``splits``."""
    for row in rows:
        splits.update([row[SPLIT]] if SPLIT in row else ())
        yield row


def _marked(columns: Collection[str]) -> str:
    return "split=validation: train on none" if SPLIT in columns else "not marked: --columns leaves out split"
