"""Writes a release: copies of what is given, then the documents that follow from them, then the checksums.

    run ── copied ──> artifacts/ ── opened as a release ──> documents, samples ──> SHA256SUMS

    README.md       what is in it          REPRODUCE.md    the way from raw files to the same bytes
    order.json      the order in which the training read its rows, with a SHA-256 for each stretch of steps:
                    (seed, rows, position) ── order of rows ──> row numbers of steps 1 to 100, int64, little-endian

The documents are written once, and made again to verify them.
"""

import datetime
import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.pipeline.configuration.options import setting_of
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.settings import plain
from headrace.pipeline.core.work_log import attempts
from headrace.pipeline.documents.training_rows import INPUTS
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.papers.cards import model_card, table
from headrace.pipeline.papers.page_samples import samples_card, write_samples
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
from headrace.pipeline.papers.training_content import training_content
from headrace.pipeline.papers.whole_folder import CHECKSUMS, checked_folder, new_folder, sized, write_checksums
from headrace.pipeline.run.mirror import MANIFEST, label_of
from headrace.pipeline.run.planner import Run
from headrace.pipeline.run.saved_run import run_file
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints, manifests, step_of
from headrace.train.checkpoint.store import read_state
from headrace.train.data.mixture import training_data
from headrace.train.data.order import Later, RowOrder
from headrace.train.training_config import TrainingConfig
from headrace.train.weights import Weights


def data_order(release: Release) -> str:
    """Returns the order of the training in ``release``: ``seed``, ``schedule``, ``data`` and ``steps``.

    Raises:
        ArtifactError: when the rows are neither in the release nor below its root.
    """
    planned, counts = release.stage(Weights.name), release.artifacts[Weights.name].counts
    stage = planned.stage
    assert isinstance(stage, Weights)
    inputs = {name: release.artifact(name) for name in INPUTS}
    training = stage.training
    rows, order = training_data(training.seed, inputs, stage.mixture, training.unique_rows)
    state = read_state(checkpoints(planned.folder / CHECKPOINTS)[training.steps])
    own_order = Later(order, state.first_row)
    began = counts["trunk_steps"], counts["trunk_rows"]
    values = {
        "seed": training.seed,
        "rows": len(rows),
        "schedule": plain(stage.schedule),
        "data": state.data,
        "steps": list(_stretches(training, own_order, *began)),
    }
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def _stretches(training: TrainingConfig, order: RowOrder, step: int, rows_seen: int) -> Iterator[dict[str, Any]]:
    """Yields the stretches of ``training.save_every`` steps after ``step``, the last one shorter."""
    while step < training.steps:
        end = min(training.steps, step - step % training.save_every + training.save_every)
        rows = training.rows_between(step, end)
        numbers = order.batch(rows_seen, rows).astype("<i8")
        hashed = hashlib.sha256(numbers.tobytes()).hexdigest()
        yield {"after_step": step, "to_step": end, "after_rows": rows_seen, "rows": rows, "sha256": hashed}
        step, rows_seen = end, rows_seen + rows


SHOWN_FILES = 20
CONTENTS = (
    (CHECKSUMS, "the checksum of every file: `sha256sum -c SHA256SUMS`"),
    ("REPRODUCE.md", "the way from raw files to the same bytes"),
    ("TRAINING_CONTENT.md", "the public summary of training content, EU AI Act, Article 53(1)(d)"),
    ("release.json", "the environment with hashes, the machines"),
    ("artifacts/runs/*/run.json", "all settings"),
    ("artifacts/*/*/manifest.json", "settings, counts, inputs and checksums of each stage"),
    ("artifacts/weights/*/hf/", "the model"),
    ("artifacts/weights/*/checkpoints/", "weights and optimizer state by step"),
    ("artifacts/scores/*/", "scores, and the answer to each item"),
    ("samples/", "pages that were kept and dropped"),
    ("order.json", "the order in which the training read its rows"),
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
    yield from ("", "`headrace verify DIR` checks it: checksums, documents, data stages, training and scores.")


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
    yield from table(("stage", "address"), ((name, own.folder.name) for name, own in release.artifacts.items()))
    yield from ("", "Then `headrace verify DIR` also compares the data of this root with the release.")


def _machines(release: Release) -> Iterator[tuple[str, str]]:
    for stage in release.artifacts:
        yield stage, "; ".join(release.facts["machines"][stage])


def generated(release: Release) -> dict[str, Callable[[Release], str]]:
    """Returns the documents of ``release``, file → the function of its text; later ones may read earlier ones."""
    files: dict[str, Callable[[Release], str]] = {}
    if release.document_stages:
        files["samples/README.md"] = samples_card
    if Weights.name in release.artifacts:
        files["order.json"] = data_order
    if len(files) == 2:
        files["TRAINING_CONTENT.md"] = training_content
    return {**files, "REPRODUCE.md": reproduction, "README.md": readme}


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
