"""Reads config.json of a Hugging Face folder and checks its files. Free of torch, so that a run is checked early."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.data_prep.tokenization.encode import parse
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.families import registry
from headrace.train.families.family import Family
from headrace.train.families.stored_weights import INDEX, WEIGHTS, weight_files, with_stored_head

SIZES = (
    *("n_layer", "n_embd", "n_head", "n_positions"),
    *("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"),
)
"""Names of sizes in config.json of any model. Each may be absent, or a list with one value a layer."""

CONTEXT = "context_form"
"""The name in config.json of the form of contexts, where it is not left to right."""


def read_model_config(folder: Path) -> tuple[ModelConfig, int]:
    """Returns the shape in ``folder``/config.json, and the size of its vocabulary.

    The output layer is tied to the embedding where config.json says so and the weights, if there are any, allow it.
    Dropout is not read: no weight depends on it.

    Raises:
        ArtifactError: when there is none, the model is of a kind that Transformer does not compute, or a file that
            holds weights is missing or damaged.
    """
    hf_config = read_hf_config(folder)
    config = _model_config(hf_config, folder)
    with _named_faults(folder):
        vocabulary = Fields(hf_config)["vocab_size"]
    return with_stored_head(config, _family(hf_config, folder), weight_files(folder, hf_config)), vocabulary


def read_weight_files(folder: Path) -> list[Path]:
    """Returns the files that hold the weights of ``folder``; none where it has only files of another format.

    Raises:
        ArtifactError: when there is no config.json, or one of the files is missing.
    """
    return weight_files(folder, read_hf_config(folder))


def ties_by_config(folder: Path) -> bool:
    """Whether ``folder``/config.json ties the output layer to the embedding."""
    return _model_config(read_hf_config(folder), folder).tied


def read_context_form(folder: Path) -> ContextForm:
    """Returns the form of contexts that ``folder``/config.json gives; left to right if it gives none.

    For a published encoder–decoder its family decides.
    """
    hf_config = read_hf_config(folder)
    if (form := hf_config.get(CONTEXT)) is not None:
        return decode(ContextForm, form, f"{folder}/config.json")
    family = _family(hf_config, folder)
    if "encoder_decoder" not in family.stacks:
        return LEFT_TO_RIGHT
    ids, tokenizer_file = {}, folder / "tokenizer.json"
    if tokenizer_file.is_file():
        tokenizer = parse(tokenizer_file.read_text(encoding="utf-8"), str(tokenizer_file))
        ids = tokenizer.get_vocab(with_added_tokens=True)
    return family.context_form(hf_config.get("decoder_start_token_id", 0), ids)


def read_family(folder: Path) -> Family:
    """Returns the family of the model in ``folder``.

    Raises:
        ArtifactError: when there is no config.json, or it is of a type that Headrace does not compute.
    """
    return _family(read_hf_config(folder), folder)


def is_ours(folder: Path) -> bool:
    """Whether ``Transformer`` computes the model whose config.json is in ``folder``.

    Raises:
        ArtifactError: when there is no config.json.
    """
    hf_config = read_hf_config(folder)
    try:
        _model_config(hf_config, folder)
    except (ArtifactError, ConfigError):
        return False
    return True


def _model_config(hf_config: Mapping[str, Any], folder: Path) -> ModelConfig:
    family = _family(hf_config, folder)
    with _named_faults(folder):
        return family.from_hf_config(Fields({**family.defaults, **hf_config}), folder)


class Fields(dict[str, Any]):
    """The fields of a config.json. One that is asked for by ``[]`` is neither missing nor null."""

    def __getitem__(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value


@contextlib.contextmanager
def _named_faults(folder: Path) -> Iterator[None]:
    """Makes an ArtifactError of a missing field of config.json in ``folder``, or one of another type.

    Raises:
        ArtifactError: naming the field, or the fault.
    """
    remedy = "give the config.json that belongs to the weights"
    try:
        yield
    except KeyError as error:
        raise ArtifactError(str(folder), f"has no {error.args[0]} in config.json", remedy) from error
    except (AttributeError, TypeError, ValueError) as error:
        problem = f"has a field of another type in config.json than its class ({error})"
        raise ArtifactError(str(folder), problem, remedy) from error


def _family(hf_config: Mapping[str, Any], folder: Path) -> Family:
    model_type = hf_config.get("model_type")
    family = registry.family_of_type(model_type)
    if family is None:
        *types, last = (family.model_type for family in registry.families())
        remedy = f"give a model of type {', '.join(types)} or {last}"
        raise ArtifactError(str(folder), f"holds a model of type {model_type!r}", remedy)
    return family


def read_hf_config(folder: Path) -> dict[str, Any]:
    """Returns the fields of ``folder``/config.json.

    Raises:
        ArtifactError: when there is none, it has sizes that no model has, or the weights are quantized.
    """
    if not (folder / "config.json").is_file():
        raise ArtifactError(str(folder), "has no config.json", "give the folder of a Hugging Face model")
    try:
        hf_config = json.loads((folder / "config.json").read_text(encoding="utf-8"))  # Mamba2's holds Infinity
    except (ValueError, RecursionError) as error:
        raise ArtifactError(str(folder), f"has a config.json that is not JSON ({error})", "fetch it again") from None
    if not isinstance(hf_config, dict):
        problem = f"has a config.json that holds no object but {type(hf_config).__name__}"
        raise ArtifactError(str(folder), problem, "fetch it again")
    _check_sizes(folder, hf_config)
    if quantization := hf_config.get("quantization_config"):
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else quantization
        problem = f"holds quantized weights (quantization_config in config.json: {method})"
        raise ArtifactError(str(folder), problem, "give the folder of the weights in fp32, fp16 or bf16")
    return hf_config


def _check_sizes(folder: Path, hf_config: Mapping[str, Any]) -> None:
    """Refuses sizes that no model has; libraries would fail on them with errors of all kinds."""
    for name in SIZES:
        size = hf_config.get(name)
        if isinstance(size, (int, float, str)) and (not isinstance(size, int) or size < 1):
            problem = f"has {name}={size!r} in config.json"
            raise ArtifactError(str(folder), problem, "give a whole number of at least 1 there")
    family = registry.family_of_type(hf_config.get("model_type"))
    width, heads = (family and family.width_and_heads) or ("", "")
    are_whole = isinstance(hf_config.get(width), int) and isinstance(hf_config.get(heads), int)
    if are_whole and not hf_config.get("head_dim") and hf_config[width] % hf_config[heads]:
        problem = f"has {width}={hf_config[width]} in config.json, no multiple of {heads}={hf_config[heads]}"
        raise ArtifactError(str(folder), problem, "give the config.json that belongs to the weights")


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
