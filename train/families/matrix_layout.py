"""The layouts of matrices here and at Hugging Face: transposed, split by rows, or ordered by head."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headrace.train.config import ModelConfig
from headrace.train.families.family import WeightNames


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
