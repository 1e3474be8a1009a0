"""Labelled texts from files: through the project's sources, or plain text with a text in each line.

    LABEL:good.jsonl             each text of the file, a folder or a pattern has the label
    pages.jsonl, label_field     the label of a text is in a field
    train.txt                    lines of fastText: __label__LABEL a text

Records without a text, and those that a source drops, are left out and counted.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.data_prep.classifiers.linear_training import LabelledText
from headrace.data_prep.sources.arrow import Arrow
from headrace.data_prep.sources.fields import value_at
from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.parquet import Parquet
from headrace.data_prep.sources.source import ListedFile
from headrace.data_prep.sources.warc import Warc
from headrace.data_prep.sources.wikipedia import Wikipedia
from headrace.pipeline.core.compression import bare_name
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.text_files import read_lines

FASTTEXT = "__label__"
"""The beginning of a label in fastText's files."""
TEXT = ".txt"
SOURCES: tuple[type[FileSource], ...] = (Jsonl, Parquet, Arrow, Warc, Wikipedia, Html)


@dataclasses.dataclass(frozen=True)
class LabelledFile:
    """The texts of files, which may be read several times."""

    path: str
    """A file, a folder, a pattern or a URL."""
    label: str
    """The label of all of them; empty: each has its own."""
    label_field: str = ""
    source: FileSource | None = None
    """The settings of reading; None: by the suffix of the path."""

    def examples(self, left_out: "Counter[str]") -> Iterator[LabelledText]:
        """Yields the texts, and counts in ``left_out`` the records without one.

        Raises:
            ConfigError: when there is no such file, or a text has no label.
        """
        if self.source is None and bare_name(self.path).endswith(TEXT):
            yield from self._lines(left_out)
            return
        source = self._source()
        for file in self._listing(source):
            for document, drop in source.read(file.name):
                if drop is not None:
                    left_out[drop.rule] += 1
                else:
                    label = self.label or self._label(document.id, document.metadata.get("extra") or {})
                    yield LabelledText(document.id, document.text, label)

    def _listing(self, source: FileSource) -> tuple[ListedFile, ...]:
        """Returns the files of ``source``, whose paths are an argument of a command here."""
        try:
            return source.listing()
        except ConfigError as error:
            where = "EXAMPLES" if error.where == "source.paths" else error.where
            raise ConfigError(where, error.problem, error.remedy) from None

    def _source(self) -> FileSource:
        if self.source is not None:
            return dataclasses.replace(self.source, paths=(self.path,))
        candidates = (kind(paths=(self.path,)) for kind in SOURCES)
        fitting = [source for source in candidates if bare_name(self.path).endswith(source.suffixes())]
        return fitting[0] if fitting else Jsonl(paths=(self.path,))

    def _label(self, identity: str, fields: Mapping[str, Any]) -> str:
        value = value_at(fields, self.label_field)
        if isinstance(value, bool | int | str) and str(value):
            return str(value)
        problem = (
            f"{identity} has {value!r} in {self.label_field!r} (its fields: {', '.join(sorted(fields)) or 'none'})"
        )
        raise ConfigError("--label-field", problem, "name a field with a text or a whole number")

    def _lines(self, left_out: "Counter[str]") -> Iterator[LabelledText]:
        path = Path(self.path)
        if not path.is_file():
            raise ConfigError("EXAMPLES", f"there is no file {self.path}", "name files with texts")
        for number, line in enumerate(read_lines(path)):
            identity, label = f"{path.name}:{number}", self.label
            try:
                text = line.decode().strip()
            except UnicodeDecodeError:
                left_out["not_utf8"] += 1
                continue
            if text.startswith(FASTTEXT):
                own, _, text = text.partition(" ")
                label = label or own.removeprefix(FASTTEXT)
            if not text.strip():
                left_out["no_text"] += 1
            elif not label:
                problem = f"{identity} has no label"
                raise ConfigError("EXAMPLES", problem, f"give LABEL:{self.path}, or begin lines with {FASTTEXT}LABEL")
            else:
                yield LabelledText(identity, text, label)
