"""Finds the files of a Hugging Face folder that hold its weights, as ``transformers`` does. Free of torch.

    config.json: transformers_weights      that file, or the files of that index
    model.safetensors                      this file; an index in addition to it does not count
    model.safetensors.index.json           the files that it names; a further shard of an older model does not count
    pytorch_model.bin, …                   the files of another format count only without the two above

(transformers 5, ``modeling_utils._get_resolved_checkpoint_files``.) All tensors of these files count, also one that the
index assigns to another of them; of a name that several hold, the last one in the order of file names.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from headrace.pipeline.core.errors import ArtifactError

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
EXPLICIT = "transformers_weights"
"""The field of config.json that names the file, or the index."""
SUFFIX, INDEX_SUFFIX = ".safetensors", ".safetensors.index.json"
WHOLE = "give a folder with whole weights"


def weight_files(folder: Path, hf_config: Mapping[str, Any]) -> list[Path]:
    """Returns the files in the format of safetensors that hold the weights of ``folder``, in the order of their names.

    The list is empty where there are none, or only files of another format.

    Raises:
        ArtifactError: when a file that config.json or the index names is missing, or no such file; naming it.
    """
    explicit = hf_config.get(EXPLICIT)
    if explicit is not None:
        file = _named(folder, explicit, "config.json", (SUFFIX, INDEX_SUFFIX))
        return _of_index(folder, file) if file.name.endswith(INDEX_SUFFIX) else [file]
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    index = folder / INDEX
    return _of_index(folder, index) if index.is_file() else []


def _of_index(folder: Path, index: Path) -> list[Path]:
    """Returns the files that ``index`` names."""
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
        names = set(content["weight_map"].values())
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        problem = f"has no map of weights to files ({type(error).__name__}: {error})"
        raise ArtifactError(str(index), problem, "fetch it again") from None
    if not names:
        raise ArtifactError(str(index), "names no file", "fetch it again")
    return [_named(folder, name, index.name, (SUFFIX,)) for name in sorted(names, key=str)]


def _named(folder: Path, name: object, origin: str, suffixes: tuple[str, ...]) -> Path:
    """Returns the file of ``folder`` with this ``name``, which ``origin`` gives.

    Raises:
        ArtifactError: when it is no file of ``folder`` with one of these suffixes.
    """
    is_inside = isinstance(name, str) and not {"..", "/"} & set(PurePosixPath(name).parts)
    if not is_inside or not str(name).endswith(suffixes):
        problem = f"has {name!r} in {origin}, which is no file of this folder with the suffix {' or '.join(suffixes)}"
        raise ArtifactError(str(folder), problem, "fetch it again")
    if not (file := folder / str(name)).is_file():
        raise ArtifactError(str(folder), f"lacks {name}, which {origin} names", WHOLE)
    return file
