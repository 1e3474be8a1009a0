"""The computation of a model on its devices: blocks as one compiled graph each, and with activations that are computed
again; output layers with a padded vocabulary; rows that several ranks compute together.

    none         each block keeps its activations for the backward pass
    selective    its input, and what matrix products with weights and fused attention return
    full         its input

Recomputation (Chen et al. 2016, section 3) changes no bit: the second forward pass has the input, the weights and the
dropout of the first. Only what runs inside a block is computed again; masks are made before the first block.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, noop_context_fn

from headrace.pipeline.core.errors import ConfigError
from headrace.train.distributed.processes import Ranks
from headrace.train.model.compilation import compile_lazily, compile_with_trials
from headrace.train.model.dropout import hashed
from headrace.train.model.head import Head
from headrace.train.model.layers import Block
from headrace.train.model.row_parts import RowPart
from headrace.train.model.stack import Stack
from headrace.train.training_config import Recompute, TrainingConfig

PRODUCTS = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
"""Matrix products with weights. Those of attention in plain operations are bmm: its logits are as large as a row is
long, twice, so all of such attention is computed again (Korthikanti et al. 2022, section 5)."""
FUSED_ATTENTION = [
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.higher_order.flex_attention,
]
"""Attention in one operation, which makes no logits."""


def prepare(model: nn.Module, training: TrainingConfig, device: str) -> None:
    """Prepares ``model`` as ``training`` says for a ``device`` of this type, before DeepSpeed adds its hooks.

    Raises:
        ConfigError: when there is no such kernel of attention.
    """
    if training.attention_kernel == "flash":
        use_flash_attention(model, device)
    prepare_blocks(model, training.compiles_on(device), training.recompute, training.compile == "tuned")
    if training.pads_on(device):
        pad_vocabulary(model)


def use_flash_attention(model: nn.Module, device: str) -> None:
    """Makes the stacks of ``model`` compute attention by FlashAttention.

    Raises:
        ConfigError: where it cannot be computed.
    """
    setting, else_auto = "training.attention_kernel", "or attention_kernel=auto"
    if device != "cuda":
        raise ConfigError(setting, f"is flash, and the device is {device}", f"give a GPU, {else_auto}")
    if not (importlib.util.find_spec("flash_attn") and importlib.util.find_spec("flash_attn.cute")):
        raise ConfigError(
            setting, "is flash, and there is no module flash_attn.cute", f"install flash-attn-4, {else_auto}"
        )
    for stack in model.modules():
        if isinstance(stack, Stack):
            if stack.config.mixer != "attention":
                raise ConfigError(setting, f"is flash, and model.mixer is {stack.config.mixer}", "give auto")
            stack.attention_kernel = "flash"


def prepare_blocks(model: nn.Module, compiles: bool, recompute: Recompute, with_trials: bool = False) -> None:
    """Prepares the blocks of ``model`` for packed rows, compiled ``with_trials`` of kernels or without."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.reads_packed_rows = True
    if recompute == "selective":  # inside the graph, whose operations are seen only while it is compiled
        recompute_cheap_operations(model)
    if compiles:
        compile_blocks(model, with_trials)
    if recompute == "full":
        recompute_blocks(model)


def pad_vocabulary(model: nn.Module) -> None:
    """Makes the output layers of ``model`` compute with a padded vocabulary."""
    for module in model.modules():
        if isinstance(module, Head):
            module.pads = True


def share_rows(model: nn.Module, ranks: Ranks, sequence_ranks: int) -> RowPart | None:
    """Makes so many neighbouring ranks compute each row of ``model`` together; all ranks call it.

    Returns:
        The part of this rank, for ``SplitRows``; None: each rank computes whole rows.
    """
    if sequence_ranks == 1:
        return None
    firsts = range(0, ranks.world, sequence_ranks)
    groups = [dist.new_group(range(first, first + sequence_ranks)) for first in firsts]
    number, index = divmod(ranks.rank, sequence_ranks)
    part = RowPart(index, sequence_ranks, groups[number])
    for stack in model.modules():
        if isinstance(stack, Stack):
            stack.row_part = part
    return part


def give_row_keys(model: nn.Module, keys_B: Tensor) -> None:
    """Gives the stacks of ``model`` the keys of the rows of the next calls, which decide what each of them drops."""
    stacks = (module for module in model.modules() if isinstance(module, Stack))
    for number, stack in enumerate(stacks):
        stack.row_keys_B = hashed(keys_B, number)


def compile_blocks(model: nn.Module, with_trials: bool = False) -> None:
    """Compiles one graph for all blocks with torch.compile at their first call. Names and weights do not change. Blocks
    without attention stay as they are: torch compiles no recurrent layer.

    What DeepSpeed's stage 3 runs before and after a block, to gather its weights, stays outside of the graph.
    """
    compiling = compile_with_trials if with_trials else compile_lazily
    _replace_forward(model, lambda block: compiling(block.forward) if block.has_attention else block.forward)


def recompute_blocks(model: nn.Module) -> None:
    """Makes the backward pass compute the activations inside each block again, compiled or not."""
    _replace_forward(model, lambda block: functools.partial(_recomputed, block.forward, noop_context_fn))


def recompute_cheap_operations(model: nn.Module) -> None:
    """Makes the backward pass compute the activations inside each block again, but for products with weights and fused
    attention.
    """

    def selective(block: Block) -> Callable[..., Any]:
        contexts = functools.partial(create_selective_checkpoint_contexts, PRODUCTS + FUSED_ATTENTION)
        return functools.partial(_recomputed, block.forward, contexts)

    _replace_forward(model, selective)


def _replace_forward(model: nn.Module, changed: Callable[[Block], Callable[..., Any]]) -> None:
    for module in model.modules():
        if isinstance(module, Block):
            vars(module)["forward"] = changed(module)


def _recomputed(forward: Callable[..., Tensor], contexts: Callable[[], Any], *inputs: Any) -> Tensor:
    """Calls ``forward`` so that the backward pass calls it again; ``contexts`` makes the contexts of both calls."""
    if not torch.is_grad_enabled():
        return forward(*inputs)
    output: Tensor = checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts)
    return output
