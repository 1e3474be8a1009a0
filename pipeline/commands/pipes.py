"""``headrace text``, ``clean``, ``unique``, ``tokens``, ``ready``: the engines as pipes, without a run.

curl -s https://example.org | headrace text --markdown      the main text of a page; also of FILES
headrace clean c4 < in.jsonl > out.jsonl                    the rows whose texts a preset of cleaning keeps
headrace clean fineweb --dropped no.jsonl < in.jsonl.zst    and what it drops, with rule, value and reason
headrace unique < in.jsonl > out.jsonl                      without exact and near duplicates
headrace tokens tokenizer.json < in.jsonl > ids.jsonl       input_ids in place of the text
headrace ready                                              compiles all that these need, once

Standard input may be compressed. A row is a line of JSON, an object; its other fields go on as they are. ``url`` and
``metadata`` serve rules, which note there what they found. The counts, and lines that are no rows, are on standard
error. Memory holds all rows for ``unique``, and where rules of a preset compare texts with each other, as c4's do.
"""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson
from datatrove.data import Document

import headrace
from headrace.data_prep.sources.fields import is_rounded
from headrace.data_prep.sources.jsonl import Jsonl, parsed
from headrace.pipeline.api.verdict import Verdict
from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.core.compression import bare_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import STANDARD_INPUT, created, opened, place, read_lines, standard

JsonRow = dict[str, Any]
Read = tuple[JsonRow, Document]
"""A row, and the document that a source makes of it, whose id is the number of the line."""
NOTES = "metadata"
OF_FIELDS = ("date", "source_id", "extra")
"""Metadata for rules that a row has in its own fields."""


@command
@click.argument("files", metavar="[FILES...]", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--markdown", is_flag=True, help="Keep the marks of headings, lists, tables and code.")
def text(overrides: Sequence[str], files: Sequence[str], markdown: bool) -> None:
    """Prints the main text of the page of HTML on standard input, or of the pages in FILES."""
    for file in map(Path, files or [str(STANDARD_INPUT)]):
        with opened(file) as stream:
            verdict = headrace.page(stream.read(), markdown=markdown, xhtml=bare_name(file.name).endswith(".xhtml"))
        if verdict:
            print(verdict.text)
        else:
            why = verdict.reason or verdict.meaning
            print(f"headrace text: {place(file)}: {verdict.rule} ({why})", file=sys.stderr)


@command
@click.argument("preset", metavar="PRESET")
@click.option("--field", metavar="NAME", default="text", help="The field of the text.")
@click.option("--dropped", metavar="FILE", type=NewFile(), help="Write what is dropped, with the reason, to FILE.")
def clean(overrides: Sequence[str], preset: str, field: str, dropped: Path | None) -> None:
    """Keeps the rows of standard input whose texts PRESET of cleaning keeps."""
    cleaner = headrace.Cleaner(preset)

    def judged(rows: Iterator[Read]) -> Iterator[tuple[JsonRow, Verdict]]:
        for group in [[*rows]] if cleaner.global_rules else ([row] for row in rows):
            texts, facts = [document.text for _, document in group], [document.metadata for _, document in group]
            for (row, _), verdict in zip(group, cleaner.all(texts, metadata=facts), strict=True):
                notes = {key: value for key, value in verdict.metadata.items() if key not in OF_FIELDS}
                yield {**row, field: verdict.text, NOTES: metadata_of(row) | notes}, verdict

    pipe("clean", field, dropped, judged)


@command
@click.option("--threshold", metavar="SHARE", type=float, default=0.8, help="The least similarity to remove (0.8).")
@click.option("--field", metavar="NAME", default="text", help="The field of the text.")
@click.option("--dropped", metavar="FILE", type=NewFile(), help="Write what is dropped, with the reason, to FILE.")
def unique(overrides: Sequence[str], threshold: float, field: str, dropped: Path | None) -> None:
    """Keeps one of the rows of standard input with equal or similar texts."""
    headrace.near_duplicates((), threshold)

    def judged(rows: Iterator[Read]) -> Iterator[tuple[JsonRow, Verdict]]:
        held = [*rows]
        links = {link.removed: link for link in headrace.near_duplicates([row[field] for row, _ in held], threshold)}
        for number, (row, _) in enumerate(held):
            if link := links.get(number):
                kept, document = held[link.kept]
                kind = "exact" if row[field] == kept[field] else "near"
                yield row, Verdict("", f"{kind}_duplicate", f"line {document.id} jaccard={link.similarity:.4f}")
            else:
                yield row, Verdict("")

    pipe("unique", field, dropped, judged)


@command
@click.argument("tokenizer", metavar="TOKENIZER")
@click.option("--field", metavar="NAME", default="text", help="The field of the text.")
def tokens(overrides: Sequence[str], tokenizer: str, field: str) -> None:
    """Writes the ids of the texts of standard input by TOKENIZER, a tokenizer.json."""
    encode = headrace.Tokenizer(tokenizer).encode

    def encoded(rows: Iterator[Read]) -> Iterator[tuple[JsonRow, Verdict]]:
        for row, _ in rows:
            row["input_ids"] = encode(row.pop(field)).tolist()
            yield row, Verdict("")

    pipe("tokens", field, None, encoded)


@command
@click.argument("pieces", metavar="[PIECES...]", nargs=-1)
def ready(overrides: Sequence[str], pieces: Sequence[str]) -> None:
    """Compiles what text, clean, near_duplicates, … need, or PIECES of it: a minute, once."""
    headrace.ready(*pieces)


def pipe(
    name: str, field: str, dropped: Path | None, judged: Callable[[Iterator[Read]], Iterable[tuple[JsonRow, Verdict]]]
) -> None:
    """Writes the rows of standard input that the command ``name`` keeps, and counts all of them by rule."""
    if field == NOTES:
        raise ConfigError("--field", f"{NOTES!r} is the field of what rules note", "rename the field of the text")
    counts, kept = Counter[str](), standard(sys.stdout, "standard output")
    with created(dropped) if dropped else contextlib.nullcontext() as file:
        for row, verdict in judged(rows_of(name, field, counts, file)):
            counts[verdict.rule or "kept"] += 1
            if stream := kept if verdict else file:
                stream.write(written(row if verdict else with_drop(row, verdict)))
    rules = [f"{number:,} {rule}" for rule, number in counts.most_common() if rule != "kept"]
    shown = f"; dropped: {', '.join(rules)}" if rules else ""
    print(f"headrace {name}: {counts['kept']:,} of {counts.total():,} rows kept{shown}", file=sys.stderr)


def rows_of(name: str, field: str, counts: Counter[str], dropped: BinaryIO | None) -> Iterator[Read]:
    """Yields the rows of standard input with a text in ``field``; of each kind of others the first is shown."""
    source = Jsonl(paths=("-",), text_field=field, extra_field_bytes=sys.maxsize, record_bytes=sys.maxsize)
    for number, line in enumerate(read_lines(STANDARD_INPUT), 1):
        if not line.strip():
            continue
        row = parsed(line)
        row = parsed(line, exactly=True) if is_rounded(row) else row
        is_row = isinstance(row, dict)
        given = row if is_row and field in row else {}  # what dots name is no field of a row
        document, drop = source.document(str(number), given) if is_row else (Document("", ""), row)
        if drop is None:
            document.metadata = metadata_of(row) | {name: value for name, value in document.metadata.items() if value}
            yield {**row, field: document.text}, document
            continue
        if dropped and is_row:
            dropped.write(written(with_drop(row, Verdict("", drop.rule, drop.value))))
        counts[drop.rule] += 1
        if counts[drop.rule] == 1:
            print(f"headrace {name}: line {number}: {drop.rule}: {drop.value}", file=sys.stderr)


def metadata_of(row: JsonRow) -> JsonRow:
    """Returns the metadata of ``row``; a value that is no object in one, as datatrove's readers have it."""
    metadata = row.get(NOTES)
    return metadata if isinstance(metadata, dict) else {} if metadata is None else {NOTES: metadata}


def with_drop(row: JsonRow, verdict: Verdict) -> JsonRow:
    """Returns ``row`` with why it is dropped."""
    drop = {"rule": verdict.rule, "value": verdict.value, "reason": verdict.reason or verdict.value}
    return {**row, NOTES: {**metadata_of(row), "drop": drop}}


def written(row: JsonRow) -> bytes:
    """Returns the line of ``row``; NaN becomes null. orjson writes no whole numbers of more than 64 bits and no lone
    surrogates."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(json.loads(json.dumps(row), parse_constant=lambda _: None)).encode() + b"\n"
