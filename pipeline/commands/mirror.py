"""``headrace mirror``: copies finished artifacts to a mirror, a URL or a folder, and from it to another root.

headrace mirror push small s3://bucket/mirror                  all finished stages of the run small, and its run.json
headrace mirror push clean/b8e44e9d7440 gs://bucket/mirror     one artifact below the root
headrace mirror pull small s3://bucket/mirror                  the run of this name or id, of this root or as pushed
headrace mirror pull small /mnt/mirror root=/data/runs         a run, to another root

The mirror has each artifact by its address. It is visible there when it is whole: its manifest comes last. What is
there is not copied again, also after a kill. The last checkpoint of a training goes with its weights. Each file that is
pulled is compared with its size and SHA-256 before it gets its name. The run.json of a pushed run may name code: pull
runs only from mirrors whose writers you trust. The setting mirror=URL does both for each stage.

s3:// and gs:// need the extra cloud. Passwords and keys come from the environment, ~/.aws or fsspec's configuration.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import artifact_folder, chosen_run, root_of
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.core.artifact import Artifact, is_whole
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.core.stage import STORING
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.mirror import Mirror, label_of
from headrace.pipeline.run.saved_run import SavedRun, labels, named_file, run_file


@command
@click.argument("direction", metavar="push|pull", type=click.Choice(["push", "pull"]))
@click.argument("what", metavar="RUN|STAGE")
@click.argument("url", metavar="URL")
def mirror(overrides: Sequence[str], direction: str, what: str, url: str) -> None:
    """Copies the finished artifacts of a run, or one of a stage, to or from s3://…, gs://… or a folder."""
    store, folder = Mirror(url), artifact_folder(overrides, what)
    if direction == "push":
        terminal.show(pushed(store, [folder]) if folder else pushed_run(store, chosen_run(overrides, what)))
    else:
        terminal.show(pulled(store, [folder]) if folder else pulled_run(store, what, root_of(overrides)))


def pushed_run(store: Mirror, run: SavedRun) -> Iterator[Fact]:
    """Publishes the finished stages of ``run``, then its run.json; yields what was put.

    Raises:
        ArtifactError: when none is finished.
    """
    finished = [stage.folder for stage in run.stages if stage.is_whole]
    if not finished:
        raise ArtifactError(str(run.file), "has no finished stage", "run it first")
    yield from pushed(store, finished)
    yield from ((stage.name, "left out: not finished") for stage in run.stages if not stage.is_whole)
    store.publish_run(run.file)
    yield "run", store.command("pull", run.id, Path("runs"))


def pushed(store: Mirror, folders: Sequence[Path]) -> Iterator[Fact]:
    """Publishes the artifacts in ``folders``; yields how many files of each were put."""
    if any(folder.parent.name in (*STORING, "tokens") for folder in folders):
        yield "held out", "by packing.validation_fraction and ids: export and packed divide them"
    for folder in folders:
        number = store.publish(Artifact(folder))
        yield label_of(folder), f"{number} file{'s' * (number != 1)} put" if number else "there before"


def pulled(store: Mirror, folders: Sequence[Path]) -> Iterator[Fact]:
    """Takes the artifacts of ``folders``; yields what was done about each.

    Raises:
        ArtifactError: when the mirror has none of those that are not whole.
    """
    missing = 0
    for folder in folders:
        before = is_whole(folder)
        is_here = store.take(folder)
        missing += not is_here
        yield label_of(folder), "there before" if before else "pulled" if is_here else "not in the mirror"
    if missing == len(folders):
        raise ArtifactError(store.url, f"has no artifact {label_of(folders[0])}", "push it there from a root with it")


def pulled_run(store: Mirror, what: str, root: str) -> Iterator[Fact]:
    """Takes the finished artifacts of the run ``what``, of ``root`` or as it was pushed; then writes its run.json."""
    try:
        run = SavedRun.read(named_file(root, what))
    except ConfigError:
        run = pushed_before(store, what, root)
    yield from pulled(store, [stage.folder for stage in run.stages])
    if not run.file.is_file():
        write_sealed(run.file, run.values)
        run.file.chmod(0o644)  # as of a start: jobs act on it, so only its owner may write it
    yield "run", str(run.file)


def pushed_before(store: Mirror, what: str, root: str) -> SavedRun:
    """Returns the run with the name or id ``what`` as it was pushed, for ``root``.

    Raises:
        ConfigError: when none, or several, have it.
    """
    runs = {run: SavedRun(run_file(root, run), values) for run, values in store.runs().items()}
    ids = [what] if what in runs else [run for run, saved in runs.items() if what in saved.names]
    if not ids:
        names = itertools.chain.from_iterable(saved.names for saved in runs.values())
        remedy = suggestion(what, {*runs, *names, *labels(Path(root))})
        problem = f"{what!r} is no artifact, and no run below {root!r} or in {store.url}"
        raise ConfigError("RUN|STAGE", problem, remedy)
    if len(ids) > 1:
        raise ConfigError("RUN|STAGE", f"{what!r} is the name of several runs: {', '.join(ids)}", "give an id")
    return runs[ids[0]]
