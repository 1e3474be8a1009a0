"""The whole line through a real SLURM: the bytes of one machine, a training on two nodes, and what a failure does."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cluster.line import FILES, SETTINGS, Line, headrace, submit, write_source
from tests.cluster.one_machine import OneMachineSlurm, client, is_queue_empty, until
from tests.installed_wheel import build_wheel, install, run, write_users_modules

DATA_STAGES = ("texts", "clean", "signatures", "duplicates", "unique", "overlaps", "tokenizer", "tokens", "packed")
LINE_SECONDS = 500
TOLERANCE = 1e-5
"""Difference of losses: the number of threads, so the order of sums, differs between one machine and two nodes."""


def jobs_left() -> str:
    return client("squeue", "--noheader", "--format=%i %j %T %r")


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
    local, cluster = local_line.root, tmp_path / "cluster root"
    on_cluster = (*local_line.settings, f"root='{cluster}'", "cluster.nodes=2", "cluster.array_tasks=2")
    rows = submit(*on_cluster)
    assert [row[0] for row in rows] == sorted(
        [row[0] for row in rows], key=[*DATA_STAGES, "weights", "scores", "report"].index
    )
    assert {row[0] for row in rows} == {*DATA_STAGES, "weights", "scores", "report"}
    assert [row[4] for row in rows[1:]] == [row[3] for row in rows[:-1]], "each job waits for the one before it"
    assert [row[2] for row in rows[:3]] == [str(FILES), str(FILES), "2"]
    during = states("cluster=slurm", *on_cluster)
    assert re.search(r"PENDING \(Dependency\), job \d+", during["weights"])
    assert " done " in during["texts"] or re.search(r"texts: [A-Z].*, job \d+", during["texts"])
    again = submit(*on_cluster)
    assert 0 < len(again) <= len(rows)
    assert [row[3] for row in again] == [row[3] for row in rows][-len(again) :], "nothing is submitted twice"
    assert all(row[-2:] == ["submitted", "before"] for row in again)

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


def test_an_array_job_of_the_wheel_beside_a_users_own_modules(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    """Jobs start in the folder of the command: a user's own train.py, pipeline/ and data_prep/ must not be imported."""
    programs = install(build_wheel(tmp_path), tmp_path / "environment")
    folder = tmp_path / "own"
    folder.mkdir()
    write_users_modules(folder)
    line = (write_source(tmp_path / "raw"), "cleaning=none", "root=root", "until=clean", "cluster.array_tasks=2")
    run(folder, programs / "headrace", *SETTINGS, "cluster=slurm", "cluster.one_job=never", *line)
    wait_for_jobs()
    stages = {path.parent.parent.name for path in folder.glob("root/*/*/manifest.json")}
    assert stages == {"texts", "clean", "report"}


def test_a_stage_that_fails_cancels_the_rest_and_status_says_so(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    site_env, healed = tmp_path / "site.env", tmp_path / "healed"
    site_env.write_text(f"[[ $SLURM_ARRAY_TASK_ID != 1 || -e '{healed}' ]] || exit 3\n")
    root = tmp_path / "root"
    source = write_source(tmp_path / "raw")
    line = (source, "cleaning=none", f"root={root}", "until=signatures", f"cluster.site_env={site_env}")
    rows = submit(*line)
    assert rows[0][:3] == ["texts", "texts", str(FILES)]
    wait_for_jobs()
    said = states("cluster=slurm", *line)
    (log,) = root.glob(f"runs/*/logs/texts.texts-{rows[0][3]}_1.log")
    assert f"FAILED, see {log}" in said["texts"]
    assert f" {FILES - 1}/{FILES} " in said["texts"]
    assert "to do" in said["signatures"] or "CANCELLED before it ran" in said["signatures"]
    assert f"CANCELLED before it ran, job {rows[1][3]}" in said["clean"]

    healed.touch()
    again = submit(*line)
    assert [row[:3] for row in again[:2]] == [["texts", "texts", "1"], ["clean", "0-filter", str(FILES)]]
    wait_for_jobs()
    assert all(" done " in line for line in states("cluster=slurm", *line).values())


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


@pytest.mark.timeout(900)
def test_small_data_in_one_job_and_ranks_in_a_container_give_what_one_machine_gives(
    slurm: OneMachineSlurm, local_line: Line, tmp_path: Path
) -> None:
    """The container is a program that only starts its arguments. The Python refuses to run outside of it."""
    container, python = tmp_path / "container", tmp_path / "python"
    container.write_text(CONTAINER)
    python.write_text(PYTHON_INSIDE.format(python=sys.executable))
    for program in (container, python):
        program.chmod(0o755)
    settings = (*local_line.settings, f"root={tmp_path}/root", "name=mill", "until=weights", "cluster.one_job=auto")
    start = (f"cluster.launcher=[{container},exec,'an image.sif']", f"cluster.python={python}")
    rows = submit(*settings, *start, "cluster.srun_options=['--mpi=none']", "cluster.ranks_per_node=2")
    assert [row[0] for row in rows] == ["texts..packed", "weights", "report"]
    names = client("squeue", "--noheader", "--format=%j").splitlines()
    assert "mill:weights" in names

    wait_for_jobs()
    logs = "".join(path.read_text() for path in tmp_path.glob("root/runs/*/logs/*.log"))
    assert list(tmp_path.glob("root/weights/*/manifest.json")), logs
    for stage in DATA_STAGES:
        assert tree(tmp_path / "root", stage) == tree(local_line.root, stage), logs
    started = (tmp_path / "started").read_text().splitlines()
    assert [line.split()[0] for line in started] == ["mill:texts..packed", *["mill:weights"] * 2, "mill:report"]


HOSTILE = {
    **{"SBATCH_EXPORT": "NONE", "SBATCH_WAIT": "1", "SBATCH_ARRAY_INX": "7", "SBATCH_NO_REQUEUE": "1"},
    **{"SBATCH_OUTPUT": "/dev/null", "SQUEUE_PARTITION": "urgent", "SQUEUE_STATES": "RUNNING", "SQUEUE_FORMAT": "%i"},
    **{"SCANCEL_STATE": "RUNNING", "SCANCEL_PARTITION": "urgent", "SLURM_CLUSTERS": "other", "SRUN_EXPORT_ENV": "NONE"},
    **{"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "10.9.9.9", "MASTER_PORT": "1"},
}


def test_a_waiting_job_is_replaced_by_one_with_other_resources_whatever_the_environment_says(
    slurm: OneMachineSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = (write_source(tmp_path / "raw"), "cleaning=none", f"root={tmp_path}/root", "until=clean")
    with monkeypatch.context() as patch:
        for name, value in HOSTILE.items():
            patch.setenv(name, value)
        old = submit(*line, "cluster.options=['--begin=now+1hour']")
        new = submit(*line)
    assert [row[-2:] for row in new] == [["replaces", row[3]] for row in old]
    wait_for_jobs()
    ended = client("squeue", "--noheader", "--states=all", "--format=%A %T", f"--jobs={old[1][3]},{new[1][3]}")
    assert f"{old[1][3]} CANCELLED" in ended
    assert f"{new[1][3]} CANCELLED" not in ended
    stages = {path.parent.parent.name for path in tmp_path.glob("root/*/*/manifest.json")}
    assert stages == {"texts", "clean", "report"}
