"""The command line on a SLURM of stand-ins: what each job asks for, and what starts its processes."""

import json
import os
import pwd
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.clusters.slurm import SCRIPTS
from headrace.pipeline.run.planner import load_stages
from headrace.pipeline.run.saved_run import in_progress
from tests.command_line import headrace_here
from tests.pipeline.run.fake_slurm import FakeSlurm, option

Submit = Callable[..., str]
DATA, WEIGHTS, SCORES, REPORT = range(4)
"""The jobs of a run of small data."""


@pytest.fixture
def submit(fake: FakeSlurm, tmp_path: Path) -> Submit:
    """Submits a run of one small file with more settings, and returns what it prints."""
    (tmp_path / "pages.jsonl").write_text(json.dumps({"text": "The old mill stands beside the quiet river."}) + "\n")
    source = ("source=jsonl", f"source.paths=[{tmp_path}/pages.jsonl]", "cleaning=none", f"root={tmp_path}/root")

    def run(*settings: str) -> str:
        done = headrace_here("run", *source, "tracking=file", "cluster=slurm", *settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def script(argv: list[str]) -> list[str]:
    """The script of a job without its folder, and its arguments."""
    at = next(at for at, argument in enumerate(argv) if argument.startswith(str(SCRIPTS)))
    return [Path(argv[at]).name, *argv[at + 1 :]]


def test_a_dry_run_prints_the_commands_of_the_jobs_and_writes_nothing(
    fake: FakeSlurm, submit: Submit, tmp_path: Path
) -> None:
    settings = ("name=mill", "cluster.partition=gpu", "cluster.nodes=2", "cluster.gpus_per_node=8")
    shown = submit("--dry-run", *settings, "cluster.ranks_per_node=8", "training.batch_rows=64")
    assert fake.argv == []
    assert not (tmp_path / "root").exists()
    submit(*settings, "cluster.ranks_per_node=8", "training.batch_rows=64")

    def comparable(argv: list[str]) -> list[str]:
        changing = ("--comment=", "--dependency=", str((tmp_path / "root/runs").resolve()))
        return [argument for argument in argv if not argument.startswith(changing)]

    commands = [shlex.split(line) for line in shown.splitlines() if line.startswith("sbatch ")]
    assert [comparable(command[1:]) for command in commands] == [comparable(argv) for argv in fake.argv]
    assert [option(command, "dependency") for command in commands] == [None, "afterok:1", "afterok:2", "afterok:3"]
    assert "| weights | 1 of 1 tasks |" in shown


def test_data_jobs_and_training_jobs_have_resources_of_their_own(fake: FakeSlurm, submit: Submit) -> None:
    output = submit(
        "cluster.partition=cpu",
        "cluster.train_partition=gpu",
        "cluster.account=lab",
        "cluster.options=['--comment=mill']",
        "cluster.data_options=[--account=lab-cpu]",
        "cluster.train_options=[--constraint=h100,--qos=high]",
        "cluster.data_memory=2G",
        "cluster.train_memory=64G",
        "cluster.gpus_per_node=h100:8",
    )
    data, weights, scores, report = fake.argv
    wanted = {"partition": "cpu", "account": "lab-cpu", "qos": None, "comment": "mill", "constraint": None}
    for job, memory, cores in ((data, "8G", "4"), (report, "2G", "1")):
        assert {name: option(job, name) for name in wanted} == wanted
        assert (option(job, "mem"), option(job, "cpus-per-task"), option(job, "gres")) == (memory, cores, None)
    wanted = {"partition": "gpu", "account": "lab", "qos": "high", "comment": "mill", "constraint": "h100"}
    for job in (weights, scores):
        assert {name: option(job, name) for name in wanted} == wanted
        assert (option(job, "mem"), option(job, "gres")) == ("64G", "gpu:h100:8")
        assert option(job, "cpus-per-task") == "8"
    assert "submitted 4 jobs" in output


def test_small_data_are_one_job_and_names_begin_with_that_of_the_run(
    fake: FakeSlurm, submit: Submit, tmp_path: Path
) -> None:
    output = submit()
    (run_json,) = tmp_path.glob("root/runs/*/run-*.json")
    names = [f"{run_json.parent.name}:{title}" for title in ("texts..packed", "weights", "scores", "report")]
    assert [option(argv, "job-name") for argv in fake.argv] == names
    assert script(fake.argv[DATA]) == ["data.sbatch", str(run_json), "texts..packed", "4", sys.executable]
    assert option(fake.argv[DATA], "output") == f"{run_json.parent}/logs/texts.packed-%j.log"
    assert [option(argv, "dependency") for argv in fake.argv] == [None, "afterok:101", "afterok:102", "afterok:103"]
    assert output.splitlines()[1].split()[:1] == ["texts..packed"]
    submit("name=mill")
    assert [option(argv, "job-name") for argv in fake.argv[4:6]] == ["mill:texts..packed", "mill:weights"]


@pytest.mark.slow
def test_large_data_are_a_job_for_each_phase_and_a_launcher_starts_every_task_and_rank(
    fake: FakeSlurm, submit: Submit
) -> None:
    submit("cluster.one_job=never", "cluster.launcher=[apptainer,exec,image.sif]", "cluster.python=/opt/bin/python")
    *data, weights, scores, report = [script(argv) for argv in fake.argv]
    assert {job[0] for job in (*data, report)} == {"array.sbatch"}
    assert len(data) > 7
    launcher = ["", "apptainer", "exec", "image.sif", "/opt/bin/python"]
    assert {tuple(job[-6:]) for job in (*data, weights, scores, report)} == {(sys.executable, *launcher)}


def test_srun_has_its_options_for_data_jobs_too(fake: FakeSlurm, submit: Submit) -> None:
    container = "--container-image=nvcr.io#nvidia/pytorch:25.01-py3"
    cores = ("cluster.data_cpus=2", "cluster.train_cpus=3", "cluster.gpus_per_node=2")
    submit(f"cluster.srun_options=['{container}']", "cluster.python=python", *cores)
    assert script(fake.argv[DATA])[-5:] == ["", "srun", "--cpus-per-task=8", container, "python"]
    assert script(fake.argv[WEIGHTS])[-4:] == [sys.executable, "", container, "python"]
    assert option(fake.argv[WEIGHTS], "cpus-per-task") == "3"


def waiting(fake: FakeSlurm, *running: int) -> None:
    """The jobs 101 to 104 are in the queue; those that are ``running`` have started."""
    names = [str(option(argv, "job-name")) for argv in fake.argv]
    states = ["RUNNING|None" if number in running else "PENDING|Dependency" for number in range(101, 105)]
    rows = [f"{101 + at}|N/A|{state}|{name}" for at, (state, name) in enumerate(zip(states, names, strict=False))]
    (fake.folder / "queue").write_text("\n".join(rows) + "\n")


def test_a_run_that_is_submitted_again_without_its_name_is_planned_with_it(fake: FakeSlurm, submit: Submit) -> None:
    submit("until=packed", "name=mill")
    submit("until=packed")
    assert [option(argv, "job-name") for argv in fake.argv] == ["mill:texts..report"] * 2
    steps = load_stages(Path(script(fake.argv[-1])[1]))
    steps["report"].refuse_other_version()


def test_cancel_reports_a_refusal_and_leaves_the_jobs_of_another_user(
    fake: FakeSlurm, submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit("until=packed")
    waiting(fake)
    (run_json,) = tmp_path.glob("root/runs/*/run.json")
    with in_progress(run_json):  # a command of this process
        with monkeypatch.context() as patch:
            patch.setattr(os, "kill", lambda pid, signal: None)
            patch.setattr(os, "geteuid", lambda: 4242)
            foreign = headrace_here("cancel", str(run_json))
            assert (foreign.returncode, fake.cancelled) == (0, [])
            assert foreign.stdout.count("not stopped ") == 1
            assert f"jobs.json belongs to {pwd.getpwuid(run_json.stat().st_uid).pw_name}" in foreign.stdout
        (fake.folder / "scancel").write_text("#!/bin/sh\necho no permission >&2; exit 1\n")
        stopped: list[int] = []
        monkeypatch.setattr(os, "kill", lambda pid, number: stopped.append(number))
        done = headrace_here("cancel", str(run_json))
    assert done.returncode == 1
    assert signal.SIGTERM in stopped
    assert "not cancelled     slurm jobs 101 (cluster=slurm: scancel failed: no permission" in done.stdout
    assert done.stderr == "headrace: cancel: not cancelled: slurm jobs 101; run the command again\n"


def test_queued_jobs_keep_their_resources(fake: FakeSlurm, submit: Submit) -> None:
    submit("until=packed")
    waiting(fake)
    output = submit("until=packed", "cluster.data_time=08:00:00")
    assert "nothing new was submitted" in output
    assert "for other resources first `headrace cancel " in output
    assert (len(fake.argv), fake.cancelled) == (1, [])


@pytest.mark.parametrize("gpus", ["h100:", "-1", "gpu:h100:8"])
def test_gpus_are_a_number_with_or_without_a_type(gpus: str) -> None:
    done = headrace_here("cluster=slurm", f"cluster.gpus_per_node='{gpus}'")
    assert done.returncode == 2
    assert done.stderr.startswith("headrace: cluster.gpus_per_node: must match ")
