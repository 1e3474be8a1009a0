"""``headrace push``: copies finished artifacts to a mirror, a URL or a folder, from which other roots pull them.

headrace push small s3://bucket/mirror                  all finished stages of the run small, and its run.json
headrace push clean/b8e44e9d7440 gs://bucket/mirror     one artifact below the root
headrace push small /mnt/mirror root=/data/runs         a run below another root

The mirror has each artifact by its address. It is visible there when it is whole: its manifest comes last. Files that
are there are not sent again, also after a kill. The last checkpoint of a training goes with its weights. The setting
mirror=URL does the same after each stage, and takes what is there before it computes.

s3:// and gs:// need the extra cloud. Passwords and keys come from the environment, ~/.aws or fsspec's configuration.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import artifact_folder, chosen_run
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.mirror import Mirror, label_of
from headrace.pipeline.run.saved_run import SavedRun


@command
@click.argument("what", metavar="RUN|STAGE")
@click.argument("url", metavar="URL")
def push(overrides: Sequence[str], what: str, url: str) -> None:
    """Copies the finished artifacts of a run, or one of a stage, to a mirror: s3://…, gs://… or a folder."""
    mirror = Mirror(url)
    folder = artifact_folder(overrides, what)
    terminal.show(pushed(mirror, [folder]) if folder else pushed_run(mirror, chosen_run(overrides, what)))


def pushed_run(mirror: Mirror, run: SavedRun) -> Iterator[Fact]:
    """Publishes the finished stages of ``run``, then its run.json; yields what was put.

    Raises:
        ArtifactError: when none is finished.
    """
    finished = [stage.folder for stage in run.stages if stage.is_whole]
    if not finished:
        raise ArtifactError(str(run.file), "has no finished stage", "run it first")
    yield from pushed(mirror, finished)
    yield from ((stage.name, "left out: not finished") for stage in run.stages if not stage.is_whole)
    mirror.publish_run(run.file)
    yield "run", mirror.command("pull", run.id, Path("runs"))


def pushed(mirror: Mirror, folders: Sequence[Path]) -> Iterator[Fact]:
    """Publishes the artifacts in ``folders``; yields how many files of each were put."""
    if any(folder.parent.name in (*STORING, "tokens") for folder in folders):
        yield "held out", "by packing.validation_fraction and ids: export and packed divide them"
    for folder in folders:
        number = mirror.publish(Artifact(folder))
        yield label_of(folder), f"{number} file{'s' * (number != 1)} put" if number else "there before"
