"""Samples of a release, and counts of what the pages that remain state of their use, and of their hosts.

    samples/README.md                     the dataset card
    samples/data/kept/00000.parquet       of the last stage that keeps documents
    samples/data/dropped/00000.parquet    of all stages that drop some; ``stage`` names it

The documents are those with the smallest hashes of their ids, so the same run gives the same samples.

    last stage with documents ── every document ──> robots {"noarchive": 3}, licence {…}, host → bytes, latest date
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from datatrove.data import Document

from headrace.data_prep.filters.domains import host_of
from headrace.data_prep.filters.robots_and_licence import fact
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.document_choice import at_random
from headrace.pipeline.documents.stored_documents import located
from headrace.pipeline.papers.cards import Exported, dataset_card
from headrace.pipeline.papers.export_data import HELD_OUT, with_split
from headrace.pipeline.papers.release_folder import Release, package_versions
from headrace.pipeline.papers.table_files import TableRow, columns_of, flat, write_rows

STATED = ("robots", "tdm_reservation", "tdm_policy", "licence")
"""The facts of pages that are counted (data_prep/extraction/parsing/facts.py)."""
NOTHING = "nothing stated"


@dataclasses.dataclass(frozen=True)
class PageStatements:
    """Counts over the documents that remain."""

    documents: int
    stated: dict[str, "Counter[str]"]
    """Fact → value → documents. A page with several directives for robots counts for each of them."""
    host_bytes: "Counter[str]"
    """Host → UTF-8 bytes of its texts. Documents without a URL are not in it."""
    latest_date: str
    """The last date of a record (``metadata.date``) as its source has it; empty when none has one."""


@functools.cache
def page_statements(release: Release) -> PageStatements:
    """Reads the documents that remain.

    Raises:
        ArtifactError: when they are neither in the release nor below its root.
    """
    documents, latest = 0, ""
    host_bytes, stated = Counter[str](), {name: Counter[str]() for name in STATED}
    for _, document in located(release.artifact(release.document_stages[-1]), "documents"):
        documents += 1
        for name, counts in stated.items():
            text = fact(document, name)
            values = {value.strip() for value in text.split(",")} if name == "robots" else {text}
            counts.update(value or NOTHING for value in values)
        if host := host_of(str(document.metadata.get("url") or "")):
            host_bytes[host] += len(document.text.encode("utf-8", "surrogatepass"))
        latest = max(latest, str(document.metadata.get("date") or ""))
    return PageStatements(documents, stated, host_bytes, latest)


SAMPLES = "samples"
FILES = {"kept": f"{SAMPLES}/data/kept/00000.parquet", "dropped": f"{SAMPLES}/data/dropped/00000.parquet"}
"""Part → file."""
NUMBER = 100
"""The number of documents that were kept, and of those that each stage dropped."""
SEED = 0


@functools.cache
def sampled(release: Release) -> dict[str, list[TableRow]]:
    """Returns the rows of each part.

    Raises:
        ArtifactError: when documents are neither in the release nor below its root.
    """
    artifacts = {stage: release.artifact(stage) for stage in release.document_stages}
    last = list(artifacts.values())[-1]
    fraction = release.run.config.packing.validation_fraction
    return {
        "kept": [with_split(document, fraction) for document in _sample(last, "documents")],
        "dropped": [
            {"stage": stage, **flat(document)}
            for stage, artifact in artifacts.items()
            for document in _sample(artifact, "dropped")
        ],
    }


def _sample(artifact: Artifact, kind: str) -> Iterator[Document]:
    yield from (document for _, document in at_random(SEED, artifact, kind, NUMBER))


def write_samples(release: Release) -> None:
    """Writes the files of the samples to ``release``.

    Raises:
        ArtifactError: when documents are neither in the release nor below its root.
    """
    rows = sampled(release)
    for part, name in FILES.items():
        write_part(release.folder / name, rows[part])


def write_part(path: Path, rows: list[TableRow]) -> None:
    """Writes ``rows`` as one file of Parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(path, path.name, columns_of(rows), rows)


def samples_card(release: Release) -> str:
    """Returns the dataset card of the samples.

    Raises:
        ArtifactError: when documents are neither in the release nor below its root.
    """
    rows = sampled(release)
    stages = release.document_stages
    columns = columns_of([*rows["kept"], *rows["dropped"]])
    exported = Exported(
        stage=stages[-1],
        address=release.artifacts[stages[-1]].folder.name,
        kind="documents",
        form="parquet",
        parts={part: len(own) for part, own in rows.items()},
        columns={name: str(kind) for name, kind in columns.items()},
        notes=[
            f"A sample by hashes of ids: {len(rows['kept'])} documents that this stage kept, and of each stage",
            f"({', '.join(stages)}) up to {NUMBER} that it dropped.",
            f"In the column `split`, {HELD_OUT.format(release.run.config.packing.validation_fraction)}",
        ],
        licences={"page.licence": page_statements(release).stated["licence"]},
    )
    return dataset_card(release.run.label, exported, release.artifacts, package_versions(release.facts["environment"]))
