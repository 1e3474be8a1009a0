"""Hostile files of examples: right records of each format, parts of which are replaced by odd values or by any text."""

import contextlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.evaluation.file_records import KINDS
from headrace.train.finetune.files.examples import Format, NamedFields
from headrace.train.finetune.files.published import GLUE, Glue, Squad
from headrace.train.finetune.tasks.conversations import Conversations

ODD = ("1e400", f"1{'0' * 400}", "9" * 5_000, "-1", "0.5", "NaN", "null", "true", '""', '"\\ud800"', "[]", "{}", "[[]]")
"""JSON that no field wants."""
RECORDS: dict[str, Any] = {
    "squad": {"data": [{"paragraphs": [{"context": "The Ann is old.", "qas": [
        {"id": "1", "question": "Who?", "answers": [{"text": "Ann", "answer_start": 4}], "is_impossible": False}]}]}]},
    "fields": {"text": "a", "label": "b", "value": 0.5, "choices": ["a", "b"], "gold": 1, "answer": "c"},
    "conversations": {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
}  # fmt: skip
"""A right record of each format in JSON."""
Formats = Callable[[], Iterator[tuple[str, Callable[[Path, bool], object], str]]]
FIELDS = NamedFields(label="label", value="value", choices=("choices",), gold="gold", answer="answer")


def mutated(chance: random.Random, value: Any, text: str) -> str:
    """Returns ``value`` as JSON, parts of it replaced: by odd values, and texts by ``text``."""
    if chance.random() < 0.05:
        return chance.choice(ODD)
    if isinstance(value, dict):
        kept = [(key, item) for key, item in value.items() if chance.random() > 0.05]
        return "{" + ",".join(f"{json.dumps(key)}:{mutated(chance, item, text)}" for key, item in kept) + "}"
    if isinstance(value, list):
        return "[" + ",".join(mutated(chance, item, text) for item in value * chance.choice((0, 1, 1, 1, 3))) + "]"
    return json.dumps(text if isinstance(value, str) and chance.random() < 0.3 else value)


def formats() -> Iterator[tuple[str, Callable[[Path, bool], object], str]]:
    """Yields name, reader and the end of a file's name of each format."""
    named: dict[str, Format] = {f"glue {task}": Glue(task=task) for task in GLUE}
    for name, one in named.items():
        yield name, one.read, ".tsv"
    yield "squad", Squad().read, ".json"
    for suffix in dict.fromkeys(KINDS.values()):
        yield f"fields {suffix}", FIELDS.read, f".{suffix}"
    yield "conversations", lambda path, labelled: Conversations().read([str(path)], labelled), ".jsonl"


def readers_of_texts(
    folder: Path, listed: Formats = formats, records: Mapping[str, Any] = RECORDS
) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yields the reader of each format that has JSON, for records with a text."""
    for name, read, suffix in listed():
        if (record := records.get(name.split()[-1]) or records.get(name.split()[0])) and suffix != ".tsv":
            yield f"examples with a text, {name}", _of_text(read, record, folder / f"text{suffix}")


def readers_of_bytes(folder: Path, listed: Formats = formats) -> Iterator[tuple[str, Callable[[bytes], object]]]:
    """Yields the reader of each format, for bytes after the line that names the fields."""
    for name, read, suffix in listed():
        yield f"examples, {name}", _of_bytes(read, _head(name), folder / f"bytes{suffix}")
    for suffix in (".gz", ".zst"):
        yield f"examples, {suffix}", _of_bytes(FIELDS.read, b"", folder / f"bytes.jsonl{suffix}")


def _head(name: str) -> bytes:
    if name.startswith("glue"):
        fields = GLUE[name.split()[1]]
        names = [*fields.texts, fields.label or fields.value]
        return "\t".join(names).encode() + b"\n" if fields.header else b""
    return {"fields tsv": b"text\tlabel\n", "fields csv": b"text,label\n"}.get(name, b"")


def _of_text(read: Callable[[Path, bool], object], record: Any, path: Path) -> Callable[[str], object]:
    def function(text: str) -> None:
        chance = random.Random(f"{len(text)}{text[:100]}")
        lines = (mutated(chance, record, text) for _ in range(1 if len(text) > 1_000 else 3))
        path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
        _read(read, path)

    return function


def _of_bytes(read: Callable[[Path, bool], object], head: bytes, path: Path) -> Callable[[bytes], object]:
    def function(data: bytes) -> None:
        path.write_bytes(head + data)
        _read(read, path)

    return function


def _read(read: Callable[[Path, bool], object], path: Path) -> None:
    """Reads ``path`` with results and without; no error but ours may come."""
    for labelled in (True, False):
        with contextlib.suppress(ArtifactError):
            read(path, labelled)
