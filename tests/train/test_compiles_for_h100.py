"""The layers of every family compile for an H100 (sm_90), without a GPU: no graph break, one graph a kind of layer.

Needs a Python with a CUDA build of torch, numpy and pydantic, of its own: it must not replace the project's. It is
the one that HEADRACE_CUDA_PYTHON names; `make test-h100` makes it (4 GB) and runs this file.

A case takes about 35 s of CPU time. It shows that everything compiles and into which instructions, not numbers nor
speed. Only what is inside a block is compiled; the hooks of ZeRO are outside at every stage (test_compilation.py).
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.configuration.option_values import option_values

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("HEADRACE_CUDA_PYTHON")
SHARED_MEMORY_BYTES = 232_448
"""The most that one thread block of an H100 can have (CUDA C++ Programming Guide, table of compute capabilities)."""
SMALLER: dict[str, Any] = {"layers": 12, "context": 1024, "dropout": 0.0}
"""More layers than torch.compile makes graphs of one function. With dropout there is no FlexAttention."""

MASK, BLOCK, LOSS = 1, 1, 1
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "64": ("gpt2_small", {}, MASK + BLOCK + LOSS),
    "64, recomputed": ("gpt2_small", {"recompute": "full"}, MASK + BLOCK + LOSS),
    "80": ("gpt3_2_7b", {}, MASK + BLOCK + LOSS),
    "96": ("gpt2_small", {"heads": 8, "kv_heads": 8}, MASK + BLOCK + LOSS),
    "128": ("llama_7b", {}, MASK + BLOCK + LOSS),
    "grouped": ("qwen3_0_6b", {}, MASK + BLOCK + LOSS),
    "256": ("gemma2_2b", {"window": 256}, 2 * (MASK + BLOCK) + LOSS),
    "windows": ("modernbert_base", {}, 2 * MASK + 3 * BLOCK + LOSS),  # its first block has no norm of attention
    "global, random": ("modernbert_base", {"global_tokens": 2, "random_keys": 3}, 2 * MASK + 3 * BLOCK + LOSS),
    "bias": ("bloom_560m", {}, MASK + BLOCK + LOSS),
    "parallel": ("pythia_160m", {}, MASK + BLOCK + LOSS),
    "qk_norm": ("olmo2_1b", {}, MASK + BLOCK + LOSS),
    "post": ("gpt1", {}, MASK + BLOCK + LOSS),
    "encoder": ("bert_base", {}, MASK + BLOCK + LOSS),
    "shared": ("albert_base", {}, MASK + BLOCK + LOSS),
    "learned bias": ("t5_base", {}, 2 * BLOCK + LOSS),
    "two stacks": ("bart_base", {}, 2 * (MASK + BLOCK) + LOSS),
}
"""A head's width, or the part that is special; a preset, what differs from it, and the number of graphs."""


def lacking() -> str | None:
    """Returns what lacks for these tests."""
    if PYTHON is None:
        return "HEADRACE_CUDA_PYTHON names no Python: make test-h100"
    asked = subprocess.run([PYTHON, "-c", "import torch; print(torch.version.cuda)"], capture_output=True, text=True)
    if asked.returncode:
        return f"{PYTHON}, which HEADRACE_CUDA_PYTHON names, cannot import torch"
    return f"torch of {PYTHON} has no CUDA" if asked.stdout.strip() == "None" else None


@pytest.fixture(scope="module", autouse=True)
def cuda_python() -> None:
    if reason := lacking():
        pytest.skip(reason)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_training_step_compiles_for_an_h100(tmp_path, name):
    preset, changes, graphs = CASES[name]
    model = option_values("model", preset) | SMALLER | changes
    case = {"recompute": model.pop("recompute", "none"), "model": model}
    (tmp_path / "case.json").write_text(json.dumps(case))
    command = [str(PYTHON), str(Path(__file__).with_name("pretended_h100.py")), str(tmp_path / "case.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["breaks"] == []
    assert found["frames"] == found["graphs"] == graphs
    learns_bias = model.get("positions") == "t5"
    assert bool(found["kernels"]) != learns_bias, "a bias that is learned has no FlexAttention"
    assert {kernel["products"] for kernel in found["kernels"]} <= {"wgmma"}
    assert all(kernel["shared_bytes"] <= SHARED_MEMORY_BYTES for kernel in found["kernels"])
