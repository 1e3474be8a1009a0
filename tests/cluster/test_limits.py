"""Nodes that are drained, and indices that are cancelled before they run."""

from pathlib import Path

from tests.cluster.line import FILES, submit, write_source
from tests.cluster.one_machine import OneMachineSlurm, client, until
from tests.cluster.test_line import states, wait_for_jobs


def test_a_job_that_waits_for_drained_nodes_and_an_index_that_was_cancelled_before_it_ran(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    line = (write_source(tmp_path / "raw"), "cleaning=none", f"root={tmp_path}/root", "until=texts")
    client("scontrol", "update", "NodeName=n1,n2", "State=DRAIN", "Reason=disk")
    try:
        texts, _report = submit(*line)
        drained = ("UnavailableNodes:n[1-2]", "DOWN, DRAINED")
        assert until(lambda: any(text in states(*line, "cluster=slurm")["texts"] for text in drained), 300)
        row, below = states(*line, "cluster=slurm")["texts"].splitlines()
        assert below.startswith("texts: PENDING (")
        client("scancel", f"{texts[3]}_1")
        cancelled = f"CANCELLED before it ran, index 1 of job {texts[3]}"
        row, below = states(*line, "cluster=slurm")["texts"].splitlines()
        assert below.startswith("texts: PENDING (")
        assert below.endswith(f", {cancelled}")
    finally:
        client("scontrol", "update", "NodeName=n1,n2", "State=RESUME")
    wait_for_jobs()
    row, below = states(*line, "cluster=slurm")["texts"].splitlines()
    assert f" {FILES - 1}/{FILES} " in row
    assert below == f"texts: {cancelled}"
    again, _report = submit(*line)
    assert again[:3] == ["texts", "texts", "1"]
    wait_for_jobs()
    assert all(" done " in row for row in states(*line, "cluster=slurm").values())
