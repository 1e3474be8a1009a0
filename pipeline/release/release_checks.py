"""All checks of a release, in their order: cheap ones first, and what is damaged before what would read it."""

import random
from collections.abc import Iterator
from pathlib import Path

from headrace.pipeline.core.errors import HeadraceError
from headrace.pipeline.release import replayed_steps, scored_again, stored_files
from headrace.pipeline.release.finding import OTHER, Finding, checked, compared
from headrace.pipeline.release.rebuilt_shards import rebuilt
from headrace.pipeline.release.release_folder import Release, saved_run
from headrace.train.scores import Scores
from headrace.train.weights import Weights


def findings(folder: Path, root: Path, seed: int, key: str = "") -> Iterator[Finding]:
    """Yields the findings about the release in ``folder``; data that is not in it is read below ``root``.

    ``seed`` chooses shards and benchmarks. ``key`` is a file with the public key that signed the checksums. What is
    not signed by it, or holds links, is not opened.

    Raises:
        ConfigError: when it is no release.
    """
    saved_run(folder)
    if odd := stored_files.odd_entries(folder):
        yield compared("files", odd, "")
        return
    if key or (folder / stored_files.SIGNATURE).is_file():
        yield (signed := stored_files.signature(folder, key))
        if signed.outcome == OTHER:
            return
    yield stored_files.files(folder)
    try:
        release = Release.open(folder, root)
        yield stored_files.addresses(release)
        yield stored_files.contents(release)
    except HeadraceError as error:
        yield Finding("addresses", OTHER, str(error))
        return
    yield from stored_files.data(release)
    yield from stored_files.documents(release)
    draw = random.Random(seed)
    yield from rebuilt(release, draw)
    if Weights.name in release.artifacts:
        yield checked(replayed_steps.MODEL, lambda: replayed_steps.exported(release))
        yield checked(replayed_steps.SUBJECT, lambda: replayed_steps.replayed(release))
    if Scores.name in release.artifacts:
        yield checked(scored_again.SUBJECT, lambda: scored_again.scored_again(release, draw))
