"""What a run has spent is what SLURM's accounting has of its jobs: arrays, and a training with GPUs on two nodes."""

import os
import re
from pathlib import Path

import pytest

from headrace.pipeline.run.charged_jobs import account_of
from headrace.pipeline.run.saved_runs import SavedRun
from tests.cluster.accounting import SlurmWithAccounting, lacking
from tests.cluster.line import headrace, submit, write_source
from tests.cluster.one_machine import client, until
from tests.cluster.test_line import wait_for_jobs
from tests.command_line import headrace_here

SACCT = ("sacct", "--noheader", "--parsable2", "--allocations", "--format=State,ElapsedRaw,AllocCPUS,AllocTRES")
PRICES = ("price_per_core_hour=0.5", "price_per_gpu_hour=4", "currency=EUR")


def charged() -> tuple[int, int]:
    """Core-seconds and GPU-seconds of all jobs, when all have ended in the accounting, too."""
    assert until(lambda: {row.split("|")[0] for row in client(*SACCT).splitlines()} == {"COMPLETED"}, 120, 0.5)
    rows = [row.split("|") for row in client(*SACCT).splitlines()]
    gpus = [int(found[1]) if (found := re.search(r"gres/gpu=(\d+)", row[3])) else 0 for row in rows]
    return (
        sum(int(seconds) * int(cores) for _, seconds, cores, _ in rows),
        sum(int(row[1]) * number for row, number in zip(rows, gpus, strict=True)),
    )


@pytest.mark.timeout(1200)
def test_spent_is_what_the_scheduler_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := lacking():
        pytest.skip(reason)
    monkeypatch.setenv("SLURM_CONF", os.environ.get("SLURM_CONF", ""))  # that of the session comes back
    root = tmp_path / "root"
    settings = (write_source(tmp_path / "raw"), "cleaning=c4", "cleaning.buckets=2", f"root='{root}'", *PRICES)
    with SlurmWithAccounting(tmp_path / "one"):
        submit(*settings, "name=arrays", "dedup.threshold=0.7", "until=clean", "cluster.array_tasks=2")
        wait_for_jobs()
        training = ("cluster.nodes=2", "cluster.gpus_per_node=1", "cluster.train_cpus=1", "until=weights")
        done = headrace("run", "cluster=slurm", *settings, "name=trained", *training)
        assert done.returncode == 0, done.stderr
        wait_for_jobs()
        core_seconds, gpu_seconds = charged()
        shown = "".join(headrace_here("status", name, f"root='{root}'").stdout for name in ("arrays", "trained"))
    totals = [account_of(SavedRun.read(run_json)).total for run_json in root.glob("runs/*/run.json")]
    assert all(f"spent: {total} in " in shown for total in totals)
    assert sum(total.core_hours for total in totals) * 3600 == pytest.approx(core_seconds)
    assert sum(total.gpu_hours for total in totals) * 3600 == pytest.approx(gpu_seconds)
    assert gpu_seconds > 0
    price = core_seconds / 3600 * 0.5 + gpu_seconds / 3600 * 4
    assert sum(total.price or 0 for total in totals) == pytest.approx(price)
