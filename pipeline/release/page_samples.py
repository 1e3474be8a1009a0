"""Samples of a release: random documents that the run kept, and random ones that each stage dropped, as Parquet.

    samples/README.md                     the dataset card
    samples/data/kept/00000.parquet       of the last stage that keeps documents
    samples/data/dropped/00000.parquet    of all stages that drop some; ``stage`` names it

The documents are those with the smallest hashes of their ids, so the same run gives the same samples.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

from datatrove.data import Document

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.documents.document_choice import at_random
from headrace.pipeline.export.dataset_card import Exported, dataset_card
from headrace.pipeline.export.document_formats import TableRow, columns_of, flat, write_rows
from headrace.pipeline.export.export_data import HELD_OUT, with_split
from headrace.pipeline.release.environment_record import package_versions
from headrace.pipeline.release.page_statements import page_statements
from headrace.pipeline.release.release_folder import Release

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
