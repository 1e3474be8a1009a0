"""Checks of a Hugging Face folder before its weights are read. Free of torch."""

import os
from pathlib import Path

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.families.hf_config import read_weight_files
from headrace.train.families.weight_files import INDEX, WEIGHTS


def needed_weight_files(folder: Path) -> list[Path]:
    """Returns the files that hold the weights of ``folder``.

    Raises:
        ArtifactError: when it has none in the format of safetensors, or one of them is missing.
    """
    if files := read_weight_files(folder):
        return files
    if stray := sorted(path.name for path in folder.glob("*.safetensors")):
        problem = f"has {stray[0]}, but neither {WEIGHTS} nor {INDEX}, which says which files count"
        raise ArtifactError(str(folder), problem, f"fetch {INDEX}, too, or rename a single file to {WEIGHTS}")
    raise ArtifactError(str(folder), "has no *.safetensors", "save the model in that format")


def check_memory(folder: Path, parameters: int) -> None:
    """Checks that a model of this many fp32 ``parameters`` fits into the memory of this machine.

    Raises:
        ArtifactError: naming ``folder``, when it does not.
    """
    needed, there = 4 * parameters, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        problem = f"needs {needed / 1e9:,.1f} GB by its config.json, this machine has {there / 1e9:,.1f} GB of memory"
        raise ArtifactError(str(folder), problem, "give a smaller model, or take a larger machine")


def check_layers(folder: Path, layers: int) -> None:
    """Checks that ``folder`` has at least as many weights as its config.json has ``layers``.

    With a wrong number there, building the layers would not end.

    Raises:
        ArtifactError: naming both numbers.
    """
    from safetensors import SafetensorError, safe_open  # planning needs no safetensors

    weights = 0
    for file in read_weight_files(folder):
        try:
            with safe_open(file, "np") as opened:
                weights += len(opened.keys())
        except SafetensorError:  # loading the weights names the file, if the model needs it
            return
    if 0 < weights < layers:
        problem = f"has {layers:,} layers by its config.json and {weights:,} weights"
        raise ArtifactError(str(folder), problem, "give a folder with whole weights")
