"""The whole line through a real SLURM: the bytes of one machine, a training on two nodes, and what a failure does."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.cluster.line import FILES, Line, headrace, submit, write_source
from tests.cluster.one_machine import OneMachineSlurm, client, is_queue_empty, until
from tests.command_line import headrace_here
from tests.installed_wheel import write_users_modules

DATA_STAGES = ("texts", "clean", "signatures", "duplicates", "unique", "overlaps", "tokenizer", "tokens", "packed")
LINE_SECONDS = 500
TOLERANCE = 1e-5
"""Difference of losses: the number of threads, so the order of sums, differs between one machine and two nodes."""


def jobs_left() -> str:
    return client("squeue", "--noheader", "--format=%i %j %T %r")


def occupied() -> str:
    """Returns the id of a job that has both nodes, so that jobs after it wait."""
    return client("sbatch", "--parsable", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 600").strip()


def wait_for_jobs(seconds: float = LINE_SECONDS) -> None:
    """Waits until the queue is empty."""
    assert until(is_queue_empty, seconds, pause_seconds=0.5), jobs_left()


def states(*arguments: str) -> dict[str, str]:
    """Returns stage → the output of ``headrace status`` on it: its row and, if it has a job, the line below."""
    done = headrace("status", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines()[1:] if line.strip()]
    names = {row.split()[0] for row in rows if not row.split()[0].endswith(":")}
    return {name: "\n".join(row for row in rows if row.split()[0].rstrip(":") == name) for name in names}


def tree(root: Path, stage: str) -> dict[str, bytes]:
    """Every file of the artifacts of ``stage``, apart from logs."""
    files = [path for path in sorted((root / stage).rglob("*")) if path.is_file()]
    found = {str(path.relative_to(root)): path.read_bytes() for path in files}
    return {name: content for name, content in found.items() if name.split("/")[2] != "logs"}


def losses(root: Path) -> dict[int, float]:
    (path,) = root.glob("weights/*/metrics.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


@pytest.mark.timeout(1500)
def test_the_line_gives_what_one_machine_gives(slurm: OneMachineSlurm, local_line: Line, tmp_path: Path) -> None:
    """A job for each phase up to clean, then one for the other data stages.

    Jobs start in the folder of the command: a user's own train.py, pipeline/ and data_prep/ must not be imported.
    """
    local, cluster, folder = local_line.root, tmp_path / "cluster root", tmp_path / "own"
    folder.mkdir()
    write_users_modules(folder)
    on_cluster = (*local_line.settings, f"root='{cluster}'", "cluster.nodes=2", "cluster.array_tasks=2")
    cleaned = ("cluster=slurm", *on_cluster, "until=clean")
    occupant = occupied()
    rows = submit(*cleaned, folder=folder)
    assert [row[0] for row in rows] == ["texts", *["clean"] * (len(rows) - 2), "report"]
    assert [row[4] for row in rows[1:]] == [row[3] for row in rows[:-1]], "each job waits for the one before it"
    assert [row[2] for row in rows[:3]] == [str(FILES), str(FILES), "2"]
    assert re.search(r"texts: PENDING .*, job \d+", states(*cleaned)["texts"])
    again = submit(*cleaned)
    assert [row[3] for row in again] == [row[3] for row in rows], "nothing is submitted twice"
    assert all(row[-2:] == ["submitted", "before"] for row in again)
    client("scancel", occupant)
    wait_for_jobs()
    occupant = occupied()
    rows = submit(*on_cluster, "cluster.one_job=always", folder=folder)
    assert [row[0] for row in rows] == ["signatures..packed", "weights", "scores", "report"]
    assert re.search(r"PENDING \(Dependency\), job \d+", states("cluster=slurm", *on_cluster)["weights"])
    client("scancel", occupant)
    wait_for_jobs()
    after = states("cluster=slurm", *on_cluster)
    assert all(" done " in line for line in after.values()), after

    for stage in DATA_STAGES:
        assert tree(cluster, stage) == tree(local, stage)
    here, there = losses(local), losses(cluster)
    assert list(here) == list(there) == list(range(1, 9))
    assert max(abs(here[step] - there[step]) for step in here) <= TOLERANCE
    resubmission = headrace("run", "cluster=slurm", *on_cluster)
    assert resubmission.stdout.splitlines()[0] == "everything was done before: nothing to submit"

    only_what_is_missing(cluster, on_cluster)


def only_what_is_missing(root: Path, on_cluster: tuple[str, ...]) -> None:
    before = tree(root, "tokens")
    (artifact,) = root.glob("tokens/*")
    (artifact / "manifest.json").unlink()
    (artifact / "parts" / "tokens-00001.json").unlink()
    (row,) = submit(*on_cluster)
    assert row[:3] == ["tokens", "tokens", "1"]
    wait_for_jobs()
    assert tree(root, "tokens") == before


def test_a_job_waits_for_drained_nodes_fails_and_cancels_the_rest_and_status_says_so(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    """An index is cancelled before it runs, the other one fails."""
    site_env, healed, root = tmp_path / "site.env", tmp_path / "healed", tmp_path / "root"
    site_env.write_text(f"[[ -e '{healed}' ]] || exit 3\n")
    line = (write_source(tmp_path / "raw"), "cleaning=none", f"root={root}", "until=clean")
    line = (*line, f"cluster.site_env={site_env}")
    client("scontrol", "update", "NodeName=n1,n2", "State=DRAIN", "Reason=disk")
    try:
        texts, clean, *_ = submit(*line)
        assert texts[:3] == ["texts", "texts", str(FILES)]
        drained = ("UnavailableNodes:n[1-2]", "DOWN, DRAINED")
        assert until(lambda: any(text in states(*line, "cluster=slurm")["texts"] for text in drained), 300)
        client("scancel", f"{texts[3]}_1")
        _, below = states(*line, "cluster=slurm")["texts"].splitlines()
        assert below.startswith("texts: PENDING (")
        assert below.endswith(f", CANCELLED before it ran, index 1 of job {texts[3]}")
    finally:
        client("scontrol", "update", "NodeName=n1,n2", "State=RESUME")
    wait_for_jobs()
    said = states("cluster=slurm", *line)
    (log,) = root.glob(f"runs/*/logs/texts.texts-{texts[3]}_0.log")
    assert f"FAILED, see {log}" in said["texts"]
    assert f"CANCELLED before it ran, job {clean[3]}" in said["clean"]

    healed.touch()
    again = submit(*line)
    assert [row[:3] for row in again[:2]] == [["texts", "texts", str(FILES)], ["clean", "0-filter", str(FILES)]]
    wait_for_jobs()
    assert all(" done " in line for line in states("cluster=slurm", *line).values())


@pytest.mark.timeout(900)
def test_two_ranks_in_a_job_write_the_scores_of_one_machine(
    slurm: OneMachineSlurm, local_line: Line, tmp_path: Path
) -> None:
    """Over the weights that one machine trained."""
    root = tmp_path / "root"
    shutil.copytree(local_line.root, root, ignore=shutil.ignore_patterns("scores", "report", "runs"))
    (row, _report) = submit(*local_line.settings, f"root='{root}'", "until=scores", "cluster.ranks_per_node=2")
    assert row[:3] == ["scores", "scores", "1"]
    wait_for_jobs()
    (log,) = root.glob("runs/*/logs/scores.scores-*.log")
    assert "headrace: scores, 2 ranks on " in log.read_text()
    assert tree(root, "scores") == tree(local_line.root, "scores"), log.read_text()


CONTAINER = """#!/bin/bash
[[ $1 == exec && $2 == "an image.sif" ]] || exit 9
echo "$SLURM_JOB_NAME ${*: -3}" >> "${0%/*}/started"
shift 2
INSIDE=yes exec "$@"
"""
PYTHON_INSIDE = """#!/bin/bash
[[ $INSIDE == yes ]] || exit 8
exec {python} "$@"
"""


HOSTILE = {
    **{"SBATCH_EXPORT": "NONE", "SBATCH_WAIT": "1", "SBATCH_ARRAY_INX": "7", "SBATCH_NO_REQUEUE": "1"},
    **{"SBATCH_OUTPUT": "/dev/null", "SQUEUE_PARTITION": "urgent", "SQUEUE_STATES": "RUNNING", "SQUEUE_FORMAT": "%i"},
    **{"SCANCEL_STATE": "RUNNING", "SCANCEL_PARTITION": "urgent", "SLURM_CLUSTERS": "other", "SRUN_EXPORT_ENV": "NONE"},
    **{"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "10.9.9.9", "MASTER_PORT": "1", "SBATCH_PARTITION": "main"},
}


@pytest.mark.timeout(900)
def test_small_data_in_one_job_and_ranks_in_a_container_give_what_one_machine_gives(
    slurm: OneMachineSlurm, local_line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container is a program that only starts its arguments. The Python refuses to run outside of it.

    The jobs are submitted, cancelled and submitted again, whatever the environment says.
    """
    container, python = tmp_path / "container", tmp_path / "python"
    container.write_text(CONTAINER)
    python.write_text(PYTHON_INSIDE.format(python=sys.executable))
    for program in (container, python):
        program.chmod(0o755)
    settings = (*local_line.settings, f"root={tmp_path}/root", "name=mill", "until=weights", "cluster.one_job=auto")
    start = (f"cluster.launcher=[{container},exec,'an image.sif']", f"cluster.python={python}")
    start = (*start, "cluster.srun_options=['--mpi=none']", "cluster.ranks_per_node=2")
    with monkeypatch.context() as patch:
        for name, value in HOSTILE.items():
            patch.setenv(name, value)
        old = submit(*settings, *start, "cluster.options=['--begin=now+1hour']")
        cancelled = headrace_here("cancel", "mill", f"root={tmp_path}/root")
        assert cancelled.returncode == 0, cancelled.stderr
        rows = submit(*settings, *start)
    assert [row[0] for row in rows] == ["texts..packed", "weights", "report"]
    names = client("squeue", "--noheader", "--format=%j").splitlines()
    assert "mill:weights" in names

    wait_for_jobs()
    ended = client("squeue", "--noheader", "--states=all", "--format=%A %T", f"--jobs={old[1][3]},{rows[1][3]}")
    assert f"{old[1][3]} CANCELLED" in ended
    assert f"{rows[1][3]} CANCELLED" not in ended
    logs = "".join(path.read_text() for path in tmp_path.glob("root/runs/*/logs/*.log"))
    assert list(tmp_path.glob("root/weights/*/manifest.json")), logs
    for stage in DATA_STAGES:
        assert tree(tmp_path / "root", stage) == tree(local_line.root, stage), logs
    started = (tmp_path / "started").read_text().splitlines()
    assert [line.split()[0] for line in started] == ["mill:texts..packed", *["mill:weights"] * 2, "mill:report"]
