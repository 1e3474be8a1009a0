"""The documents of a release that follow from its artifacts: they are written once, and made again to verify them."""

from collections.abc import Callable

from headrace.pipeline.release.bill_of_materials import bill_of_materials
from headrace.pipeline.release.croissant import croissant
from headrace.pipeline.release.data_order import data_order
from headrace.pipeline.release.page_samples import samples_card
from headrace.pipeline.release.release_folder import Release
from headrace.pipeline.release.reproduction import readme, reproduction
from headrace.pipeline.release.training_content import training_content
from headrace.train.weights import Weights


def generated(release: Release) -> dict[str, Callable[[Release], str]]:
    """Returns the documents of ``release``, file → the function of its text; later ones may read earlier ones."""
    of_data = {"samples/README.md": samples_card, "croissant.json": croissant} if release.document_stages else {}
    of_training = {"order.json": data_order, "bom.cdx.json": bill_of_materials}
    files: dict[str, Callable[[Release], str]] = {
        **of_data,
        **(of_training if Weights.name in release.artifacts else {}),
    }
    if of_data and Weights.name in release.artifacts:
        files["TRAINING_CONTENT.md"] = training_content
    return {**files, "REPRODUCE.md": reproduction, "README.md": readme}
