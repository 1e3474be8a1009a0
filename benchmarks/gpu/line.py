"""Items of parts.py: the commands of a user on this GPU, each in a process of its own, from pages to scores.

smoke, demo, …    an experiment: seconds of the first command, and of the same again; losses, scores, and that training
                  was on the GPU
kills             kill_anywhere.py: trainings in bf16 that are killed and started again, weights and curves compared

They need all packages of the project but wandb, installed where Python has its own: their documentation is the text.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.item import Item, Setting
from headrace.pipeline.core.metrics_file import read_metrics

ROOT = Path(__file__).parents[2]
END = 1500
"""Characters of a command's last words in the error of an item."""


def run(command: Sequence[str], scratch: Path) -> tuple[float, str]:
    """Runs ``command`` below ``scratch``; returns its seconds and its stdout."""
    begun = time.monotonic()
    places = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{os.environ.get('PYTHONPATH', '')}", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=scratch, env=os.environ | places, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-END:]}"
    return round(time.monotonic() - begun, 1), done.stdout


def experiment(name: str, *overrides: str, limit_seconds: float = 240.0) -> Item:
    def measured(setting: Setting) -> Mapping[str, Any]:
        root = setting.scratch / f"root_{name}"
        command = ["-m", "headrace", f"experiment={name}", f"root={root}", "tracking=file", *overrides]
        if setting.is_tiny:
            command += ["training.steps=4", "training.validate_every=2", "training.save_every=2"]
        run(["-m", "headrace.documentation"], setting.scratch)
        seconds, printed = run(command, setting.scratch)
        again_seconds, _ = run(command, setting.scratch)
        (weights,) = (root / "weights").iterdir()
        rows = read_metrics(weights / "metrics.jsonl")
        is_on_gpu = "mfu" in rows[-1]
        assert is_on_gpu == (setting.device.type == "cuda"), f"the device is {setting.device}: {rows[-1]}"
        return {
            "command_seconds": seconds,
            "again_seconds": again_seconds,
            "losses": [rows[0]["loss"], rows[-1]["loss"]],
            "tokens_per_second": rows[-1]["tokens_per_second"],
            "printed": printed[-END:],
        }

    return Item(measured, limit_seconds)


def kills(setting: Setting) -> Mapping[str, Any]:
    number = "1" if setting.is_tiny else "5"
    precision = "bf16" if setting.device.type == "cuda" else "fp32"
    options = ["--kills", number, "--seed", "3", "--ranks", "1"]
    run(["-m", "headrace.documentation"], setting.scratch)
    _, printed = run(
        ["-m", "benchmarks.robustness.kill_anywhere", f"training.precision={precision}", *options], setting.scratch
    )
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return result


ITEMS: dict[str, Item] = {
    "smoke": experiment("smoke"),
    "demo": experiment("demo"),
    "bert_demo": experiment("bert_demo", "training.precision=bf16", "training.steps=200"),
    "t5_demo": experiment("t5_demo", "training.precision=bf16", "training.steps=200"),
    "kills": Item(kills, limit_seconds=240),
}
