"""Checks that need a GPU: equality of its kernels, and a bf16 training that resumes bit for bit.

python benchmarks/gpu_checks.py        prints one JSON line per check; ends with 1 when one fails

flex_attention   output and gradients against PyTorch's attention under the whole mask, bf16, three layouts of
                 documents, grouped heads; and that other documents compile nothing anew
chunked_loss     value and gradients against cross-entropy over all logits, fp32 and bf16, 50,304 tokens
compiled_layers  loss and gradients with and without torch.compile, fp32
bf16_resume      8 updates at once, and 4 + 4 with the weights and optimizer states saved and loaded in between:
                 equal bits of losses and weights; so the same updates twice give the same bits
"""

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.deepspeed_overhead import Plain
from benchmarks.train_step import MODELS, fresh, random_batches
from headrace.train.model import head
from headrace.train.model.attention import BlockAttention, DenseAttention
from headrace.train.model.execution import compile_blocks
from headrace.train.model.visibility import CAUSAL, block_mask, logit_mask, within_documents
from headrace.train.objectives.causal import Causal

CONFIG, VOCABULARY = MODELS["tiny"]
CUDA = torch.device("cuda")


def worst(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest error relative to the norm of what is expected."""
    pairs = zip(found, expected, strict=True)
    return max(float((a.double() - b.double()).norm() / b.double().norm()) for a, b in pairs)


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """fp32 matrix products in fp32, not in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def flex_attention() -> dict[str, float]:
    """bf16 has 8 bits: each output is rounded to 2^-9 of itself, gradients sum a few of those."""
    errors = []
    for seed in range(3):
        torch.manual_seed(seed)
        documents_BT = torch.randint(0, 60, (2, 1024), device=CUDA).div(59, rounding_mode="floor").cumsum(1)
        documents_BT[:, 1024 - 7 * seed :] = -1
        inputs = [
            torch.randn(2, n, 1024, 64, device=CUDA, dtype=torch.bfloat16, requires_grad=True) for n in (12, 4, 4)
        ]
        output_gradient = torch.randn(2, 12, 1024, 64, device=CUDA, dtype=torch.bfloat16)
        wide = [tensor.detach().float().requires_grad_() for tensor in inputs]
        visibility = within_documents(CAUSAL, documents_BT)
        mask = logit_mask(visibility, None, 2, 12, torch.arange(1024, device=CUDA)[None], 1024)
        expected = DenseAttention(mask).attend(*wide, dropout=0.0)
        with torch.compiler.set_stance("fail_on_recompile" if seed else "default"):
            found = BlockAttention(block_mask(visibility, 2, 12, 1024, CUDA), None).attend(*inputs, dropout=0.0)
            gradients = torch.autograd.grad(found, inputs, output_gradient)
        errors.append(
            worst([found, *gradients], [expected, *torch.autograd.grad(expected, wide, output_gradient.float())])
        )
    return {"error": max(errors), "limit": 1e-2}


def chunked_loss(dtype: torch.dtype, limit: float) -> dict[str, float]:
    torch.manual_seed(0)
    layer = head.Head(768, 50304).to(CUDA, dtype)
    x_BTM = torch.randn(4, 1024, 768, device=CUDA, dtype=dtype, requires_grad=True)
    targets_BT = torch.randint(50304, (4, 1024), device=CUDA)
    targets_BT[:, ::5] = -100
    wide_x, wide_weight = x_BTM.detach().float().requires_grad_(), layer.weight.detach().float().requires_grad_()
    logits = functional.linear(wide_x, wide_weight).flatten(0, 1)
    expected = functional.cross_entropy(logits, targets_BT.flatten(), reduction="sum")
    found = layer(x_BTM, targets_BT)
    gradients = torch.autograd.grad(found, (x_BTM, layer.weight))
    return {
        "error": worst([found, *gradients], [expected, *torch.autograd.grad(expected, (wide_x, wide_weight))]),
        "limit": limit,
    }


def compiled_layers() -> dict[str, float]:
    results = []
    for compiled in (False, True):
        model = fresh(CONFIG, VOCABULARY).to(CUDA)
        if compiled:
            compile_blocks(model)
        loss = Causal().losses(model, random_batches(CONFIG, VOCABULARY, 4, 1, CUDA)[0])["nll"]
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    return {"error": worst(results[1], results[0]), "limit": 1e-4}


def bf16_resume() -> dict[str, float]:
    def start() -> Plain:
        model = fresh(CONFIG, VOCABULARY).to(CUDA, torch.bfloat16)
        compile_blocks(model)
        return Plain(model)

    def run(training: Plain, steps: range) -> list[float]:
        update = [random_batches(CONFIG, VOCABULARY, 8, 2, CUDA, step) for step in steps]
        return [training.update(batches, 16 * CONFIG.context) for batches in update]

    whole = start()
    losses = run(whole, range(8))
    first, second = start(), start()
    found = run(first, range(4))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        torch.save([first.model.state_dict(), first.masters.state_dict(), first.adamw.state_dict()], path)
        model, masters, adamw = torch.load(path)
        second.model.load_state_dict(model)
        second.masters.load_state_dict(masters)
        second.adamw.load_state_dict(adamw)
    found += run(second, range(4, 8))
    different = sum(a != b for a, b in zip(losses, found, strict=True))
    for a, b in zip(whole.masters, second.masters, strict=True):
        different += int((a != b).sum())
    return {"error": float(different), "limit": 0.0}


def main() -> int:
    checks: dict[str, Callable[[], dict[str, float]]] = {
        "flex_attention": flex_attention,
        "chunked_loss_fp32": lambda: chunked_loss(torch.float32, 1e-5),
        "chunked_loss_bf16": lambda: chunked_loss(torch.bfloat16, 1e-2),
        "compiled_layers": compiled_layers,
        "bf16_resume": bf16_resume,
    }
    failures = 0
    with exact_products():
        for name, check in checks.items():
            result = check()
            passed = result["error"] <= result["limit"]
            failures += not passed
            print(json.dumps({"check": name, "passed": passed, **result}), flush=True)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
