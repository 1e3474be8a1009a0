"""Writes a release: copies of what is given, then the documents that follow from them, then the checksums.

    run ── copied ──> artifacts/ ── opened as a release ──> documents, samples ──> SHA256SUMS

    README.md                             the model card, and what is in the release
    REPRODUCE.md                          the way from raw files to the same bytes
    samples/README.md                     the dataset card of the samples
    samples/data/kept/00000.parquet       of the last stage that keeps documents
    samples/data/dropped/00000.parquet    of all stages that drop some; ``stage`` names it

The samples are the documents with the smallest hashes of their ids, so the same run gives the same ones. The documents
are written once, and made again to verify them.
"""

import datetime
import functools
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.pipeline.configuration.options import setting_of
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.work_log import attempts
from headrace.pipeline.documents.document_choice import at_random
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.papers.cards import Exported, dataset_card, model_card, table
from headrace.pipeline.papers.export_data import HELD_OUT, LICENCE, with_split
from headrace.pipeline.papers.release_folder import (
    ARTIFACTS,
    FACTS_FILE,
    OWN,
    Release,
    environment,
    is_published,
    package_versions,
    records_of,
)
from headrace.pipeline.papers.table_files import TableRow, columns_of, flat, write_rows
from headrace.pipeline.papers.whole_folder import CHECKSUMS, checked_folder, new_folder, sized, write_checksums
from headrace.pipeline.run.mirror import MANIFEST, label_of
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.saved_run import run_file
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.weights import Weights

SAMPLES = {"kept": "samples/data/kept/00000.parquet", "dropped": "samples/data/dropped/00000.parquet"}
"""Part of the samples → its file."""
SAMPLED = 100
"""The number of documents that were kept, and of those that each stage dropped."""
SEED = 0


@functools.cache
def sampled(release: Release) -> dict[str, list[TableRow]]:
    """Returns the rows of each part of the samples.

    Raises:
        ArtifactError: when documents are neither in the release nor below its root.
    """
    artifacts = {stage: release.artifact(stage) for stage in release.document_stages}
    last = list(artifacts.values())[-1]
    fraction = release.run.config.packing.validation_fraction
    return {
        "kept": [with_split(document, fraction) for _, document in at_random(SEED, last, "documents", SAMPLED)],
        "dropped": [
            {"stage": stage, **flat(document)}
            for stage, artifact in artifacts.items()
            for _, document in at_random(SEED, artifact, "dropped", SAMPLED)
        ],
    }


def write_sample(path: Path, rows: list[TableRow]) -> None:
    """Writes ``rows`` as one file of Parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(path, path.name, columns_of(rows), rows)


def samples_card(release: Release) -> str:
    """Returns the dataset card of the samples.

    Raises:
        ArtifactError: when documents are neither in the release nor below its root.
    """
    rows, stages = sampled(release), release.document_stages
    columns = columns_of([*rows["kept"], *rows["dropped"]])
    exported = Exported(
        stage=stages[-1],
        address=release.artifacts[stages[-1]].folder.name,
        kind="documents",
        form="parquet",
        parts={part: len(of_part) for part, of_part in rows.items()},
        columns={name: str(kind) for name, kind in columns.items()},
        notes=[
            f"A sample by hashes of ids: {len(rows['kept'])} documents that this stage kept, and of each stage",
            f"({', '.join(stages)}) up to {SAMPLED} that it dropped.",
            f"In the column `split`, {HELD_OUT.format(release.run.config.packing.validation_fraction)}",
        ],
        licences={
            name: Counter(str(row.get(name, "not stated")) for row in rows["kept"])
            for name in columns
            if LICENCE.search(name)
        },
    )
    return dataset_card(release.run.label, exported, release.artifacts, package_versions(release.facts["environment"]))


SHOWN_FILES = 20
CONTENTS = (
    (CHECKSUMS, "the checksum of every file: `sha256sum -c SHA256SUMS`"),
    ("REPRODUCE.md", "the way from raw files to the same bytes"),
    ("release.json", "the environment with hashes, the machines"),
    ("artifacts/runs/*/run.json", "all settings"),
    ("artifacts/*/*/manifest.json", "settings, counts, inputs and checksums of each stage"),
    ("artifacts/weights/*/hf/", "the model"),
    ("artifacts/weights/*/checkpoints/", "weights and optimizer state by step"),
    ("artifacts/scores/*/", "scores, and the answer to each item"),
    ("samples/", "pages that were kept and dropped"),
)


def readme(release: Release) -> str:
    """Returns the model card, or the name of a run without weights, and what the files of the release are."""
    return "\n".join(_readme(release)) + "\n"


def _readme(release: Release) -> Iterator[str]:
    if Weights.name in release.artifacts:
        weights = release.stage(Weights.name)
        saved = checkpoints(weights.folder / CHECKPOINTS)
        yield model_card(release.run, weights, {max(saved): saved[max(saved)]}, ema=False).rstrip()
        yield from ("", f"FOLDER is `artifacts/{label_of(weights.folder)}/hf`.")
    else:
        yield f"# {release.run.label}"
    shown = [(f"`{name}`", text) for name, text in CONTENTS if name == CHECKSUMS or any(release.folder.glob(name))]
    yield from ("", "## Files of this release", "", *table(("file", "content"), shown))
    yield from ("", "`headrace release --check DIR` checks it: checksums, documents, data stages, training and scores.")


def reproduction(release: Release) -> str:
    """Returns REPRODUCE.md."""
    return "\n".join(_reproduction(release)) + "\n"


def _reproduction(release: Release) -> Iterator[str]:
    environment = release.facts["environment"]
    yield from ("# Reproduction", "", "## Environment", "")
    yield f"Headrace {package_versions(environment)[OWN]}, Python {environment['python']}, {environment['platform']}."
    yield "`release.json` has all packages with their versions and hashes."
    yield from ("", *table(("stage", "machine"), _machines(release)))
    yield from ("", "## Raw files", "")
    files = [
        (stage, file["name"], f"{file['bytes']:,}", file["sha256"])
        for stage, artifact in release.artifacts.items()
        for file in artifact.manifest["raw_files"]
    ]
    yield from table(("stage", "file", "bytes", "SHA-256"), files[:SHOWN_FILES])
    if len(files) > SHOWN_FILES:
        yield f"{len(files) - SHOWN_FILES:,} further files are in `raw_files` of the manifests."
    yield from ("", "## Run", "", "Put the raw files where the settings name them, and run:", "")
    words = [word for word in release.run.overrides if setting_of(word) != "root"]
    yield f"    {shlex.join(['headrace', *words])}"
    yield from ("", "`run.json` has every setting, also those at their defaults. Each stage must get this address:", "")
    yield from table(
        ("stage", "address"), ((name, artifact.folder.name) for name, artifact in release.artifacts.items())
    )
    yield from ("", "Then `headrace release --check DIR` also compares the data of this root with the release.")


def _machines(release: Release) -> Iterator[tuple[str, str]]:
    for stage in release.artifacts:
        yield stage, "; ".join(release.facts["machines"][stage])


def generated(release: Release) -> dict[str, Callable[[Release], str]]:
    """Returns the documents of ``release``, file → the function of its text; later ones may read earlier ones."""
    samples = {"samples/README.md": samples_card} if release.document_stages else {}
    return {**samples, "REPRODUCE.md": reproduction, "README.md": readme}


def write_release(run: Run, to: str) -> Iterator[Fact]:
    """Writes the release of ``run`` to the new folder ``to``; yields what it holds.

    Raises:
        ConfigError: when the folder exists, or cannot be made.
        ArtifactError: when no stage is finished, or a file is damaged.
    """
    folder = checked_folder(to)
    stages = [stage for stage in run.stages if stage.is_whole]
    if not stages:
        raise ArtifactError(str(run.run_json.parent), "has no finished stage", "run it first")
    with new_folder(folder) as temporary:
        saved = run_file(temporary / ARTIFACTS, run.id)
        saved.parent.mkdir(parents=True)
        shutil.copyfile(run.run_json, saved)
        for stage in stages:
            _copy(Artifact(stage.folder), temporary / ARTIFACTS / label_of(stage.folder))
        machines = {stage.name: sorted({attempt.machine for attempt in attempts(stage.folder)}) for stage in stages}
        threads = next((work_log.start_threads(stage.folder) for stage in stages if stage.name == Weights.name), None)
        today = datetime.date.today().isoformat()
        facts = {"date": today, "environment": environment(), "machines": machines, "threads": threads}
        write_sealed(temporary / FACTS_FILE, facts)
        release = Release.open(temporary, Path(run.config.root))
        if release.document_stages:
            for part, rows in sampled(release).items():
                write_sample(temporary / SAMPLES[part], rows)
        for name, text_of in generated(release).items():
            (temporary / name).write_text(text_of(release), encoding="utf-8")
        write_checksums(temporary)
    yield from ((stage.name, label_of(stage.folder)) for stage in stages)
    yield from ((stage.name, "left out: not finished") for stage in run.stages if not stage.is_whole)
    yield "folder", sized(folder)
    yield "verify", f"headrace release --check {folder}"


def _copy(artifact: Artifact, to: Path) -> None:
    """Copies the manifest of ``artifact``, and its files where its stage is in PUBLISHED, to the folder ``to``.

    Raises:
        ArtifactError: when one is damaged.
    """
    records = records_of(artifact) if is_published(artifact.manifest["stage"]) else {}
    for name, record in records.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(artifact.folder / name, to / name)
        if not record.fits(to / name):
            raise ArtifactError(str(artifact.folder / name), "is damaged", f"remove {artifact.folder} and run again")
    to.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(artifact.folder / MANIFEST, to / MANIFEST)
