"""Finds the files of a Hugging Face folder that hold its weights, as ``transformers`` does, and their tensors under the
names that the family's class gives them. Free of torch.

    config.json: transformers_weights      that file, or the files of that index
    model.safetensors                      this file; an index in addition to it does not count
    model.safetensors.index.json           the files that it names; a further shard of an older model does not count
    pytorch_model.bin, …                   the files of another format count only without the two above

(transformers 5, ``modeling_utils._get_resolved_checkpoint_files``.) All tensors of these files count, also one that the
index assigns to another of them; of a name that several hold, the last one in the order of file names.

    in a file                           under the class's name
    h.0.ln_1.weight                     transformer.h.0.ln_1.weight          saved without its head
    ….LayerNorm.gamma, ….beta           ….LayerNorm.weight, ….bias           BERT's names of 2018
    lm_head.weight, in two files        lm_head.weight                       the last file counts

So does ``transformers`` 5 (core_model_loading.rename_source_key). It also ties an output layer to the embedding only
where the files allow it (modeling_utils.tie_weights): if they hold both, with other values, each keeps its own.
"""

import dataclasses
import json
import mmap
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.config import ModelConfig
from headrace.train.families.family import Family, WeightNames

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


OLDER_LEAVES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file."""

    file: Path
    name: str
    """Its name in the file."""

    def equals(self, other: "StoredTensor") -> bool:
        """Whether both have the same type, shape and bytes."""
        return _content(self) == _content(other)


def stored_tensors(files: Sequence[Path], names: WeightNames, wanted: Collection[str]) -> dict[str, list[StoredTensor]]:
    """Returns, for each of the ``wanted`` names of the class that ``files`` have, the tensors under it.

    There are several where several files hold one: the last counts.

    Raises:
        ArtifactError: when a file is damaged.
    """
    from safetensors import SafetensorError, safe_open  # planning needs no safetensors

    places: dict[str, list[StoredTensor]] = {}
    for file in files:
        try:
            with safe_open(file, "np") as opened:
                stored = list(opened.keys())
        except SafetensorError as error:
            raise ArtifactError(str(file), f"cannot be read ({error})", "fetch it again") from None
        for name in stored:
            if (weight := _class_name(name, names.prefix, wanted)) is not None:
                places.setdefault(weight, []).append(StoredTensor(file, name))
    return places


def _class_name(stored: str, prefix: str, wanted: Collection[str]) -> str | None:
    """Returns the one of the ``wanted`` names that a tensor with the name ``stored`` has in the class."""
    name = stored
    for older, newer in OLDER_LEAVES.items():
        name = name.replace(older, newer)
    candidates = (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}.")) if prefix else (name,)
    return next((candidate for candidate in candidates if candidate in wanted), None)


def with_stored_head(config: ModelConfig, family: Family, files: Sequence[Path]) -> ModelConfig:
    """Returns ``config``, which config.json describes, tied or not as ``files`` hold its output layer.

    Raises:
        ArtifactError: when a file is damaged, or two weights that the class makes one differ.
    """
    if not (config.tied or family.always_ties) or not files or config.stack == "discriminator":
        return config
    names = family.names(config)
    if "head" not in names.outer:  # our own format
        return config
    head, embedding = names.all_of("head.weight"), names.all_of("embedding.weight")
    stored = stored_tensors(files, names, {*head, *embedding})
    heads, embeddings = ([stored[name][-1] for name in group if name in stored] for group in (head, embedding))
    for group in (heads, embeddings):
        check_equal(group)
    if not heads or not embeddings:
        return dataclasses.replace(config, tied=True)
    return config if heads[0].equals(embeddings[0]) else dataclasses.replace(config, tied=False)


def check_equal(tensors: Sequence[StoredTensor]) -> None:
    """Checks that ``tensors``, which are one weight under several names, are equal.

    Raises:
        ArtifactError: naming two that differ.
    """
    for other in tensors[1:]:
        if not other.equals(tensors[0]):
            problem = f"holds {tensors[0].name!r} and {other.name!r} with different values"
            raise ArtifactError(str(other.file.parent), problem, "only one matrix for both is computed")


def check_loaded(
    folder: Path, missing: list[str], of_other_shape: list[tuple[str, Any, Any]], unexpected: list[str]
) -> None:
    """Refuses weights that ``transformers`` would draw at random; prints a line about those that do not count.

    Raises:
        ArtifactError: naming one that is missing, or of another shape than config.json gives.
    """
    others = f"holds {len(unexpected)} that its model does not have, {unexpected[0]!r} among them" if unexpected else ""
    if missing:
        problem = ", and ".join(filter(None, (f"lacks {len(missing)} weights, {missing[0]!r} among them", others)))
        raise ArtifactError(str(folder), problem, WHOLE + ", under transformers' names" * bool(others))
    for name, stored, expected in of_other_shape:
        problem = f"holds {name} as {tuple(stored)}, by its config.json it is {tuple(expected)}"
        raise ArtifactError(str(folder), problem, WHOLE)
    if unexpected:
        print(f"{folder}: of its weights, it {others}: they do not count", file=sys.stderr)


def _content(tensor: StoredTensor) -> tuple[str, tuple[int, ...], bytes]:
    """Returns the type, shape and bytes of ``tensor``.

    A file begins with the size of its header in 8 bytes and the header in JSON (huggingface/safetensors, README). It
    was opened before, so both are sound.
    """
    with tensor.file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = 8 + int.from_bytes(content[:8], "little")
        entry: Mapping[str, Any] = json.loads(content[8:start])[tensor.name]
        begin, end = entry["data_offsets"]
        return entry["dtype"], tuple(entry["shape"]), content[start + begin : start + end]
