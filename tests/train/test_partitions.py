"""Every value of the state goes through a checkpoint unchanged, from any ranks and ZeRO stage to any others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(__file__).parents[2]
SAVED_STEP, LAST_STEP = 4, 24


def launch(folder: Path, ranks: int, cases: list[dict]) -> dict[str, dict]:
    """What ``ranks`` real processes report for each case, by name."""
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += ["-m", "tests.train.reshaping", str(folder / "cases.json")]
    environment = os.environ | {"DS_ACCELERATOR": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return {case["name"]: torch.load(folder / f"{case['name']}.pt") for case in cases}


def whole(folder: Path) -> dict[tuple[str, str], Tensor]:
    """(parameter, kind) -> all its values, put together from the files of all ranks."""
    pieces: dict[tuple[str, str], dict[int, Tensor]] = {}
    for path in folder.iterdir():
        for name, values in load_file(path).items():
            parameter, start, kind = name.rsplit("/", 2)
            same = pieces.setdefault((parameter, kind), {})
            assert int(start) not in same, "two ranks wrote the same values"
            same[int(start)] = values
    return {key: torch.cat([values for _, values in sorted(found.items())]) for key, found in pieces.items()}


def saving(stage: int, precision: str = "fp32") -> dict:
    shape = "gpt2-tied"
    return {
        "name": f"{shape}-{precision}-{stage}", "shape": shape, "precision": precision, "stage": stage,
        "first": 0, "last": LAST_STEP, "save": SAVED_STEP,
    }  # fmt: skip


def resuming(saved: dict, stage: int, ranks: int) -> dict:
    name = f"{saved['name']}-to-{stage}-on-{ranks}"
    here = {"name": name, "stage": stage, "first": SAVED_STEP, "load": f"{saved['name']}/save", "save": None}
    return saved | here


def check(folder: Path, saved: dict, expected: dict, resumed: dict, found: dict, same_topology: bool) -> None:
    before, after = whole(folder / resumed["load"]), whole(folder / resumed["name"] / "first")
    assert before.keys() == after.keys()
    assert len(before) == 3 * len(expected["weights"])
    for key, values in before.items():
        assert values.dtype == torch.float32
        assert torch.equal(values, after[key]), key
        assert values.any(), f"{key} is not trained yet"
    later = expected["losses"][SAVED_STEP:]
    assert len(later) == len(found["losses"]) == 20
    if same_topology:
        assert found["losses"] == later
        for name, values in expected["weights"].items():
            assert torch.equal(found["weights"][name], values), name
    else:
        tolerance = 1e-5 if saved["precision"] == "fp32" else 2e-2
        torch.testing.assert_close(found["losses"], later, rtol=0, atol=tolerance)


def reshape(folder: Path, from_ranks: int, saves: list[dict], to_ranks: list[int], to_stages: list[int]) -> None:
    """Bitwise equality is asked of processes that only go on as they were; others share theirs with each other."""
    expected = launch(folder, from_ranks, saves)
    for ranks in to_ranks:
        pairs = [(saved, resuming(saved, stage, ranks)) for saved in saves for stage in to_stages]
        for same in (True, False):
            cases = [pair for pair in pairs if same == (ranks == from_ranks and pair[0]["stage"] == pair[1]["stage"])]
            found = launch(folder, ranks, [resumed for _, resumed in cases]) if cases else {}
            for saved, resumed in cases:
                check(folder, saved, expected[saved["name"]], resumed, found[resumed["name"]], same)


def test_two_ranks_go_on_as_one_at_another_stage(tmp_path):
    """1 -> 3, which DeepSpeed's own converters do not do; tied weights; 3 -> 1."""
    reshape(tmp_path, 2, [saving(1), saving(3)], to_ranks=[1], to_stages=[3, 1])


@pytest.mark.slow
@pytest.mark.parametrize("from_ranks", [1, 2])
def test_any_stage_and_ranks_to_any_other(tmp_path, from_ranks):
    saves = [saving(stage) for stage in (0, 1, 2, 3)]
    reshape(tmp_path, from_ranks, saves, to_ranks=[1, 2, 4], to_stages=[0, 1, 2, 3])


@pytest.mark.slow
def test_bf16_masters_are_restored_bit_for_bit(tmp_path):
    saves = [saving(stage, "bf16") for stage in (1, 2, 3)]
    reshape(tmp_path, 2, saves, to_ranks=[1, 2, 4], to_stages=[1, 2, 3])
