"""The first pages of a release: README.md, what is in it; REPRODUCE.md, the way from raw files to the same bytes."""

import shlex
from collections.abc import Iterator

from headrace.pipeline.configuration.options import setting_of
from headrace.pipeline.export.dataset_card import table
from headrace.pipeline.export.model_card import model_card
from headrace.pipeline.export.whole_folder import CHECKSUMS
from headrace.pipeline.release.environment_record import OWN, package_versions
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.run.mirror import label_of
from headrace.train.checkpoint.names import CHECKPOINTS, checkpoints
from headrace.train.weights import Weights

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
