"""Items of parts.py: the time of single operations of a training step, in the ways that they can be computed.

attention    milliseconds of the attention of one layer of 124M parameters, 32 rows of 1,024 tokens, one document each,
             forward and with the backward pass: FlexAttention with its options, and PyTorch's without documents
loss         milliseconds of the loss and its gradient from the logits of 20,864 positions, by options of torch.compile
"""

import functools
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

from benchmarks.gpu.item import Item, Setting
from benchmarks.gpu.right import fastest
from headrace.train.model import head
from headrace.train.model.visibility import CAUSAL, block_mask, within_documents

FLEX: dict[str, dict[str, Any]] = {
    "flex": {},
    "fwd 8 warps": {"fwd_num_warps": 8},
    "fwd 128x64": {"fwd_BLOCK_M": 128, "fwd_BLOCK_N": 64},
    "fwd 128x64 8 warps": {"fwd_BLOCK_M": 128, "fwd_BLOCK_N": 64, "fwd_num_warps": 8},
    "fwd 2 stages": {"fwd_num_stages": 2},
    "fwd tma": {"fwd_USE_TMA": True},
    "safe, contiguous": {"ROWS_GUARANTEED_SAFE": True, "BLOCKS_ARE_CONTIGUOUS": True},
    "bwd 4 warps": {"bwd_num_warps": 4},
    "bwd 2 stages": {"bwd_num_stages": 2},
    "bwd 64x64": {"bwd_BLOCK_M1": 64, "bwd_BLOCK_N1": 64, "bwd_BLOCK_M2": 64, "bwd_BLOCK_N2": 64, "bwd_num_warps": 4},
    "bwd 128x128": {"bwd_BLOCK_M1": 128, "bwd_BLOCK_N1": 128, "bwd_BLOCK_M2": 128, "bwd_BLOCK_N2": 128},
}


def milliseconds(work: Callable[[], object], setting: Setting) -> float:
    return round(1e3 * fastest(work, setting.device), 3)


def tried(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception:  # noqa: BLE001  # the line names it, and the other ways go on
        return traceback.format_exc()[-300:]


def attention(setting: Setting) -> dict[str, Any]:
    rows, heads, tokens = (1, 2, 128) if setting.is_tiny else (32, 12, 1024)
    shape = (rows, heads, tokens, 64)
    q, k, v = (torch.randn(shape, device=setting.device, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    gradient = torch.randn_like(q)
    documents_BT = torch.zeros(rows, tokens, dtype=torch.int64, device=setting.device)
    blocks = block_mask(within_documents(CAUSAL, documents_BT), rows, heads, tokens, setting.device)

    def both(attend: Callable[[], Tensor]) -> list[float]:
        def forward_backward() -> None:
            torch.autograd.grad(attend(), (q, k, v), gradient)

        with torch.no_grad():
            forward = milliseconds(attend, setting)
        return [forward, milliseconds(forward_backward, setting)]

    def flex(options: dict[str, Any]) -> list[float]:
        torch.compiler.reset()
        compiled = torch.compile(flex_attention, options={"deterministic": True})
        return both(lambda: compiled(q, k, v, block_mask=blocks, enable_gqa=True, kernel_options=options))

    def causal(backend: SDPBackend) -> list[float]:
        with sdpa_kernel(backend):
            return both(lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))

    backends = {"sdpa flash": SDPBackend.FLASH_ATTENTION, "sdpa cudnn": SDPBackend.CUDNN_ATTENTION}
    times = {name: tried(functools.partial(causal, backend)) for name, backend in backends.items()}
    return {
        "forward_and_both_ms": times | {name: tried(functools.partial(flex, options)) for name, options in FLEX.items()}
    }


WAYS: dict[str, dict[str, Any]] = {
    "deterministic": {"deterministic": True},
    "default": {},
    "coordinate descent": {"coordinate_descent_tuning": True},
    "max autotune": {"max_autotune": True, "coordinate_descent_tuning": True},
}


def loss(setting: Setting) -> dict[str, Any]:
    positions, vocabulary, padded = (64, 1001, 1024) if setting.is_tiny else (20_864, 50_257, 50_304)
    logits = torch.randn(positions, padded, device=setting.device, dtype=torch.bfloat16)
    logits[:, vocabulary:] = -torch.inf
    targets = torch.randint(vocabulary, (positions,), device=setting.device)

    def one_way(way: dict[str, Any]) -> float:
        torch.compiler.reset()
        compiled = torch.compile(head.of_chunk, options=way)
        return milliseconds(lambda: compiled(logits, vocabulary, targets, head.LossOptions(), 1.0), setting)

    times = {name: tried(functools.partial(one_way, way)) for name, way in WAYS.items()}
    return {"ms": times, "bytes": 2 * logits.numel() * 2}


ITEMS: dict[str, Item] = {"attention": Item(attention, limit_seconds=120), "loss": Item(loss)}
