"""The facts of all stages, by name, read without importing a stage: that would take longer than a fast command may.

class Clean(Stage): name, headline, document_counts, … ── tests/pipeline/test_stage_facts.py ──> stage_facts.json
stage_facts.json ──> FACTS["clean"]                        storage, status, why, the funnel, warnings

A stage states its facts as class variables (stage.py). The file is generated from them; a test fails when it is old.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
OF_KIND = "."
"""The mark before the part of a name that distinguishes stages of one class in a run: ``column.quality``."""


def kind_of(stage: str) -> str:
    """Returns the name of the class of ``stage``, which is the name of its folder: ``column`` of ``column.quality``."""
    return stage.partition(OF_KIND)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentCounts:
    """The counts of a stage that keeps documents and drops others (``kept``, ``dropped:RULE``), and their names."""

    read: str
    """The count of what it reads."""
    unit: str
    """The name of what it reads: records or documents."""
    text_bytes: str
    """The count of the UTF-8 bytes of the texts that it keeps."""
    dropped_title: str
    """The name of what it drops, in the funnel."""
    kept_title: str
    """The name of what it keeps, in the funnel."""
    kept_short: str
    """The same in a terminal."""
    stores_documents: bool = True
    """Whether its artifact holds the documents, not only an index of them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageFacts:
    """The facts of one stage; see the class variables of ``Stage``."""

    name: str
    module: str
    """The module of its class."""
    class_name: str
    distributed: bool
    is_of_run: bool
    headline: tuple[str, ...]
    describes_documents: bool
    document_counts: DocumentCounts | None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "StageFacts":
        """Returns the facts that the JSON ``values`` hold."""
        counts = values["document_counts"] and DocumentCounts(**values["document_counts"])
        return cls(**{**values, "headline": tuple(values["headline"]), "document_counts": counts})


FACTS: Mapping[str, StageFacts] = {
    values["name"]: StageFacts.read(values) for values in json.loads(FILE.read_text(encoding="utf-8"))
}
"""The facts of each stage: those of a run in the order of the line, then others."""
DOCUMENT_COUNTS: Mapping[str, DocumentCounts] = {
    name: facts.document_counts for name, facts in FACTS.items() if facts.document_counts is not None
}
"""The stages that keep documents and drop others, in the order of the line."""
STORING = tuple(name for name, counts in DOCUMENT_COUNTS.items() if counts.stores_documents)
"""The stages of ``DOCUMENT_COUNTS`` whose artifacts hold the documents."""
