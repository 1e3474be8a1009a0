"""``headrace sync``: rebuilds the wandb run of a training from metrics.jsonl, with its lineage.

    texts <- clean <- unique <- tokens <- packed ──> the run ──> weights <- scores     references to manifests
                                checkpoint_scores ──┘                                  the scores of ``headrace watch``

The run that wandb received during the training may have gaps and repeated steps (it was offline, or killed and
resumed). metrics.jsonl has neither. The rebuilt run has the same id. Offline it is a folder, which replaces the earlier
offline folders of a finished training; the command that uploads it is printed.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.pipeline.commands import facts
from headrace.pipeline.commands.declaration import command, run_argument
from headrace.pipeline.commands.facts import Fact
from headrace.pipeline.commands.request import run_of
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import plain
from headrace.pipeline.core.tracker import Product, rebuild, remove_older_offline
from headrace.pipeline.report.score_history import checkpoint_artifacts, metric_rows, source_of
from headrace.pipeline.run.planner import Step
from headrace.train.checkpoint.names import CHECKPOINTS, manifests
from headrace.train.weights import Weights

LINEAGE = ("texts", "clean", "unique", "tokenizer", "tokens", "packed", "weights", "scores")
"""The stages whose artifacts wandb records."""


@command
@run_argument
def sync(overrides: Sequence[str], run: str) -> None:
    """Rebuilds the wandb run of the training from metrics.jsonl, with the artifacts before and after it."""
    facts.show(explain(run_of(overrides, run).steps))


def explain(steps: Sequence[Step]) -> Iterator[Fact]:
    """Rebuilds the run; yields its id, its place, its steps and its artifacts.

    Raises:
        ConfigError: when the run ends before the training.
        ArtifactError: when the training has no checkpoint yet: the run's id is in the checkpoints.
    """
    step = next((step for step in steps if isinstance(step.stage, Weights)), None)
    if step is None or not isinstance(step.stage, Weights):
        raise ConfigError("until", "the run ends before the training", "name a run that trains")
    run_id = read_sealed(newest_checkpoint(step.folder))["run_id"]
    made = products(steps)
    watched = [(one.settings["step"], source_of(one), metric_rows(one)) for one in checkpoint_artifacts(step.folder)]
    where = rebuild(step.folder, step.stage.tracking, run_id, plain(step.stage), made, watched)
    yield "run", run_id
    yield "now at", where
    if Path(where).is_dir():
        if step.is_whole:  # a training that runs writes to its own
            remove_older_offline(step.folder, run_id, Path(where))
        yield "upload with", shlex.join(["wandb", "sync", where])
    rows = read_metrics(step.folder / "metrics.jsonl")
    yield "steps", f"{rows[-1]['step'] if rows else 0:,} in {len(rows):,} rows"
    if watched:
        yield "watched", f"scores of {len(watched)} checkpoints"
    for product in made:
        yield product.stage, f"{product.address}  from {', '.join(product.inputs) or 'raw files'}"


def newest_checkpoint(folder: Path) -> Path:
    """Returns the manifest of the newest checkpoint below ``folder``; it holds the run's id."""
    found = manifests(folder / CHECKPOINTS)
    if not found:
        raise ArtifactError(str(folder), "has no checkpoint yet, and so no run", "train first")
    return found[-1]


def products(steps: Sequence[Step]) -> list[Product]:
    """Returns the finished artifacts of the run, and the weights; before they are finished, their newest checkpoint."""
    names = {step.name: f"{step.name}-{step.address}" for step in steps if step.name in LINEAGE}
    return [
        Product(
            stage=step.name,
            manifest=step.folder / "manifest.json" if step.is_whole else newest_checkpoint(step.folder),
            address=step.address,
            inputs=tuple(names[stage] for stage in step.inputs if stage in names),
            made_by_run=step.name in ("weights", "scores"),
        )
        for step in steps
        if step.name in LINEAGE and (step.is_whole or step.name == "weights")
    ]
