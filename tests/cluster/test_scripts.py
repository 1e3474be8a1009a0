"""The two batch scripts on a real SLURM, with a stand-in for python that records its arguments."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters.slurm import SCRIPTS
from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import TaskError
from tests.cluster.one_machine import CLIENT_SECONDS, OneMachineSlurm, client, until

NASTY = "a b; touch $HOME/x $(touch x) `touch x` 'q\" é *"
JOB_SECONDS = 300
WORKERS = ("headrace.pipeline.run.worker", "headrace.pipeline.run.rank")
WORKER, RANK = WORKERS

RECORD = """#!{python}
import json, os, signal, sys, time
from pathlib import Path
if sys.argv[2] not in {workers}:
    code = "import runpy, sys; sys.executable, sys.argv = sys.argv[1], sys.argv[2:]; "
    code += "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    os.execv("{python}", ["{python}", "-c", code, sys.argv[0], *sys.argv[2:]])
folder = Path(sys.argv[0]).parent
rank, index = os.environ.get("SLURM_PROCID", "0"), os.environ.get("SLURM_ARRAY_TASK_ID", "none")
attempt = int(os.environ.get("SLURM_RESTART_COUNT", "0")) + 1
words = {{"argv": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}}
(folder / f"record-{{index}}-{{rank}}-{{attempt}}.json").write_text(json.dumps(words))
def started():
    (folder / f"started-{{rank}}-{{attempt}}").touch()
{behaviour}
"""


def stand_in(folder: Path, behaviour: str = "") -> str:
    """Returns the path of a python in which the worker records its arguments and environment in ``folder``, and then
    runs ``behaviour``. Other modules run unchanged, and start the stand-in as their python."""
    folder.mkdir(exist_ok=True)
    path = folder / "stand-in"
    path.write_text(RECORD.format(python=sys.executable, workers=WORKERS, behaviour=behaviour))
    path.chmod(0o755)
    return str(path)


def sbatch(*arguments: str) -> int:
    done = subprocess.run(["sbatch", "--parsable", *arguments], capture_output=True, text=True, timeout=CLIENT_SECONDS)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def state(job: int) -> str:
    found = re.findall(r"JobState=(\S+)", client("scontrol", "show", "job", str(job)))
    return found[0] if len(set(found)) == 1 else ""


def reaches(job: int, wanted: str) -> bool:
    return until(lambda: state(job) == wanted, JOB_SECONDS, pause_seconds=0.3)


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("record-*"))]


def test_array_runs_the_worker_once_per_index_with_its_arguments_as_they_are(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    """The file of the site is sourced first; in it, variables may be unset."""
    work, site_env = tmp_path / NASTY.replace("/", "_"), tmp_path / "site env"
    work.mkdir()
    site_env.write_text('export FROM_SITE="$UNSET_BEFORE yes"\n')
    log = f"{work}/100%%A-%A_%a.log"
    script = [str(SCRIPTS / "array.sbatch"), f"{NASTY}.json", NASTY, "sort", "40", stand_in(tmp_path), str(site_env)]
    job = sbatch("--array=3,7-8", f"--chdir={work}", f"--output={log}", "--cpus-per-task=2", *script)
    assert reaches(job, "COMPLETED")
    records = recorded(tmp_path)
    argv = [record["argv"] for record in records]
    assert argv == [["-m", WORKER, f"{NASTY}.json", NASTY, "sort", index, "40"] for index in "378"]
    assert {record["cwd"] for record in records} == {str(work)}
    environments = [record["environment"] for record in records]
    assert {(variables["FROM_SITE"], variables["OMP_NUM_THREADS"]) for variables in environments} == {(" yes", "2")}
    assert not [path for path in tmp_path.rglob("*") if path.name == "x"]
    words = Path(f"{work}/100%A-{job}_7.log").read_text()
    assert words.startswith(f"headrace: {NASTY}.sort, index 7 of 40, job {job} on n")
    assert words.endswith("attempt 1\n")


def train(folder: Path, program: str, *options: str, site_env: str = "", attempts: int = 2) -> int:
    artifact = str(folder / "artifact")
    script = [str(SCRIPTS / "train.sbatch"), "run.json", "weights", artifact, str(attempts), program, site_env]
    return sbatch(f"--output={folder}/log", *options, *script)


HOSTILE_SITE = "export SLURM_NTASKS=1 SLURM_EXPORT_ENV=NONE SRUN_EXPORT_ENV=NONE SLURM_TASK_PROLOG=/no SRUN_OUTPUT=none"


def test_train_gives_every_rank_its_number_and_one_address(
    slurm: OneMachineSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitter is itself a rank, and the file of the site sets options of srun, which break the job."""
    site_env = tmp_path / "site.env"
    site_env.write_text(f"{HOSTILE_SITE} FROM_SITE=yes\n")
    for name, value in (("RANK", "7"), ("MASTER_ADDR", "10.9.9.9"), ("TORCHELASTIC_USE_AGENT_STORE", "True")):
        monkeypatch.setenv(name, value)
    jobs = {}
    for export in ("ALL", "NONE"):
        options = ("--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=1", f"--export={export}")
        jobs[export] = train(tmp_path / export, stand_in(tmp_path / export), *options, site_env=str(site_env))
    for export, job in jobs.items():
        assert reaches(job, "COMPLETED")
        records = recorded(tmp_path / export)
        environments = [record["environment"] for record in records]
        assert {environment["FROM_SITE"] for environment in environments} == {"yes"}
        assert not [name for environment in environments for name in environment if name in ("RANK", "SRUN_OUTPUT")]
        assert not [name for environment in environments for name in environment if name.startswith("TORCHELASTIC_")]
        names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURMD_NODENAME", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE")
        assert [tuple(environment[name] for name in names) for environment in environments] == [
            ("0", "0", "n1", "4", "2"),
            ("1", "1", "n1", "4", "2"),
            ("2", "0", "n2", "4", "2"),
            ("3", "1", "n2", "4", "2"),
        ]
        meeting = {(environment["MASTER_ADDR"], environment["MASTER_PORT"]) for environment in environments}
        assert meeting == {("127.0.0.1", str(15000 + job % 15000))}
        assert {tuple(record["argv"]) for record in records} == {("-m", RANK, "of_job", "run.json", "weights")}


def outcomes(folder: Path) -> list[str]:
    """Returns the script's message about the end of each attempt, without the status, which depends on SLURM."""
    words = re.sub(r" \(status \d+\)", "", (folder / "log").read_text())
    return re.findall(r"^headrace: weights ([es].*)$", words, re.MULTILINE)


FAIL_WITH_OTHERS = """
started()
while rank == "1" and not (folder / f"started-0-{{attempt}}").exists():
    time.sleep(0.1)
if rank == "1":
    {reporting}
    sys.exit(3)
time.sleep(600)
"""


SAVE_AND_STOP = """
def stop(*_):
    if rank == "0" and {saves}:
        (folder / "artifact" / "checkpoints" / f"step_0000001{{attempt}}").mkdir(parents=True)
    sys.exit(1)
if attempt < 3:
    signal.signal(signal.SIGUSR2, stop)
    started()
    time.sleep(600)
"""
NAME_THE_NODE = """
if attempt < 3:
    with (folder / "artifact" / "logs" / "bad_nodes").open("a") as stream:
        stream.write(os.environ["SLURMD_NODENAME"] + "\\n")
    sys.exit(75)
"""
CANCELLED = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\nstarted()\ntime.sleep(600)"


def have_started(folder: Path, attempt: int) -> bool:
    return until(lambda: len(list(folder.glob(f"started-*-{attempt}"))) == 2, JOB_SECONDS)


def tell_that_time_is_nearly_up(job: int, folder: Path, attempt: int) -> None:
    """Sends the signal that SLURM sends for --signal=B:USR2@seconds, without waiting for a time limit."""
    assert have_started(folder, attempt)
    client("scancel", "--batch", "--signal=USR2", str(job))


@pytest.mark.timeout(900)
def test_how_attempts_at_a_training_end(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    """Jobs at once: ranks that fail, for a reason that may pass and for one that may not, are out of time with and
    without a new checkpoint, and are cancelled."""
    work_log.write_error(tmp_path / "left", TaskError("weights", "the loss of step 7 is nan", "lower the rate"))
    left = (tmp_path / "left" / work_log.ERROR_JSON).read_text()
    behaviours = {
        "fails": FAIL_WITH_OTHERS.format(reporting="pass"),
        "nan": FAIL_WITH_OTHERS.format(reporting=f"(folder / 'artifact' / 'logs' / 'error.json').write_text({left!r})"),
        "saves": SAVE_AND_STOP.format(saves=True),
        "saves nothing": SAVE_AND_STOP.format(saves=False),
        "cancelled": CANCELLED,
    }
    folders = {name: tmp_path / name for name in behaviours}
    jobs = {}
    for name, folder in folders.items():
        program = stand_in(folder, behaviours[name])
        if name == "saves nothing":
            for checkpoint in ("step_00000010", "writing-step_00000020"):
                (folder / "artifact" / "checkpoints" / checkpoint).mkdir(parents=True)
        jobs[name] = train(folder, program, "--nodes=2", "--ntasks-per-node=1")
    assert have_started(folders["cancelled"], 1)
    client("scancel", str(jobs["cancelled"]))
    for name, attempt in (("saves nothing", 1), ("saves", 1), ("saves", 2)):
        tell_that_time_is_nearly_up(jobs[name], folders[name], attempt)

    ends = {
        "saves": "COMPLETED",
        "cancelled": "CANCELLED",
        **dict.fromkeys(("fails", "nan", "saves nothing"), "FAILED"),
    }
    for name, end in ends.items():
        assert reaches(jobs[name], end), name
    assert until(lambda: not client("squeue", "--noheader", f"--jobs={jobs['cancelled']}"), JOB_SECONDS)
    attempts = {name: len(recorded(folder)) / 2 for name, folder in folders.items()}
    assert attempts == {"fails": 2, "nan": 1, "saves": 3, "saves nothing": 1, "cancelled": 1}
    assert outcomes(folders["fails"]) == [
        "ended early, attempt 1 of 2 from the start: back into the queue",
        "stays out of the queue: 2 attempts from the start saved no checkpoint",
    ]
    assert outcomes(folders["saves"]) == [
        "ended early after step_00000011: back into the queue",
        "ended early after step_00000012: back into the queue",
    ]
    starts = re.findall(r"attempt (\d), rendezvous \S+, from (.*)", (folders["saves"] / "log").read_text())
    assert starts == [("1", "the start"), ("2", "step_00000011"), ("3", "step_00000012")]
    said = "weights saved no checkpoint within its time limit: raise cluster.train_time"
    assert said in (folders["saves nothing"] / "log").read_text()
    assert "back into the queue" not in (folders["cancelled"] / "log").read_text()


def test_a_node_that_a_rank_named_is_left_out_while_enough_others_are_left(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    """The second attempt names the other node, and the third one stays there: without it none would be left."""
    options = ("--nodes=1", "--ntasks-per-node=1")
    job = train(tmp_path, stand_in(tmp_path, NAME_THE_NODE), *options, attempts=3)
    assert reaches(job, "COMPLETED")
    records = sorted(recorded(tmp_path), key=lambda record: record["environment"].get("SLURM_RESTART_COUNT", "0"))
    first, second, third = (record["environment"]["SLURMD_NODENAME"] for record in records)
    assert {first, second} == {"n1", "n2"}
    assert third == second
    assert re.findall("^headrace: (bad .*)$", (tmp_path / "log").read_text(), re.MULTILINE) == [
        f"bad nodes are left out: {first}",
        f"bad nodes ({second}) stay in: without them the partition has 0 of 1 nodes",
    ]


def test_a_lost_node_puts_its_job_on_another_while_the_old_copy_lives_on(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    program = stand_in(tmp_path, "started()\nif attempt == 1: time.sleep(600)")
    arguments = ["--array=0", str(SCRIPTS / "array.sbatch"), "run.json", "clean", "clean", "1", program]
    job = sbatch(f"--output={tmp_path}/log", *arguments)
    assert until((tmp_path / "started-0-1").exists, JOB_SECONDS)
    first = recorded(tmp_path)[0]["environment"]["SLURMD_NODENAME"]
    slurm.lose_node(first)
    try:
        assert reaches(job, "COMPLETED")
        old, new = recorded(tmp_path)
        assert new["environment"]["SLURMD_NODENAME"] != first
        assert new["argv"] == old["argv"]
        assert re.findall(r"attempt (\d)", (tmp_path / "log").read_text()) == ["1", "2"]
        os.kill(old["pid"], signal.SIGKILL)  # fails when the old copy is gone
    finally:
        slurm.bring_back_node(first)
