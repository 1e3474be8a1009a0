"""Runs the demo of each family through a real SLURM on this machine. Prints one JSON line for each.

    python -m benchmarks.commands.slurm_demos [bert_demo t5_demo …] [--steps 40]

Each demo is submitted as its user submits it (``headrace experiment=bert_demo cluster=slurm``), from pages to scores,
with two ranks on one node, but ``--steps`` updates. SLURM has two nodes of four cores, and ends with the program.

    jobs            submitted jobs; the program waits until none is in the queue
    stages          finished stages
    steps, loss     of the last update
    scores          benchmarks with scores
    seconds         from the submission to the end of the last job
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.train.evaluation.score_rows import read_scores
from tests.cluster.one_machine import OneMachineSlurm, client, lacking, until

DEMOS = ("bert_demo", "t5_demo", "bart_demo", "prefix_demo")
END_SECONDS = 1800


def measured(demo: str, steps: int, root: Path) -> dict[str, object]:
    """Returns what became of ``demo`` below ``root``.

    Raises:
        subprocess.CalledProcessError: when the submission fails.
        TimeoutError: when a job is left after ``END_SECONDS``.
    """
    settings = [f"experiment={demo}", f"root={root}", "cluster=slurm", "cluster.ranks_per_node=2", "tracking=file"]
    begun = time.monotonic()
    command = [sys.executable, "-m", "headrace", *settings, f"training.steps={steps}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    jobs = client("squeue", "--noheader", "--format=%F").split()
    if not until(lambda: not client("squeue", "--noheader"), END_SECONDS, pause_seconds=1):
        raise TimeoutError(client("squeue"))
    seconds = round(time.monotonic() - begun)
    finished = sorted(path.parts[-3] for path in root.glob("*/*/manifest.json"))
    result: dict[str, object] = {"demo": demo, "jobs": len({*jobs}), "stages": len(finished), "seconds": seconds}
    for weights in root.glob("weights/*"):
        last = [row for row in read_metrics(metrics_path(weights)) if "loss" in row][-1]
        result |= {"steps": last["step"], "loss": last["loss"]}
    for scores in root.glob("scores/*/scores.json"):
        result["scores"] = [benchmark.name for benchmark in read_scores(scores)]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demos", nargs="*", default=DEMOS, metavar="DEMO")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    if reason := lacking():
        print(reason, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name, OneMachineSlurm(Path(name, "slurm")):
        for demo in options.demos:
            print(json.dumps(measured(demo, options.steps, Path(name, demo))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
