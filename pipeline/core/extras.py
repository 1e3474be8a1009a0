"""The optional packages, and the extra of Headrace that installs each: ``pip install 'headrace[train]'``.

The base installation has the data stages, their report, the commands and the Python API. ``require`` refuses what needs
more before anything runs. pyproject.toml lists the packages of each extra. Large packages (torch, DeepSpeed, numba,
plotly) are imported faster inside ``loading``.

Other packages extend Headrace: ``entry_points`` finds what they register when they are installed.
"""

import contextlib
import gc
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.pipeline.core.environment import EXTENSIONS
from headrace.pipeline.core.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

TRAIN = ("torch", "deepspeed", "transformers", "safetensors")
"""The modules that training and scoring import."""
EXTRAS = {
    **dict.fromkeys((*TRAIN, "sacrebleu", "rouge_score"), "train"),
    "wandb": "wandb",
    "s3fs": "cloud",
    "gcsfs": "cloud",
    **dict.fromkeys(("lm_eval", "datasets"), "evaluation"),
    "trafilatura": "extractors",
    "lightgbm": "extractor-training",
    "sklearn": "classifier-training",
    "ray": "ray",
    "apprise": "notify",
}
"""Module → the extra that installs it."""


@contextlib.contextmanager
def without(*modules: str) -> Iterator[None]:
    """Lets imports of ``modules``, parts of large packages that others load, fail inside, unless they are loaded."""
    absent = set(modules) - sys.modules.keys()
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]  # None makes an import fail
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


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


def entry_points(group: str) -> "list[EntryPoint]":
    """Returns what installed packages register in ``group``, by name; none where $HEADRACE_EXTENSIONS is ``none``."""
    if os.environ.get(EXTENSIONS) == "none":
        return []
    from importlib.metadata import entry_points as installed  # 20 ms, for those who look for extensions

    return sorted(installed(group=group), key=lambda point: point.name)


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
