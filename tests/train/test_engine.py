"""The engine against a plain loop: DeepSpeed's stages, ranks and accumulation must not change what is learnt."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.train import updates
from train.model.transformer import Transformer, initialize

ROOT = Path(__file__).parents[2]


def plain(shape: str) -> dict:
    """Twenty updates by autograd and torch's AdamW, each from the whole global batch at once."""
    model = Transformer(updates.SHAPES[shape], updates.VOCABULARY)
    initialize(model, seed=1)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(updates.STEPS):
        batch = updates.batch(step)
        logits = model(batch.inputs, batch.positions, batch.documents)
        chosen = batch.targets >= 0
        surprise = -torch.log_softmax(logits, -1)[chosen].gather(1, batch.targets[chosen][:, None])
        loss = surprise.sum() / chosen.sum()
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 0.5)))
        for group in optimizer.param_groups:
            group["lr"] = updates.learning_rate(step)
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "norms": norms, "weights": dict(model.named_parameters())}


def launch(folder: Path, ranks: int, cases: list[dict]) -> list[dict]:
    """What ``ranks`` real processes report for each case."""
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["-m", "tests.train.updates", str(folder / "cases.json")]
    environment = os.environ | {"DS_ACCELERATOR": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{case['name']}.pt") for case in cases]


def case(shape: str, stage: int, precision: str = "fp32") -> dict:
    return {"name": f"{shape}-{stage}-{precision}", "shape": shape, "stage": stage, "precision": precision}


def assert_equal(found: dict, expected: dict) -> None:
    torch.testing.assert_close(found["losses"], expected["losses"], rtol=0, atol=1e-5)
    torch.testing.assert_close(found["norms"], expected["norms"], rtol=0, atol=1e-5)
    assert set(found["weights"]) == set(expected["weights"])
    for name, value in expected["weights"].items():
        torch.testing.assert_close(found["weights"][name], value.detach(), rtol=0, atol=1e-4, msg=name)


def test_two_ranks_learn_what_a_plain_loop_learns(tmp_path):
    found = launch(tmp_path, 2, [case("gpt2", stage) for stage in (0, 1, 2, 3)])
    expected = plain("gpt2")
    for result in found:
        assert_equal(result, expected)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_every_stage_learns_what_a_plain_loop_learns(tmp_path, ranks):
    cases = [case(shape, stage) for shape in ("gpt2", "llama") for stage in (0, 1, 2, 3)]
    found = launch(tmp_path, ranks, cases)
    for each, result in zip(cases, found, strict=True):
        assert_equal(result, plain(each["shape"]))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_bf16_stays_near_fp32(tmp_path, ranks):
    found = launch(tmp_path, ranks, [case("gpt2", stage, "bf16") for stage in (1, 2, 3)])
    for result in found:
        torch.testing.assert_close(result["losses"], plain("gpt2")["losses"], rtol=0, atol=2e-2)
