"""``headrace text``, ``clean``, ``unique``, ``tokens``, ``ready``: the engines as pipes, without a run.

curl -s https://example.org | headrace text --markdown      the main text of a page; also of FILES
headrace clean c4 < in.jsonl > out.jsonl                    the rows whose texts a preset of cleaning keeps
zstd -dc in.zst | headrace clean fineweb --dropped no.jsonl     and what it drops, with rule, value and reason
headrace unique < in.jsonl > out.jsonl                      without exact and near duplicates
headrace tokens tokenizer.json < in.jsonl > ids.jsonl       input_ids in place of the text
headrace ready                                              compiles all that these need, once

Standard input may be compressed. A row is a line of JSON, an object; its other fields go on as they are. ``url`` serves
rules of URLs, and ``metadata`` has what rules note. Rows that cannot be read count as dropped. The counts are on
standard error. Memory holds all rows for ``unique``, and where a preset compares texts with each other, as c4 does.
"""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson

import headrace
from headrace.data_prep.document import Drop
from headrace.data_prep.kernel import start_quickly
from headrace.data_prep.sources.files import open_raw
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.api.verdict import Verdict, verdict_on
from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.core.errors import ConfigError


@command
@click.argument("files", metavar="[FILES...]", nargs=-1)
@click.option("--markdown", is_flag=True, help="Keep the marks of headings, lists, tables and code.")
def text(overrides: Sequence[str], files: Sequence[str], markdown: bool) -> None:
    """Prints the main text of the page of HTML on standard input, or of the pages in FILES."""
    without_settings(overrides)
    start_quickly()
    pages, counts = HtmlStream(paths=("-",), text_form="markdown" if markdown else "lines"), Counter[str]()
    for file in files or ("-",):
        for document, drop in pages.read(file):
            verdict = verdict_on(document, drop)
            counts["kept" if verdict else str(verdict.rule)] += 1
            if verdict:
                print(verdict.text)
            else:
                print(f"headrace text: {file}: {verdict.rule}: {verdict.reason}", file=sys.stderr)
    if files:
        report("text", counts)


@command
@click.argument("preset", metavar="PRESET")
@click.option("--field", metavar="NAME", default="text", help="The field of the text.")
@click.option("--dropped", metavar="FILE", type=NewFile(), help="Write what is dropped, with the reason, to FILE.")
def clean(overrides: Sequence[str], preset: str, field: str, dropped: Path | None) -> None:
    """Keeps the rows of standard input whose texts PRESET of cleaning keeps."""
    without_settings(overrides)
    cleaner = headrace.Cleaner(preset)
    if not any(rule.startswith("python.") for rule in cleaner.rules):
        start_quickly()
    with RowPipe("clean", field, dropped) as rows:
        if cleaner.global_rules:
            held = [*rows]
            facts = [facts_of(row) for row in held]
            judged = cleaner.all([row[field] for row in held], metadata=facts)
            verdicts = zip(held, judged, strict=True)
        else:
            verdicts = ((row, cleaner(row[field], metadata=facts_of(row))) for row in rows)
        for row, verdict in verdicts:
            row[field] = verdict.text
            rows.write(row, verdict)


@command
@click.option("--threshold", metavar="SHARE", type=float, default=0.8, help="The least similarity to remove (0.8).")
@click.option("--field", metavar="NAME", default="text", help="The field of the text.")
@click.option("--dropped", metavar="FILE", type=NewFile(), help="Write what is dropped, with the reason, to FILE.")
def unique(overrides: Sequence[str], threshold: float, field: str, dropped: Path | None) -> None:
    """Keeps one of the rows of standard input with equal or similar texts."""
    without_settings(overrides)
    start_quickly()
    headrace.near_duplicates((), threshold)
    with RowPipe("unique", field, dropped) as rows:
        held = [*rows]
        texts = [row[field] for row in held]
        links = {link.removed: link for link in headrace.near_duplicates(texts, threshold)}
        for number, row in enumerate(held):
            verdict = Verdict(texts[number], metadata=facts_of(row))
            if link := links.get(number):
                kind = "exact" if texts[number] == texts[link.kept] else "near"
                drop = Drop(f"{kind}_duplicate", f"row {link.kept} jaccard={link.similarity:.4f}")
                verdict = Verdict("", drop.rule, drop.value, f"similar to row {link.kept}", "", facts_of(row))
            rows.write(row, verdict)


@command
@click.argument("tokenizer", metavar="TOKENIZER")
@click.option("--field", metavar="NAME", default="text", help="The field of the text.")
def tokens(overrides: Sequence[str], tokenizer: str, field: str) -> None:
    """Writes the ids of the texts of standard input, by a tokenizer.json."""
    without_settings(overrides)
    encode = headrace.Tokenizer(tokenizer).encode
    with RowPipe("tokens", field, None) as rows:
        for row in rows:
            row["input_ids"] = encode(row.pop(field)).tolist()
            rows.write(row, Verdict(""))


@command
@click.argument("pieces", metavar="[PIECES...]", nargs=-1)
def ready(overrides: Sequence[str], pieces: Sequence[str]) -> None:
    """Compiles what text, clean, near_duplicates, … need, or PIECES of it: a minute, once."""
    without_settings(overrides)
    headrace.ready(*pieces)


class Stream:
    """A source whose file ``-`` is standard input."""

    def open(self, name: str) -> BinaryIO:
        return sys.stdin.buffer if name == "-" else open_raw(name)


class HtmlStream(Stream, Html):
    """Pages in files, or one on standard input."""


class JsonlStream(Stream, Jsonl):
    """Lines of JSON on standard input."""


class RowPipe(contextlib.ExitStack):
    """The rows of standard input that have a text, one after the other, and where they go, counted by rule."""

    def __init__(self, name: str, field: str, dropped: Path | None) -> None:
        super().__init__()
        self._name, self._field, self._counts = name, field, Counter[str]()
        self._dropped = self.enter_context(dropped.open("wb")) if dropped else None
        self.callback(lambda: report(name, self._counts))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(JsonlStream(paths=("-",)).rows("-")):
            if isinstance(row, dict) and isinstance(row.get(self._field), str):
                yield row
                continue
            drop = row if isinstance(row, Drop) else Drop("no_text", f"no text in the field {self._field!r}")
            if not self._counts[drop.rule]:
                print(f"headrace {self._name}: row {number}: {drop.rule}: {drop.value}", file=sys.stderr)
            self.write({} if isinstance(row, Drop) else row, Verdict("", drop.rule, drop.value, drop.value))

    def write(self, row: dict[str, Any], verdict: Verdict) -> None:
        """Writes ``row`` to standard output, or with the reason to the file of what is dropped."""
        self._counts[verdict.rule or "kept"] += 1
        metadata, stream = dict(verdict.metadata), sys.stdout.buffer if verdict else self._dropped
        if not verdict:
            metadata["drop"] = {name: getattr(verdict, name) for name in ("rule", "value", "reason")}
        if metadata:
            row["metadata"] = metadata
        if stream is not None:
            stream.write(written(row))


def facts_of(row: dict[str, Any]) -> dict[str, Any]:
    """Returns what ``row`` states for rules: its metadata, with its URL."""
    metadata = row.get("metadata")
    return {name: row[name] for name in ("url",) if name in row} | (metadata if isinstance(metadata, dict) else {})


def written(row: dict[str, Any]) -> bytes:
    """Returns the line of ``row``. orjson writes no whole numbers of more than 64 bits and no lone surrogates."""
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(row).encode() + b"\n"


def report(name: str, counts: Counter[str]) -> None:
    """Prints the ``counts`` of the command ``name``."""
    rules = [f"{number:,} {rule}" for rule, number in counts.most_common() if rule != "kept"]
    dropped = f"; dropped: {', '.join(rules)}" if rules else ""
    print(f"headrace {name}: {counts['kept']:,} of {counts.total():,} kept{dropped}", file=sys.stderr)


def without_settings(overrides: Sequence[str]) -> None:
    """Refuses ``overrides``, which no pipe has.

    Raises:
        ConfigError: naming the first one.
    """
    if overrides:
        raise ConfigError("command line", f"{overrides[0]!r} sets nothing here", "leave it out; a run has settings")
