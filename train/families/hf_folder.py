"""Hugging Face's folder of a model, written for ``transformers`` to open, and read.

    hf/
        config.json             the shape, under Hugging Face's names
        model.safetensors       fp32 weights, under Hugging Face's names; a tied head is left out
        tokenizer.json          as the tokenizer stage left it
        tokenizer_config.json   which token ends a document, how long a context is

weight_names.py translates names. A mixture of both families has no class in ``transformers``: its folder holds our
own names, and ``load`` reads it.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from headrace.pipeline.core.artifact import write_json
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.system_errors import of_rust
from headrace.train.config import ModelConfig
from headrace.train.families.hf_config import read_shape, shape_abroad
from headrace.train.families.weight_names import Family, family_of
from headrace.train.model.transformer import Transformer

END_OF_TEXT = "<|endoftext|>"
WEIGHTS = "model.safetensors"


def export(
    weights: Iterable[tuple[str, Tensor]], config: ModelConfig, vocabulary: int, tokenizer_file: Path, folder: Path
) -> None:
    """Write ``weights`` (our names, fp32, tied ones once) and the tokenizer as Hugging Face's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    family = family_of(config)
    tensors: dict[str, Tensor] = {}
    for name, value in weights:
        tensors.update(_abroad(name, value, config, family))
    try:
        save_file({name: value.contiguous() for name, value in tensors.items()}, folder / WEIGHTS, {"format": "pt"})
    except SafetensorError as error:
        raise of_rust(error, folder / WEIGHTS) from None
    end = Tokenizer.from_file(str(tokenizer_file)).token_to_id(END_OF_TEXT)
    write_json(folder / "config.json", {**shape_abroad(config, family), "vocab_size": vocabulary, **_ends(end)})
    write_json(folder / "tokenizer_config.json", _tokenizer_config(config))
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")


def load(folder: Path) -> Transformer:
    """The model in Hugging Face's ``folder``, in fp32 on the CPU, in evaluation mode.

    Raises:
        ArtifactError: when the folder is incomplete, or the model is of a kind that Transformer does not compute.
    """
    config, vocabulary = read_shape(folder)
    check_memory(folder, config.parameters(vocabulary))
    check_layers(folder, config.layers)
    model = Transformer(config, vocabulary)
    load_into(model, folder)
    return model.eval()


def check_memory(folder: Path, parameters: int) -> None:
    """Refuse a model of so many fp32 ``parameters`` that this machine has not the memory for.

    Raises:
        ArtifactError: when that is so by the config.json in ``folder``.
    """
    needed, there = 4 * parameters, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        wrong = f"needs {needed / 1e9:,.1f} GB by its config.json, this machine has {there / 1e9:,.1f} GB of memory"
        raise ArtifactError(str(folder), wrong, "give a smaller model, or take a larger machine")


def check_layers(folder: Path, layers: int) -> None:
    """Refuse a config.json in ``folder`` with more ``layers`` than there are weights: building them would not end.

    Raises:
        ArtifactError: saying how many there are.
    """
    weights = 0
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, "pt") as opened:
                weights += len(opened.keys())
        except SafetensorError:  # who loads the weights names it, if it is one that the model needs
            return
    if 0 < weights < layers:
        wrong = f"has {layers:,} layers by its config.json and {weights:,} weights"
        raise ArtifactError(str(folder), wrong, "give a folder with whole weights")


def load_into(model: Transformer, folder: Path) -> None:
    """Give ``model`` the weights in Hugging Face's ``folder``, whose shape it has.

    Raises:
        ArtifactError: when a file is damaged, or a weight is missing or not of the shape that config.json tells.
    """
    config = model.config
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            tensors.update(load_file(file))
        except SafetensorError as error:
            raise ArtifactError(str(file), f"cannot be read ({error})", "fetch it again") from None
    home = {name: _home(folder, name, tensors, config) for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        if home[name].shape != parameter.shape:
            wrong = f"holds {name} as {tuple(home[name].shape)}, by its config.json it is {tuple(parameter.shape)}"
            raise ArtifactError(str(folder), wrong, "give a folder with whole weights")
    if config.tied:
        home["head.weight"] = home["embedding.weight"]
    model.load_state_dict({name: value.float() for name, value in home.items()})


def _split_sizes(name: str, config: ModelConfig) -> list[int]:
    if ".attention.qkv." in name:
        return [config.width, *[config.kv_heads * config.head_width] * 2]
    return [config.mlp_width, config.mlp_width]


def _is_transposed(name: str, value: Tensor, family: Family) -> bool:
    return family.transposed and name.startswith("blocks.") and value.dim() == 2


def _abroad(name: str, value: Tensor, config: ModelConfig, family: Family | None) -> dict[str, Tensor]:
    if family is None:
        return {name: value}
    names = family.names(name)
    if _is_transposed(name, value, family):
        value = value.T
    parts = value.split(_split_sizes(name, config)) if len(names) > 1 else (value,)
    return dict(zip(names, parts, strict=True))


def _home(folder: Path, name: str, tensors: Mapping[str, Tensor], config: ModelConfig) -> Tensor:
    family = family_of(config)
    found = []
    for foreign in family.names(name) if family else (name,):
        bare = foreign.partition(".")[2]  # weights of the bare model, without a head, lack the first part
        if foreign not in tensors and bare not in tensors:
            raise ArtifactError(str(folder), f"has no weight {foreign!r}", "give a folder with whole weights")
        found.append(tensors.get(foreign, tensors.get(bare)))
    value = torch.cat(found)
    return value.T if family and _is_transposed(name, value, family) else value


def _ends(end: int | None) -> dict[str, int]:
    return {} if end is None else {"bos_token_id": end, "eos_token_id": end}


def _tokenizer_config(config: ModelConfig) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT),
        "model_max_length": config.context,
        "clean_up_tokenization_spaces": False,
    }
