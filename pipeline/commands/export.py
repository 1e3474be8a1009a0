"""``headrace export``: documents of a stage as JSON lines or Parquet, or a model as a Hugging Face folder.

headrace export unique pages.parquet                          the documents that clean and unique kept
headrace export clean dropped.jsonl.zst --dropped             the documents that clean dropped, with rule and value
headrace export clean short.jsonl --rule c4_lines.sentences   those that this rule dropped
headrace export unique pages.jsonl --columns id,text,url      these columns alone, in this order
headrace export unique pages.jsonl.gz --force                 replaces pages.jsonl.gz
headrace export small --to model                              the last weights of the run ``small``
headrace export small@600 --to model                          those of its checkpoint of step 600
headrace export small@400,600,800 --to model                  the average of three checkpoints
headrace export small --to model --ema                        the moving average of the weights (optimizer.ema_decay)

The suffix of FILE chooses the format: .jsonl, .parquet, or .jsonl with .gz, .zst, .bz2 or .xz after it. Both formats
have the same columns: id, text and one for each other field, such as url, language, drop.rule, drop.value,
removed_lines.c4_lines.end_mark.
pandas reads them with ``read_parquet(FILE)`` and ``read_json(FILE, lines=True)``, Hugging Face datasets with
``load_dataset("parquet", data_files=FILE)``, and Headrace with ``source=parquet source.paths=FILE``; fields of a source
keep one prefix, ``extra.``, however often that is done. FILE gets its name when it is whole.

A model is a folder that ``transformers`` opens, with its tokenizer and a model card. Weights of more than 5 GB are in
several files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.data_prep.document import read_documents
from headrace.pipeline.command_line.declaration import command, load, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.compression_formats import CODECS
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.file_records import sync
from headrace.pipeline.core.owner import temporary_path
from headrace.pipeline.core.progress import Progress
from headrace.pipeline.export.export_documents import TableRow, columns_of, flat, write_rows
from headrace.pipeline.output import facts
from headrace.pipeline.output.facts import Fact
from headrace.pipeline.report.documents.document_samples import names
from headrace.pipeline.report.documents.marking import matches
from headrace.pipeline.tracing.lookup import check_rule, document_stage, rule_of

SUFFIXES = (".jsonl", *(f".jsonl{codec.suffixes[0]}" for codec in CODECS), ".parquet")


@command
@click.argument("what", metavar="STAGE|RUN[@STEP]")
@click.argument("file", metavar="[FILE]", default="", type=click.Path())
@click.option("--to", metavar="FOLDER", default="", type=click.Path(), help="Write the model of RUN to this folder.")
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
    ema: bool,
    dropped: bool,
    rule: str,
    columns: str,
    force: bool,
    run: str,
) -> None:
    """Writes documents of a stage, with all their fields, to a file, or the model of a run to a folder."""
    if to:
        if file or dropped or rule or columns or force or run:
            raise ConfigError(
                "--to", "is for a model, and more is given", "write headrace export RUN[@STEP] --to FOLDER"
            )
        return facts.show(load("export.export_model").export_model(overrides, what, to, ema))
    if ema:
        raise ConfigError("--ema", "is for a model", "write headrace export RUN[@STEP] --to FOLDER --ema")
    if not file:
        raise ConfigError("FILE", "is missing", "give a file for documents, or --to FOLDER for the model of a run")
    path = checked_path(file, force)
    artifact = document_stage(what, run_of(overrides, run).stages)
    kind = "dropped" if dropped or rule else "documents"
    return facts.show(write(artifact, path, kind, rule, columns.split(",") if columns else ()))


def checked_path(file: str, force: bool) -> Path:
    """Returns the path of the new file.

    Raises:
        ConfigError: when its suffix names no format, its folder is missing, or it exists and ``force`` is not given.
    """
    path = Path(file).expanduser()
    if not path.name.endswith(SUFFIXES):
        raise ConfigError("FILE", f"{file!r} names no format", f"end it with {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigError("FILE", f"there is no folder {str(path.parent)!r}", "make it first")
    if path.is_dir() or (path.exists() and not force):
        raise ConfigError("FILE", f"{file!r} exists", "give another name, or --force to replace it")
    return path


def write(artifact: Artifact, path: Path, kind: str, rule: str = "", chosen: Sequence[str] = ()) -> list[Fact]:
    """Writes the documents of ``kind`` (of those that ``rule`` dropped) to ``path``; returns what was written.

    Only the columns ``chosen`` are written, all if it is empty.

    Raises:
        ConfigError: when no document was dropped by ``rule``, or none has a field that is ``chosen``.
    """
    if rule:
        check_rule(artifact, rule)
    temporary = temporary_path(path)
    try:
        with Progress("export", 2 * len(names(artifact, kind)), "shards") as progress:
            columns = columns_of(_rows(artifact, kind, rule, progress))
            if unknown := next((name for name in chosen if name not in columns), None):
                raise ConfigError("--columns", f"there is no column {unknown!r}", suggestion(unknown, columns))
            columns = {name: columns[name] for name in chosen or columns}
            count = write_rows(temporary, path.name, columns, _rows(artifact, kind, rule, progress))
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return [
        ("documents", f"{count:,}"),
        ("columns", ", ".join(columns)),
        ("file", f"{path} ({path.stat().st_size:,} bytes)"),
    ]


def _rows(artifact: Artifact, kind: str, rule: str, progress: Progress) -> Iterator[TableRow]:
    """Yields the documents of ``kind`` as rows, of those that ``rule`` dropped if it is given."""
    for name in names(artifact, kind):
        yield from (
            flat(document) for document in read_documents(artifact.path(name)) if matches(rule, rule_of(document))
        )
        progress.advance()
