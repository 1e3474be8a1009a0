"""The optional packages, and the extra of Headrace that installs each: ``pip install 'headrace[train]'``.

The base installation has the data stages, their report, the commands and the Python API. ``require`` refuses what needs
more before anything runs. pyproject.toml lists the packages of each extra. Large packages (torch, DeepSpeed, numba,
plotly) are imported faster inside ``loading``.
"""

import contextlib
import gc
import importlib.util
from collections.abc import Iterator

from headrace.pipeline.core.errors import ConfigError

TRAIN = ("torch", "deepspeed", "transformers", "safetensors")
"""The modules that training and scoring import."""
EXTRAS = {
    **dict.fromkeys((*TRAIN, "sacrebleu", "rouge_score"), "train"),
    "wandb": "wandb",
    "s3fs": "cloud",
    "gcsfs": "cloud",
    "pandas": "notebook",
    **dict.fromkeys(("lm_eval", "datasets"), "evaluation"),
    "trafilatura": "extractors",
    "readability": "extractors",
    "lightgbm": "extractor-training",
    "sklearn": "classifier-training",
    "icu4py": "languages",
    "ray": "ray",
    "apprise": "notify",
}
"""Module → the extra that installs it."""


def is_installed(module: str) -> bool:
    """Whether the optional ``module`` can be imported. It is not imported: that of torch takes seconds."""
    return importlib.util.find_spec(module) is not None


def require(where: str, *modules: str, otherwise: str = "") -> None:
    """Checks that the optional ``modules`` are installed.

    Args:
        where: what needs them, for the error: a setting, a stage, a function.
        modules: keys of ``EXTRAS``.
        otherwise: what else the user can do, for the error.

    Raises:
        ConfigError: with the extra that installs the first one that is missing.
    """
    for module in modules:
        if not is_installed(module):
            remedy = f"pip install 'headrace[{EXTRAS[module]}]'"
            raise ConfigError(where, f"{module} is not installed", f"{remedy}, or {otherwise}" if otherwise else remedy)


@contextlib.contextmanager
def missing_packages_explained(where: str) -> Iterator[None]:
    """Replaces the error of an import inside the block by that of ``require``, if an optional package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in EXTRAS:
            require(where, module)
        raise


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Turns the garbage collector off inside the block.

    It would search all objects again and again while their number grows: a quarter of the time of the imports.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Turns the garbage collector off while modules are loaded inside the block, and keeps it from them later.

    They are never garbage, and each search of all objects would take a tenth of a second longer.
    """
    with uncollected():
        yield
        gc.freeze()
