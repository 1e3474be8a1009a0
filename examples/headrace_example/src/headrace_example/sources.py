"""A source: text files, in which blank lines separate the documents."""

from collections.abc import Iterator
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.sources.files import FileSource
from headrace.data_prep.sources.source import Record
from headrace.pipeline.core.settings import settings


@settings
class Paragraphs(FileSource):
    """Text files, in which blank lines separate the documents."""

    type: Literal["paragraphs"] = "paragraphs"

    def suffixes(self) -> tuple[str, ...]:
        return (".txt",)

    def read(self, name: str) -> Iterator[Record]:
        with self.open(name) as stream:
            for number, text in enumerate(stream.read().decode().strip().split("\n\n")):
                yield Document(text, f"{name}:{number}", metadata={"url": ""}), None
