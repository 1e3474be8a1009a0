"""The documents of a release that follow from its artifacts: they are written once, and made again to verify them."""

from collections.abc import Callable

from headrace.pipeline.release.data_order import data_order
from headrace.pipeline.release.page_samples import samples_card
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.release.reproduction import readme, reproduction
from headrace.pipeline.release.training_content import training_content
from headrace.train.weights import Weights


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
