"""``headrace pull``: copies finished artifacts from a mirror to the root, each verified by its manifest.

headrace pull small s3://bucket/mirror                  the run of this name or id, of this root or as it was pushed
headrace pull clean/b8e44e9d7440 gs://bucket/mirror     one artifact
headrace pull small /mnt/mirror root=/data/runs         a run, to another root

Each file is compared with its size and SHA-256 before it gets its name. Files that are there already are not copied
again, also after a kill. The run.json of a pushed run may name code: pull runs only from mirrors whose writers you
trust.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.choice import artifact_folder, root_of
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.core.artifact import is_whole
from headrace.pipeline.core.errors import ArtifactError, ConfigError, suggestion
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.mirror import Mirror, label_of
from headrace.pipeline.run.saved_run import SavedRun, labels, named_file, run_file


@command
@click.argument("what", metavar="RUN|STAGE")
@click.argument("url", metavar="URL")
def pull(overrides: Sequence[str], what: str, url: str) -> None:
    """Copies the finished artifacts of a run, or one of a stage, from a mirror, and verifies them."""
    mirror = Mirror(url)
    folder = artifact_folder(overrides, what)
    terminal.show(pulled(mirror, [folder]) if folder else pulled_run(mirror, what, root_of(overrides)))


def pulled(mirror: Mirror, folders: Sequence[Path]) -> Iterator[Fact]:
    """Takes the artifacts of ``folders``; yields what was done about each.

    Raises:
        ArtifactError: when the mirror has none of those that are not whole.
    """
    missing = 0
    for folder in folders:
        before = is_whole(folder)
        is_here = mirror.take(folder)
        missing += not is_here
        yield label_of(folder), "there before" if before else "pulled" if is_here else "not in the mirror"
    if missing == len(folders):
        raise ArtifactError(mirror.url, f"has no artifact {label_of(folders[0])}", "push it there from a root with it")


def pulled_run(mirror: Mirror, what: str, root: str) -> Iterator[Fact]:
    """Takes the finished artifacts of the run ``what``, of ``root`` or as it was pushed; then writes its run.json."""
    run = _run_here(root, what) or _pushed_run(mirror, what, root)
    yield from pulled(mirror, [stage.folder for stage in run.stages])
    if not run.file.is_file():
        write_sealed(run.file, run.values)
        run.file.chmod(0o644)  # as of a start: jobs act on it, so only its owner may write it
    yield "run", str(run.file)


def _run_here(root: str, what: str) -> SavedRun | None:
    with contextlib.suppress(ConfigError):  # the mirror may have it
        return SavedRun.read(named_file(root, what))
    return None


def _pushed_run(mirror: Mirror, what: str, root: str) -> SavedRun:
    """Returns the run with the name or id ``what`` as it was pushed, for ``root``.

    Raises:
        ConfigError: when none, or several, have it.
    """
    runs = mirror.runs()
    names = {run: SavedRun(run_file(root, run), values).names for run, values in runs.items()}
    ids = [what] if what in runs else [run for run, own in names.items() if what in own]
    if not ids:
        remedy = suggestion(what, {*runs, *itertools.chain(*names.values()), *labels(Path(root))})
        raise ConfigError("RUN|STAGE", f"{what!r} is no artifact, and no run below {root!r} or in {mirror.url}", remedy)
    if len(ids) > 1:
        raise ConfigError("RUN|STAGE", f"{what!r} is the name of several runs: {', '.join(ids)}", "give an id")
    return SavedRun(run_file(root, ids[0]), runs[ids[0]])
