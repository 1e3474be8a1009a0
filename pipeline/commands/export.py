"""``headrace export``: documents, tokens or rows of a stage for other programs, a model, or the curves of a run.

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
headrace export small --wandb                                 the training and all finished stages to wandb, again

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

What wandb received of a training may have gaps and repeated steps (it was offline, or killed and resumed), and stages
may be missing. With --wandb all of it is made again from metrics.jsonl and the artifacts, under the ids that it had.
Offline each wandb run is a folder; the command that uploads them is printed.
"""

import os
import shlex
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
from headrace.pipeline.documents.lookup import document_stage, whole
from headrace.pipeline.documents.stored_documents import check_rule, names
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.papers.document_folder import SPLIT
from headrace.pipeline.papers.export_data import FORMATS, DocumentChoice, export_data
from headrace.pipeline.papers.table_files import TableRow, columns_of, json_columns, write_rows
from headrace.pipeline.run.planner import Run

SUFFIXES = (".jsonl", *(f".jsonl{codec.suffixes[0]}" for codec in CODECS), ".parquet")
OF_DOCUMENTS = ("--dropped", "--rule", "--columns", "--force", "--run")
TAKES = {
    "FILE": ("FILE", *OF_DOCUMENTS),
    "--format": ("--format", "--to", "--shard-size", "--split-by", *OF_DOCUMENTS),
    "--to": ("--to", "--ema"),
    "--wandb": ("--wandb",),
}
"""The target of an export → the arguments that belong to it."""
USAGE = {
    "FILE": "headrace export STAGE FILE",
    "--format": f"headrace export STAGE --format FORMAT --to FOLDER, with a FORMAT of {', '.join(FORMATS)}",
    "--to": "headrace export RUN[@STEP] --to FOLDER",
    "--wandb": "headrace export RUN --wandb",
}


@command
@click.argument("what", metavar="STAGE|RUN[@STEP]")
@click.argument("file", metavar="[FILE]", default="", type=click.Path())
@click.option("--to", metavar="FOLDER", default="", type=click.Path(), help="The folder for a model or a --format.")
@click.option("--format", "form", metavar="FORMAT", default="", help="Write the data of STAGE to the folder --to.")
@click.option("--shard-size", metavar="BYTES", default="", help="The size of the files of --format, such as 500MB.")
@click.option("--split-by", metavar="COLUMN", default="", help="A folder for each value of a column of documents.")
@click.option("--ema", is_flag=True, help="The moving average of the weights instead of the last ones.")
@click.option("--wandb", is_flag=True, help="Send the training and the finished stages of RUN to wandb again.")
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
    wandb: bool,
    dropped: bool,
    rule: str,
    columns: str,
    force: bool,
    run: str,
) -> None:
    """Writes documents of a stage to a file, its data or the model of a run to a folder, its curves to wandb."""
    target = "--wandb" if wandb else "--format" if form else "--to" if to else "FILE"
    given: dict[str, object] = {"FILE": file, "--to": to, "--format": form, "--shard-size": shard_size}
    given |= {"--split-by": split_by, "--ema": ema, "--dropped": dropped, "--rule": rule, "--columns": columns}
    given |= {"--force": force, "--run": run}
    if others := [name for name, value in given.items() if value and name not in TAKES[target]]:
        right = next(way for way in USAGE if others[0] in TAKES[way])
        raise ConfigError(others[0], f"is not for an export to {target}", f"write {USAGE[right]}")
    kind, chosen = "dropped" if dropped or rule else "documents", columns.split(",") if columns else ()
    selection = DocumentChoice(kind, rule, chosen, split_by)
    if target == "--wandb":
        send_again(run_of(overrides, what))
    elif target == "--format":
        if not to:
            raise ConfigError("--format", "needs a folder", f"write {USAGE[target]}")
        terminal.show(export_data(run_of(overrides, run), what, form, to, shard_size, force, selection))
    elif target == "--to":
        terminal.show(load("papers.export_model").export_model(overrides, what, to, ema))
    elif not file:
        raise ConfigError("FILE", "is missing", "give a file for documents, or --to FOLDER for the model of a run")
    else:
        path, asked = checked_path(file, force), run_of(overrides, run)
        selection = selection.of_run(what, whole(asked.stages), asked.config.packing.validation_fraction)
        terminal.show(write(document_stage(what, asked.stages), path, selection))


def send_again(run: Run) -> None:
    """Sends ``run`` to wandb again; prints the command that uploads what is offline."""
    places: list[str] = []
    terminal.show(load("tracking.stage_runs").sent_again(run, places))
    if offline := [place for place in places if os.path.isdir(place)]:
        print("", "upload with:", shlex.join(["wandb", "sync", *offline]), sep="\n")  # whole, however long it is


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
