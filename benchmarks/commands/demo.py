"""Measures the demo: the CPU time of its stages, and what its model has learned.

    python -m benchmarks.commands.demo [--root FOLDER] [--seeds 0 1 2] [--experiment demo] [OVERRIDE ...]

Runs ``headrace experiment=demo OVERRIDE …``, after ``python -m headrace.documentation``, once for each seed (of
training and evaluation), in two commands: the data
stages, then training, scores and report. With ``--root`` the stages of an earlier call are not repeated. Prints a JSON
line for each seed: CPU time of all processes and the load of the machine before each command, the sizes of data and
model, bits per byte, every accuracy with its standard error, chance and items, and the sentences that a user reads.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.commands.small_run import measured
from benchmarks.robustness.descendants import adopt_orphans
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.report.score_table import ScoreTable, first_accuracies
from headrace.pipeline.report.sections import conclusions
from headrace.pipeline.run.saved_run import SavedRun, newest_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--experiment", default="demo")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.root or Path(temporary)
        for seed in options.seeds:
            run = [f"experiment={options.experiment}", f"root={root}", *options.overrides]
            run += [f"training.seed={seed}", f"evaluation.seed={seed}"]
            print(json.dumps({"benchmark": "demo", "seed": seed} | one_run(root, run)), flush=True)


def one_run(root: Path, run: list[str]) -> dict[str, Any]:
    """Runs the demo with the overrides ``run`` and returns what it cost and what came of it."""
    data, model = measured([*run, "until=packed"]), measured(run)
    artifacts = {step.name: Artifact(step.folder) for step in SavedRun.read(newest_file(str(root))).steps}
    counts = {name: artifact.counts for name, artifact in artifacts.items()}
    table = ScoreTable.of(artifacts["scores"])
    metrics = read_metrics(artifacts["weights"].path("metrics.jsonl"))
    return {
        "overrides": run,
        "data": data,
        "model": model,
        "documents": counts["unique"]["kept"],
        "tokens": counts["tokens"]["tokens"],
        "parameters": counts["weights"]["parameters"],
        "tokens_read": counts["weights"]["target_tokens"],
        "bits_per_byte": table.held_out["bits_per_byte"],
        "accuracies": {
            row.title: [row.metric.value, row.metric.standard_error, row.metric.random, row.metric.items]
            for row in first_accuracies(table.rows, lambda row: row.title)
        },
        "conclusions": conclusions(artifacts, metrics, table),
    }


if __name__ == "__main__":
    main()
