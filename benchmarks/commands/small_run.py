"""Measures what a first user waits for: a small crawl from WARC files to unique documents, and a changed threshold.

    python -m benchmarks.commands.small_run [FOLDER] [--workers 2] [--runs 3]

FOLDER holds WARC files (``make demo-web`` writes some); without it they are made from $HEADRACE_DATA. Each run is the
whole command in a new root: ``headrace source=warc source.paths=[FOLDER] until=unique``. The second command has another
``dedup.threshold``. Prints one JSON line: wall time and CPU time of all processes in seconds (median, and all runs),
the records, and the load of the machine before each run. The bars are 15 s and 5 s on two idle cores.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.robustness.descendants import adopt_orphans
from headrace.pipeline.core.artifact import Artifact

DATA = Path(os.environ.get("HEADRACE_DATA", Path(__file__).parents[3] / "shared" / "data"))
COUNTS = (("texts", "records_in"), ("clean", "kept"))
COMMANDS = {"first": "dedup.threshold=0.8", "changed_threshold": "dedup.threshold=0.7"}


def measured(arguments: list[str]) -> dict[str, float]:
    """Runs the command. Returns its wall time, and the CPU time of it and of all processes that it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    load, start = os.getloadavg()[0], time.monotonic()
    subprocess.run([sys.executable, "-m", "headrace", *arguments], check=True, capture_output=True)
    wall = time.monotonic() - start
    while True:  # processes that outlive their parent become children of this one
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_seconds": round(wall, 2), "cpu_seconds": round(cpu, 2), "load_before": round(load, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    adopt_orphans()
    runs_of: dict[str, list[dict[str, float]]] = {name: [] for name in COMMANDS}
    records: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary, "crawl")
        if options.folder is None:
            subprocess.run([sys.executable, DATA / "make_warc.py", folder], check=True, stdout=subprocess.DEVNULL)
        for number in range(options.runs):
            root = Path(temporary, str(number))
            source = ["source=warc", f"source.paths=[{folder}]", "until=unique", f"workers={options.workers}"]
            for name, threshold in COMMANDS.items():
                runs_of[name].append(measured([*source, f"root={root}", threshold]))
            for stage, count in COUNTS:
                records[f"{stage}_{count}"] = Artifact(next(root.glob(f"{stage}/*"))).counts[count]
    rows = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in runs_of.items()
    }
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "workers": options.workers}
    print(json.dumps({"benchmark": "small_run", **machine, **records, **rows, "runs": runs_of}))


if __name__ == "__main__":
    main()
