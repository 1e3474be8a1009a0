"""Writes a release: copies of what is given, then the documents that follow from them, then the checksums.

run ── copied ──> artifacts/ ── opened as a release ──> documents, samples ──> SHA256SUMS
"""

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.work_log import attempts
from headrace.pipeline.export.whole_folder import checked_folder, new_folder, sized, write_checksums
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.release.environment_record import environment
from headrace.pipeline.release.generated_files import generated
from headrace.pipeline.release.page_samples import write_samples
from headrace.pipeline.release.release_folder import ARTIFACTS, FACTS_FILE, Release, is_published, records_of
from headrace.pipeline.run.mirror import MANIFEST, label_of
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.run_files import run_file
from headrace.train.checkpoint.names import CHECKPOINTS, manifests, step_of
from headrace.train.weights import Weights


def write_release(run: Run, to: str, provider: str) -> Iterator[Fact]:
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
        kept = [step_of(path.parent) for stage in stages for path in manifests(stage.folder / CHECKPOINTS)]
        facts = {"provider": provider, "date": today, "environment": environment(), "machines": machines}
        write_sealed(temporary / FACTS_FILE, {**facts, "threads": threads, "checkpoints": kept})
        release = Release.open(temporary, Path(run.config.root))
        if release.document_stages:
            write_samples(release)
        for name, text_of in generated(release).items():
            (temporary / name).write_text(text_of(release), encoding="utf-8")
        write_checksums(temporary)
    yield from ((stage.name, label_of(stage.folder)) for stage in stages)
    yield from ((stage.name, "left out: not finished") for stage in run.stages if not stage.is_whole)
    yield "folder", sized(folder)
    yield "verify", f"headrace verify {folder}"


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
