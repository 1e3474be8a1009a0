"""Computes one random shard of each data stage of a release again, and compares the bytes.

inputs, raw files ── all tasks of the earlier phases, one of the last ──> files ── SHA-256 ──> manifest of the release

A phase hands its files to the next one, so the earlier phases of a stage run as a whole: of most stages there are none.
"""

import dataclasses
import functools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core.artifact import part_path
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.release.finding import UNCHECKED, Finding, checked, compared
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.report.report import Report
from headrace.pipeline.run.mirror import label_of
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.workers import Workers


def rebuilt(release: Release, draw: random.Random) -> Iterator[Finding]:
    """Yields a finding for each data stage; ``draw`` chooses the shards."""
    with Workers(release.run.config.worker_processes) as workers:
        for name, artifact in release.artifacts.items():
            stage, shard = release.stage(name), draw.randrange(artifact.shard_count)
            if isinstance(stage.stage, Report):
                yield Finding(name, UNCHECKED, "its page shows times, which another run would not have")
            elif not stage.stage.distributed:
                yield checked(f"shard of {name}", functools.partial(rebuilt_shard, release, stage, shard, workers))


def rebuilt_shard(release: Release, stage: PlannedStage, shard: int, workers: Workers) -> Finding:
    """Computes the ``shard`` of ``stage`` again; phases before the last one run in ``workers``.

    Raises:
        HeadraceError: when an input or a raw file is missing or has changed, or another version planned the stage.
    """
    inputs = {name: release.artifact(name).folder for name in stage.inputs}
    with tempfile.TemporaryDirectory(prefix="headrace-") as root:
        again = dataclasses.replace(stage, folder=Path(root, label_of(stage.folder)), inputs=inputs)
        again.refuse_other_version()
        *before, last = again.phases
        with system_errors_explained(again.folder), StageProgress(stage.name, len(again.phases)) as progress:
            for number, phase in enumerate(before, 1):
                progress.start_phase(number, phase.name, phase.tasks, phase.raw_bytes)
                again.executor(phase).run(workers, progress)
            again.executor(last).run_task(shard)
        tasks = [(phase.name, task) for phase in before for task in range(phase.tasks)] + [(last.name, shard)]
        made = [read_sealed(part_path(again.folder, *task))["files"] for task in tasks]
    records = {name: record for files in made for name, record in files.items()}
    listed = release.artifacts[stage.name].manifest["files"]
    differing = [f"{name} has other bytes" for name, record in records.items() if listed.get(name) != record]
    text = f"shard {shard} of {last.tasks}: {len(records)} files made again, same bytes"
    return compared(f"shard of {stage.name}", differing, text)
