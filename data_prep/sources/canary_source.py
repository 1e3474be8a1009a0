"""The documents that a run plants among those of its source: canaries (data_prep/canaries.py)."""

import hashlib
from collections.abc import Iterator
from typing import Literal

from datatrove.data import Document

from headrace.data_prep.canaries import Canaries
from headrace.data_prep.sources.source import ListedFile, Record, Source
from headrace.pipeline.core.settings import digest, settings
from headrace.pipeline.core.stage import RawFile

PLANTED = "planted-canaries"
"""The name of the only file; the id of a document is ``planted-canaries:<number>``."""


@settings
class Planted(Source):
    """The planted canaries, as a source with one file, or none if there are no canaries."""

    type: Literal["planted"] = "planted"
    canaries: Canaries

    def listing(self) -> tuple[ListedFile, ...]:
        size = sum(len(canary.text) for canary in self.canaries.planted())
        return (ListedFile(PLANTED, size),) if size else ()

    def files(self) -> tuple[RawFile, ...]:
        return tuple(RawFile(file.name, file.bytes, self.checksum(file.name)) for file in self.listing())

    def checksum(self, name: str) -> str:
        return hashlib.sha256(f"{name}\0{digest(self.canaries)}".encode()).hexdigest()

    def location(self, name: str) -> str:
        return "planted by the settings canaries"

    def read(self, name: str) -> Iterator[Record]:
        for number, canary in enumerate(self.canaries.planted()):
            yield Document(canary.text, f"{name}:{number}", metadata={"url": "", "copies": canary.copies}), None
