"""Writes a model as a Hugging Face folder that ``transformers`` opens, and reads such folders.

    hf/
        config.json             the shape, under Hugging Face names
        model.safetensors       fp32 weights, under Hugging Face names; a tied head is left out. With a limit of bytes:
                                model-00001-of-00003.safetensors, …, and model.safetensors.index.json that lists them
        tokenizer.json          as the tokenizer stage left it
        tokenizer_config.json   special tokens, length of the context

The model's family (registry.py) translates the names. A mixture of several families' parts has no class in
``transformers``: its folder has our own names, and ``load`` reads it.
"""

import contextlib
import dataclasses
import functools
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from headrace.data_prep.tokenization.special_tokens import END_FIELD, named_end
from headrace.pipeline.core.artifact_files import make
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.system_errors import rust_os_error
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.families.family import WeightNames
from headrace.train.families.hf_config import (
    CONTEXT,
    check_layers,
    check_memory,
    needed_weight_files,
    read_context_form,
    read_family,
    read_model_config,
    ties_by_config,
)
from headrace.train.families.predecessor import Predecessor, cut, spare_rows
from headrace.train.families.stored_weights import WEIGHTS, stored_tensors
from headrace.train.families.task_heads import TaskKind
from headrace.train.families.task_names import (
    TaskFields,
    exported_family,
    task_names,
    token_ids,
    token_roles,
    write_tokenizer_config,
)
from headrace.train.model.task_model import BACKBONE, HEAD, TaskModel
from headrace.train.model.transformer import Transformer


def to_hf(name: str, value: Tensor, config: ModelConfig, names: WeightNames) -> dict[str, Tensor]:
    """Returns our weight ``name`` under its Hugging Face names."""
    hf_names = names.of(name)
    if names.qkv_by_head and ".attention.qkv." in name:
        value = _regrouped(value, 3, config.heads)
    parts = torch.split(value, _split_sizes(name, config)) if len(hf_names) > 1 else (value,)
    return {hf_name: _transposed(name, part, names) for hf_name, part in zip(hf_names, parts, strict=True)}


def from_hf(name: str, parts: Sequence[Tensor], config: ModelConfig, names: WeightNames) -> Tensor:
    """Returns our weight ``name`` from the tensors of its Hugging Face names."""
    value = torch.cat([_transposed(name, part, names) for part in parts])
    return _regrouped(value, config.heads, 3) if names.qkv_by_head and ".attention.qkv." in name else value


def _regrouped(value: Tensor, groups: int, members: int) -> Tensor:
    """Returns ``value``, whose rows are ``groups`` groups of ``members`` heads, as groups of the first members, ….

    Rows of a matrix or of a bias: (groups · members · head width, …).
    """
    if value.shape[0] % (groups * members):  # the check of shapes names it
        return value
    grouped = value.view(groups, members, -1, *value.shape[1:])
    return grouped.transpose(0, 1).reshape(value.shape)


def _transposed(name: str, value: Tensor, names: WeightNames) -> Tensor:
    """Returns ``value``, transposed where ours and Hugging Face's matrix differ so."""
    return value.T if names.transposed and names.is_in_block(name) and value.dim() == 2 else value


def _split_sizes(name: str, config: ModelConfig) -> list[int]:
    """Returns the rows of each part of a matrix of ours that has several Hugging Face names."""
    if ".attention.qkv." in name:
        return [heads * config.head_width for heads in (config.heads, config.kv_heads, config.kv_heads)]
    if ".cross.key_value." in name:
        return [config.kv_heads * config.head_width] * 2
    return [config.mlp_width, config.mlp_width]


SPLIT_WEIGHTS = "model{suffix}.safetensors"
"""The pattern of the names of several files."""


def export(
    weights: Iterable[tuple[str, Tensor]],
    config: ModelConfig,
    vocabulary: int,
    tokenizer_file: Path,
    folder: Path,
    context_form: ContextForm = LEFT_TO_RIGHT,
    file_bytes: int | None = None,
    task: TaskFields | None = None,
    predecessor: Predecessor | None = None,
) -> None:
    """Writes ``weights`` (our names, fp32, tied ones once) and the tokenizer as a Hugging Face folder.

    Weights of more than ``file_bytes`` are split into several files; None: never. A model for a ``task`` has weights of
    its head (``head.…``) instead of those of an output layer. One that was trained from a ``predecessor`` has its files
    of the tokenizer, and its rows of the embedding that no token has.
    """
    if predecessor is not None:
        weights, vocabulary = predecessor.with_spare_rows(weights), vocabulary + predecessor.rows
    if config.output_scale != 1:
        weights = _folded(weights, config)
    config = dataclasses.replace(config, base_width=None, output_multiplier=1.0)
    make(folder)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    before = None if predecessor is None else predecessor.family()
    family = exported_family(config, tokenizer, context_form, None if task is None else task.kind, before)
    names = family.names(config) if task is None else task_names(family, config, task.kind)
    tensors: dict[str, Tensor] = {}
    for name, value in weights:
        tensors.update(to_hf(name, value, config, names))
    _save({name: value.contiguous() for name, value in tensors.items()}, folder, file_bytes)
    hf_config = family.to_hf_config(config) | {"vocab_size": vocabulary} | token_ids(tokenizer, family)
    ends: dict[str, str] = {}
    if (end := named_end(tokenizer_file)) is not None:  # rows begin with it, too
        ends = dict.fromkeys(("bos_token", "eos_token", END_FIELD), end)
        hf_config |= dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.token_to_id(end))
    if config.stack == "encoder_decoder":
        ids = tokenizer.get_vocab(with_added_tokens=True)
        start = ids.get(family.decoder_start(ids) or "")
        hf_config["decoder_start_token_id"] = context_form.given[0] if context_form.given else start
    if predecessor is not None:
        hf_config |= predecessor.token_ids()
    if task is not None:
        hf_config |= task.hf_config(family.task_head(task.kind), tokenizer)
    if context_form != LEFT_TO_RIGHT:
        values = dataclasses.asdict(context_form)
        hf_config[CONTEXT] = {name: value for name, value in values.items() if value != getattr(LEFT_TO_RIGHT, name)}
    write_json(folder / "config.json", hf_config)
    write_tokenizer_config(folder, config.context, token_roles(tokenizer, family) | ends)
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
    if predecessor is not None:
        predecessor.copy_files(folder)


def _folded(weights: Iterable[tuple[str, Tensor]], config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Yields ``weights`` with the factor of the logits in the last norm: no class has a field for it."""
    for name, value in weights:
        if name == "norm.weight" and config.norm == "rmsnorm_1p":
            value = (1 + value) * config.output_scale - 1
        elif name in ("norm.weight", "norm.bias"):
            value = value * config.output_scale
        yield name, value


def _save(tensors: Mapping[str, Tensor], folder: Path, file_bytes: int | None) -> None:
    """Writes ``tensors`` to one file, or to several of at most ``file_bytes`` and their index."""
    files, total_bytes = {WEIGHTS: list(tensors)}, sum(value.nbytes for value in tensors.values())
    if file_bytes is not None and total_bytes > file_bytes:
        from huggingface_hub import split_torch_state_dict_into_shards  # 0.4 s that no rank of a training needs

        split = split_torch_state_dict_into_shards(
            dict(tensors), filename_pattern=SPLIT_WEIGHTS, max_shard_size=file_bytes
        )
        files = split.filename_to_tensors
        index = {"metadata": {"total_size": total_bytes}, "weight_map": split.tensor_to_filename}
        write_json(folder / f"{WEIGHTS}.index.json", index)
    for file, names in files.items():
        try:
            save_file({name: tensors[name] for name in names}, folder / file, {"format": "pt"})
        except SafetensorError as error:
            raise rust_os_error(error, folder / file) from None


def load(folder: Path) -> Transformer:
    """Returns the model in the Hugging Face ``folder``, in fp32 on the CPU, in evaluation mode.

    Raises:
        ArtifactError: when the folder is incomplete, or the model is of a kind that Transformer does not compute.
    """
    config, vocabulary = read_model_config(folder)
    check_memory(folder, config.parameters(vocabulary))
    check_layers(folder, config.blocks)
    model = Transformer(config, vocabulary)
    model.context_form = read_context_form(folder)
    load_into(model, folder)
    return model.eval()


def load_into(model: Transformer, folder: Path) -> None:
    """Loads the weights in the Hugging Face ``folder`` into ``model``, which has their shape; see ``read_weights``."""
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in read_weights(model, folder):
            parameters[name].copy_(value)


def read_weights(model: Transformer, folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields name and value of every parameter of ``model`` from the Hugging Face ``folder``, one at a time.

    Of ``model``, which may be on the meta device, only names and shapes matter. Rows of the embedding and of the output
    layer that the folder has after those of ``model`` are left out (``read_predecessor`` has them).

    Raises:
        ArtifactError: when a file is damaged, or a weight is missing or not of the shape that config.json gives.
    """
    _, published = read_model_config(folder)
    yield from ((name, cut(name, value, model.vocabulary, published)) for name, value in _stored(model, folder))


def read_predecessor(model: Transformer, folder: Path) -> Predecessor:
    """Returns what an export of ``model`` takes over from the Hugging Face ``folder`` that its training began from."""
    _, published = read_model_config(folder)
    rows = spare_rows(_stored(model, folder), model.vocabulary) if published > model.vocabulary else {}
    return Predecessor(folder, rows)


def _stored(model: Transformer, folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields name and value of every parameter of ``model`` with all rows that ``folder`` has; see ``read_weights``."""
    config, family, (_, published) = model.config, read_family(folder), read_model_config(folder)
    names = family.names(config)
    if ties_by_config(folder) and not config.tied:
        _warn(f"{folder} holds an output layer other than the embedding: it counts, not tie_word_embeddings=true")
    parameters = dict(model.named_parameters())
    wanted = {hf_name for name in parameters for hf_name in _alternatives(name, config, names)}
    with contextlib.ExitStack() as stack:
        tensors = _opened(folder, names, wanted.union(family.zero_weights), stack)
        for name in family.zero_weights:
            if name in tensors and tensors[name]().any():
                raise ArtifactError(str(folder), f"has values other than 0 in {name!r}", "only 0 is computed")
        for name, parameter in parameters.items():
            value = _read(folder, name, tensors, config, names)
            if cut(name, value, model.vocabulary, published).shape != parameter.shape:
                problem = f"holds {name} as {tuple(value.shape)}, by its config.json it is {tuple(parameter.shape)}"
                raise ArtifactError(str(folder), problem, "give a folder with whole weights")
            yield name, value


def read_task_weights(model: TaskModel, folder: Path, kind: TaskKind) -> Iterator[tuple[str, Tensor]]:
    """Yields name and value of the parameters of ``model`` that the Hugging Face ``folder`` has.

    These are all of the model below the head, and those of the head besides its last layer: BERT's pooler, say.
    """
    backbone = model.backbone
    yield from ((f"{BACKBONE}{name}", value) for name, value in read_weights(backbone, folder))
    family = read_family(folder)
    names = task_names(family, backbone.config, kind)
    head = {name: value for name, value in model.named_parameters() if name.startswith(HEAD)}
    with contextlib.ExitStack() as stack:
        tensors = _opened(folder, names, {names.of(name)[0] for name in head}, stack)
        for name, parameter in head.items():
            (hf_name,) = names.of(name)
            if hf_name in tensors and not name.startswith(f"{HEAD}output."):
                value = tensors[hf_name]()
                if value.shape == parameter.shape:
                    yield name, value


def _opened(
    folder: Path, names: WeightNames, wanted: Collection[str], stack: contextlib.ExitStack
) -> Mapping[str, Callable[[], Tensor]]:
    """Returns a function that reads the tensor for each of the ``wanted`` names that ``folder`` has.

    ``stack`` closes the files. Of tensors in several files the last one counts; a line says where they differ.
    """
    files, readers = dict[Path, Any](), dict[str, Callable[[], Tensor]]()
    for name, (*others, last) in stored_tensors(needed_weight_files(folder), names, wanted).items():
        for other in others:
            if not other.equals(last):
                _warn(f"{folder} holds {name!r} with other values in {other.file.name}: {last.file.name} counts")
        if last.file not in files:
            files[last.file] = stack.enter_context(safe_open(last.file, "pt"))
        readers[name] = functools.partial(files[last.file].get_tensor, last.name)
    return readers


def _warn(line: str) -> None:
    print(f"headrace: {line}", file=sys.stderr, flush=True)


def _alternatives(name: str, config: ModelConfig, names: WeightNames) -> list[str]:
    """Returns all Hugging Face names under which a file may hold our weight ``name``, or a part of it."""
    hf_names = names.of(name)
    alternatives = names.all_of(name) if len(hf_names) == 1 else hf_names
    return (
        [*alternatives, *names.all_of("head.weight")]
        if config.tied and name == "embedding.weight"
        else list(alternatives)
    )


def _read(
    folder: Path, name: str, tensors: Mapping[str, Callable[[], Tensor]], config: ModelConfig, names: WeightNames
) -> Tensor:
    """Returns our weight ``name`` from ``tensors``, the functions that read those of Hugging Face names."""
    hf_names, alternatives = names.of(name), _alternatives(name, config, names)
    groups = [[hf_name] for hf_name in hf_names] if len(hf_names) > 1 else [alternatives]
    parts = []
    for hf_name, group in zip(hf_names, groups, strict=True):
        stored = next((alternative for alternative in group if alternative in tensors), None)
        if stored is None:
            raise ArtifactError(str(folder), f"has no weight {hf_name!r}", "give a folder with whole weights")
        parts.append(tensors[stored]())
    return from_hf(name, parts, config, names)
